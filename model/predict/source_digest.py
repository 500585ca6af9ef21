"""Hash of the sources that determine features and analytical times, as version of cached features."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "autosched"
ROOTS = ("autosched.model.data.features", "autosched.model.predict.analytical_prior")
"""Modules that compute features and analytical times; their imports count too."""


@lru_cache(maxsize=1)
def features_digest() -> str:
    """Return a hexadecimal hash of all sources that determine features or analytical times.

    A manual version number could be forgotten, which would mix old and new features in training data.
    Recomputing features after an irrelevant change costs minutes.
    """
    return digest_of(sources().values())


def digest_of(files: Iterable[Path]) -> str:
    """Return a hexadecimal hash of names and contents of files, independent of their order."""
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda p: (p.parent.name, p.name)):
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def sources() -> dict[str, Path]:
    """Return the package's files that determine features and analytical times, by module."""
    files: dict[str, Path] = {}
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        spec = None if name in files else _spec(name)
        if spec is not None and spec.origin is not None:
            files[name] = Path(spec.origin)
            todo += _imported(files[name])
    return files


def _imported(path: Path) -> Iterator[str]:
    """Yield the package's modules that a file imports, and the names in them, which may be modules too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except ModuleNotFoundError:  # a name in a module that is no package
        return None
