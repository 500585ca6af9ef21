"""Argument checks of an exported function."""

from __future__ import annotations

from autosched.export.interface import Interface
from autosched.export.templates import template

INDENT = "    "


def checking_functions(interface: Interface) -> str:
    """Return the host helper functions of an exported function."""
    needs_half = any(s.dtype.name == "float16" for s in interface.scalars)
    return template("arguments.h") + (template("half.h") if needs_half else "")


def argument_checks(interface: Interface, failure: str) -> list[str]:
    """Return the lines that reject missing, misaligned and overlapping arrays.

    Args:
        interface: The function.
        failure: Its return value in these cases.
    """
    rows = [f"{{{a.identifier}, {a.bytes_}u, {a.alignment}u, {int(a.is_output)}}}," for a in interface.arrays]
    rows.append(f"{{workspace, {interface.workspace_bytes}u, {interface.workspace_alignment}u, 1}},")
    return [
        f"{INDENT}const as_argument as_arguments[] = {{",
        *(f"{INDENT * 2}{row}" for row in rows),
        f"{INDENT}}};",
        f"{INDENT}if (!as_arguments_fit(as_arguments, {len(rows)})) return {failure};",
    ]
