"""Worker processes for parts of a step; a worker that crashes or hangs does not affect other workers."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autosched.errors import MeasureError
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut

_POLL_S = 0.2
_NO_LIMIT = 1 << 30


@dataclass(frozen=True)
class Lost:
    """A part without a result.

    Attributes:
        message: The fate of its process.
    """

    message: str


def do_parts(
    service: object,
    method: str,
    parts: Iterable[tuple[str, Any]],
    *,
    processes: int,
    limit_s: float,
    deadline: float,
    environment: Mapping[str, str] | None = None,
    ahead: int | None = None,
) -> Generator[tuple[str, Any | Lost], None, None]:
    """Yield the name of each part with its result, in order of completion.

    Parts that are unfinished at the deadline are not yielded. Processes are started on demand.

    Args:
        service: Object whose method processes a part; pickled into each process.
        method: Name of the method; its argument is that of the part.
        parts: Names and arguments.
        processes: Most processes.
        limit_s: Seconds for one part, after which its process is killed.
        deadline: End of the work, by `time.monotonic`.
        environment: Additional environment variables of the processes.
        ahead: Most parts that may be in progress or done before they are consumed (default: no limit).
    """
    todo, lock = iter(parts), threading.Lock()
    room = threading.Semaphore(_NO_LIMIT if ahead is None else ahead)
    ended = threading.Event()
    done: queue.SimpleQueue[tuple[str, Any | Lost]] = queue.SimpleQueue()
    workers = [WorkerProcess(service, environment) for _ in range(processes)]

    def work(worker: WorkerProcess) -> None:
        while not ended.is_set() and (left := deadline - time.monotonic()) > 0:
            if not room.acquire(timeout=min(left, _POLL_S)):
                continue
            with lock:
                part = next(todo, None)
            if part is None:
                return
            name, argument = part
            try:
                found = worker.call(method, argument, timeout_s=min(limit_s, left))
            except WorkerTimedOut:
                if time.monotonic() >= deadline:
                    return
                found = Lost(f"it did not end in {limit_s:g} s; its process was killed")
            except (WorkerDied, MeasureError) as error:
                found = Lost(str(error))
            done.put((name, found))

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        while any(t.is_alive() for t in threads) or not done.empty():
            try:
                found = done.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            room.release()
            yield found
    finally:
        ended.set()
        for worker in workers:
            worker.interrupt()
        for thread in threads:
            thread.join()
        for worker in workers:
            worker.close()
