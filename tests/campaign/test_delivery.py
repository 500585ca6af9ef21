"""Results packed into a few small files, and taken in elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from campaign import delivery
from campaign.command_line import main
from campaign.delivery import export_results, import_results


@pytest.fixture
def out(tmp_path: Path) -> Path:
    directory = tmp_path / "out"
    (directory / "tuning").mkdir(parents=True)
    for name in ("results.json", "samples.parquet", "tuning/blur.sqlite"):
        (directory / name).write_bytes(os.urandom(5000))
    for name in ("code.tar.xz", "drawn.json.gz", ".results.json.17"):
        (directory / name).write_text("not a result")
    return directory


def content(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_results_arrive_as_they_were(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size, count in ((1 << 20, 1), (6000, 3)):
        monkeypatch.setattr(delivery, "PIECE_BYTES", size)
        files = export_results(out, tmp_path / "there")
        assert len(files) == count == len(list((tmp_path / "there").iterdir()))
        assert all(path.stat().st_size <= size for path in files)
    other = tmp_path / "other"
    (other / "tuning").mkdir(parents=True)
    (other / "results.json").write_text("older")
    (other / "code.tar.xz").write_text("stays")
    assert import_results(tmp_path / "there", other) == 3
    wanted = {name: b for name, b in content(out).items() if b != b"not a result"}
    assert content(other) == {**wanted, "code.tar.xz": b"stays"}


def test_missing_and_damaged_files_are_named(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PIECE_BYTES", 6000)
    files = export_results(out, tmp_path / "there")
    whole = files[1].read_bytes()
    files[1].write_bytes(bytes(len(whole)))
    with pytest.raises(ValueError, match=r"campaign-results-1-of-3\.tar\.xz is damaged"):
        import_results(tmp_path / "there", tmp_path / "other")
    files[1].unlink()
    with pytest.raises(ValueError, match="has 2 of 3 files"):
        import_results(tmp_path / "there", tmp_path / "other")
    with pytest.raises(ValueError, match="has 0 of 1 files"):
        import_results(tmp_path / "nothing", tmp_path / "other")
    monkeypatch.setattr(delivery, "MOST_PIECES", 2)
    with pytest.raises(ValueError, match="move samples that were copied before"):
        export_results(out, tmp_path / "there")


def test_the_command_exports_and_imports(out: Path, tmp_path: Path) -> None:
    (out / "results.json").write_text('{"tests": {"a::b": {"outcome": "passed"}}}')
    there, other = str(tmp_path / "there"), str(tmp_path / "other")
    assert main(["--out", str(out), "--steps", "report", "--export", there]) == 0
    assert main(["--out", other, "--steps", "report", "--import", there]) == 0
    assert "1 passed, 0 failed." in (tmp_path / "other" / "summary.md").read_text()
    assert main(["--out", other, "--steps", "report", "--import", str(tmp_path / "nothing")]) == 2
