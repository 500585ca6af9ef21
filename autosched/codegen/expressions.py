"""Values and indices as C text; the same for CUDA and for the host."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.analysis.expressions.bfloat16_rounding import rounds_to_bfloat16
from autosched.analysis.indices import index as ix
from autosched.codegen.constant_division import constant_division
from autosched.codegen.prelude import float_literal
from autosched.errors import CompileError
from autosched.lang.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, int64
from autosched.lang.expr import Scalar
from autosched.lower.ir import (
    BufferRead,
    CompareIndex,
    ConstValue,
    IndexValue,
    Op,
    ShuffleRead,
    Value,
    VarRef,
    VectorElement,
)
from autosched.lower.passes.cpu.boolean_index import HIDDEN
from autosched.lower.passes.cpu.converted_integers import CONVERTED
from autosched.lower.passes.cpu.signed_zeros import loses_signed_zero

C_TYPE = {
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
    "int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long",
    "float16": "unsigned short", "bfloat16": "unsigned short", "float32": "float",
    "float64": "double",
}  # fmt: skip
"""C type of each element type; float16 and bfloat16 are passed as their bits."""

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_INT_LIMIT = (1 << 31) - 1


def storage_type(d: DType) -> str:
    """Return the C type of an array element; a byte for bool, which gcc 12 does not vectorise."""
    return C_TYPE["uint8" if d == bool_ else d.name]


def local_type(d: DType) -> str:
    """Return the C type of a scalar variable; float for float16 and bfloat16, with the same value."""
    return "float" if d.is_reduced_float else C_TYPE[d.name]


def counter_type(most: int) -> str:
    """Return the C type of a loop variable with values up to ``most``."""
    return C_TYPE["int32" if most <= _INT_LIMIT else "int64"]


def is_wide(e: ix.Index) -> bool:
    """Whether an index or a part of it needs 64-bit arithmetic."""
    if not isinstance(e, ix.Affine):
        return abs(e) > _INT_LIMIT
    if any(is_wide(a) for t, _ in e.terms if isinstance(t, ix.Atom) for a in t.args):
        return True
    if e.const == 0 and [c for _, c in e.terms] == [1]:  # no arithmetic: the least 32-bit number fits too
        lo, hi = e.interval
        return lo < -_INT_LIMIT - 1 or hi > _INT_LIMIT
    return abs(e.const) + sum(abs(c) * max(map(abs, t.interval)) for t, c in e.terms) > _INT_LIMIT


def index_text(e: ix.Index, wide: bool | None = None) -> str:
    """Return an index as C text that may be an operand of ``+``."""
    wide = is_wide(e) if wide is None else wide
    if not isinstance(e, ix.Affine):
        return f"{e}LL" if wide else str(e)
    parts: list[str] = []
    for t, c in sorted(e.terms, key=lambda tc: -abs(tc[1])):
        text = _term_text(t, wide)
        scaled = text if abs(c) == 1 else f"{abs(c)}*{text}"
        if not parts:
            parts.append(f"-{scaled}" if c < 0 else scaled)
        else:
            parts.append(f"- {scaled}" if c < 0 else f"+ {scaled}")
    if e.const:
        parts.append(f"- {-e.const}" if e.const < 0 else f"+ {e.const}")
    return " ".join(parts)


def extreme_text(kind: str, indices: Sequence[ix.Index]) -> str:
    """Return the ``min`` or ``max`` of indices as C text, in 64 bits if one of them needs it."""
    wide = any(map(is_wide, indices))
    text, *others = [index_text(e, wide) for e in indices]
    for other in others:
        text = f"as_{kind}_{'i64' if wide else 'i32'}({text}, {other})"
    return text


def _term_text(t: ix.Term, wide: bool) -> str:
    if isinstance(t, ix.LoopVar):
        narrow = max(abs(t.lo), abs(t.hi)) <= _INT_LIMIT
        return f"(long long){t.name}" if wide and narrow else t.name
    suffix = "i64" if wide else "i32"
    match t.kind:
        case "div" | "mod":
            return _divide_text(t, wide, suffix)
        case "min" | "max":
            a, b = (index_text(x, wide) for x in t.args)
            return f"as_{t.kind}_{suffix}({a}, {b})"
        case "prod":
            a, b = (index_text(x, wide) for x in t.args)
            return f"({a})*({b})"
        case "data":
            return f"({'long long' if wide else 'int'}){value_text(t.payload)}"
    a, b = (index_text(x, wide) for x in t.args)
    return f"({value_text(t.payload)} ? {a} : {b})"


def _divide_text(t: ix.Atom, wide: bool, suffix: str) -> str:
    a, c = index_text(t.args[0], wide), t.payload
    log2 = c.bit_length() - 1
    if c == 1 << log2:  # an arithmetic shift and a mask are floor semantics for negative numbers too
        return f"(({a}) >> {log2})" if t.kind == "div" else f"(({a}) & {c - 1})"
    if ix.interval(t.args[0])[0] >= 0:
        return f"(({a}) {'/' if t.kind == 'div' else '%'} {c})"
    return f"as_{'floordiv' if t.kind == 'div' else 'mod'}_{suffix}({a}, {c})"


def literal(value: Scalar, d: DType) -> str:
    """Return a constant as C text."""
    if d.kind == "b":
        return "true" if value else "false"
    if d.is_float:
        text = float_literal(float(value), d)
        return f"({text})" if text.startswith("-") else text
    suffix = {"int64": "LL", "uint32": "u", "uint64": "ULL"}.get(d.name, "")
    if d.name in ("int32", "int64") and value == d.min_value:
        return f"({int(value) + 1}{suffix} - 1)"
    text = f"{int(value)}{suffix}"
    return f"({text})" if value < 0 else text


def value_text(v: Value) -> str:
    """Return a value as C text that may be an operand of any operator."""
    match v:
        case ConstValue():
            return literal(v.value, v.dtype)
        case VarRef():
            return v.name
        case BufferRead():
            access = f"LOAD({v.site}, {v.buffer.name}, {index_text(v.index)})"
            return loaded(access, v.dtype)
        case ShuffleRead():
            given = _given_text(v, v.given)
            lanes = f"{v.lanes:#x}u"
            return loaded(f"SHUFFLE_LANE({storage_type(v.dtype)}, {given}, {index_text(v.lane)}, {lanes})", v.dtype)
        case VectorElement():
            return loaded(f"{v.vector}.at[{v.number}]", v.dtype)
        case IndexValue():
            return _index_value(v)
        case CompareIndex():
            wide = is_wide(v.a) or is_wide(v.b)
            return f"({index_text(v.a, wide)} {_INFIX[v.op]} {index_text(v.b, wide)})"
        case Op():
            return _op_text(v)
    raise CompileError(f"internal error: the printer does not support values of type {type(v).__name__}")


def _given_text(v: ShuffleRead, given: Sequence[int]) -> str:
    """Return the element that a lane gives: number k where just those tests hold whose bits are set in k."""
    if len(given) == 1:
        return f"GIVEN({v.site}, {v.buffer.name}, {given[0]})"
    half = len(given) // 2
    test = v.given_tests[half.bit_length() - 1]
    return f"({value_text(test)} ? {_given_text(v, given[half:])} : {_given_text(v, given[:half])})"


def loaded(element: str, d: DType) -> str:
    """Return the value of an array element."""
    if d == bool_:
        return f"({element} != 0)"
    return f"as_{d.short}_to_f32({element})" if d.is_reduced_float else element


def _index_value(v: IndexValue) -> str:
    lo, hi = ix.interval(v.index)
    text = index_text(v.index)
    exact = int32.min_value <= lo and hi <= int32.max_value
    if not exact and v.dtype != int32:
        return _cast_text(f"((long long)({text}))", int64, v.dtype)
    text = f"({text})" if exact and not is_wide(v.index) else f"(int)({text})"
    if v.dtype == int32:
        return text if text.startswith("(") else f"({text})"
    return _cast_text(text, int32, v.dtype)


def _cast_text(a: str, source: DType, target: DType) -> str:
    if source == target:
        return a
    if target.kind == "b":
        return f"({a} != 0)"
    if source == bool_ and target.is_float:  # gcc 12 does not vectorise the conversion in one step
        a, source = _conversion(int32, a), int32
    if target == float16 and source not in (float32, bfloat16):
        return f"as_round_f16_f64({a})" if source == float64 else f"as_round_f16_f64((double){a})"
    if target.is_reduced_float:
        number = a if source.is_reduced_float or source == float32 else f"(float){a}"
        return f"as_round_{target.short}({number})"
    if source.is_float and target.is_int:
        return f"as_cvt_{target.short}_{'f64' if source == float64 else 'f32'}({a})"
    return _conversion(target, a)


def _conversion(target: DType, a: str) -> str:
    return (
        f"({local_type(target)}){a}" if a[0] == "(" or a.replace("_", "").isalnum() else f"({local_type(target)})({a})"
    )


def _op_text(v: Op) -> str:
    args = [value_text(a) for a in v.args]
    if v.name == "cast":
        return f"({_cast_text(args[0], v.args[0].dtype, v.dtype)})"
    if v.name == "fptosi":  # by way of int, which converts in vectors
        number = f"({local_type(v.dtype)}){args[0]}" if v.dtype.bits >= int32.bits else f"(int){args[0]}"
        return f"({number})" if v.dtype.bits >= int32.bits else f"(({local_type(v.dtype)}){number})"
    if v.name == "select":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if v.name == HIDDEN:
        return f"AS_BOOLEAN_INDEX({args[0]})"
    if v.name == CONVERTED:
        return f"AS_CONVERTED({args[0]})"
    operand = v.args[0].dtype
    if v.dtype == bool_ and operand.kind == "b" and v.name in ("and", "or", "xor", "eq", "ne", "not"):
        if v.name == "not":
            return f"(!{args[0]})"
        symbol = "!=" if v.name == "xor" else _INFIX[v.name]  # && and || may prevent vectorisation by gcc
        return f"({args[0]} {symbol} {args[1]})"
    if v.dtype == bool_:
        return f"({args[0]} {_INFIX[v.name]} {args[1]})"
    if v.dtype.is_float:
        text = _float_op(v, args)
        is_rounded = v.dtype == float16 or rounds_to_bfloat16(v.name, v.dtype)
        return f"as_round_{v.dtype.short}({text})" if is_rounded else text
    return _int_op(v, args)


def _float_op(v: Op, args: list[str]) -> str:
    suffix = "f64" if v.dtype == float64 else "f32"
    match v.name:
        case "add" | "sub" if loses_signed_zero(v):
            return f"as_{v.name}_{suffix}({args[0]}, {args[1]})"
        case "add" | "sub" | "mul":
            return f"({args[0]} {_INFIX[v.name]} {args[1]})"
        case "truediv":
            return _true_division(v, args)
        case "neg":
            return f"(-{args[0]})"
        case "floordiv":
            return f"as_floordiv_{suffix}({args[0]}, {args[1]})"
        case "mod":
            return f"as_mod_{suffix}({args[0]}, {args[1]})"
        case _:
            return f"as_{v.name}_{suffix}({', '.join(args)})"


def _true_division(v: Op, args: list[str]) -> str:
    divisor = v.args[1]
    if isinstance(divisor, ConstValue):
        return constant_division(float(divisor.value), v.dtype).text(args[0])
    return f"({args[0]} / {args[1]})"


def _log2(v: Value) -> int | None:
    """Return the logarithm of a constant that is a power of two."""
    if not isinstance(v, ConstValue) or v.value <= 0 or int(v.value) & (int(v.value) - 1):
        return None
    return int(v.value).bit_length() - 1


def _int_op(v: Op, args: list[str]) -> str:
    d = v.dtype
    match v.name:
        case "add" | "sub" | "mul":
            wide = "unsigned long long" if d.bits == 64 else "unsigned int"
            if d.kind == "u" and d.bits >= 32:
                return f"({args[0]} {_INFIX[v.name]} {args[1]})"
            if d.bits <= 8 or (d.bits == 16 and v.name != "mul"):  # int holds the exact result
                return f"(({C_TYPE[d.name]})({args[0]} {_INFIX[v.name]} {args[1]}))"
            return f"(({C_TYPE[d.name]})(({wide}){args[0]} {_INFIX[v.name]} ({wide}){args[1]}))"
        case "neg":
            wide = "unsigned long long" if d.bits == 64 else "unsigned int"
            return f"(({C_TYPE[d.name]})(0 - ({wide}){args[0]}))"
        case "not":
            return f"(({C_TYPE[d.name]})~{args[0]})"
        case "and" | "or" | "xor":
            return f"(({C_TYPE[d.name]})({args[0]} {_INFIX[v.name]} {args[1]}))"
        case "floordiv" | "mod" if (log2 := _log2(v.args[1])) is not None:
            # As in indices: compilers form shift and mask themselves only for numbers that are never negative.
            text = f"{args[0]} >> {log2}" if v.name == "floordiv" else f"{args[0]} & {literal((1 << log2) - 1, d)}"
            return f"(({C_TYPE[d.name]})({text}))"
        case "hash_u32":
            return f"as_hash_u32({args[0]})"
        case _:
            return f"as_{v.name}_{d.short}({', '.join(args)})"
