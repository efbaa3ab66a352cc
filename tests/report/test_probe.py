"""The report and the probe of an engine: who is called batch-invariant, and who never is."""

from dataclasses import replace
from typing import Any

import pytest

from refork.data.probe_record import WAYS, ProbeRecord, Way, WayName
from refork.report.page import render_page
from refork.report.study_data import Look, StudyData

CLAIM = "Its kernels are batch-invariant, as a probe measured over 16 rollouts."


def way(name: WayName, **changed: Any) -> Way:
    made = Way(
        way=name,
        rollouts=16,
        tokens=480,
        equal_tokens=480,
        bit_equal=480,
        largest_delta=0.0,
        states=16,
        first_layer=None,
        layer_delta=None,
        reasons={},
    )
    return made.model_copy(update=changed)


def probe(**changed: Any) -> ProbeRecord:
    refed = way("refeed", equal_tokens=240, bit_equal=120, largest_delta=0.031)
    refed = refed.model_copy(update={"first_layer": 7, "layer_delta": 0.004})
    unrun = way("resume", rollouts=0, tokens=0, equal_tokens=0, bit_equal=0, states=0)
    ways = (*(way(name) for name in list(WAYS)[:3]), unrun, way("replay"), refed)
    record = ProbeRecord(
        kernels="batch_invariant",
        questions=4,
        rollouts=16,
        tokens=480,
        group=64,
        batch_rows=64,
        ways=ways,
        invariant=True,
    )
    return record.model_copy(update=changed)


def page(study: StudyData, found: ProbeRecord | None) -> str:
    stock, other = study.variants
    variants = (stock, replace(other, name="tiled", probe=found))
    return render_page(replace(study, variants=variants), Look(), [], None)


def test_a_probed_variant_is_called_invariant_and_no_other(study: StudyData) -> None:
    html = page(study, probe())
    assert html.count(CLAIM) == 1
    answers = html[: html.index("<main>")]
    assert answers.index("<dt>tiled</dt>") < answers.index(CLAIM)
    passes = html[html.index("Passes against the reference") : html.index("Flips and their floor")]
    assert '<th>tiled<br><span class="faint">batch-invariant</span></th>' in passes
    assert html.count(">batch-invariant<") == 1
    assert "<h3>Probe of the engine, tiled</h3>" in html
    table = html[html.index("Probe of the engine, tiled") :]
    assert "240 (50.0\N{NARROW NO-BREAK SPACE}%)" in table
    assert "7 (by 0.004)" in table
    assert '<td class="number">0.031</td>' in table
    assert "decoded in a batch of 64" in table


@pytest.mark.parametrize("found", [None, probe(invariant=False), probe(kernels="stock")])
def test_who_is_not_found_invariant_is_not_called_so(
    study: StudyData, found: ProbeRecord | None
) -> None:
    html = page(study, found)
    assert "batch-invariant" not in html
    assert ("Probe of the engine" in html) == (found is not None)


def test_a_study_without_probes_says_nothing_of_them(study: StudyData) -> None:
    assert "Probe of the engine" not in render_page(study, Look(), [], None)
    assert not any(variant.invariant for variant in study.variants)
