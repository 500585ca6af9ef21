"""Program of a worker process: receive a service, and answer requests with it until the connection closes.

Started by `autosched.measure.workers.process` as ``python -m autosched.measure.workers.worker CONNECTION LIFELINE``,
both file descriptors. The lifeline closes when the parent ends; this process then ends with all its children, even
during a kernel that never terminates.
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
"""Thresholds of Python's cycle collector, which with its defaults takes much of the time of compiling candidates and
collects hardly anything.
"""


def serve(connection: Connection[Any, Any]) -> None:
    """Answer requests with the methods of the service, which is the first message."""
    try:
        service = pickle.loads(connection.recv_bytes())  # from the parent process
    except EOFError:
        return
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send("")
    gc.set_threshold(*COLLECTOR)
    gc.freeze()  # exclude existing objects from collection
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        connection.send(getattr(service, method)(*arguments))


def end_with(lifeline: int) -> None:
    """Wait until the other end of a pipe is closed, then end this process and its children."""
    with contextlib.suppress(OSError):
        os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with, args=(int(sys.argv[2]),), daemon=True).start()
    serve(Connection(int(sys.argv[1])))
