"""The packages in pyproject.toml are those of the source tree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS: dict[str, Any] = PROJECT["tool"]["setuptools"]
DIRECTORIES: dict[str, str] = SETUPTOOLS["package-dir"]


def _package_of(path: Path) -> str:
    """Return the installed package of a source directory, given relative to the root."""
    for package, directory in DIRECTORIES.items():
        if path.parts[0] == directory:
            return ".".join((package, *path.parts[1:]))
    raise AssertionError(f"{path} belongs to no mapped directory")


def _source_directories() -> set[Path]:
    """Return the directories that hold modules, relative to the root."""
    roots = [ROOT / directory for directory in DIRECTORIES.values()]
    return {path.parent.relative_to(ROOT) for root in roots for path in root.rglob("*.py")}


def test_every_source_package_is_installed() -> None:
    assert {_package_of(path) for path in _source_directories()} <= set(SETUPTOOLS["packages"])


def test_every_installed_package_exists() -> None:
    for package in SETUPTOOLS["packages"]:
        prefix = max((known for known in DIRECTORIES if f"{package}.".startswith(f"{known}.")), key=len)
        rest = package.removeprefix(prefix).split(".")[1:]
        assert (ROOT / DIRECTORIES[prefix]).joinpath(*rest).is_dir(), package


def test_every_data_file_is_installed() -> None:
    covered = {
        path.resolve()
        for package, patterns in SETUPTOOLS["package-data"].items()
        for directory in [ROOT.joinpath(*package.split("."))]
        for pattern in patterns
        for path in directory.glob(pattern)
    }
    data = {
        path.resolve()
        for path in (ROOT / "autosched").rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    assert data
    assert data <= covered


def test_extras_are_pinned() -> None:
    """Everything that the demo, the tests and the site install has an exact version."""
    pins = re.findall(r"^([A-Za-z0-9_.-]+)==\S+$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    pinned = {name.lower().replace("_", "-") for name in pins}
    extras = PROJECT["project"]["optional-dependencies"]
    required = PROJECT["project"]["dependencies"] + [
        requirement for extra in ("nvrtc", "report", "train", "dev", "docs", "cuda13") for requirement in extras[extra]
    ]
    names = {re.split(r"[<>=\[;]", requirement)[0].lower() for requirement in required} - {"autosched"}
    assert names <= pinned


def test_version_is_stated_once() -> None:
    init = (ROOT / "autosched" / "_version.py").read_text()
    assert f'__version__ = "{PROJECT["project"]["version"]}"' in init
