"""Statements with the same text in CUDA and C, and the writer of both printers."""

from __future__ import annotations

from autosched.codegen.expressions import C_TYPE, index_text, is_wide, local_type, storage_type, value_text
from autosched.lang.dtypes import DType, float16, int32, uint32
from autosched.lower.ir import (
    Alloc,
    AsyncCopy,
    Comment,
    If,
    Let,
    LetIndex,
    LetVector,
    Partitioning,
    Stmt,
    Store,
    StoreVector,
    Value,
)


class Writer:
    """Collects indented lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._level = 0

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self._level + text if text else "")

    def open(self, text: str) -> None:
        """Add a line and indent the following lines."""
        self.line(text)
        self._level += 1

    def close(self, text: str = "}") -> None:
        """Reduce the indentation by one level and add a closing line."""
        self._level -= 1
        self.line(text)

    def between(self, text: str) -> None:
        """Add a line between two indented blocks."""
        self.close(text)
        self._level += 1

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self.lines) + "\n"


def simple_statement(s: Stmt) -> str | None:
    """Return the line for a statement without inner statements, or None."""
    match s:
        case Let():
            return f"const {local_type(s.value.dtype)} {s.name} = {strip_parentheses(value_text(s.value))};"
        case LetIndex():
            kind = C_TYPE["int64" if is_wide(s.index) else "int32"]
            return f"const {kind} {s.name} = {index_text(s.index)};"
        case Alloc():
            return f"REGISTER({storage_type(s.buffer.dtype)}, {s.buffer.name}, {s.buffer.count});"
        case Store() if s.combine:
            what = f"{_combined_type(s)}, {s.buffer.name}, {index_text(s.index)}"
            return f"ATOMIC_{s.combine.upper()}({s.site}, {what}, {stored(s.value, s.buffer.dtype)});"
        case Store():
            return f"STORE({s.site}, {s.buffer.name}, {index_text(s.index)}, {stored(s.value, s.buffer.dtype)});"
        case LetVector():
            what = f"{storage_type(s.buffer.dtype)}, {s.length}, {s.buffer.name}, {index_text(s.index)}"
            return f"const auto {s.name} = LOAD_VECTOR({s.site}, {what});"
        case StoreVector():
            what = f"{storage_type(s.buffer.dtype)}, {len(s.values)}, {s.buffer.name}, {index_text(s.index)}"
            values = ", ".join(stored(v, s.buffer.dtype) for v in s.values)
            return f"STORE_VECTOR({s.site}, {what}, {values});"
        case AsyncCopy():
            what = f"{storage_type(s.buffer.dtype)}, {s.length}, {s.buffer.name}, {s.source.name}"
            return f"COPY({s.source_site}, {s.site}, {what}, {index_text(s.index)}, {index_text(s.source_index)});"
        case Comment():
            return f"// {s.text}"
    return None


def _combined_type(s: Store) -> str:
    """Return the C type of an atomic update; unsigned for sums of int32, which wrap around."""
    return storage_type(uint32 if s.combine == "add" and s.buffer.dtype == int32 else s.buffer.dtype)


def stored(value: Value, dtype: DType) -> str:
    """Return the element that a value is stored as."""
    text = value_text(value)
    if dtype.is_reduced_float:  # a bfloat16 is the upper half of the float that holds it
        return f"as_f32_to_f16({text})" if dtype == float16 else f"as_bf16_bits({text})"
    return strip_parentheses(text)


def condition_text(s: If) -> str:
    """Return the condition of an if, without outer parentheses."""
    return strip_parentheses(value_text(s.condition))


def partition_note(s: If) -> str:
    """Return the comment of an if that partitions blocks or steps, empty for any other."""
    match s.partition:
        case Partitioning.BLOCKS:
            return "  // interior: no clamps, no guards"
        case Partitioning.STEPS:
            return "  // interior steps"
    return ""


def strip_parentheses(text: str) -> str:
    """Remove one pair of parentheses around a whole expression."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]
