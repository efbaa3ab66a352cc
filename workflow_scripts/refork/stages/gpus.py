"""GPUs of a workstation, leased: no two jobs run on one.

A lease is a lock on a file a device, which ends with the processes that hold it, whatever ends
them. It is taken before torch is imported, for then CUDA_VISIBLE_DEVICES says what torch will see.
"""

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from refork.errors import EngineError

SECONDS_BETWEEN_TRIES = 0.5
SHARED = Path("/tmp/refork-gpus")
"""Folder of locks, a user's id behind it: TMPDIR is not the same in every session of a user."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
_LISTED = re.compile(r"^GPU (\d+): (.+) \(UUID: (\S+)\)$", re.MULTILINE)
_HELD: list[IO[str]] = []
"""The locks of this process, open as long as it lives: so long it may use its GPUs."""


@dataclass(frozen=True)
class Gpu:
    """A device as nvidia-smi lists it."""

    index: int
    name: str
    uuid: str


def lease_gpus(
    count: int,
    hardware: str,
    gpus: Sequence[Gpu] | None = None,
    folder: Path | None = None,
) -> None:
    """Wait for free GPUs, and let this process and those that it starts see no others.

    A job takes what it was given by CUDA_VISIBLE_DEVICES or by SLURM; where the variable names more
    GPUs than one job asks for, jobs that run side by side lease them among each other.

    Parameters
    ----------
    count
        How many.
    hardware
        The locked hardware: of unlike GPUs, only those that it names are taken.
    gpus
        The devices of this machine; None: those that nvidia-smi lists.
    folder
        Of the locks; None: one that all jobs of this user on this machine share.

    Raises
    ------
    EngineError
        The machine has too few of these GPUs.
    """
    given = os.environ.get(VISIBLE)
    named = None if given is None else given.split(",")
    if count == 0 or (len(named) <= count if named else "SLURM_JOB_ID" in os.environ):
        return
    found = list_gpus() if gpus is None else gpus
    if named:
        found = [gpu for gpu in found if str(gpu.index) in named or gpu.uuid in named]
    alike = [gpu for gpu in found if hardware.startswith(gpu.name)] or found
    if len(alike) < count:
        names = ", ".join(gpu.name for gpu in alike) or "none"
        raise EngineError(
            f"a job asks for {count} GPUs, but {len(alike)} of a kind can be had here ({names}); "
            "lower engine.vllm.tensor_parallel or `gpu` in resources, or use a larger machine"
        )
    leased = _wait_for(count, alike, folder or _shared_folder())
    indices = ",".join(str(gpu.index) for gpu in leased)
    os.environ |= {VISIBLE: indices, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    print(f"refork: runs on GPU {indices}", file=sys.stderr, flush=True)


def list_gpus() -> list[Gpu]:
    """List the devices of this machine, without torch.

    Raises
    ------
    EngineError
        nvidia-smi is not there, or fails.
    """
    try:
        told = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EngineError(
            f"the GPUs of this machine cannot be listed (nvidia-smi -L: {error}); name in "
            f"{VISIBLE} the one that a job may use, and run one job at a time"
        ) from error
    return [Gpu(int(index), name, uuid) for index, name, uuid in _LISTED.findall(told.stdout)]


def _wait_for(count: int, gpus: Sequence[Gpu], folder: Path) -> list[Gpu]:
    """Take the locks of `count` devices.

    One job at a time collects: whoever waits for several is not overtaken by those that want one,
    and no two hold a part of what each other needs.
    """
    waits = False
    queue: IO[str] | None = None
    leased: dict[int, IO[str]] = {}
    while True:
        queue = queue or _lock(folder / "queue")
        if queue is not None:
            for gpu in gpus:
                if gpu.index not in leased and len(leased) < count:
                    held = _lock(folder / gpu.uuid)
                    if held is not None:
                        leased[gpu.index] = held
            if len(leased) == count:
                break
        if not waits:
            waits = True
            print(
                f"refork: waits for {count} of {len(gpus)} GPUs, which other jobs have leased",
                file=sys.stderr,
                flush=True,
            )
        time.sleep(SECONDS_BETWEEN_TRIES)
    queue.close()
    _HELD.extend(leased.values())
    return [gpu for gpu in gpus if gpu.index in leased]


def _lock(path: Path) -> IO[str] | None:
    """Lock a file; None where another process has."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A cleaner of temporary files may have taken away what was opened.
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
    except BlockingIOError:
        pass
    file.close()
    return None


def _shared_folder() -> Path:
    """Return the folder of this user's locks, and make it where it is not there.

    Raises
    ------
    EngineError
        Someone else has made it.
    """
    folder = SHARED.with_name(f"{SHARED.name}-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise EngineError(f"{folder}: belongs to another user; GPUs cannot be leased")
    return folder
