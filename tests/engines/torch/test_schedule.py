"""Continuous batching on a decoder that notes every step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.toy_decoder import POISON, ToyDecoder, tokens_of
from refork.engines.requests import Request
from refork.engines.seeds import uniform
from refork.engines.torch.schedule import Entry, Row, Schedule
from refork.errors import EngineError

CPU = torch.device("cpu")

Enter = Callable[[ToyDecoder, Sequence[Row]], Iterator[tuple[Row, Entry]]]


def request(number: int, known: Sequence[int], limit: int = 1) -> Request:
    """Return a request whose prompt is all that is known but the forced token, the last."""
    return Request(
        request=number,
        question_id="q",
        rollout=number,
        state="snapshot",
        prompt_length=len(known) - 1,
        token_ids=list(known[:-1]),
        logprobs=None,
        forced_token=known[-1],
        seed=2**63 + number,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        max_tokens=limit,
        top_logprobs=2,
        keep_snapshot=False,
    )


def rows_of(limits: Sequence[int], kept_on: torch.device | None = None) -> list[Row]:
    """Return rows with the prefix (number, 0) and the forced token 5, drawing `limits` tokens."""
    return [
        Row(request(number, [number, 0, 5], limit), [number, 0, 5], limit, kept_on)
        for number, limit in enumerate(limits)
    ]


def resumed(decoder: ToyDecoder, rows: Sequence[Row]) -> Iterator[tuple[Row, Entry]]:
    """Enter rows with their prefix; the forced token is fed by a step."""
    for row in rows:
        known = row.request.token_ids
        yield row, Entry(decoder.prefill(known, len(known)).state, len(known))


def refed(decoder: ToyDecoder, rows: Sequence[Row]) -> Iterator[tuple[Row, Entry]]:
    """Enter rows with all that is known, and its logits."""
    for row in rows:
        fed = decoder.prefill(row.request.known, len(row.request.known))
        yield row, Entry(fed.state, len(row.request.known), fed.logits)


def who(decoder: ToyDecoder) -> list[list[int]]:
    """Return the numbers of the rows that stood in each step, in their places."""
    return [[row[0] for row in step] for step in decoder.steps]


def test_rows_enter_in_order_and_leave_at_once() -> None:
    decoder = ToyDecoder()
    rows = rows_of([1, 3, 2, 4, 1, 2])
    Schedule(decoder, 3).run(resumed(decoder, rows))
    assert who(decoder) == [
        [0, 1, 2],  # 0 ends: the last row takes its place, and 3 enters
        [2, 1, 3],  # 2 ends
        [3, 1, 4],  # 1 and 4 end
        [3, 5],  # no one is left to enter
        [3, 5],
    ]
    assert [len(row.drawn) for row in rows] == [1, 3, 2, 4, 1, 2]
    assert all(row.finished for row in rows)


def test_a_row_is_taken_only_when_there_is_a_place() -> None:
    decoder = ToyDecoder()
    rows = rows_of([2] * 7)
    taken: list[int] = []

    def arrivals() -> Iterator[tuple[Row, Entry]]:
        for row, entry in resumed(decoder, rows):
            taken.append(row.request.request)
            assert len(taken) - sum(row.finished for row in rows) <= 2
            yield row, entry

    Schedule(decoder, 2).run(arrivals())
    assert taken == list(range(7))


def test_passes_that_differ_in_their_state_stay_in_step() -> None:
    limits = [3, 1, 5, 2, 2, 4, 1, 1, 3]
    exact, again = ToyDecoder(), ToyDecoder()
    exact_rows, again_rows = rows_of(limits), rows_of(limits)
    Schedule(exact, 4).run(resumed(exact, exact_rows))
    Schedule(again, 4).run(refed(again, again_rows))
    assert [row.drawn for row in again_rows] == [row.drawn for row in exact_rows]
    assert [row.logprobs for row in again_rows] == [row.logprobs for row in exact_rows]
    # A re-fed row has had its forced token before it enters.
    behind = [[row for row in step if len(row) > 3] for step in exact.steps]
    assert [step for step in behind if step] == [step for step in again.steps if step]


def test_a_schedule_is_a_function_of_rows_and_order() -> None:
    limits = [3, 1, 5, 2, 2]
    runs = []
    for _ in range(2):
        decoder = ToyDecoder()
        rows = rows_of(limits)
        Schedule(decoder, 2).run(resumed(decoder, rows))
        runs.append((decoder.steps, [(row.tokens, row.logprobs, row.top_tokens) for row in rows]))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("enter", [resumed, refed])
def test_states_are_kept_where_they_are_asked_for(enter: Enter) -> None:
    decoder = ToyDecoder()
    rows = rows_of([1, 3, 2], kept_on=CPU)
    rows[1].kept_on = None
    Schedule(decoder, 2).run(enter(decoder, rows))
    assert rows[1].state is None
    for row in (rows[0], rows[2]):
        assert row.state is not None
        assert tokens_of(row.state) == row.tokens[:-1]  # the last one drawn is not fed


def test_known_tokens_are_forced_and_looked_up() -> None:
    decoder = ToyDecoder()
    tokens = [3, 0, 5, 7, 1, 9]
    row = Row(request(0, tokens), list(tokens), 0, CPU)
    fed = decoder.prefill(tokens[:2], 2)
    Schedule(decoder, 2).run(iter([(row, Entry(fed.state, 2, fed.logits))]))
    assert [len(step[0]) for step in decoder.steps] == [3, 4, 5, 6]
    assert row.refed_logprobs == pytest.approx(decoder.prefill(tokens, 2).logprobs)
    assert row.drawn == []
    assert row.state is not None
    assert tokens_of(row.state) == tokens


def test_a_row_without_tokens_to_draw_leaves_behind_its_known_ones() -> None:
    decoder = ToyDecoder()
    rows = rows_of([0, 2])
    Schedule(decoder, 2).run(resumed(decoder, rows))
    assert who(decoder) == [[0, 1], [1]]
    assert rows[0].drawn == []


def by_definition(logits: torch.Tensor, asked: Request, position: int) -> int:
    """Return the token that a request draws at an absolute position."""
    if asked.temperature == 0:
        return int(logits.argmax())
    scaled = logits.double().numpy() / asked.temperature
    kept = np.argsort(-scaled)[: asked.top_k or None]
    shares = np.exp(scaled[kept]) / np.exp(scaled[kept]).sum()
    kept = kept[np.cumsum(shares) - shares < asked.top_p]
    noise = -np.log(-np.log(uniform(asked.seed, position, kept)))
    return int(kept[np.argmax(scaled[kept] + noise)])


@pytest.mark.parametrize("enter", [resumed, refed])
def test_each_row_draws_as_its_own_request_asks_at_its_own_position(enter: Enter) -> None:
    decoder = ToyDecoder()
    ways = [(1.0, 1.0, 0), (0.0, 1.0, 0), (0.7, 0.5, 0), (1.5, 1.0, 3), (2.0, 0.8, 6)]
    rows = []
    for number in range(20):
        temperature, top_p, top_k = ways[number % len(ways)]
        known = [number, *range(1 + number % 7), 5]
        asked = replace(
            request(number, known, 6), temperature=temperature, top_p=top_p, top_k=top_k
        )
        rows.append(Row(asked, known, 6))
    Schedule(decoder, 7).run(enter(decoder, rows))
    for row in rows:
        for place in range(len(row.tokens) - len(row.drawn), len(row.tokens)):
            logits = decoder.prefill(row.tokens[:place], place).logits
            assert row.tokens[place] == by_definition(logits, row.request, place)


def test_each_row_is_given_as_many_log_probabilities_as_it_asks_for() -> None:
    decoder = ToyDecoder()
    rows = rows_of([1, 1])
    rows[0].request = replace(rows[0].request, top_logprobs=7)
    Schedule(decoder, 2).run(resumed(decoder, rows))
    assert [len(row.top_tokens[0]) for row in rows] == [7, 2]
    assert [len(row.top_logprobs[0]) for row in rows] == [7, 2]


@pytest.mark.parametrize("limit", [0, 2], ids=["looked-up", "drawn"])
def test_logits_that_are_no_numbers_name_the_question(limit: int) -> None:
    decoder = ToyDecoder()
    rows = rows_of([2, 2])
    tokens = [1, 0, POISON, *([4] if limit == 0 else [])]
    rows[1] = Row(request(1, tokens[:3]), tokens, limit)
    with pytest.raises(EngineError, match=r"question q, rollout 1: .*NaN"):
        Schedule(decoder, 2).run(resumed(decoder, rows))
