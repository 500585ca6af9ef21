"""Single flight: an item that several processes need is made by one of them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from autosched.errors import CacheError
from autosched.measure.compile.single_flight import MadeElsewhere, once_each, once_in_batches


def key(item: str) -> str:
    return hashlib.sha256(item.encode()).hexdigest()


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_equal_items_are_made_once() -> None:
    made: list[str] = []

    def make(item: str) -> int:
        made.append(item)
        return len(item)

    assert once_each(["a", "bb", "a", "ccc"], key, make) == [1, 2, 1, 3]
    assert made == ["a", "bb", "ccc"]


@contextmanager
def another_process_at(item: str) -> Iterator[Callable[[], None]]:
    """Let another process make an item; yield a function that lets it finish."""
    other = textwrap.dedent(
        """
        import sys
        from autosched.measure.compile.single_flight import once_each
        def make(item):
            print("has it", flush=True)
            sys.stdin.readline()
        once_each(["a"], lambda item: sys.argv[1], make)
        """
    )
    arguments = [sys.executable, "-c", other, key(item)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "has it\n"
        yield process.communicate


def test_what_another_process_is_at_comes_last() -> None:
    made: list[str] = []
    with another_process_at("a") as let_it_end:
        worker = threading.Thread(target=lambda: once_each(["a", "b"], key, made.append))
        worker.start()
        while not made:
            time.sleep(0.001)
        assert made == ["b"]
        let_it_end()
        worker.join(30)
    assert made == ["b", "a"]


def test_who_does_not_wait_for_another_process_makes_the_rest() -> None:
    made: list[str] = []
    with another_process_at("b"):
        with pytest.raises(MadeElsewhere):
            once_each(["a", "b", "c"], key, made.append, wait=False)
        assert made == ["a", "c"]
    once_each(["b"], key, made.append, wait=False)
    assert made == ["a", "c", "b"]


def test_items_are_made_together() -> None:
    made: list[list[str]] = []

    def make(batch: Sequence[str]) -> list[int]:
        made.append(list(batch))
        return [len(item) for item in batch]

    assert once_in_batches(["a", "bb", "a", "ccc", "dddd"], key, make, at_once=3) == [1, 2, 1, 3, 4]
    assert made == [["a", "bb", "ccc"], ["dddd"]]
    made.clear()
    with another_process_at("bb"):
        with pytest.raises(MadeElsewhere):
            once_in_batches(["a", "bb", "ccc", "dddd"], key, make, at_once=3, wait=False)
        assert made == [["a", "ccc", "dddd"]]


def test_keys_that_share_a_lock_are_made_together() -> None:
    made: list[list[str]] = []
    once_in_batches(
        ["a", "b"], lambda item: "0" * 63 + item, lambda batch: made.append(list(batch)) or batch, at_once=2
    )
    assert made == [["a", "b"]]


def test_a_process_that_was_killed_holds_nothing() -> None:
    code = (
        "import os, sys; from autosched.measure.compile.single_flight import once_each;"
        "once_each(['a'], lambda item: sys.argv[1], lambda item: os.kill(os.getpid(), 9))"
    )
    assert subprocess.run([sys.executable, "-c", code, key("a")], check=False).returncode == -9
    assert once_each(["a"], key, len) == [1]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(CacheError, match="AUTOSCHED_CACHE_DIR"):
        once_each(["a"], key, len)
