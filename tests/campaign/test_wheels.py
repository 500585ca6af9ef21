"""Packages from wheels, where nothing can be installed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from campaign.campaign import Campaign, StateError
from campaign.plan import chosen_steps, has_module
from campaign.wheels import unpack_wheels

from tests.campaign.tiny_campaign import options


def wheel(directory: Path, name: str) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "VALUE = 7\n")
    return path


def test_packages_can_be_imported_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "wheels", "carried_along")
    chosen = options(tmp_path, wheels=str(tmp_path / "wheels"))
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    said: list[str] = []
    assert not has_module("carried_along")
    Campaign(chosen, say=said.append).run(chosen_steps(["search"]), 60.0)
    assert said[0] == "packages from wheels: carried_along"
    assert has_module("carried_along")
    assert json.loads((tmp_path / "out/state.json").read_text())["steps"]["search"]["status"] == "finished"


def test_missing_and_damaged_wheels_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no wheels: fill it with `pip download"):
        unpack_wheels(tmp_path, tmp_path / "packages")
    path = wheel(tmp_path / "wheels", "broken")
    path.write_bytes(path.read_bytes()[:20])
    chosen = options(tmp_path, wheels=str(tmp_path / "wheels"))
    with pytest.raises(StateError, match=r"broken-1\.0-py3-none-any\.whl cannot be unpacked"):
        Campaign(chosen).run(chosen_steps(["search"]), 60.0)
