"""How a workflow opens its study: config, lock, graph, and the hold on the results folder."""

import fcntl
import getpass
import os
import socket
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from refork.errors import ReforkError
from refork.study.folders import link_names, write_records
from refork.study.graph import Graph, build_graph
from refork.study.loading import load_study, read_yaml
from refork.study.lock import make_lock_if_absent, read_lock


def open_study(config: Mapping[str, Any], origin: str) -> Graph:
    """Check a config, make its lock where there is none, and lay its stages out.

    Raises
    ------
    ReforkError
        The config is wrong, or the lock does not fit it any more.
    """
    if Path(origin).is_file():
        read_yaml(Path(origin))  # of a key that stands twice, Snakemake took the last
    study = load_study(config, origin)
    make_lock_if_absent(study)
    return build_graph(study, read_lock(study))


def begin_run(graph: Graph) -> IO[str]:
    """Hold the results folder, explain every stage folder, and set the readable names.

    The hold lasts as long as the returned file is open, at most as long as the process lives.
    """
    held = hold_results(graph.root)
    write_records(graph)
    link_names(graph)
    return held


def hold_results(root: Path) -> IO[str]:
    """Take the results folder for this run.

    Raises
    ------
    ReforkError
        Another run holds it; the message says whose.
    """
    path = root / ".held-by"
    try:
        root.mkdir(parents=True, exist_ok=True)
        # Open without truncation: what stands there tells who holds the folder.
        held = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
    except OSError as error:
        raise ReforkError(
            f"{root}: the results folder cannot be written ({error.strerror})"
        ) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = held.read().strip()
        held.close()
        raise ReforkError(
            f"{root}: another run is at work in this results folder: {holder}\n"
            "  wait until it ends, or name another folder in the config key `results`"
        ) from None
    held.seek(0)
    held.truncate()
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    held.write(f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}, since {now}\n")
    held.flush()
    return held
