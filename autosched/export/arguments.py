"""Argument checks of an exported function."""

from __future__ import annotations

from autosched.export.interface import Interface
from autosched.export.templates import template
from autosched.lang.dtypes import DType, bfloat16, float16

INDENT = "    "
_ROUNDING = {float16: "half", bfloat16: "bfloat16"}
"""Suffix of the function that rounds to a type, which is also the name of its file."""


def checking_functions(interface: Interface) -> str:
    """Return the host helper functions of an exported function."""
    types = {s.dtype for s in interface.scalars}
    return template("arguments.h") + "".join(template(f"{name}.h") for d, name in _ROUNDING.items() if d in types)


def rounded_text(value: str, dtype: DType) -> str:
    """Return the C expression of a scalar argument, rounded to a type that is passed as a float."""
    return f"as_nearest_{_ROUNDING[dtype]}({value})" if dtype in _ROUNDING else value


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
