"""Compile many sources in parallel, in processes whose hangs and crashes lose no other source."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from autosched.errors import CacheError, CompileError
from autosched.runtime.compile.nvrtc import Cubin, NvrtcOptions, cached_cubin, compile_cubin, cubin_key
from autosched.settings import child_environment, settings

_WORTH_A_PROCESS = 4
"""Below this many sources, starting a process costs more than it saves."""

_EXIT_TIMEOUT_S = 5.0


class CompileBudgetError(CompileError):
    """The time limit of several sources ended before this one was compiled."""


@dataclass(frozen=True, slots=True)
class _Request:
    source: str
    arch: str
    options: NvrtcOptions
    name: str
    key: str

    def as_json(self) -> bytes:
        fields = {"source": self.source, "arch": self.arch, "options": asdict(self.options), "name": self.name}
        return json.dumps(fields).encode()


def compile_many(
    sources: Sequence[str],
    arch: str,
    options: NvrtcOptions | None = None,
    *,
    names: Sequence[str] | None = None,
    processes: int | None = None,
    timeout_s: float | None = None,
    total_s: float | None = None,
) -> list[Cubin | CompileError]:
    """Compile sources in parallel processes; a source that fails does not stop the rest.

    Args:
        sources: CUDA C++ texts; equal ones are compiled once.
        arch: Architecture to compile for, e.g. "sm_90".
        options: Compiler options; the defaults when left out.
        names: A C identifier for each source, as in `compile_cubin`.
        processes: Number of processes; from the settings when left out.
        timeout_s: Time limit of one source in seconds. With a limit even a single source is compiled in
            another process, since a compiler that hangs can only be killed.
        total_s: Time limit of all sources together in seconds, with the start of processes. Sources that are not in the
            cache by then get a `CompileBudgetError`.

    Returns:
        For each source, in order, its cubin or its error (rejected, crashed, timed out).

    Raises:
        CompileError: If NVRTC is missing or does not support `arch`.
        CacheError: If the cache directory cannot be written.
    """
    options = options or NvrtcOptions()
    names = names or ["kernel"] * len(sources)
    requests = [
        _Request(source, arch, options, name, cubin_key(source, arch, options, name))
        for source, name in zip(sources, names, strict=True)
    ]
    end = None if total_s is None else time.monotonic() + total_s
    results: dict[str, Cubin | CompileError] = {}
    missing: dict[str, _Request] = {}
    for request in requests:
        if request.key not in results and request.key not in missing:
            cubin = cached_cubin(request.key, arch)
            if cubin is None:
                missing[request.key] = request
            else:
                results[request.key] = cubin
    processes = min(processes or settings().compile_jobs, len(missing))
    if timeout_s is None and end is None and (processes < 2 or len(missing) < _WORTH_A_PROCESS):
        results |= {key: _compile_here(request) for key, request in missing.items()}
    elif missing:
        results |= _compile_in_processes(list(missing.values()), processes, timeout_s, end)
    return [results[request.key] for request in requests]


def _compile_here(request: _Request) -> Cubin | CompileError:
    try:
        return compile_cubin(request.source, request.arch, request.options, name=request.name)
    except CompileError as error:
        return error


def _compile_in_processes(
    requests: list[_Request], processes: int, timeout_s: float | None, end: float | None
) -> dict[str, Cubin | CompileError]:
    waiting: queue.SimpleQueue[_Request] = queue.SimpleQueue()
    for request in requests:
        waiting.put(request)
    results: dict[str, Cubin | CompileError] = {}
    stop = threading.Event()

    def work() -> None:
        with _Worker(end) as worker:
            while not stop.is_set():
                try:
                    request = waiting.get_nowait()
                except queue.Empty:
                    return
                results[request.key] = worker.compile(request, timeout_s)

    with ThreadPoolExecutor(processes) as threads:
        futures = [threads.submit(work) for _ in range(processes)]
        try:
            for future in futures:
                future.result()
        except BaseException:  # an interrupt must not wait for the whole queue either
            stop.set()
            raise
    return results


class _Worker:
    """One compiler process, started when first needed and again after a crash."""

    def __init__(self, end: float | None = None) -> None:
        self._end_at = end
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[bytes, bytes] | None = None
        self._ready = False
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed on exit

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(_EXIT_TIMEOUT_S if self._end_at is None else 0)
        self._stderr.close()

    def compile(self, request: _Request, timeout_s: float | None) -> Cubin | CompileError:
        if self._left() == 0:
            return _out_of_time(request)
        connection = self._connection or self._start()
        try:
            if not self._ready:
                if not connection.poll(self._left()):
                    self._end(0)
                    return _out_of_time(request)
                connection.recv_bytes()  # the start of a process does not count for the source
                self._ready = True
            connection.send_bytes(request.as_json())
            left = self._left()
            if not connection.poll(min((t for t in (timeout_s, left) if t is not None), default=None)):
                self._end(0)
                if timeout_s is None or (left is not None and left < timeout_s):
                    return _out_of_time(request)
                return CompileError(
                    f"NVRTC did not compile {request.name}.cu for {request.arch} in {timeout_s:g} s and was stopped",
                    source=request.source,
                )
            answer = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            exit_code = self._end(_EXIT_TIMEOUT_S)
            return CompileError(
                f"the compiler process ended on {request.name}.cu for {request.arch} (exit code {exit_code})",
                source=request.source,
                log=self._last_words(),
            )
        return _result(request, answer)

    def _left(self) -> float | None:
        """Return the seconds left for all sources, None without a limit."""
        return None if self._end_at is None else max(self._end_at - time.monotonic(), 0.0)

    def _start(self) -> Connection[bytes, bytes]:
        self._stderr.seek(0)
        self._stderr.truncate()
        ours, theirs = Pipe()
        # -P: a file in the current directory must not shadow a module; sys.path is passed instead
        paths = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "autosched.runtime.compile.nvrtc_worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=child_environment(PYTHONPATH=paths),
            )
        self._connection = ours
        return ours

    def _end(self, patience_s: float) -> int | None:
        """Close the connection, kill the process after a grace period, and return its exit code."""
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        self._ready = False
        if connection is None or process is None:
            return None
        connection.close()  # the process exits at the end of file
        try:
            return process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _last_words(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()[-4000:].decode(errors="replace").strip()


def _out_of_time(request: _Request) -> CompileBudgetError:
    return CompileBudgetError(
        f"the time to compile ended before NVRTC compiled {request.name}.cu for {request.arch}", source=request.source
    )


def _result(request: _Request, answer: dict[str, str]) -> Cubin | CompileError:
    if answer.get("kind") == "cache":
        raise CacheError(answer["message"])
    if answer:
        return CompileError(answer["message"], source=request.source, log=answer["log"])
    cubin = cached_cubin(request.key, request.arch)
    if cubin is None:
        return CompileError(f"the cubin of {request.name}.cu left the cache before it was read: compile it again")
    return cubin
