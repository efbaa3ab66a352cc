"""The synthetic engine: a Markov chain over tokens, whose credits and outcomes are known.

It computes exactly, so a re-fed request draws what the original drew. Replay noise is put in: with
the chance that the settings say, a request draws with another seed.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from refork import __version__
from refork.data.files import atomic_path, canonical_json, file_sha256
from refork.engines.interface import EngineFacts, EngineSettings
from refork.engines.requests import Request, check_requests, read_requests
from refork.engines.seeds import mix, uniform
from refork.engines.synthetic.chain import Floats, Indices, sampling_probabilities
from refork.engines.synthetic.columns import Lists, read_lists, read_numbers, results_table
from refork.engines.synthetic.model import SYNTHETIC_FILE, read_chain
from refork.errors import EngineError

Seeds = NDArray[np.uint64]

# Two salts, so that the two kinds of noise are independent.
_REPLAY_SALT = np.uint64(0x5EED0F4E0F4EED01)
_BATCH_SALT = np.uint64(0x5EED0BA7C4000003)


@dataclass(frozen=True)
class _Requests:
    """A batch group as arrays, one element a request."""

    numbers: Indices  # column `request`
    names: list[str]  # rollout ids
    states: NDArray[np.str_]
    prompt_lengths: Indices
    prefixes: Lists  # token ids
    recorded: Lists  # log-probabilities of their generated parts
    forced: Indices  # token id, -1 for none
    seeds: Seeds
    sampling: NDArray[np.float64]  # temperature, top_p, top_k
    max_tokens: Indices
    top_logprobs: Indices
    keep: NDArray[np.bool_]


@dataclass(frozen=True)
class _Decoded:
    """Generated tokens, request by request: index of each token and the state it was drawn in."""

    lengths: Indices
    tokens: Indices
    states: Indices


class SyntheticEngine:
    """The engine of a folder that `model.write_synthetic_model` wrote."""

    def __init__(self, settings: EngineSettings, model_folder: Path) -> None:
        self._settings = settings
        self._chain, model = read_chain(model_folder)
        with np.errstate(divide="ignore"):
            self._logprobs = np.log(self._chain.transitions).astype(np.float32)
        self._ranked = np.argsort(-self._logprobs, axis=1, kind="stable")
        self.facts = EngineFacts(
            context_length=int(model["max_position_embeddings"]),
            fingerprint={
                "engine": "synthetic",
                "refork": __version__,
                "model": file_sha256(model_folder / SYNTHETIC_FILE),
            },
        )

    def run_group(
        self, requests: pa.Table, snapshots_in: Path | None, snapshots_out: Path | None
    ) -> pa.Table:
        """Run one batch group; see `interface.Engine`."""
        records = read_requests(requests)
        check_requests(records, self.facts.context_length, snapshots_in, snapshots_out)
        group = _as_arrays(requests, records)
        if snapshots_in is not None and "snapshot" in group.states:
            _check_snapshots(group, snapshots_in)
        starts = self._starts(group)
        decoded = self._decode(group, self._first_states(group, starts), self._noisy_seeds(group))
        if snapshots_out is not None and group.keep.any():
            self._write_snapshots(group, decoded, snapshots_out)
        if self._settings.synthetic.step_seconds > 0:
            time.sleep(self._settings.synthetic.step_seconds)
        return self._results(group, decoded, self._fidelity(group, starts))

    def _starts(self, group: _Requests) -> Indices:
        """Return the start state of each request's prompt."""
        known: dict[bytes, int] = {}
        starts = np.empty(len(group.names), dtype=np.int64)
        values, firsts = group.prefixes.values, group.prefixes.firsts
        ends = firsts + group.prompt_lengths
        for index, (first, end) in enumerate(zip(firsts, ends, strict=True)):
            prompt = values[first:end].tobytes()
            if prompt not in known:
                known[prompt] = self._chain.start(values[first:end])
            starts[index] = known[prompt]
        return starts

    def _first_states(self, group: _Requests, starts: Indices) -> Indices:
        """Return the state behind each prefix and its forced token."""
        generated = group.prefixes.lengths > group.prompt_lengths
        last = group.prefixes.firsts + group.prefixes.lengths - 1
        before = np.where(generated, group.prefixes.values[last], -1)
        states = self._chain.indices(np.where(group.forced >= 0, group.forced, before))
        # A token that the chain never generates leads back to the start.
        return np.where(states >= 0, states, starts)

    def _noisy_seeds(self, group: _Requests) -> Seeds:
        noise = self._settings.synthetic
        seeds = _redrawn(group.seeds, group.states == "prefill", noise.replay_noise, _REPLAY_SALT)
        shuffled = np.full(len(seeds), self._settings.shuffled)
        return _redrawn(seeds, shuffled, noise.batch_noise, _BATCH_SALT)

    def _decode(self, group: _Requests, states: Indices, seeds: Seeds) -> _Decoded:
        """Draw by the Gumbel-max trick, all requests side by side, until each has ended."""
        kinds, kind = np.unique(group.sampling, axis=0, return_inverse=True)
        with np.errstate(divide="ignore"):
            scores = np.log(
                [
                    sampling_probabilities(self._chain.transitions, temperature, top_p, int(top_k))
                    for temperature, top_p, top_k in kinds
                ]
            )
        positions = group.prefixes.lengths + (group.forced >= 0)
        alive = np.flatnonzero(states != self._chain.end)
        state, step = states.copy(), 0
        rows, tokens, seen = [alive[:0]], [alive[:0]], [alive[:0]]
        while len(alive):
            noise = uniform(
                seeds[alive, None], positions[alive, None] + step, self._chain.token_ids[None, :]
            )
            gumbel = -np.log(-np.log(noise))
            drawn = np.argmax(scores[kind[alive], state[alive]] + gumbel, axis=1)
            rows.append(alive)
            tokens.append(drawn)
            seen.append(state[alive])
            state[alive] = drawn
            step += 1
            alive = alive[(drawn != self._chain.end) & (step < group.max_tokens[alive])]
        row = np.concatenate(rows)
        order = np.argsort(row, kind="stable")
        return _Decoded(
            lengths=np.bincount(row, minlength=len(states)),
            tokens=np.concatenate(tokens)[order],
            states=np.concatenate(seen)[order],
        )

    def _fidelity(self, group: _Requests, starts: Indices) -> Floats:
        """Return the largest |Δ log-probability| against the recording, NaN where there is none.

        It is 0 where a snapshot is taken over and nothing is fed again.
        """
        rows, values = group.prefixes.rows, group.prefixes.values
        place = np.arange(len(values)) - group.prefixes.firsts[rows]
        behind = place - group.prompt_lengths[rows]
        counted = (behind >= 0) & (group.recorded.lengths[rows] > 0)
        rows, behind = rows[counted], behind[counted]
        previous = self._chain.indices(np.roll(values, 1)[counted])
        states = np.where((behind == 0) | (previous < 0), starts[rows], previous)
        now = self._chain.indices(values[counted])
        logprobs = np.where(now >= 0, self._logprobs[states, now], -np.inf)
        recorded = group.recorded.values[group.recorded.firsts[rows] + behind]
        largest = np.full(len(group.names), -1.0)
        np.maximum.at(largest, rows, np.abs(logprobs - recorded))
        taken_over = (group.states == "snapshot") & (group.forced >= 0)
        return np.where(taken_over, 0.0, np.where(largest < 0, np.nan, largest))

    def _results(self, group: _Requests, decoded: _Decoded, fidelity: Floats) -> pa.Table:
        rows = Lists(decoded.tokens, decoded.lengths).rows
        counts = np.minimum(group.top_logprobs[rows], len(self._chain.token_ids))
        shown = np.arange(counts.max(initial=0))[None, :] < counts[:, None]
        ranked = self._ranked[decoded.states, : shown.shape[1]]
        ends = np.cumsum(decoded.lengths)
        last = np.append(decoded.tokens, -1)[np.where(decoded.lengths > 0, ends - 1, -1)]
        resumed = group.states == "snapshot"
        cached = np.where(resumed, group.prefixes.lengths - (group.forced < 0), 0)
        fed = np.where(group.states == "fresh", 0, group.prefixes.lengths)
        return results_table(
            request=group.numbers,
            tokens=Lists(self._chain.token_ids[decoded.tokens], decoded.lengths),
            logprobs=self._logprobs[decoded.states, decoded.tokens],
            top_token_ids=Lists(self._chain.token_ids[ranked[shown]], counts),
            top_logprobs=np.take_along_axis(self._logprobs[decoded.states], ranked, axis=1)[shown],
            stopped=(last == self._chain.end)
            | (group.forced == self._chain.token_ids[self._chain.end]),
            cached=cached,
            recomputed=fed - cached,
            fidelity=fidelity,
        )

    def _write_snapshots(self, group: _Requests, decoded: _Decoded, path: Path) -> None:
        """Write the history of each rollout: the whole state of a Markov chain, and more."""
        generated = Lists(self._chain.token_ids[decoded.tokens], decoded.lengths)
        histories = {
            group.names[index]: np.concatenate([group.prefixes.row(index), generated.row(index)])
            for index in map(int, np.flatnonzero(group.keep))
        }
        record = canonical_json({"format": 1, "kind": "synthetic"})
        try:
            with atomic_path(path) as temporary:
                save_file(histories, temporary, metadata={"refork": record})
        except SafetensorError as error:
            raise EngineError(f"{path}: cannot be written ({error})") from error


def _as_arrays(requests: pa.Table, records: list[Request]) -> _Requests:
    sampling = [read_numbers(requests[name]) for name in ("temperature", "top_p", "top_k")]
    return _Requests(
        numbers=read_numbers(requests["request"]).astype(np.int64),
        names=[record.rollout_id for record in records],
        states=np.array([record.state for record in records], dtype=np.str_),
        prompt_lengths=read_numbers(requests["prompt_length"]).astype(np.int64),
        prefixes=read_lists(requests["token_ids"]),
        recorded=read_lists(requests["logprobs"]),
        forced=read_numbers(requests["forced_token"], null=-1).astype(np.int64),
        seeds=read_numbers(requests["seed"]).astype(np.uint64),
        sampling=np.stack(sampling, axis=1).astype(np.float64),
        max_tokens=read_numbers(requests["max_tokens"]).astype(np.int64),
        top_logprobs=read_numbers(requests["top_logprobs"]).astype(np.int64),
        keep=requests["keep_snapshot"].to_numpy().astype(np.bool_),
    )


def _redrawn(seeds: Seeds, exposed: NDArray[np.bool_], chance: float, salt: np.uint64) -> Seeds:
    """Give exposed requests another seed with the given chance, decided by the seed itself."""
    other = mix(seeds ^ salt)
    luck = (mix(other) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.where(exposed & (luck < chance), other, seeds)


def _check_snapshots(group: _Requests, path: Path) -> None:
    """Hold every prefix that is resumed against the history that its rollout's snapshot holds."""
    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
            histories = {
                name: file.get_tensor(name) for name in dict.fromkeys(group.names) if name in names
            }
    except (OSError, SafetensorError) as error:
        raise EngineError(f"{path}: not a snapshot file ({error})") from error
    for index in map(int, np.flatnonzero(group.states == "snapshot")):
        name, prefix = group.names[index], group.prefixes.row(index)
        if name not in histories:
            raise EngineError(f"{path}: no snapshot of rollout {name}")
        if not np.array_equal(histories[name][: len(prefix)], prefix):
            raise EngineError(
                f"{path}: the snapshot of rollout {name} has other tokens than its request"
            )
