"""The exported header: the function's arguments and its requirements."""

from __future__ import annotations

import numpy as np

from autosched.export.interface import ArrayArgument, Interface, InterfaceScalar
from autosched.export.templates import fill
from autosched.lang.dtypes import DType

_NOTES = {
    "float16": " (its bits, as in an array of __half)",
    "bfloat16": " (its bits, as in an array of __nv_bfloat16)",
    "bool": " (each byte 0 or 1)",
}


def header(interface: Interface) -> str:
    """Return the header of an export, for C99 and C++."""
    kind = "cuda" if interface.is_cuda else "cpu"
    return fill(
        "header.h",
        name=interface.name,
        prefix=interface.prefix,
        pipeline=interface.pipeline,
        target=interface.target.name,
        headers="#include <cuda_runtime_api.h>\n" if interface.is_cuda else "",
        arguments="".join(f"{text}\n" for text in _arguments(interface)),
        workspace_bytes=str(interface.workspace_bytes),
        workspace_alignment=str(interface.workspace_alignment),
        codes="" if interface.is_cuda else fill("codes.h", prefix=interface.prefix),
        rules=fill(f"rules.{kind}.txt", prefix=interface.prefix, name=interface.name),
        prototype=interface.prototype,
    )


def shape_text(array: ArrayArgument) -> str:
    """Return an array's element type and shape as text: ``float32 [3][480], dimensions c, x``."""
    extents = "".join(f"[{n}]" for n in array.shape) or ", one element"
    return f"{array.dtype} {extents}" + (f", dimensions {', '.join(array.dims)}" if array.dims else "")


def default_text(scalar: InterfaceScalar) -> str | None:
    """Return a scalar's default as a C99 constant; None without one."""
    if scalar.default is None:
        return None
    return constant_text(scalar.default, scalar.dtype)


def _arguments(interface: Interface) -> list[str]:
    lines = []
    for a in interface.arrays:
        role = "output" if a.is_output else "input"
        remarks = [f"{role} {_called(a)}: {shape_text(a)}{_NOTES.get(a.dtype.name, '')}"]
        if any(a.first):
            point = ", ".join(f"{d} = {n}" for d, n in zip(a.dims, a.first, strict=True))
            remarks.append(f"its first element is the pipeline's point {point}")
        if a.alignment > 1:
            remarks.append(f"its address is a multiple of {a.alignment} bytes")
        lines.append("/* " + ";\n * ".join(remarks) + ". */")
        lines += [f"#define {a.macro}_EXTENT_{k} {n}" for k, n in enumerate(a.shape)]
        lines += [f"#define {a.macro}_COUNT ((size_t){a.count}u)", ""]
    for s in interface.scalars:
        rounded = f", rounded to {s.dtype}" if s.dtype.is_reduced_float else ""
        default = default_text(s)
        lines.append(f"/* parameter {_called(s)}: {s.dtype}{rounded}. */")
        lines += [f"#define {s.macro}_DEFAULT {default}"] * (default is not None) + [""]
    for s in interface.by_step:
        lines += [f"/* parameter {_called(s)}: {s.dtype}, an array in host memory of a value for each step. */", ""]
    if interface.fixed:
        values = ", ".join(f"{name} = {value}" for name, value in interface.fixed.items())
        lines += [f"/* Parameters that are built in: {values}. */", ""]
    return lines


def _called(argument: ArrayArgument | InterfaceScalar) -> str:
    in_pipeline = "" if argument.identifier == argument.name else f" ({argument.name} in the pipeline)"
    return f"{argument.identifier}{in_pipeline}"


def constant_text(value: np.generic, dtype: DType) -> str | None:
    """Return a number as a C99 constant; None if it is not finite.

    Args:
        value: The number.
        dtype: Its type.
    """
    number = value.item()
    if dtype.kind == "b":
        return str(int(number))
    if dtype.is_float:
        if not np.isfinite(number):
            return None
        text = repr(number) if dtype.bits != 32 else str(value)  # the shortest text that is read back exactly
        text = text if any(c in text for c in ".e") else f"{text}.0"
        return f"({text}{'' if dtype.name == 'float64' else 'f'})"
    if dtype.bits < 64:
        return f"({number})"
    if number == dtype.min_value and dtype.kind == "i":
        return "INT64_MIN"
    return f"{'UINT64_C' if dtype.kind == 'u' else 'INT64_C'}({number})" if number >= 0 else f"(-INT64_C({-number}))"
