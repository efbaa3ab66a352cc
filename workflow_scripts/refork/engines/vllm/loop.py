"""Stepping vLLM: requests enter in their order as soon as there is a row."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from refork.engines.sampling import LogitsError
from refork.engines.vllm.group_requests import VllmRequest
from refork.errors import EngineError


@dataclass(frozen=True)
class Done:
    """A request of vLLM that has finished."""

    request: VllmRequest
    tokens: list[int]
    cached_tokens: int  # tokens of its prompt that were found in the cache


class Loop:
    """Runs requests, at most `rows` at once, and fills steps of fewer rows up to `filler_rows`.

    All of it is a function of the requests and their order: vLLM starts what it is given at its
    next step, in that order.
    """

    def __init__(self, engine: Any, rows: int, filler_rows: int, filler: VllmRequest) -> None:
        """Take vLLM's engine (`LLM.llm_engine`)."""
        from vllm import SamplingParams  # noqa: PLC0415 - only there if this engine is
        from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

        self._engine, self._rows, self._filler_rows = engine, rows, filler_rows
        self._sampling, self._last = SamplingParams, RequestOutputKind.FINAL_ONLY
        self._numbers = count()
        self._filler, self.fillers_entered = filler, 0
        self._fillers: list[str] = []
        self._live: dict[str, VllmRequest] = {}
        self._keeps = False

    def run(self, requests: Iterator[VllmRequest]) -> Iterator[Done]:
        """Run requests to their ends; give each as it finishes.

        Raises
        ------
        EngineError
            The model's logits are no numbers to draw from; the message names the question.
        """
        self._admit(requests)
        while self._live:
            self._fill()
            for output in self._step():
                request = self._live.pop(output.request_id, None)
                if request is None:
                    self._fillers.remove(output.request_id)
                else:
                    tokens = list(output.outputs[0].token_ids)
                    yield Done(request, tokens, output.num_cached_tokens or 0)
            self._admit(requests)

    def stop(self) -> None:
        """Abort what still runs: fillers, or all of a group that failed.

        Where states are kept, a step in which nothing runs copies the last of them.
        """
        self._engine.abort_request([*self._live, *self._fillers])
        self._live.clear()
        self._fillers.clear()
        if self._keeps:
            self._engine.step()

    def _admit(self, requests: Iterator[VllmRequest]) -> None:
        while len(self._live) < self._rows:
            request = next(requests, None)
            if request is None:
                return
            self._live[self._add(request)] = request

    def _fill(self) -> None:
        """Give the next step as many fillers as it lacks rows, and no more."""
        lacking = max(0, self._filler_rows - len(self._live))
        if len(self._fillers) > lacking:
            self._engine.abort_request(self._fillers[lacking:])
            del self._fillers[lacking:]
        while len(self._fillers) < lacking:
            self._fillers.append(self._add(self._filler))
            self.fillers_entered += 1

    def _step(self) -> list[Any]:
        """Step, and give what has finished."""
        try:
            outputs = self._engine.step()
        except (LogitsError, RuntimeError) as error:
            # Of a worker in another process vLLM hands over a RuntimeError with its words.
            fault = LogitsError.told(error)
            if fault is None:
                raise
            names = {one.key: one.name for one in self._live.values()}
            raise EngineError(f"{names[fault.row]}: {fault.WORDS}") from error
        return [output for output in outputs if output.finished]

    def _add(self, request: VllmRequest) -> str:
        """Hand a request to vLLM."""
        number = str(next(self._numbers))
        parameters = self._sampling(
            temperature=0.0,
            max_tokens=request.max_tokens,
            stop_token_ids=sorted(request.ends),
            ignore_eos=True,
            detokenize=False,
            skip_reading_prefix_cache=not request.reads_cache,
            output_kind=self._last,
            extra_args=_extra_arguments(request),
        )
        prompt = {"prompt_token_ids": request.prompt, "cache_salt": request.salt}
        self._keeps |= request.transfer is not None and request.transfer.keeps
        self._engine.add_request(number, prompt, parameters)
        return number


def _extra_arguments(request: VllmRequest) -> dict[str, Any] | None:
    """Pack what the worker and the connector are told."""
    told = [part.packed() for part in (request.instructions, request.transfer) if part is not None]
    return {name: value for part in told for name, value in part.items()} or None
