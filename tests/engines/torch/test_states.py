"""What requests start from, on a decoder that notes every call."""

import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.toy_decoder import ToyDecoder, tokens_of
from refork.engines.requests import Request
from refork.engines.torch import states as states_module
from refork.engines.torch.snapshots import Snapshots, write_snapshots
from refork.engines.torch.states import Shared, Source, States
from refork.errors import EngineError

PROMPT = [1, 2, 3]
GENERATED = [7, 8, 9, 4, 6]
PLACES = 4


def request(
    state: str, generated: Sequence[int] = (), forced: int | None = 5, **given: Any
) -> Request:
    """Return a request that goes on behind these generated tokens of rollout q/0."""
    fields: dict[str, Any] = {
        "request": 0,
        "question_id": "q",
        "rollout": 0,
        "logprobs": None,
        "seed": 0,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "max_tokens": 4,
        "top_logprobs": 1,
        "keep_snapshot": False,
        "prompt_length": len(PROMPT),
        **given,
    }
    return Request(state=state, token_ids=[*PROMPT, *generated], forced_token=forced, **fields)


def begin(decoder: ToyDecoder, group: Sequence[Request]) -> States:
    """Return the states of a group that needs no snapshots."""
    return States(decoder, group, None, PLACES)


class ReadSnapshots(Snapshots):
    """Snapshots that note what is read."""

    def __init__(self, path: Path, decoder: ToyDecoder) -> None:
        super().__init__(path, decoder.kind)
        self.read: list[tuple[str, int]] = []

    def load(self, name: str, tokens: int) -> torch.Tensor:
        """Note, and read."""
        self.read.append((name, tokens))
        return super().load(name, tokens)


@pytest.fixture
def snapshots(tmp_path: Path) -> ReadSnapshots:
    decoder = ToyDecoder()
    whole = decoder.prefill([*PROMPT, *GENERATED], len(PROMPT)).state
    write_snapshots(tmp_path / "file", {"q/0": whole, "q/1": whole.clone()}, decoder.kind)
    return ReadSnapshots(tmp_path / "file", decoder)


def test_a_snapshot_is_read_once_as_far_as_the_group_asks_for(snapshots: ReadSnapshots) -> None:
    group = [request("snapshot", GENERATED[:count]) for count in (1, 3, 0)]
    states = States(ToyDecoder(), group, snapshots, PLACES)
    assert snapshots.read == []  # lazily
    entries = [states.start(each)[0] for each in group]
    assert snapshots.read == [("q/0", len(PROMPT) + 3)]
    assert states.replayed_tokens == 0
    assert len({id(entry.state) for entry in entries}) == 1
    assert [entry.tokens for entry in entries] == [4, 6, 3]
    assert all(entry.logits is None for entry in entries)


def test_without_a_forced_token_a_snapshots_last_token_is_fed_again(
    snapshots: ReadSnapshots,
) -> None:
    group = [request("snapshot", GENERATED[:3], forced=None)]
    entry, told = States(ToyDecoder(), group, snapshots, PLACES).start(group[0])
    assert entry.tokens == 5
    assert (told.cached, told.recomputed, told.fidelity) == (5, 1, None)


def test_snapshots_are_let_go_after_their_last_use(snapshots: ReadSnapshots) -> None:
    group = [request("snapshot", GENERATED[:2], rollout=number % 2) for number in range(4)]
    states = States(ToyDecoder(), group, snapshots, PLACES)
    first, second = (weakref.ref(states.start(each)[0].state) for each in group[:2])
    assert first() is not None
    states.start(group[2])
    assert first() is None
    assert second() is not None
    states.start(group[3])
    assert second() is None


@pytest.mark.parametrize("state", ["fresh", "prefill"])
def test_equal_sequences_are_fed_once_and_let_go(state: str) -> None:
    decoder = ToyDecoder()
    one, other = request(state, [7], rollout=0), request(state, [7], 6, rollout=1)
    states = begin(decoder, [one, other, one])
    first = weakref.ref(states.start(one)[0].state)
    states.start(other)
    assert first() is not None
    states.start(one)
    assert first() is None
    assert decoder.prefilled == [one.known, other.known]


def test_a_fed_sequence_enters_with_its_logits() -> None:
    decoder = ToyDecoder()
    each = request("prefill", GENERATED)
    entry, told = begin(decoder, [each]).start(each)
    assert tokens_of(entry.state) == each.known
    assert entry.tokens == len(each.known)
    fed = decoder.prefill(each.known, len(PROMPT))
    assert entry.logits is not None
    assert torch.equal(entry.logits, fed.logits)
    assert (told.cached, told.recomputed) == (0, 8)


def test_invariant_kernels_feed_prompts_as_they_decode_and_prefill_as_they_prefill() -> None:
    decoder = ToyDecoder(invariant=True)
    group = [request("fresh", forced=None), request("prefill", GENERATED)]
    states = begin(decoder, group)
    for each in group:
        states.start(each)
    assert decoder.fed == [PROMPT]
    assert decoder.prefilled == [group[1].known]


def test_rollouts_are_replayed_once_side_by_side_before_all_else() -> None:
    decoder = ToyDecoder()
    group = [
        request("decode_replay", GENERATED[:count], rollout=rollout)
        for rollout, count in ((0, 1), (1, 2), (0, 4), (1, 1))
    ]
    states = begin(decoder, group)
    assert decoder.prefilled == [PROMPT]
    assert decoder.steps == [
        [[*PROMPT, 7], [*PROMPT, 7]],
        [[*PROMPT, 7, 8], [*PROMPT, 7, 8]],
        [[*PROMPT, 7, 8, 9]],
        [[*PROMPT, 7, 8, 9, 4]],
    ]
    entries = [states.start(each)[0] for each in group]
    assert len(decoder.steps) == 4
    assert states.replayed_tokens == 4 + 2
    assert [entry.tokens for entry in entries] == [4, 5, 7, 4]
    assert entries[0].state is entries[2].state
    assert tokens_of(entries[0].state) == [*PROMPT, *GENERATED[:4]]


def test_replays_are_batched_like_rows() -> None:
    decoder = ToyDecoder()
    group = [request("decode_replay", GENERATED, rollout=number) for number in range(3)]
    States(decoder, group, None, 2)
    assert [len(step) for step in decoder.steps] == [2] * 5 + [1] * 5


def test_invariant_kernels_replay_each_rollout_alone() -> None:
    decoder = ToyDecoder(invariant=True)
    group = [request("decode_replay", GENERATED[:count]) for count in (1, 4, 2)]
    states = begin(decoder, group)
    references = [weakref.ref(states.start(each)[0].state) for each in group]
    assert decoder.fed == [[*PROMPT, *GENERATED[:4]]]
    assert states.replayed_tokens == 4
    assert not decoder.steps
    assert not decoder.prefilled
    assert references[0]() is None


@pytest.mark.parametrize("invariant", [False, True])
def test_fidelity_is_of_the_requests_own_prefix(invariant: bool) -> None:
    decoder = ToyDecoder(invariant)
    recorded = decoder.prefill([*PROMPT, *GENERATED], len(PROMPT)).logprobs
    recorded[3] += 0.25  # a fourth token that went otherwise
    group = [
        request("decode_replay", GENERATED[:count], logprobs=recorded[:count])
        for count in (3, 5, 0)
    ]
    group.append(request("prefill", GENERATED[:4], logprobs=recorded[:4]))
    states = begin(decoder, group)
    told = [states.start(each)[1].fidelity for each in group]
    assert told == [
        pytest.approx(0, abs=1e-6),
        pytest.approx(0.25, abs=1e-6),
        None,
        pytest.approx(0.25, abs=1e-6),
    ]


def test_a_replay_of_nothing_starts_as_the_rollout_did() -> None:
    decoder = ToyDecoder()
    each = request("decode_replay", forced=None)
    entry, _ = begin(decoder, [each]).start(each)
    assert entry.tokens == len(PROMPT)
    assert entry.logits is not None
    assert decoder.steps == []


@pytest.mark.parametrize("state", ["snapshot", "decode_replay"])
@pytest.mark.parametrize(
    "other",
    [{"generated": [7, 5, 9]}, {"generated": GENERATED, "prompt_length": 4}],
    ids=["tokens", "prompt"],
)
def test_two_histories_of_one_rollout_are_refused(state: str, other: dict[str, Any]) -> None:
    group = [request(state, GENERATED[:2]), request(state, **other)]
    with pytest.raises(EngineError, match=r"question q, rollout 0: .*different tokens"):
        begin(ToyDecoder(), group)


@pytest.mark.parametrize("state", ["snapshot", "decode_replay"])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_forced_token_goes_with_the_same_token_in_the_prefix(
    snapshots: ReadSnapshots, state: str, turn: int
) -> None:
    group = [
        request(state, GENERATED[:2], forced=GENERATED[2]),
        request(state, GENERATED[:3], forced=None),
    ][::turn]
    states = States(ToyDecoder(), group, snapshots, PLACES)
    assert [states.start(each)[0].tokens for each in group] == [5, 5]


def test_no_more_bytes_are_held_than_are_allowed() -> None:
    keys = [f"{number}" for number in range(4)]
    shared = Shared(Counter(2 * keys), most_bytes=2 * 40)
    made: list[str] = []

    def use(key: str) -> Source:
        def make() -> Source:
            made.append(key)
            return Source(torch.zeros(10))

        return shared.use(key, make)

    references = {key: weakref.ref(use(key).state) for key in keys}
    assert [key for key, reference in references.items() if reference() is not None] == ["2", "3"]
    for key in ("3", "2", "0", "1"):
        use(key)
    assert made == [*keys, "0", "1"]


def test_fed_states_may_take_what_snapshots_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states_module, "SPARE_BYTES", 0)
    decoder = ToyDecoder()
    group = [request("prefill", GENERATED[:count]) for count in (5, 4)]
    states = begin(decoder, 2 * group)
    for each in 2 * group:  # a token takes 8 bytes; the rollout has 9 tokens, both together 17
        states.start(each)
    assert [len(tokens) for tokens in decoder.prefilled] == [9, 8, 9]
