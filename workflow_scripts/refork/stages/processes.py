"""Several processes of one job, forked before anything large is loaded.

They share what the job has read and send it lines of text; nothing else passes between them. None
outlives the job, whatever ends it, and the first error ends them all.
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from refork.errors import EngineError, ReforkError

Tell = Callable[[str], None]
"""Sends a line to the process that forked this one."""

_FORK = multiprocessing.get_context("fork")
_LINE, _ERROR = b"l", b"e"


def run_in_processes(shares: Sequence[Callable[[Tell], None]], heard: Tell) -> None:
    """Run each share in a process of its own; give `heard` every line that a share tells.

    Raises
    ------
    EngineError
        A share ended in a `ReforkError`, whose words these are, or its process was ended. The
        processes of the others are ended then.
    """
    processes: dict[Connection, ForkProcess] = {}
    try:
        for share in shares:
            listening, telling = _FORK.Pipe(duplex=False)
            process = _FORK.Process(target=_run, args=(share, telling))
            processes[listening] = process
            with warnings.catch_warnings():
                # The threads that Python warns of are Arrow's, which starts them anew in a fork.
                warnings.filterwarnings("ignore", ".* is multi-threaded", DeprecationWarning)
                process.start()
            telling.close()  # so that the line ends with the process
        _listen(dict(processes), heard)
    finally:
        for listening, process in processes.items():
            if process.pid is not None:
                process.kill()  # what a share has finished it has written whole
                process.join()
            listening.close()


def _listen(processes: dict[Connection, ForkProcess], heard: Tell) -> None:
    while processes:
        ready = wait(processes)
        for listening in [each for each in processes if each in ready]:
            try:
                message = listening.recv_bytes()
            except EOFError:
                _raise_if_broken(processes.pop(listening))
                continue
            kind, text = message[:1], message[1:].decode()
            if kind == _ERROR:
                raise EngineError(text)
            heard(text)


def _raise_if_broken(process: ForkProcess) -> None:
    process.join()
    status = process.exitcode or 0
    if status > 0:
        raise EngineError(f"a process of this job ended with status {status}; its error is above")
    if status < 0:
        raise EngineError(
            f"a process of this job was ended by {signal.Signals(-status).name}; where memory ran "
            "out, lower engine.processes or engine.batch_rows, or use a machine with more of it"
        )


def _run(share: Callable[[Tell], None], telling: Connection) -> None:
    # An interrupt reaches every process of a terminal; the job answers it and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        share(lambda text: telling.send_bytes(_LINE + text.encode()))
    except ReforkError as error:
        telling.send_bytes(_ERROR + str(error).encode())


def _end_with_parent() -> None:
    # Later siblings hold this end open too: the last one goes first, and so the line runs back.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
