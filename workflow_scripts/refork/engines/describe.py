"""What an engine is on this machine, told without loading a model.

`python -m refork.engines.describe --kind KIND --device DEVICE` runs in the engine's environment.
"""

import argparse
import importlib.util
import json
from importlib.metadata import version
from typing import Any

from refork.errors import EngineError, exit_in_words

# Raised by one when an engine of ours draws other tokens from the same requests.
ENGINE_VERSIONS = {"torch": 1, "synthetic": 1}


def describe(kind: str, device: str) -> dict[str, Any]:
    """Settle `auto` and return kind, device, version and block size of an engine.

    The block size is the number of tokens by which a decode-time state is resumed: 1 where any
    position can be resumed.

    Raises
    ------
    EngineError
        The engine, or the device, is not there.
    """
    if kind == "auto":
        kind = "torch"
    if kind == "synthetic":
        return _described(kind, "cpu", [])
    if importlib.util.find_spec("torch") is None:
        raise EngineError(
            "engine.kind: torch is not installed in this environment; install envs/torch.txt, "
            "or name the interpreter that has it in engine.python"
        )
    import torch  # noqa: PLC0415 - only there if this engine is

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise EngineError(
            "engine.device: is 'cuda', but torch finds no GPU here; allowed: auto, cpu"
        )
    return _described(kind, device, ["torch", "transformers"])


def _described(kind: str, device: str, packages: list[str]) -> dict[str, Any]:
    versions = [f"{package} {version(package)}" for package in packages]
    return {
        "kind": kind,
        "device": device,
        "version": ", ".join([f"{kind} engine {ENGINE_VERSIONS[kind]}", *versions]),
        "block_size": 1,
    }


@exit_in_words
def main() -> int:
    """Print the description as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--device", required=True)
    arguments = parser.parse_args()
    print(json.dumps(describe(arguments.kind, arguments.device)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
