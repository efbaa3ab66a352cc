"""How the kernels are compiled."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Array = Any
"""A numpy array of uint16, which is bfloat16, or of float32; int64 where it counts things."""
Function = TypeVar("Function", bound=Callable[..., Any])

_SOURCES = hashlib.blake2b(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))),
    digest_size=8,
).hexdigest()


def compiled(
    *, add_in_any_order: bool = False, without_nan: bool = False
) -> Callable[[Function], Function]:
    """Compile a function, and keep what is compiled on disk.

    Where sums may be added in any order, that order is the compiled function's own and never
    changes. Without NaN, comparisons can be made in vectors.
    """
    fast = {"reassoc", "contract", "nsz"} if add_in_any_order else set()
    fast |= {"nnan", "nsz"} if without_nan else set()

    def decorate(function: Function) -> Function:
        # Numba's cache takes notice of changes in a function's own file alone, so the name under
        # which it is kept stands for all files of this folder.
        function.__qualname__ += f"_{_SOURCES}"
        dispatcher: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fast)
        result: Function = dispatcher(function)
        return result

    return decorate
