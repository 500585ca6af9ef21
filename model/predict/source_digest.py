"""Which sources features and analytical times follow from, so that what is cached of others is made again."""

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
"""Modules that work out features and analytical times; those that they import matter, too."""


@lru_cache(maxsize=1)
def features_digest() -> str:
    """Return hexadecimal digits that change with any source that features or analytical times follow from.

    A version that people have to raise is forgotten some day, and then a model is trained on a mixture of old and new
    features. Making them again after a change that did not matter costs minutes.
    """
    return digest_of(sources().values())


def digest_of(files: Iterable[Path]) -> str:
    """Return hexadecimal digits of names and contents of files, in whatever order they come."""
    found = hashlib.sha256()
    for path in sorted(files, key=lambda p: (p.parent.name, p.name)):
        found.update(f"{path.parent.name}/{path.name}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def sources() -> dict[str, Path]:
    """Return the files of ours that features and analytical times follow from, by module."""
    found: dict[str, Path] = {}
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        spec = None if name in found else _spec(name)
        if spec is not None and spec.origin is not None:
            found[name] = Path(spec.origin)
            todo += _imported(found[name])
    return found


def _imported(path: Path) -> Iterator[str]:
    """Yield the modules of ours that a file may import, and names in them, which may be modules, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except ModuleNotFoundError:  # something in a module that is no package
        return None
