"""A worker process; a hang, crash or kill loses only the current request."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any

from autosched.errors import MeasureError
from autosched.settings import child_environment

_EXIT_TIMEOUT_S = 5.0
_START_TIMEOUT_S = 120.0
_LAST_WORDS = 2000


class WorkerDied(Exception):
    """The process ended by itself during a request."""


class WorkerTimedOut(Exception):
    """The process did not answer in time and was killed."""


class WorkerProcess:
    """A process that answers requests sequentially; started on demand, and again after its end.

    It is a program of its own (`autosched.measure.workers.worker`), not a fork of this one: it shares no lock, thread
    or CUDA context with this process, and does not run the user's main module. It ends with this process in every
    case. May be used from one thread at a time.

    Args:
        service: Object whose methods answer requests; pickled into the process.
        environment: Additional environment variables of the process.
        start_timeout_s: Time limit of its start, in seconds.

    Attributes:
        starts: Number of started processes.
    """

    def __init__(
        self,
        service: object,
        environment: Mapping[str, str] | None = None,
        *,
        start_timeout_s: float = _START_TIMEOUT_S,
    ) -> None:
        self._service = pickle.dumps(service)
        self._environment = dict(environment or {})
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._lifeline: int | None = None
        self._stderr: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._interrupted = False
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Process ID; None without a process."""
        return None if self._process is None else self._process.pid

    def call(self, method: str, *arguments: object, timeout_s: float | None = None) -> Any:
        """Send a request and return its answer.

        Args:
            method: Method of the service.
            *arguments: Arguments, which are pickled.
            timeout_s: Time limit of the answer, in seconds, without the start.

        Returns:
            The result of the method.

        Raises:
            WorkerDied: If the process ended.
            WorkerTimedOut: At the time limit; the process and its children are killed.
            MeasureError: If no process can be started.
        """
        connection = self._connection or self._start()
        try:
            connection.send((method, arguments))
            if not connection.poll(timeout_s):
                self.kill()
                raise WorkerTimedOut(f"no answer in {timeout_s:g} s")
            answer = connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDied(self._describe_end()) from error
        return answer

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process is not None:
            _kill_group(self._process)
        self._forget()

    def interrupt(self) -> None:
        """End the process from another thread; the current and all later requests raise `WorkerDied`."""
        with self._lock:
            self._interrupted = True
            if self._process is not None:
                _kill_group(self._process)

    def close(self) -> None:
        """End the process and release all resources; no request may follow."""
        self.kill()
        if self._stderr is not None:
            self._stderr.close()

    def _start(self) -> Connection[Any, Any]:
        if self._stderr is None:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        self._stderr.seek(0)
        self._stderr.truncate()
        ours, theirs = Pipe()
        ends_with_us, self._lifeline = os.pipe()
        try:
            with self._lock:
                if self._interrupted:
                    raise WorkerDied("it was interrupted")
                self._process = self._popen(theirs.fileno(), ends_with_us)
        except OSError as error:
            raise MeasureError(f"no worker process can be started: {error}") from error
        finally:
            theirs.close()
            os.close(ends_with_us)
        self._connection = ours
        self.starts += 1
        try:
            ours.send_bytes(self._service)
            if not ours.poll(self._start_timeout_s):
                self.kill()
                raise MeasureError(f"a worker did not start in {self._start_timeout_s:g} s")
            problem = ours.recv()
        except (EOFError, OSError) as error:
            words = self._describe_end()
            raise (WorkerDied if self._interrupted else MeasureError)(f"a worker does not start: {words}") from error
        if problem:
            self.kill()
            raise MeasureError(f"a worker does not start: {problem}")
        return ours

    def _popen(self, connection: int, lifeline: int) -> subprocess.Popen[bytes]:
        # -P: a file in the current directory must not shadow a module; sys.path is passed instead
        paths = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "autosched.measure.workers.worker", str(connection), str(lifeline)],
            pass_fds=[connection, lifeline],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            env=child_environment(**{"PYTHONPATH": paths, **self._environment}),
            start_new_session=True,  # a process group, so that its children can be killed too
        )

    def _describe_end(self) -> str:
        """Release a process that ended and return a description of its end."""
        process = self._process
        code: int | None = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_EXIT_TIMEOUT_S)
            _kill_group(process)
        self._forget()
        reason = "it was stopped" if code is None else _reason(code)
        words = "" if self._stderr is None else _last_words(self._stderr)
        return f"the process ended ({reason})" + (f":\n{words}" if words else "")

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        lifeline, self._lifeline = self._lifeline, None
        self._process = None
        if connection is not None:
            connection.close()
        if lifeline is not None:
            os.close(lifeline)


def _last_words(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(file.tell() - _LAST_WORDS, 0))
    return file.read().decode(errors="replace").strip()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a worker."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
