"""`autosched` importable from a checkout that is not installed, in processes started with the environment given here.

Some of its packages lie outside `autosched/` and get their place when they are installed (``package-dir`` in
pyproject.toml), so the checkout itself cannot be put on the path. A directory of links does it: every process finds it
through PYTHONPATH, whatever starts it and however.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

_OWN = "campaign"


def link_packages(root: Path, directory: Path) -> Path:
    """Make a directory from which `autosched` and this package can be imported.

    Args:
        root: The checkout.
        directory: What to make; whatever is there is replaced.
    """
    shutil.rmtree(directory, ignore_errors=True)
    for name, source in _links(root):
        link = directory / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source, target_is_directory=source.is_dir())
    return directory


def child_environment(directory: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment whose Python programs, and those that they start, import from such a directory.

    Args:
        directory: What `link_packages` returned.
        base: The environment to start from; this process's when left out.
    """
    env = dict(os.environ if base is None else base)
    before = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(directory)]
    env["PYTHONPATH"] = os.pathsep.join([str(directory), *before])
    env["PYTHONSAFEPATH"] = "1"  # the current directory may be the checkout, whose autosched/ is not the whole package
    return env


def _links(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield what is linked: a name below the directory, and what it stands for."""
    with (root / "pyproject.toml").open("rb") as file:
        places: dict[str, str] = tomllib.load(file)["tool"]["setuptools"]["package-dir"]
    for package, where in places.items():
        if "." in package:
            yield package.replace(".", "/"), root / where
        else:  # linked piece by piece, so that others can lie beside its own
            yield from ((f"{package}/{p.name}", p) for p in (root / where).iterdir() if p.name != "__pycache__")
    yield _OWN, root / "scripts" / _OWN
