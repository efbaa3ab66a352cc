"""The tables of a variant made by hand: random credits, a hostile rollout."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refork.data.schemas import CONTINUATIONS, OUTCOMES, PIVOTS, QUESTIONS, ROLLOUTS
from refork.report.study_data import VariantData
from refork.stages.measure_noise import measure_noise
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
    "<script>alert(1)</script> <img src=x onerror=alert(2)> </bdi></div>"
    "<style>*{display:none}</style> "
    "\x1b[31mred\x1b[0m nul\x00 \u202eevil\u202c {{ 7 * 7 }} "
    "javascript:alert(3) \ud800 &amp; \"quoted' "
)
# No table can hold a lone surrogate; a decoder may give one.
STORED = HOSTILE.replace("\ud800", "")


Row = dict[str, Any]
Right = dict[str, NDArray[np.bool_]]


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


def settings(**overrides: Any) -> Row:
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
    """Makes the tables of one variant; `changes`: chance that an outcome turns, by pass."""

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
        continuations = _table(self._continuations(pivots, right), CONTINUATIONS)
        outcomes = _table(self._outcomes(rollouts, pivots, right), OUTCOMES)
        passes = [item["name"] for item in self.settings["passes"]]
        stage = {
            "settings": {"noise": self.settings["noise"], "passes": passes},
            "lock": {"block_size": 1},
        }
        measured = measure_noise(stage, _table(pivots, PIVOTS), outcomes, continuations)
        return VariantData(
            name=self.name,
            settings=self.settings,
            questions=_table(
                [self._question(key, i) for i, key in enumerate(self.keys)], QUESTIONS
            ),
            rollouts=_table(rollouts, ROLLOUTS),
            pivots=_table(pivots, PIVOTS),
            continuations=continuations,
            outcomes=outcomes,
            credits=measured.credits,
            noise=measured.noise,
            manifests=tuple(self._manifests()),
        )

    def _question(self, key: tuple[str, int], number: int) -> Row:
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

    def _rollout(self, key: tuple[str, int], number: int) -> Row:
        hostile = HOSTILE if key[0] == "q00" else ""
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

    def _pivots(self, rollout: Row) -> list[Row]:
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

    def _right(self, pivots: int) -> Right:
        """Whether each draw is right, by pass; shape (pivots, arms, K)."""
        chance = self.random.choice([0.02, 0.3, 0.6, 0.95], size=(pivots, 2, 1))
        exact = self.random.random((pivots, 2, K)) < chance
        return {
            name: exact ^ (self.random.random(exact.shape) < change)
            for name, change in {"exact": 0.0, **self.changes}.items()
        }

    def _draws(self, pivots: list[Row], right: Right) -> list[tuple[Row, str, str, int, bool]]:
        return [
            (pivot, name, arm, draw, bool(right[name][index, side, draw]))
            for name in right
            for index, pivot in enumerate(pivots)
            for side, arm in enumerate(("actual", "alt"))
            for draw in range(K)
        ]

    def _continuations(self, pivots: list[Row], right: Right) -> list[Row]:
        states = {item["name"]: item["state"] for item in self.settings["passes"]}
        draws = self._draws(pivots, right)
        rows = [
            _continuation(pivot, name, arm, draw, states[name], [draw, int(correct)])
            for pivot, name, arm, draw, correct in draws
        ]
        probes = [
            _continuation(pivot, name, arm, None, states[name], [7, int(correct)])
            for pivot, name, arm, draw, correct in draws
            if draw == 0
        ]
        return rows + probes

    def _outcomes(self, rollouts: list[Row], pivots: list[Row], right: Right) -> list[Row]:
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

    def _manifests(self) -> list[Row]:
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


def _continuation(
    pivot: Row, name: str, arm: str, draw: int | None, state: str, tokens: list[int]
) -> Row:
    prefilled = state == "prefill"
    return {
        **_key(pivot),
        "pass": name,
        "arm": arm,
        "draw": draw,
        "seed": draw or 0,
        "state": state,
        "token_ids": tokens,
        "finish_reason": "stop",
        "first_logprob": -0.3 - 0.01 * tokens[-1],
        "cached_tokens": 0 if prefilled else pivot["position"],
        "recomputed_tokens": pivot["position"] if prefilled else 0,
        "fidelity": 0.031 if prefilled else 0.0,
    }


def _engine_facts(engine: dict[str, str]) -> Row:
    return {"tokens": 120_000, "requests": 1152, "replayed_tokens": 4800, "engine": engine}


def _dtype(name: str) -> str:
    return "float32" if name == "fp32" else "bfloat16"


def _key(pivot: Row) -> Row:
    return {name: pivot[name] for name in ("question_id", "rollout", "position")}


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


NOISY = {"replica": 0.02, "refeed": 0.12, "replica_shuffled": 0.06, "refeed_shuffled": 0.14}
QUIET = dict.fromkeys(NOISY, 0.0)
