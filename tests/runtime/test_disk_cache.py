"""The on-disk cache: entries are whole, whichever processes write and whenever they are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autosched.errors import CacheError, CompileError
from autosched.runtime.compile.cache import DiskCache, cache_key, cache_usage, cached_kinds, clear_cache
from autosched.settings import child_environment

pytestmark = pytest.mark.usefixtures("cache_dir")

KEY = cache_key(source="int x;")
OTHER = cache_key(source="int y;")


def _leftovers(root: Path) -> list[Path]:
    return list(root.rglob(".writing-*"))


def test_a_key_depends_on_names_values_and_types() -> None:
    keys = {
        cache_key(a=1, b=2),
        cache_key(a=2, b=1),
        cache_key(a="1", b=2),
        cache_key(a=[1, 2]),
        cache_key(a=None, b=2),
        cache_key(ab=12),
    }
    assert len(keys) == 6
    assert cache_key(a=1, b=2) == cache_key(b=2, a=1)
    assert all(len(key) == 64 for key in keys)


def test_a_key_depends_on_the_package_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.compile.cache.__version__", "0.0.0-other")
    assert cache_key(source="int x;") != KEY


def test_put_then_get(cache_dir: Path) -> None:
    cache = DiskCache("cubin", suffix=".cubin")
    assert cache.get(KEY) is None
    path = cache.put(KEY, b"content")
    assert path.is_relative_to(cache_dir / "cubin")
    assert path.suffix == ".cubin"
    assert cache.get(KEY) == path
    assert cache.get_bytes(KEY) == path.read_bytes() == b"content"
    assert cache.get(OTHER) is None
    assert DiskCache("library", suffix=".cubin").get(KEY) is None
    assert not _leftovers(cache_dir)


def test_a_writer_function_writes_the_file_itself() -> None:
    cache = DiskCache("library", suffix=".so")

    def build(target: Path) -> None:
        target.write_text("built")

    path = cache.put(KEY, build)
    assert path.read_text() == "built"
    assert cache.get(KEY) == path


def test_a_failing_writer_leaves_nothing(cache_dir: Path) -> None:
    def fail(target: Path) -> None:
        target.write_text("half")
        raise CompileError("refused")

    cache = DiskCache("library")
    with pytest.raises(CompileError, match="refused"):
        cache.put(KEY, fail)
    assert cache.get(KEY) is None
    assert not [path for path in cache_dir.rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", [b"", b"conten", b"contenT", b"content and more"])
def test_a_damaged_entry_is_a_miss_and_can_be_replaced(damage: bytes) -> None:
    cache = DiskCache("cubin")
    path = cache.put(KEY, b"content")
    path.write_bytes(damage)
    assert cache.get(KEY) is None
    assert cache.get_bytes(KEY) is None
    cache.put(KEY, b"content")
    assert cache.get_bytes(KEY) == b"content"


def test_two_contents_of_one_key_do_not_mix() -> None:
    cache = DiskCache("cubin")
    first, second = cache.put(KEY, b"one build"), cache.put(KEY, b"another build")
    assert first != second
    assert cache.get_bytes(KEY) in (b"one build", b"another build")
    survivor = second if cache.get(KEY) == first else first
    found = cache.get(KEY)
    assert found is not None
    found.write_bytes(b"damaged")
    assert cache.get(KEY) == survivor


def test_a_directory_that_cannot_be_written_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "file" / "cache"))
    cache = DiskCache("cubin")
    assert cache.get(KEY) is None
    with pytest.raises(CacheError, match=r"file/cache.*cannot be written.*AUTOSCHED_CACHE_DIR"):
        cache.put(KEY, b"content")


@pytest.mark.parametrize("key", ["", "abc", "../" + "a" * 61, "A" * 64, KEY + "0"])
def test_only_full_digests_are_keys(key: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        DiskCache("cubin").get(key)


@pytest.mark.parametrize(("kind", "suffix"), [("../x", ".so"), ("", ".so"), ("so", "so"), ("so", "./so")])
def test_kind_and_suffix_make_plain_file_names(kind: str, suffix: str) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        DiskCache(kind, suffix=suffix)


def test_listing_and_clearing() -> None:
    cubins, libraries = DiskCache("cubin"), DiskCache("library")
    cubins.put(KEY, b"123")
    cubins.put(OTHER, b"12345")
    libraries.put(KEY, b"1")
    assert [(entry.key, entry.size_bytes) for entry in cubins.entries()] == [(OTHER, 5), (KEY, 3)]
    assert cache_usage() == {"cubin": (2, 8), "library": (1, 1)}
    assert cubins.clear() == 2
    assert cubins.get(KEY) is None
    assert libraries.get(KEY) is not None
    assert clear_cache() == 1
    assert cache_usage() == {}


def test_clearing_takes_leftovers_of_killed_writers_too(cache_dir: Path) -> None:
    cache = DiskCache("cubin")
    leftover = cache.put(KEY, b"123").with_name(".writing-123-0123456789abcdef.bin")
    leftover.write_text("half")
    os.utime(leftover, (time.time(), time.time() - 2 * 3600))
    writing_now = leftover.with_name(".writing-124-0123456789abcdef.bin")
    writing_now.write_text("half")
    assert [entry.size_bytes for entry in cache.entries()] == [3]
    assert cache.clear() == 2
    assert _leftovers(cache_dir) == [writing_now]


def test_clearing_spares_files_that_are_not_ours(cache_dir: Path) -> None:
    theirs = [cache_dir / "docs" / "ab" / "letter.txt", cache_dir / "cubin" / "ab" / "notes", cache_dir / "x"]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs")
    DiskCache("cubin").put(KEY, b"ours")
    assert cached_kinds() == ["cubin"]
    assert clear_cache() == 1
    assert all(path.read_text() == "theirs" for path in theirs)


# Hammers a few keys; every content is its key and the writer's number, repeated.
WRITER = """
import random, sys
from pathlib import Path
from autosched.runtime.compile.cache import DiskCache

worker, root, keys = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
cache = DiskCache("cubin", root=root)
choose = random.Random(worker)
for round_number in range(80):
    key = choose.choice(keys)
    content = cache.get_bytes(key)
    if content is not None:
        assert content == content[:64] * 500, f"worker {worker} read mixed content in round {round_number}"
        assert content.startswith(key[:56].encode()), f"worker {worker} read the content of another key"
    if worker == 0 and round_number % 10 == 9:
        cache.clear()
    cache.put(key, (key[:56].encode() + b"%08d" % worker) * 500)
"""


def test_concurrent_writers_of_many_processes(tmp_path: Path) -> None:
    keys = [cache_key(number=number) for number in range(3)]
    environment = child_environment(PYTHONPATH=os.pathsep.join(sys.path))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(worker), str(tmp_path), *keys],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for worker in range(4)
    ]
    complaints = [writer.communicate(timeout=60)[1] for writer in writers]
    assert complaints == [""] * 4
    assert [writer.returncode for writer in writers] == [0] * 4
    assert not _leftovers(tmp_path)
    survivors = DiskCache("cubin", root=tmp_path)
    found = [survivors.get(entry.key) for entry in survivors.entries()]
    assert found
    assert all(found)
