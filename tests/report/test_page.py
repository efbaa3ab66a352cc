"""The page as a browser reads it, hostile text included."""

from dataclasses import replace

import pytest

from helpers.pages import Page
from refork.report.figures import draw_figures
from refork.report.marked import mark_rollout
from refork.report.page import CONTENT_POLICY, render_page
from refork.report.study_data import Decode, Look, StudyData
from refork.report.style import colours_of

HOSTILE_QUESTION = Look(rollout="q00")


def rendered(study: StudyData, look: Look, decode: Decode) -> str:
    figures = draw_figures(study, colours_of(look.palette))
    return render_page(study, look, figures, mark_rollout(study, look, decode))


@pytest.fixture(scope="module")
def html(study: StudyData, decode: Decode) -> str:
    return rendered(study, HOSTILE_QUESTION, decode)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_the_page_loads_and_runs_nothing(html: str, page: Page) -> None:
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "src"]
    links = page.values("href") + page.values("xlink:href")
    assert links
    assert all(link.startswith("#") for link in links)
    assert CONTENT_POLICY in page.values("content")
    assert "default-src 'none'" in CONTENT_POLICY
    assert "@import" not in html
    assert "url(http" not in html


def test_ids_are_unique_and_links_lead_somewhere(page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    links = {link[1:] for link in page.values("href") + page.values("xlink:href")}
    assert links <= set(page.ids)


def test_hostile_text_is_shown_and_not_obeyed(html: str, page: Page) -> None:
    assert "<script>alert(1)</script>" in page.text
    assert "‹U+001B›[31mred" in page.text
    assert "‹U+0000›" in page.text
    assert "‹U+202E›evil" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "‹U+D800›" in page.text
    assert not set(html) & set("\x00\x1b\u202e\u202c\ud800")
    assert html.encode().decode() == html


def test_the_answer_comes_first(html: str) -> None:
    assert html.index("Re-feeding the prefix changes the sign") < html.index("<table")
    assert html.index("No flip: re-feeding") < html.index("<table")


def test_the_first_table_says_which_passes_agree(html: str) -> None:
    first = html[html.index("<table") : html.index("</table>")]
    assert "Same tokens" in first
    assert "✓ all agree" in first


def test_everything_is_there(page: Page) -> None:
    for words in (
        "Flips and their floor",
        "✓ all agree",
        "McNemar z",
        "Jaccard of tokens with |credit| ≥ 0.75",
        "One rollout and its pivots",
        "The right answer is",
        "engine.dtype",
        "float32",
        "resample, refeed",
        "0123abcd",
    ):
        assert words in page.text
    assert page.text.count("zero crossing") >= 3
    assert len([tag for tag, name, _ in page.attributes if (tag, name) == ("svg", "role")]) == 3


def test_what_is_taken_over_and_what_is_fed_again_is_said(study: StudyData, page: Page) -> None:
    assert "Tokens fed again" in page.text
    assert "in whole blocks" not in page.text
    first = replace(study.variants[0], resumes_by="blocks of 16 tokens; the rest as a prompt")
    blocks = replace(study, variants=(first, study.variants[1]))
    text = Page(render_page(blocks, Look(), [], None)).text
    assert text.count("taken over in whole blocks of 16 tokens; the rest as a prompt. A pivot") == 1


def test_every_pivot_is_marked_with_words(page: Page) -> None:
    titles = [value for value in page.values("title") if value.startswith("Pivot ")]
    assert len(titles) == 3
    assert set(titles) <= set(page.values("aria-label"))


def test_figures_follow_the_colours_of_the_page(html: str) -> None:
    drawing = html[html.index("<svg") : html.rindex("</svg>")]
    assert "currentColor" in drawing
    assert "var(--rule)" in drawing
    assert "#24282e" not in drawing


def test_the_page_is_small_and_the_same_each_time(
    html: str, study: StudyData, decode: Decode
) -> None:
    assert len(html.encode()) < 1_000_000
    assert rendered(study, HOSTILE_QUESTION, decode) == html


def test_an_endless_line_is_cut(study: StudyData, decode: Decode) -> None:
    def endless(ids: list[int]) -> list[str]:
        return ["<" * 1_000_000 for _ in ids]

    html = rendered(study, Look(), endless)
    assert "more characters]" in html
    assert len(html.encode()) < 2_000_000


def test_title_and_names_are_escaped(study: StudyData, decode: Decode) -> None:
    named = replace(study, name="<b>$x_{$</b>", variants=study.variants[:1])
    html = rendered(named, Look(title="A & <i>B</i> \u202e"), decode)
    assert "<h1><bdi>A &amp; &lt;i&gt;B&lt;/i&gt; ‹U+202E›</bdi></h1>" in html
    Page(html)


def test_a_study_without_pivots_has_a_report(empty_study: StudyData, decode: Decode) -> None:
    page = Page(rendered(empty_study, Look(), decode))
    assert "Nothing was measured: there is no pivot." in page.text
    assert "This rollout has no pivot." in page.text
    assert "no eligible pivots" in page.text


def test_a_study_without_comparisons_has_a_report(study: StudyData, decode: Decode) -> None:
    bare = replace(study.variants[0], noise={"comparisons": []}, manifests=())
    html = rendered(replace(study, variants=(bare,), lock={}), Look(), decode)
    assert "No comparison is configured" in Page(html).text
    assert "No engine’s fingerprint is recorded." in html


def test_variants_of_other_sizes_are_told_apart(study: StudyData) -> None:
    first, second = study.variants
    smaller = replace(second, rollouts=second.rollouts.slice(0, 1))
    look = Look()
    same = Page(render_page(study, look, [], None)).text
    other = Page(render_page(replace(study, variants=(first, smaller)), look, [], None)).text
    size = same.partition(f"study {study.name} · ")[2].splitlines()[0]
    assert " · " not in size
    assert f"study {study.name} · {first.name}: {size} · {second.name}: " in other
    assert ", 1 rollout, " in other
