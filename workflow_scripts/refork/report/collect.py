"""The data of a report, collected along the stage records of a results folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refork.data.files import read_json
from refork.data.probe_record import read_probe
from refork.data.schemas import CONTINUATIONS, CREDITS, OUTCOMES, PIVOTS, QUESTIONS, ROLLOUTS
from refork.data.tables import read_shards, read_table
from refork.report.study_data import StudyData, VariantData
from refork.study.config import Settings
from refork.study.folders import read_record
from refork.study.graph import draw_blocks


class StageFolders:
    """The folders of the stages that one stage is made from, followed by their hashes."""

    def __init__(self, results: Path, name: str, digest: str) -> None:
        self._results = results
        self.folder = results / name / digest
        self.record = read_record(self.folder / "stage.json")

    def upstream(self, label: str) -> "StageFolders":
        """Follow a label of the stage's record; `resample.<pass>` leads to a stage `resample`."""
        name = label.partition(".")[0]
        return StageFolders(self._results, name, self.record["upstream"][label])


def collect_study(stage: Mapping[str, Any], results: Path) -> tuple[StudyData, Path]:
    """Collect a study from the record of its report; return it and its first variant's model.

    Raises
    ------
    ReforkError
        A table or a record is absent or damaged.
    """
    settings, upstream = stage["settings"], stage["upstream"]
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
            _variant(name, settings["variants"][name], folders) for name, folders in noise.items()
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


def _variant(name: str, settings: Mapping[str, Any], noise: StageFolders) -> VariantData:
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
