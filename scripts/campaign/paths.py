"""Environment for child processes that import `autosched` from a checkout that is not installed.

Some packages lie outside `autosched/` and are moved at installation (``package-dir`` in pyproject.toml), so the
checkout itself cannot be on the path. Instead PYTHONPATH gets a directory of links, which all descendants inherit.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

_OWN = "campaign"


def link_packages(root: Path, directory: Path) -> Path:
    """Create a directory from which `autosched` and this package can be imported.

    Args:
        root: The checkout.
        directory: The directory; existing contents are replaced.
    """
    shutil.rmtree(directory, ignore_errors=True)
    for name, source in _links(root):
        link = directory / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source, target_is_directory=source.is_dir())
    _write_metadata(root, directory)
    return directory


def child_environment(directory: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment whose Python programs, and their descendants, import from a directory of links.

    Args:
        directory: Result of `link_packages`.
        base: The environment to extend (default: this process's).
    """
    env = dict(os.environ if base is None else base)
    before = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(directory)]
    env["PYTHONPATH"] = os.pathsep.join([str(directory), *before])
    env["PYTHONSAFEPATH"] = "1"  # the current directory may be the checkout, whose autosched/ is incomplete
    return env


def _write_metadata(root: Path, directory: Path) -> None:
    """Write the metadata of an installation, by which PyTorch finds the backend of `torch.compile`."""
    with (root / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    metadata = directory / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    lines = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(lines, encoding="utf-8")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())])
        for group, entries in project.get("entry-points", {}).items()
    ]
    (metadata / "entry_points.txt").write_text("\n\n".join(groups) + "\n", encoding="utf-8")


def _links(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the links: name below the directory, and destination."""
    with (root / "pyproject.toml").open("rb") as file:
        places: dict[str, str] = tomllib.load(file)["tool"]["setuptools"]["package-dir"]
    for package, where in places.items():
        if "." in package:
            yield package.replace(".", "/"), root / where
        else:  # entries are linked one by one, so that other packages can be added
            yield from ((f"{package}/{p.name}", p) for p in (root / where).iterdir() if p.name != "__pycache__")
    yield _OWN, root / "scripts" / _OWN
