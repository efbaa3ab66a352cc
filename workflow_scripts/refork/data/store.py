"""Recorded outcome curves in the format that was published with arXiv 2608.19611.

A store is one question: gzip JSON with the base rollout's tokens, the grid, and of every branch of
a position the outcomes and lengths of its continuations. Keys that say nothing of these are kept as
they are, so that a store that is read and written again is the same JSON.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from refork.data.files import write_bytes
from refork.errors import ReforkError, listed
from refork.stats.curves.mixture import NONE, Recording

SUFFIX = ".json.gz"

Index = Annotated[int, Field(ge=0, lt=2**31)]
Probability = Annotated[float, Field(gt=0, le=1 + 1e-6, allow_inf_nan=False)]
_ROUNDING = 1e-4  # of probabilities that add to 1 in half precision


class _Part(BaseModel):
    """A part of a store; keys that are not declared are kept."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class StoreBranch(_Part):
    """Continuations behind one token at one position: a category and a length in tokens each."""

    t: Index
    tok_id: Index
    tok_p: Probability
    is_base: bool
    answers: list[str]
    cont_lens: list[Index] | None = None


class StoreBase(_Part):
    """The base rollout: its token ids."""

    gen_ids: Annotated[list[Index], Field(min_length=1)]


class StoreMeta(_Part):
    """Which question it is: its number, and the set of recordings that it belongs to."""

    row_id: Index
    track: str
    question: str | None = None
    model: str | None = None


class Store(_Part):
    """One question: `idxs` are the positions of the grid, `s` the continuations of a branch."""

    meta: StoreMeta
    s: Annotated[int, Field(ge=1)]
    idxs: Annotated[list[Index], Field(min_length=1)]
    categories: Annotated[list[str], Field(min_length=1)]
    base: StoreBase
    branches: Annotated[list[StoreBranch], Field(min_length=1)]

    @cached_property
    def recording(self) -> Recording:
        """The continuations as arrays; branches in the order of their positions."""
        place_of = {token: place for place, token in enumerate(self.idxs)}
        number_of = {name: number for number, name in enumerate(self.categories)}
        branches = sorted(self.branches, key=lambda branch: branch.t)
        return Recording(
            positions=np.array(self.idxs),
            place=np.array([place_of[branch.t] for branch in branches]),
            probability=np.array([branch.tok_p for branch in branches]),
            is_base=np.array([branch.is_base for branch in branches]),
            outcomes=tuple(
                np.array([number_of[name] for name in branch.answers], dtype=np.int64)
                for branch in branches
            ),
            lengths=tuple(
                np.full(len(branch.answers), NONE)
                if branch.cont_lens is None
                else np.array(branch.cont_lens, dtype=np.int64)
                for branch in branches
            ),
            categories=len(self.categories),
        )


def read_store(path: Path) -> Store:
    """Read one question.

    Raises
    ------
    ReforkError
        The file is absent, not gzip, no JSON, or no whole store; the message lists every fault with
        file and key.
    """
    try:
        content = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ReforkError(f"{path}: not a whole gzip file ({error})") from error
    except OSError as error:
        raise ReforkError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        store = Store.model_validate_json(content)
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise listed([f"{path}: {_place(one['loc'])}{one['msg']}" for one in found]) from error
    faults = [f"{path}: {fault}" for fault in _faults(store)]
    if faults:
        raise listed(faults)
    return store


def write_store(store: Store, path: Path) -> None:
    """Write one question, whole or not at all; the same store is the same bytes.

    Raises
    ------
    ReforkError
        The store contradicts itself, or the file cannot be written.
    """
    faults = [f"{path}: {fault}; nothing was written" for fault in _faults(store)]
    if faults:
        raise listed(faults)
    content = store.model_dump_json(exclude_unset=True).encode()
    write_bytes(path, gzip.compress(content, mtime=0))


def find_stores(paths: Iterable[Path]) -> list[Path]:
    """Find the stores among files and below folders, each once, sorted within a folder.

    Of a folder hidden files are left out, and those below hidden folders.

    Raises
    ------
    ReforkError
        A path does not exist, or a folder holds no store.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise ReforkError(f"{path}: no such file or folder")
        files = [path] if not path.is_dir() else sorted(_shown_below(path))
        if not files:
            raise ReforkError(f"{path}: holds no store (*{SUFFIX})")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _shown_below(folder: Path) -> Iterator[Path]:
    for file in folder.rglob(f"*{SUFFIX}"):
        if not any(part.startswith(".") for part in file.relative_to(folder).parts):
            yield file


def _place(location: tuple[int | str, ...]) -> str:
    """Spell the place of an error as `branches[12].tok_p: `."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location]
    return "".join(steps).removeprefix(".") + ": " if steps else ""


def _faults(store: Store) -> Iterator[str]:
    """Find where parts of a store contradict each other."""
    if len(set(store.categories)) < len(store.categories):
        yield f"categories: {', '.join(store.categories)}: one is there twice"
    if len(store.idxs) < 2:
        yield "idxs: one position only; a curve needs two at least"
    for at, (before, after) in enumerate(zip(store.idxs, store.idxs[1:], strict=False), start=1):
        if after <= before:
            yield f"idxs[{at}]: positions out of order, {after} stands behind {before}"
    if max(store.idxs) >= len(store.base.gen_ids):
        yield (
            f"idxs: {max(store.idxs)} is behind the last of the {len(store.base.gen_ids)} tokens "
            "of base.gen_ids"
        )
    grid, known = set(store.idxs), set(store.categories)
    for number, branch in enumerate(store.branches):
        yield from (f"branches[{number}].{fault}" for fault in _branch_faults(branch, grid, known))
    yield from _position_faults(store)


def _branch_faults(branch: StoreBranch, grid: set[int], known: set[str]) -> Iterator[str]:
    if branch.t not in grid:
        yield f"t: {branch.t} is none of the positions in idxs"
    for number, answer in enumerate(branch.answers):
        if answer not in known:
            yield f"answers[{number}]: {answer!r} is none of the categories"
            break
    if branch.cont_lens is not None and len(branch.cont_lens) != len(branch.answers):
        yield f"cont_lens: {len(branch.cont_lens)} lengths for {len(branch.answers)} answers"


def _position_faults(store: Store) -> Iterator[str]:
    """Find positions without exactly one base branch, without draws, or with too much mass."""
    branches: dict[int, list[StoreBranch]] = {token: [] for token in store.idxs}
    for branch in store.branches:
        branches.setdefault(branch.t, []).append(branch)
    for token, mine in branches.items():
        base = [branch for branch in mine if branch.is_base]
        if len(base) != 1:
            yield f"branches: {len(base)} of position {token} have is_base; one is wanted"
        elif token < len(store.base.gen_ids) and base[0].tok_id != store.base.gen_ids[token]:
            yield (
                f"branches: the base branch of position {token} is token {base[0].tok_id}, "
                f"base.gen_ids has {store.base.gen_ids[token]}"
            )
        total = sum(branch.tok_p for branch in mine)
        if total > 1 + _ROUNDING:
            yield f"branches: tok_p of position {token} add to {total:g}, which is above 1"
        if len(mine) > 1 and not all(branch.answers for branch in mine):
            yield f"branches: a branch of position {token} has no answers"
    if not any(branch.answers for branch in store.branches):
        yield "branches: no answers, an empty question has no curve"
