"""Exports appear whole, and replace nothing that somebody else wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autosched.errors import InputError
from autosched.export.directory import MANIFEST, write_export

FILES = {"blur.c": "one\n", "README.md": "two\n"}


def content(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.name != MANIFEST}


def test_a_directory_is_made(tmp_path: Path) -> None:
    paths = write_export(tmp_path / "a" / "b", "blur", FILES)
    assert [path.name for path in paths] == list(FILES)
    assert content(tmp_path / "a" / "b") == FILES
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write_export(tmp_path, "blur", FILES)
    assert content(tmp_path) == {**FILES, "notes.txt": "mine"}


def test_an_export_is_replaced_by_the_next(tmp_path: Path) -> None:
    write_export(tmp_path, "blur", {**FILES, "example.c": "old"})
    write_export(tmp_path, "blur", {"blur.c": "new\n", "blur.cu": "three\n"})
    assert content(tmp_path) == {"blur.c": "new\n", "blur.cu": "three\n"}
    assert set(json.loads((tmp_path / MANIFEST).read_text())["files"]) == {"blur.c", "blur.cu"}


def test_an_edited_file_that_is_no_longer_part_stays(tmp_path: Path) -> None:
    write_export(tmp_path, "blur", {**FILES, "example.c": "old"})
    (tmp_path / "example.c").write_text("mine")
    write_export(tmp_path, "blur", FILES)
    assert content(tmp_path) == {**FILES, "example.c": "mine"}


@pytest.mark.parametrize("earlier", [True, False])
def test_what_others_wrote_is_not_replaced(earlier: bool, tmp_path: Path) -> None:
    if earlier:
        write_export(tmp_path, "blur", FILES)
    (tmp_path / "README.md").write_text("mine")
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"README\.md is there and is not as an export wrote it: move it away"):
        write_export(tmp_path, "blur", {"blur.c": "new", "README.md": "new"})
    assert content(tmp_path) == before


def test_what_would_be_written_anyway_is_no_obstacle(tmp_path: Path) -> None:
    """So that an export that was interrupted half-way can be made again."""
    (tmp_path / "blur.c").write_text(FILES["blur.c"])
    write_export(tmp_path, "blur", FILES)
    assert content(tmp_path) == FILES


def test_two_exports_do_not_share_a_directory(tmp_path: Path) -> None:
    write_export(tmp_path, "blur", FILES)
    with pytest.raises(InputError, match="holds the export of 'blur': choose another directory for 'harris'"):
        write_export(tmp_path, "harris", {"README.md": "new"})
    assert content(tmp_path) == FILES


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "other", "name": "a", "files": {}}', '{"files": {"../a": 1}}']
)
def test_a_foreign_manifest_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match="is not a manifest of an export"):
        write_export(tmp_path, "blur", FILES)


def test_a_directory_of_a_files_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blur.c").mkdir()
    with pytest.raises(InputError, match=r"blur\.c is there"):
        write_export(tmp_path, "blur", FILES)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="it is no directory"):
        write_export(tmp_path / "out", "blur", FILES)
    with pytest.raises(InputError, match="cannot export to"):
        write_export(tmp_path / "out" / "below", "blur", FILES)


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(InputError, match="No space left on device; choose a directory"):
        write_export(tmp_path / "out", "blur", FILES)
    assert list(tmp_path.iterdir()) == []
