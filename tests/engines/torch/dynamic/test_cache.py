"""Rows in one padded buffer."""

import pytest
import torch

from refork.engines.torch.dynamic.cache import RESERVE, RowCache

LAYERS, HEADS, WIDTH = 2, 3, 4


class Twin:
    """A cache beside the plain list of states that it should hold."""

    def __init__(self, capacity: int) -> None:
        self.generator = torch.Generator().manual_seed(0)
        self.cache = RowCache(capacity, self.state(0))
        self.states: list[torch.Tensor] = []

    def state(self, tokens: int) -> torch.Tensor:
        """Return a state of random numbers."""
        shape = (LAYERS, 2, HEADS, tokens, WIDTH)
        return torch.randn(shape, generator=self.generator)

    def enter(self, tokens: int, of: int) -> None:
        """Add a row from a part of a state."""
        state = self.state(of)
        self.cache.enter(state, tokens)
        self.states.append(state[:, :, :, :tokens])

    def step(self) -> None:
        """Write a token to every row, and look at what the model would be given."""
        step = self.cache.step()
        lengths = [state.shape[3] for state in self.states]
        padding = [step.attention_mask.shape[1] - length - 1 for length in lengths]
        assert (~step.attention_mask).sum(dim=1).tolist() == padding
        assert step.position_ids[:, 0].tolist() == lengths
        new = [self.state(1) for _ in self.states]
        for layer in range(LAYERS):
            keys, values = torch.stack(new, dim=2)[layer]
            held, _ = step.cache.update(keys, values, layer)
            for place, state in enumerate(self.states):
                assert torch.equal(held[place, :, padding[place] : -1], state[layer, 0])
        pairs = zip(self.states, new, strict=True)
        self.states = [torch.cat([state, token], dim=3) for state, token in pairs]
        self.compare()

    def drop(self, place: int) -> None:
        """Drop a row."""
        self.cache.drop(place)
        self.states[place] = self.states[-1]
        self.states.pop()
        self.compare()

    def compare(self) -> None:
        """Assert that the cache holds what it should."""
        for place, state in enumerate(self.states):
            assert torch.equal(self.cache.state(place), state)


def test_rows_keep_their_states_when_others_leave_and_the_buffer_grows() -> None:
    twin = Twin(4)
    for tokens in (5, 9, 1, 7):
        twin.enter(tokens, tokens)
    for count in range(2 * RESERVE + 5):
        twin.step()
        if count in (3, 40, 150):
            twin.drop(1)


def test_rows_of_any_length_join_later() -> None:
    twin = Twin(3)
    twin.enter(2, 6)
    twin.step()
    twin.enter(40, 40)  # longer than what is there
    twin.step()
    twin.enter(3 * RESERVE, 4 * RESERVE)  # longer than the buffer
    twin.step()
    twin.drop(0)
    twin.enter(0, 3)
    twin.step()
    for _ in range(3):
        twin.drop(0)
    twin.enter(7, 7)  # into an empty cache
    twin.step()


def test_no_more_rows_than_places() -> None:
    twin = Twin(1)
    twin.enter(3, 3)
    with pytest.raises(ValueError, match="no place"):
        twin.enter(3, 3)
