"""The program of a worker process: takes a service, answers requests with it until the other end closes.

Started by `autosched.measure.workers.process` as ``python -m autosched.measure.workers.worker CONNECTION LIFELINE``,
both file descriptors. When the lifeline closes, the process that asks has ended, and so does this one with all it
started, even in the middle of a kernel that never does.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

COLLECTOR = (50_000, 20, 100)
"""New objects before Python's cycle collector looks at these, such looks before one at those that outlived one, and so
on: with its own thresholds it takes an eighth of the time in which candidates become code, and finds next to nothing.
"""


def serve(connection: Connection[Any, Any]) -> None:
    """Answer requests with the methods of the service that comes first."""
    try:
        service = pickle.loads(connection.recv_bytes())  # from the process that started this one
    except EOFError:
        return
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send("")
    gc.set_threshold(*COLLECTOR)
    gc.freeze()  # what is there now stays
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        connection.send(getattr(service, method)(*arguments))


def end_with(lifeline: int) -> None:
    """Wait for the other end of a pipe to be closed, then end this process and all it started."""
    with contextlib.suppress(OSError):
        os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with, args=(int(sys.argv[2]),), daemon=True).start()
    serve(Connection(int(sys.argv[1])))
