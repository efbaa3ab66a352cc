"""The whole way on the synthetic engine, against its known answers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from refork.data.journal import Journal
from refork.data.schemas import PIVOTS
from refork.data.tables import from_rows
from refork.engines.describe import describe
from refork.engines.interface import with_replayed_tokens
from refork.engines.synthetic.chain import credit, sampling_probabilities
from refork.engines.synthetic.engine import SyntheticEngine
from refork.engines.synthetic.model import read_chain
from refork.errors import EngineError
from refork.stages.engine_job import EngineJob, run_groups
from refork.stages.extract_pivots import extract_pivots
from refork.stages.grade_outcomes import grade_outcomes
from refork.stages.measure_noise import MeasuredNoise, measure_noise
from refork.stages.prepare_questions import Plan, load_tokenizer, prompt_tables
from refork.stages.resample import resample, resample_groups
from refork.stages.sample_rollouts import sample_rollouts
from refork.study.config import Engine, Grading, Noise, Pass, Resample, Rollouts, Synthetic
from refork.tasks.prompts import Prompter, PromptSettings
from refork.tasks.questions import Question
from refork.tasks.text import special_token_ids

REPLAY_NOISE = 0.25
K = 8
PASSES = (
    Pass(name="exact", state="snapshot"),
    Pass(name="replica", state="snapshot"),
    Pass(name="refeed", state="prefill"),
)
RESAMPLE = Resample(temperature=1.0, top_p=1.0, max_tokens=64, probe_tokens=8, draw_block=K)


@dataclass(frozen=True)
class Way:
    """The tables of a study on the synthetic engine."""

    questions: pa.Table
    rollouts: pa.Table
    pivots: pa.Table
    continuations: pa.Table
    outcomes: pa.Table
    measured: MeasuredNoise


@pytest.fixture(scope="module")
def way(synthetic_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Way:
    """Go the whole way with 40 questions, 2 rollouts each."""
    folder = tmp_path_factory.mktemp("way")
    choices = ("w", "x", "y", "z")
    asked = [
        Question(f"q{n:02}", "choice", f"Case {n}?", "ABCD"[n % 4], choices) for n in range(40)
    ]
    prompter = Prompter(PromptSettings(), load_tokenizer(synthetic_model, False))
    [questions] = prompt_tables(asked, prompter, Plan(rollouts=2, seed=0, context_length=16384))
    snapshots = folder / "snapshots.safetensors"
    job = _job(folder, synthetic_model, {"rollouts": _rollouts()})
    rollouts, _ = sample_rollouts(job, questions, snapshots)
    stage: dict[str, Any] = {"settings": {"pivots": _pivots()}, "lock": {"block_size": 1}}
    pivots = extract_pivots(stage, rollouts, special_token_ids(synthetic_model))
    tables = []
    for item in PASSES:
        settings = {"resample": RESAMPLE.model_dump(), "pass": item.model_dump()}
        job = _job(folder, synthetic_model, settings)
        tables.append(resample(job, rollouts, snapshots, pivots, range(K))[0])
    stage = {"settings": {"grading": Grading().model_dump()}}
    outcomes = grade_outcomes(
        stage, questions, rollouts, pivots, tables, model_folder=synthetic_model
    )
    continuations = pa.concat_tables(tables)
    names = [item.name for item in PASSES]
    stage = {
        "settings": {"noise": Noise().model_dump(), "passes": names},
        "lock": {"block_size": 1},
    }
    measured = measure_noise(stage, pivots, outcomes, continuations)
    return Way(questions, rollouts, pivots, continuations, outcomes, measured)


def _job(folder: Path, model: Path, settings: Mapping[str, Any]) -> EngineJob:
    engine = Engine(kind="synthetic", device="cpu", synthetic=Synthetic(replay_noise=REPLAY_NOISE))
    record = engine.model_dump(exclude={"python"}) | {"trust_remote_code": False}
    stage = {
        "settings": {"seed": 7, "engine": record, **settings},
        "lock": {"engine": describe("synthetic", "cpu")},
    }
    name = settings["pass"]["name"] if "pass" in settings else "rollouts"
    return EngineJob(stage, model, Journal(folder / name), name)


def _rollouts() -> dict[str, Any]:
    return Rollouts(temperature=1.0, top_p=1.0, max_tokens=64).model_dump(exclude={"count"})


def _pivots() -> dict[str, Any]:
    return {"margin": 1.0, "max_per_rollout": 3, "first_token": 1}


def of_pass(table: pa.Table, name: str) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["pass"] == name]


def identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["question_id"], row["rollout"], row["position"], row["arm"], row["draw"]


def test_credits_are_those_of_the_chain(way: Way, synthetic_model: Path) -> None:
    chain, _ = read_chain(synthetic_model)
    drawn_from = sampling_probabilities(chain.transitions, RESAMPLE.temperature, RESAMPLE.top_p)
    answers = {row["question_id"]: row["answer"] for row in way.questions.to_pylist()}
    actual, alt = (
        chain.indices(way.pivots.column(name).to_numpy()) for name in ("actual_token", "alt_token")
    )
    known = [
        credit(
            chain,
            drawn_from,
            actual=actual[place],
            alt=alt[place],
            right=answers[row["question_id"]],
            max_tokens=RESAMPLE.max_tokens,
        )
        for place, row in enumerate(way.pivots.to_pylist())
    ]
    measured = [row["credit"] for row in of_pass(way.measured.credits, "exact")]
    error = np.array(measured) - np.array(known)
    assert len(known) > 100
    assert np.abs(known).mean() > 0.1
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(error))
    # Both arms draw K times; a share's variance is at most 1/4, whatever the shared numbers do.
    assert (error**2).mean() < 4 * 0.25 / K


def test_a_replica_repeats_the_reference_and_a_refeed_does_not(way: Way) -> None:
    tokens = {
        name: {identity(row): row["token_ids"] for row in of_pass(way.continuations, name)}
        for name in ("exact", "replica", "refeed")
    }
    assert tokens["replica"] == tokens["exact"]
    draws = [key for key in tokens["exact"] if key[-1] is not None]
    changed = np.mean([tokens["refeed"][key] != tokens["exact"][key] for key in draws])
    spread = np.sqrt(REPLAY_NOISE * (1 - REPLAY_NOISE) / len(draws))
    assert REPLAY_NOISE / 2 < changed < REPLAY_NOISE + 4 * spread


def test_noise_is_found_where_it_was_put(way: Way) -> None:
    [record] = way.measured.noise["comparisons"]
    assert record["replica"]["flips"] == 0
    assert record["refeed"]["flips"] > 0
    assert record["excess_pp"] > 0
    assert record["clustered_t"] > 2
    assert record["passes"]["exact"]["cached_share"] == 1


def test_passes_and_arms_share_random_numbers(way: Way) -> None:
    seeds: dict[tuple[Any, ...], set[int]] = {}
    for row in way.continuations.to_pylist():
        question, rollout, position, _, draw = identity(row)
        seeds.setdefault((question, rollout, position, draw), set()).add(row["seed"])
    assert all(len(shared) == 1 for shared in seeds.values())
    assert len(set.union(*seeds.values())) == len(seeds)


def test_a_pivot_stands_where_its_token_was_sampled(way: Way) -> None:
    rollouts = {(row["question_id"], row["rollout"]): row for row in way.rollouts.to_pylist()}
    for pivot in way.pivots.to_pylist():
        rollout = rollouts[pivot["question_id"], pivot["rollout"]]
        whole = rollout["prompt_token_ids"] + rollout["token_ids"]
        assert whole[pivot["position"]] == pivot["actual_token"] != pivot["alt_token"]
        assert pivot["margin"] < 1.0


def test_every_draw_has_an_outcome_and_no_probe_has(way: Way) -> None:
    graded = [row for row in way.outcomes.to_pylist() if row["pass"] is not None]
    drawn = [row for row in way.continuations.to_pylist() if row["draw"] is not None]
    assert sorted(map(identity, graded)) == sorted(map(identity, drawn))
    base = way.outcomes.num_rows - len(graded)
    assert base == way.rollouts.num_rows
    assert set(way.outcomes.column("outcome").unique().to_pylist()) <= {*"ABCD", "truncated"}


def test_a_restart_takes_over_what_is_finished(
    way: Way, synthetic_model: Path, tmp_path: Path
) -> None:
    settings = {"resample": RESAMPLE.model_dump(), "pass": PASSES[2].model_dump()}
    job = _job(tmp_path, synthetic_model, settings)
    snapshots = tmp_path / "none.safetensors"
    groups = list(resample_groups(way.rollouts, way.pivots, job.stage["settings"], range(K)))
    first, _ = run_groups(job, groups[:3])
    refused = replace(job, stage={**job.stage, "lock": {"engine": {"kind": "synthetic"}}})
    again, _ = run_groups(refused, groups[:3])  # loads no engine, for nothing is left to run
    assert [output.results for output in again] == [output.results for output in first]
    table, facts = resample(job, way.rollouts, snapshots, way.pivots, range(K))
    assert table.to_pylist() == of_pass(way.continuations, "refeed")
    assert facts["batch_groups"] == len(groups)


def test_tokens_that_an_engine_decoded_again_are_counted(
    way: Way, synthetic_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_group = SyntheticEngine.run_group

    def replaying(self: SyntheticEngine, *given: Any) -> pa.Table:
        return with_replayed_tokens(run_group(self, *given), 7)

    monkeypatch.setattr(SyntheticEngine, "run_group", replaying)
    settings = {"resample": RESAMPLE.model_dump(), "pass": PASSES[2].model_dump()}
    job = _job(tmp_path, synthetic_model, settings)
    groups = list(resample_groups(way.rollouts, way.pivots, job.stage["settings"], range(K)))[:3]
    for _ in range(2):  # a journal tells it, too
        assert run_groups(job, groups)[1]["replayed_tokens"] == 3 * 7


def test_an_engine_that_is_not_the_locked_one_stops_the_job(
    way: Way, synthetic_model: Path, tmp_path: Path
) -> None:
    job = _job(tmp_path, synthetic_model, {"rollouts": _rollouts()})
    locked = {**job.stage["lock"]["engine"], "version": "synthetic engine 0"}
    job = replace(job, stage={**job.stage, "lock": {"engine": locked}})
    with pytest.raises(EngineError, match=r"(?s)not the one that was locked.*engine 0.*engine 1"):
        sample_rollouts(job, way.questions, tmp_path / "snapshots.safetensors")


def test_an_order_seed_shuffles_within_the_groups(way: Way) -> None:
    def orders(order_seed: int | None) -> list[list[tuple[Any, ...]]]:
        item = Pass(name="exact", state="snapshot", order_seed=order_seed)
        settings = {
            "seed": 7,
            "engine": Engine(group_questions=3).model_dump(),
            "resample": RESAMPLE.model_dump(),
            "pass": item.model_dump(),
        }
        groups = resample_groups(way.rollouts, way.pivots, settings, range(K))
        return [[identity(key) for key in group.keys] for group in groups]

    common, shuffled = orders(None), orders(1)
    assert common != shuffled
    assert orders(1) == shuffled != orders(2)
    assert [sorted(map(repr, group)) for group in common] == [
        sorted(map(repr, group)) for group in shuffled
    ]


def test_an_empty_shard_is_legal(way: Way, synthetic_model: Path, tmp_path: Path) -> None:
    snapshots = tmp_path / "snapshots.safetensors"
    job = _job(tmp_path, synthetic_model, {"rollouts": _rollouts()})
    rollouts, facts = sample_rollouts(job, way.questions.slice(0, 0), snapshots)
    assert (rollouts.num_rows, facts["tokens"]) == (0, 0)
    settings = {"resample": RESAMPLE.model_dump(), "pass": PASSES[0].model_dump()}
    job = _job(tmp_path, synthetic_model, settings)
    table, _ = resample(job, rollouts, snapshots, from_rows([], PIVOTS), range(K))
    assert table.num_rows == 0
