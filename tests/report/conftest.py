"""A small study made by hand: random credits, a hostile rollout, two variants."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from refork.data.noise_record import Comparison, noise_record
from refork.data.schemas import (
    CONTINUATIONS,
    CREDITS,
    OUTCOMES,
    PIVOTS,
    QUESTIONS,
    ROLLOUTS,
)
from refork.report.study_data import StudyData, VariantData
from refork.stats.credit import credits_from_counts
from refork.stats.noise import PassMeasurements, measure
from refork.study.config import Settings

K = 4
PROMPT = [1, 2, 3]
TEXTS = (
    "There are 12 pencils in a box and 3 boxes, so 12 × 3 = 36 pencils.\nAnswer: 36",
    "Paul had 15 coins and lost 6. 15 - 6 = 9, so 9 coins are left.\nAnswer: 9",
    "A thermometer measures temperature; a ruler measures length. The answer is (C).",
    "Earth is the planet that people live on. Mars is cold. The answer is (A).",
)
HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> </bdi></div><style>*{display:none}</style> "
    "\x1b[31mred\x1b[0m nul\x00 \u202eevil\u202c {{ 7 * 7 }} javascript:alert(3) \ud800 &amp; \"quoted' "
)
STORED = HOSTILE.replace("\ud800", "")  # no table can hold a lone surrogate; a decoder may give one


class Vocabulary:
    """Words as tokens: what a tokenizer is to a report."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def encode(self, text: str) -> list[int]:
        return [self.add(piece) for piece in re.findall(r"\s?[^\s]+|\s", text)]

    def add(self, piece: str) -> int:
        if piece not in self.pieces:
            self.pieces.append(piece)
        return self.pieces.index(piece)

    def decode(self, ids: list[int]) -> list[str]:
        return [self.pieces[token] for token in ids]


def settings(**overrides: Any) -> dict[str, Any]:
    passes = [
        {"name": "exact", "state": "snapshot"},
        {"name": "replica", "state": "snapshot"},
        {"name": "refeed", "state": "prefill"},
        {"name": "replica_shuffled", "state": "snapshot", "order_seed": 1},
        {"name": "refeed_shuffled", "state": "prefill", "order_seed": 1},
    ]
    comparisons = [
        {"treatment": "refeed", "floor": "replica"},
        {"treatment": "refeed_shuffled", "floor": "replica_shuffled"},
    ]
    given = {
        "study": "demo",
        "questions": {"file": "config/questions/demo.jsonl"},
        "engine": {"kind": "torch", "device": "cpu"},
        "passes": passes,
        "noise": {"comparisons": comparisons},
        **overrides,
    }
    return Settings.model_validate(given).model_dump()


class VariantMaker:
    """Makes the tables of one variant; `changes` is the chance that a right answer turns in a pass."""

    def __init__(self, name: str, changes: dict[str, float], questions: int = 12) -> None:
        self.name = name
        self.changes = changes
        self.random = np.random.default_rng(7)
        self.vocabulary = Vocabulary()
        self.keys = [(f"q{i:02d}", rollout) for i in range(questions) for rollout in range(4)]
        self.settings = settings(engine={"kind": "torch", "dtype": _dtype(name)})

    def make(self) -> VariantData:
        rollouts = [self._rollout(key, number) for number, key in enumerate(self.keys)]
        pivots = [pivot for rollout in rollouts for pivot in self._pivots(rollout)]
        right = self._right(len(pivots))
        return VariantData(
            name=self.name,
            settings=self.settings,
            questions=_table([self._question(key, i) for i, key in enumerate(self.keys)], QUESTIONS),
            rollouts=_table(rollouts, ROLLOUTS),
            pivots=_table(pivots, PIVOTS),
            continuations=_table(self._continuations(pivots, right), CONTINUATIONS),
            outcomes=_table(self._outcomes(rollouts, pivots, right), OUTCOMES),
            credits=_table(self._credits(pivots, right), CREDITS),
            noise={"comparisons": self._noise(pivots, right)},
            manifests=tuple(self._manifests()),
        )

    def _question(self, key: tuple[str, int], number: int) -> dict[str, Any]:
        choices = ["ruler", "clock", "thermometer"] if number // 4 % 2 else None
        return {
            "question_id": key[0],
            "rollout": key[1],
            "kind": "choice" if choices else "number",
            "question": f"What is asked in question {key[0]}? <b>{STORED}</b>",
            "choices": choices,
            "answer": "C" if choices else "36",
            "messages": "[]",
            "prompt_token_ids": PROMPT,
        }

    def _rollout(self, key: tuple[str, int], number: int) -> dict[str, Any]:
        hostile = HOSTILE if number % 4 == 0 else ""
        ids = self.vocabulary.encode(hostile + TEXTS[number // 4 % len(TEXTS)])
        return {
            "question_id": key[0],
            "rollout": key[1],
            "seed": number,
            "prompt_token_ids": PROMPT,
            "token_ids": ids,
            "logprobs": [-0.5] * len(ids),
            "top_token_ids": [[token] for token in ids],
            "top_logprobs": [[-0.5]] * len(ids),
            "finish_reason": "length" if number % 9 == 8 else "stop",
        }

    def _pivots(self, rollout: dict[str, Any]) -> list[dict[str, Any]]:
        ids = rollout["token_ids"]
        places = sorted(self.random.choice(len(ids), size=3, replace=False).tolist())
        return [
            {
                "question_id": rollout["question_id"],
                "rollout": rollout["rollout"],
                "position": len(PROMPT) + place,
                "margin": float(self.random.uniform(0, 1)),
                "actual_token": ids[place],
                "alt_token": self.vocabulary.add(" <i>other</i>\u202e"),
                "actual_logprob": -0.7,
                "alt_logprob": -0.9,
            }
            for place in places
        ]

    def _right(self, pivots: int) -> dict[str, np.ndarray]:
        """Whether each draw is right, by pass; shape (pivots, arms, K)."""
        chance = self.random.choice([0.02, 0.3, 0.6, 0.95], size=(pivots, 2, 1))
        exact = self.random.random((pivots, 2, K)) < chance
        return {
            name: exact ^ (self.random.random(exact.shape) < change)
            for name, change in {"exact": 0.0, **self.changes}.items()
        }

    def _draws(self, pivots: list[dict[str, Any]], right: dict[str, np.ndarray]) -> list[tuple]:
        return [
            (pivot, name, arm, draw, bool(right[name][index, side, draw]))
            for name in right
            for index, pivot in enumerate(pivots)
            for side, arm in enumerate(("actual", "alt"))
            for draw in range(K)
        ]

    def _continuations(self, pivots: Any, right: Any) -> list[dict[str, Any]]:
        states = {item["name"]: item["state"] for item in self.settings["passes"]}
        return [
            {
                **_key(pivot),
                "pass": name,
                "arm": arm,
                "draw": draw,
                "seed": draw,
                "state": states[name],
                "token_ids": [draw, int(correct)],
                "finish_reason": "stop",
                "first_logprob": -0.3,
                "cached_tokens": 0 if states[name] == "prefill" else pivot["position"],
                "recomputed_tokens": pivot["position"] if states[name] == "prefill" else 0,
                "fidelity": None if states[name] == "snapshot" else 0.031,
            }
            for pivot, name, arm, draw, correct in self._draws(pivots, right)
        ]

    def _outcomes(self, rollouts: Any, pivots: Any, right: Any) -> list[dict[str, Any]]:
        base = [
            {
                "question_id": rollout["question_id"],
                "rollout": rollout["rollout"],
                "position": None,
                "pass": None,
                "arm": None,
                "draw": None,
                "outcome": "truncated" if rollout["finish_reason"] == "length" else "36",
                "correct": rollout["finish_reason"] != "length",
            }
            for rollout in rollouts
        ]
        return base + [
            {
                **_key(pivot),
                "pass": name,
                "arm": arm,
                "draw": draw,
                "outcome": "36" if correct else ("truncated" if draw == 3 else "other"),
                "correct": correct,
            }
            for pivot, name, arm, draw, correct in self._draws(pivots, right)
        ]

    def _credits(self, pivots: Any, right: Any) -> list[dict[str, Any]]:
        return [
            {
                **_key(pivot),
                "margin": pivot["margin"],
                "pass": name,
                "credit": float(draws[index, 0].mean() - draws[index, 1].mean()),
                "right_actual": int(draws[index, 0].sum()),
                "draws_actual": K,
                "right_alt": int(draws[index, 1].sum()),
                "draws_alt": K,
                "cached": True if "refeed" not in name else None,
                "probe_diverged": bool(name != "exact" and index % 3 == 0),
                "probe_delta": 0.0 if index % 3 else 0.01,
            }
            for name, draws in right.items()
            for index, pivot in enumerate(pivots)
        ]

    def _noise(self, pivots: Any, right: Any) -> list[dict[str, Any]]:
        ids = sorted({pivot["question_id"] for pivot in pivots})
        problem = np.array([ids.index(pivot["question_id"]) for pivot in pivots], dtype=np.int64)
        margin = np.array([pivot["margin"] for pivot in pivots], dtype=np.float32)
        draws = np.full(len(pivots), K)
        measured = {
            name: PassMeasurements(
                credits_from_counts(
                    value[:, 0].sum(axis=1), draws, value[:, 1].sum(axis=1), draws
                ),
                np.ones(len(pivots), dtype=np.int8),
                np.array([name != "exact" and i % 3 == 0 for i in range(len(pivots))], np.int8),
                np.array([0.0 if i % 3 else 0.01 for i in range(len(pivots))]),
            )
            for name, value in right.items()
        }
        return [
            noise_record(
                measure(
                    problem,
                    margin,
                    measured["exact"],
                    measured[pair["treatment"]],
                    measured[pair["floor"]],
                ),
                Comparison("exact", pair["treatment"], pair["floor"]),
            )
            for pair in self.settings["noise"]["comparisons"]
        ]

    def _manifests(self) -> list[dict[str, Any]]:
        engine = {"kind": "torch", "device": "cpu", "dtype": _dtype(self.name), "torch": "2.11.0"}
        passes = [("resample", {"pass": item}) for item in self.settings["passes"]]
        stages = [("sample_rollouts", {}), *passes, ("measure_noise", {})]
        return [
            {
                "stage": {"stage": name, "version": 1, "settings": own, "upstream": {}, "lock": {}},
                "refork": "0.1.0",
                "seconds": 12.5 * number,
                **({} if name == "measure_noise" else _engine_facts(engine)),
            }
            for number, (name, own) in enumerate(stages, start=1)
        ]


def _engine_facts(engine: dict[str, str]) -> dict[str, Any]:
    return {"tokens": 120_000, "requests": 1152, "engine": engine}


def _dtype(name: str) -> str:
    return "float32" if name == "fp32" else "bfloat16"


def _key(pivot: dict[str, Any]) -> dict[str, Any]:
    return {name: pivot[name] for name in ("question_id", "rollout", "position")}


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


NOISY = {"replica": 0.02, "refeed": 0.12, "replica_shuffled": 0.06, "refeed_shuffled": 0.14}
QUIET = dict.fromkeys(NOISY, 0.0)


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary()


@pytest.fixture(scope="session")
def study(vocabulary: Vocabulary) -> StudyData:
    """Two variants, one noisy, one in which all passes agree."""
    makers = VariantMaker("stock", NOISY), VariantMaker("fp32", QUIET)
    for maker in makers:
        maker.vocabulary = vocabulary
    return StudyData(
        name="demo",
        settings=makers[0].settings,
        defaults=Settings().model_dump(),
        lock={"variants": {"stock": {"model": {"digest": "0123abcd"}}}},
        variants=tuple(maker.make() for maker in makers),
    )


@pytest.fixture(scope="session")
def empty_study(study: StudyData) -> StudyData:
    """A study without a single pivot."""
    maker = VariantMaker("stock", NOISY)
    maker._pivots = lambda rollout: []  # type: ignore[method-assign]
    return replace(study, variants=(maker.make(),))
