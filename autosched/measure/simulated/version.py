"""The version of the simulated device; times of two versions must not be mixed."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from autosched.target import Target

SIMULATED = "simulated:"
"""Prefix of the sources of simulated labels."""
VERSION_MARK = "@"
EQUAL_TO: Mapping[str, frozenset[str]] = {
    "95f5009c": frozenset({"4ff5d312", "d089dd90", "e1d5d778"}),
    "f33b26ad": frozenset({"5dd3ed2f"}),
    "eb815cb3": frozenset({"5dd3ed2f", "f33b26ad"}),
    "7536d840": frozenset({"f392c3fd"}),
}
"""Earlier versions with equal times, by the later version, for all kernels that both support: 4ff5d312 added async
copies, e1d5d778 atomic operations, 95f5009c shuffles and sliding windows; f33b26ad and eb815cb3 have other names
alone; 7536d840 added interior and boundary steps."""


def simulated_source(target: Target) -> str:
    """Return the source of labels of the simulated device: ``simulated:<target name>@<version>``."""
    return f"{SIMULATED}{target.name}{VERSION_MARK}{simulation_version(target)}"


def other_simulation(source: str, target: Target) -> str | None:
    """Return a message on labels of another version of the simulated device; None for all other labels.

    Args:
        source: Source of the labels.
        target: Target of the labels.
    """
    device, _, version = source.partition(VERSION_MARK)
    present_version = simulation_version(target)
    equal = EQUAL_TO.get(present_version, frozenset())
    if device != f"{SIMULATED}{target.name}" or version == present_version or version in equal:
        return None
    present = f"this release has version {present_version}"
    if not version:
        return f"labels {source} do not name the version of the simulated device; {present}"
    return f"labels {source} are of another version of the simulated device; {present}"


@lru_cache(maxsize=8)
def simulation_version(target: Target) -> str:
    """Return eight hexadecimal digits that change with the code of the simulation or the target's numbers.

    Comments and docstrings do not count, nor does emitted code, which has a version of its own
    (`autosched.measure.compile.codegen_version`).
    """
    digest = hashlib.sha256(repr(target).encode())
    sources = [f for f in files(__package__).iterdir() if f.name.endswith(".py") and f.name != "version.py"]
    for file in sorted(sources, key=lambda f: f.name):
        digest.update(f"{file.name}\n{_code(ast.parse(file.read_text(encoding='utf-8')))}\n".encode())
    return digest.hexdigest()[:8]


def _code(node: object) -> str:
    """Return a syntax tree as text that is equal in all releases of Python, without string statements."""
    if isinstance(node, list):
        return f"[{','.join(_code(n) for n in node if not _is_documentation(n))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [f"{name}={_code(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
    return f"{type(node).__name__}({','.join(fields)})"


def _is_documentation(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
