"""The data of a report, collected along the stage records of a results folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refork.data.files import read_json
from refork.data.probe_record import read_probe
from refork.data.schemas import CONTINUATIONS, CREDITS, OUTCOMES, PIVOTS, QUESTIONS, ROLLOUTS
from refork.data.tables import read_shards, read_table
from refork.report.collect_curves import curve_folders, read_curves
from refork.report.stage_folders import StageFolders
from refork.report.study_data import StudyData, VariantData
from refork.study.config import Settings
from refork.study.graph import draw_blocks


def collect_study(stage: Mapping[str, Any], results: Path) -> tuple[StudyData, Path]:
    """Collect a study from the record of its report; return it and its first variant's model.

    Raises
    ------
    ReforkError
        A table or a record is absent or damaged.
    """
    settings, upstream = stage["settings"], stage["upstream"]
    smooth = {
        name: StageFolders(results, "smooth_curves", upstream[f"smooth_curves.{name}"])
        for name in settings["variants"]
        if f"smooth_curves.{name}" in upstream
    }
    noise = {
        name: StageFolders(results, "measure_noise", upstream[f"measure_noise.{name}"])
        for name in settings["variants"]
    }
    study = StudyData(
        name=settings["base"]["study"],
        settings=settings["base"],
        defaults=Settings().model_dump(),
        lock={name: _locked(folders) for name, folders in noise.items()},
        variants=tuple(
            _variant(name, settings["variants"][name], folders, smooth.get(name))
            for name, folders in noise.items()
        ),
    )
    first = next(iter(noise.values())).upstream("grade_outcomes").upstream("prepare_model")
    return study, first.folder / "model"


def _locked(noise: StageFolders) -> dict[str, Any]:
    outcomes = noise.upstream("grade_outcomes")
    names = ("prepare_model", "prepare_questions", "sample_rollouts")
    return {
        key: value
        for name in names
        for key, value in outcomes.upstream(name).record["lock"].items()
    }


def _variant(
    name: str, settings: Mapping[str, Any], noise: StageFolders, smooth: StageFolders | None
) -> VariantData:
    outcomes = noise.upstream("grade_outcomes")
    pivots = noise.upstream("extract_pivots")
    rollouts = outcomes.upstream("sample_rollouts")
    questions = outcomes.upstream("prepare_questions")
    probed = "probe_engine" in rollouts.record["upstream"]
    probe = [rollouts.upstream("probe_engine").folder] if probed else []
    resample = settings["resample"]
    blocks = draw_blocks(resample["continuations"], resample["draw_block"])
    names = [item["name"] for item in settings["passes"]]
    passes = {item: noise.upstream(f"resample.{item}") for item in names}
    draws = [item.folder / f"draws-{block}" for item in passes.values() for block in blocks]
    in_order = [outcomes.upstream("prepare_model").folder, questions.folder, *probe]
    in_order += [rollouts.folder, pivots.folder, *draws, outcomes.folder, noise.folder]
    if smooth is not None:
        in_order += curve_folders(smooth, settings["curves"])
    return VariantData(
        name=name,
        settings=settings,
        questions=read_shards([questions.folder], QUESTIONS),
        rollouts=read_shards([rollouts.folder], ROLLOUTS),
        pivots=read_shards([pivots.folder], PIVOTS),
        continuations=read_shards(draws, CONTINUATIONS),
        outcomes=read_shards([outcomes.folder], OUTCOMES),
        credits=read_table(noise.folder / "credits.parquet", CREDITS),
        noise=read_json(noise.folder / "noise.json"),
        manifests=tuple(_manifests(in_order)),
        probe=read_probe(probe[0] / "probe.json") if probe else None,
        states={
            item: folders.record["settings"]["pass"]["state"] for item, folders in passes.items()
        },
        resumes_by=resumes_by(rollouts.record),
        curves=None if smooth is None else read_curves(smooth, settings["curves"]["branches"]),
    )


def resumes_by(record: Mapping[str, Any]) -> str:
    """Say how an engine resumes that does so by blocks; empty for one that resumes anywhere."""
    block_size, engine = record["lock"]["engine"]["block_size"], record["settings"]["engine"]
    if block_size == 1:
        return ""
    tail = {"prefill": "as a prompt", "decode": "token by token"}[engine["vllm"]["tail"]]
    return f"blocks of {block_size} tokens; what lies behind the last of them is fed again {tail}"


def _manifests(folders: list[Path]) -> Iterator[Mapping[str, Any]]:
    for folder in folders:
        for path in sorted(folder.glob("*.manifest.json")):
            yield read_json(path)
