"""What the keys of a config must satisfy together, each said in words."""

from collections.abc import Callable, Collection, Iterator

import jinja2

from refork.data.noise_record import RECORD_KEYS
from refork.errors import ReforkError
from refork.study.config import REPORT_FOLDERS, Pass, Settings
from refork.study.engine_checks import engine_faults
from refork.study.estimators import AUTO, named_estimator
from refork.tasks.graders.pattern import compiled

# Palettes that need no import of seaborn, which is slow, to be known.
SEABORN_PALETTES = ("colorblind", "deep", "muted", "bright", "pastel", "dark")


def contradictions(settings: Settings, doubtful: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield (key path, words) for all that single keys cannot tell.

    `doubtful` names top sections that are in error themselves: checks that read them are left out.
    """
    for sections, check in _CHECKS:
        if not set(sections) & set(doubtful):
            yield from check(settings)


def _sources(settings: Settings) -> Iterator[tuple[str, str]]:
    questions, model = settings.questions, settings.model
    if (questions.file is None) == (questions.dataset is None):
        yield "questions", "give either `file` or `dataset`, one of the two"
    given = [name for name in ("folder", "hub", "pypi") if getattr(model, name) is not None]
    if settings.engine.kind == "synthetic":
        if given:
            yield f"model.{given[0]}", "the synthetic engine brings its own model: leave it null"
        return
    if len(given) != 1:
        said = f"found {', '.join(given)}" if given else "found none"
        yield "model", f"give one of `folder`, `hub` and `pypi`; {said}"
    elif given == ["pypi"]:
        for name in ("file", "sha256"):
            if getattr(model, name) is None:
                yield f"model.{name}", "a model from `pypi` needs `file` and `sha256`"
        if len((model.pypi or "").split("==")) != 2:
            yield "model.pypi", f"is {model.pypi!r}; allowed: package==version"
    elif given == ["hub"] and model.revision is None:
        yield "model.revision", "a model from `hub` needs the commit that is meant"


def _kernels(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.engine.kind == "synthetic" and settings.engine.kernels != "stock":
        yield "engine.kernels", "the synthetic engine has no kernels: leave it `stock`"


def _engine(settings: Settings) -> Iterator[tuple[str, str]]:
    yield from engine_faults(settings, settings.engine.kind, settings.engine.device)


def _variants(settings: Settings) -> Iterator[tuple[str, str]]:
    for name in sorted(set(REPORT_FOLDERS) & set(settings.variants)):
        yield f"variants.{name}", "a folder of the report has that name; rename the variant"


def _passes(settings: Settings) -> Iterator[tuple[str, str]]:
    names = [item.name for item in settings.passes]
    if not names:
        yield "passes", "at least one pass, the reference"
    for index, item in enumerate(settings.passes):
        if item.name in names[:index]:
            yield f"passes.{index}.name", f"`{item.name}` stands there twice"
        if item.name in RECORD_KEYS:
            yield f"passes.{index}.name", f"`{item.name}` is a key of the noise record; rename it"
    by_name = {item.name: item for item in settings.passes}
    for index, comparison in enumerate(settings.noise.comparisons):
        where = f"noise.comparisons.{index}"
        pair = {"treatment": comparison.treatment, "floor": comparison.floor}
        unknown = {role: name for role, name in pair.items() if name not in by_name}
        for role, name in unknown.items():
            yield f"{where}.{role}", f"no pass is named `{name}`; passes: {', '.join(names)}"
        if unknown:
            continue
        if comparison.treatment == comparison.floor:
            yield where, "treatment and floor are the same pass"
        elif names[0] in pair.values():
            yield where, f"`{names[0]}` is the reference: neither treatment nor floor"
        elif len({_batches(settings, by_name[name]) for name in pair.values()}) > 1:
            words = "treatment and floor need the same order_seed and batch_rows"
            yield where, f"{words}, or batches differ too"
        elif len({by_name[name].seed for name in pair.values()}) > 1:
            yield where, "treatment and floor need the same seed, or their draws differ anyway"


def _batches(settings: Settings, item: Pass) -> tuple[int | None, int]:
    """Return what decides beside which others a request of a pass is decoded."""
    return item.order_seed, item.batch_rows or settings.engine.batch_rows


def _curves(settings: Settings) -> Iterator[tuple[str, str]]:
    curves, recorded = settings.curves, settings.rollouts.top_logprobs
    if curves.questions == 0:
        return
    if curves.max_branches > recorded:
        yield (
            "curves.max_branches",
            f"is {curves.max_branches}, but only the {recorded} most probable tokens are recorded: "
            "raise rollouts.top_logprobs, or lower it",
        )
    if curves.rollouts > settings.rollouts.count:
        yield (
            "curves.rollouts",
            f"is {curves.rollouts}; at most `rollouts.count`, {settings.rollouts.count}",
        )
    if curves.grid == "sentences" and curves.stride != 1:
        yield "curves.stride", "a grid of sentences has no stride: leave it 1"
    if "curve" in [item.name for item in settings.passes]:
        yield "passes", "`curve` is the pass of outcome curves; rename yours"


def _smoothing(settings: Settings) -> Iterator[tuple[str, str]]:
    smoothing = settings.smoothing
    if settings.curves.questions == 0:
        return
    named = {f"candidates.{at}": name for at, name in enumerate(smoothing.candidates)}
    if smoothing.estimator != AUTO:
        named["estimator"] = smoothing.estimator
    for where, name in named.items():
        try:
            named_estimator(name)
        except ReforkError as error:
            yield f"smoothing.{where}", str(error)
    if len(set(smoothing.candidates)) < max(len(smoothing.candidates), 1):
        yield "smoothing.candidates", "at least one estimator, and none of them twice"
    if not smoothing.epsilon or len(set(smoothing.epsilon)) < len(smoothing.epsilon):
        yield "smoothing.epsilon", "at least one distance, and none of them twice"


def _texts(settings: Settings) -> Iterator[tuple[str, str]]:
    grading, template = settings.grading, settings.prompt.template
    if grading.grader == "pattern" and grading.pattern is None:
        yield "grading.pattern", "the grader `pattern` needs a regular expression"
    if grading.pattern is not None:
        try:
            compiled(grading.pattern)
        except ReforkError as error:
            yield "grading.pattern", str(error).removeprefix("grading.pattern: ")
    if template is not None:
        try:
            jinja2.Environment(autoescape=False).parse(template)
        except jinja2.TemplateSyntaxError as error:
            yield "prompt.template", f"line {error.lineno}: {error.message}"


def _look(settings: Settings) -> Iterator[tuple[str, str]]:
    palette = settings.report.palette
    if palette in SEABORN_PALETTES:
        return
    import seaborn  # noqa: PLC0415 - slow to import

    try:
        seaborn.color_palette(palette, 2)
    except ValueError:
        known = ", ".join(SEABORN_PALETTES)
        yield "report.palette", f"is {palette!r}; seaborn knows no such palette; known: {known}"


_CHECKS: tuple[tuple[tuple[str, ...], Callable[[Settings], Iterator[tuple[str, str]]]], ...] = (
    (("questions", "model", "engine"), _sources),
    (("engine",), _kernels),
    (("variants",), _variants),
    (("engine", "passes", "rollouts", "resources"), _engine),
    (("passes", "noise", "engine"), _passes),
    (("curves", "rollouts", "passes"), _curves),
    (("curves", "smoothing"), _smoothing),
    (("grading", "prompt"), _texts),
    (("report",), _look),
)
