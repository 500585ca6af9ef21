"""Files are replaced whole or not at all, and nothing stays beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.atomic_files import replace_file, replace_files, replacement_of


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacement_of(path) as beside:
        beside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyError), replacement_of(path) as beside:
        beside.write_text("half")
        raise KeyError
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_replace_file_makes_the_directory(tmp_path: Path) -> None:
    replace_file(tmp_path / "new" / "a.txt", lambda beside: beside.write_text("text"))
    assert (tmp_path / "new" / "a.txt").read_text() == "text"
    with pytest.raises(OSError, match=r"Not a directory|exists"):
        replace_file(tmp_path / "new" / "a.txt" / "b.txt", lambda beside: beside.write_text("text"))


def test_several_files_are_all_written_before_one_is_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "new"
    replace_files(directory, {"a": "1", "b": "2"})
    assert names(directory) == ["a", "b"]
    with pytest.raises(UnicodeEncodeError):
        replace_files(directory, {"a": "3", "b": "\ud800"})
    assert (directory / "a").read_text() == "1"
    replace_files(directory, {"b": "4", "c": "5"})
    assert [(directory / name).read_text() for name in names(directory)] == ["1", "4", "5"]
    assert names(directory.parent) == ["new"]
