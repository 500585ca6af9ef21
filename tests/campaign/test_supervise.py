"""Child processes with time limits, and worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from campaign.child_process import run_child
from campaign.worker_pool import Lost, do_parts

from tests.campaign.fake_services import Doer


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_child_over_its_time_limit_is_killed_with_its_children(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "a.txt"
    ended = run_child(["sh", "-c", "sleep 60 & echo $!; wait"], 0.5, log)
    assert ended.killed
    assert ended.code == -9
    assert 0.4 < ended.seconds < 10
    grandchild = int(ended.tail)
    until = time.monotonic() + 5
    while is_running(grandchild) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_running(grandchild)


def test_a_signal_during_the_start_of_a_child_ends_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    really = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(really(*arguments, **options))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[0]

    def end(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGTERM, end)
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    try:
        with pytest.raises(InterruptedError):
            run_child(["sleep", "60"], 30.0, tmp_path / "log.txt")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert started[0].poll() == -signal.SIGKILL


def test_a_childs_output_and_exit_code_are_returned(tmp_path: Path) -> None:
    program = "import sys; print('x' * 9000); print('the end', file=sys.stderr); sys.exit(7)"
    ended = run_child([sys.executable, "-c", program], 30.0, tmp_path / "log.txt", env={"PATH": os.environ["PATH"]})
    assert (ended.code, ended.killed) == (7, False)
    assert ended.tail.endswith("the end")
    assert len(ended.tail) <= 4000


def test_parts_are_done_although_some_crash_or_hang() -> None:
    parts = [("a", 1), ("b", "crash"), ("c", 2), ("d", "hang"), ("e", 3)]
    found = dict(do_parts(Doer(), "do", parts, processes=2, limit_s=1.0, deadline=time.monotonic() + 60))
    assert {name: v for name, v in found.items() if not isinstance(v, Lost)} == {"a": 2, "c": 4, "e": 6}
    assert "exit code 3" in found["b"].message
    assert "did not end in 1 s" in found["d"].message


def test_parts_after_the_deadline_are_left_for_a_later_call() -> None:
    started = time.monotonic()
    for deadline in (started, started + 0.7):
        assert list(do_parts(Doer(), "do", [("late", "hang")], processes=1, limit_s=30.0, deadline=deadline)) == []
    assert time.monotonic() - started < 20


def test_parts_in_progress_are_limited() -> None:
    taken: list[int] = []

    def parts() -> object:
        for k in range(100):
            taken.append(k)
            yield str(k), k

    doing = do_parts(Doer(), "do", parts(), processes=1, limit_s=5.0, deadline=time.monotonic() + 60, ahead=2)  # type: ignore[arg-type]
    assert next(doing) == ("0", 0)
    time.sleep(0.5)
    doing.close()  # type: ignore[attr-defined]
    assert len(taken) <= 4


def test_a_part_is_lost_if_no_process_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    ((name, found),) = do_parts(Doer(), "do", [("a", 1)], processes=1, limit_s=5.0, deadline=time.monotonic() + 60)
    assert name == "a"
    assert "no worker process can be started" in found.message
