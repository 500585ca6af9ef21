"""Sums and differences whose zero gets the wrong sign from gcc.

gcc takes ``0 - x`` for ``-x``, and ``0 + -x`` too, where it sees in one expression that ``x`` is never -0, as an
integer that is converted: the difference is +0 where both are zero, and -x is -0. It does so without any optimisation,
before values have names. Operands of a function are not seen together.
"""

from __future__ import annotations

from autosched.lower.ir import ConstValue, IndexValue, Op, Value, walk_values


def loses_signed_zero(v: Op) -> bool:
    """Whether one operand of a sum or difference of floats may be folded to zero, and an integer is in the other."""
    a, b = v.args
    return (_may_fold_to_zero(a) and _converts_integer(b)) or (_may_fold_to_zero(b) and _converts_integer(a))


def _converts_integer(v: Value) -> bool:
    return any(
        isinstance(part, IndexValue)
        or (isinstance(part, Op) and part.name == "cast" and not part.args[0].dtype.is_float)
        for part in walk_values(v)
    )


def _may_fold_to_zero(v: Value) -> bool:
    """Whether a compiler may find out that a float is zero, by constants or because it is less itself."""
    match v:
        case ConstValue():
            return v.value == 0
        case Op(name="mul"):
            return any(map(_may_fold_to_zero, v.args))
        case Op(name="add"):
            return all(map(_may_fold_to_zero, v.args)) or all(isinstance(a, ConstValue) for a in v.args)
        case Op(name="sub"):
            return v.args[0] == v.args[1] or _may_fold_to_zero(Op("add", v.args, v.dtype))
        case Op(name="select"):
            return any(map(_may_fold_to_zero, v.args[1:]))
        case Op(name="neg" | "cast" | "truediv"):
            return _may_fold_to_zero(v.args[0])
    return False
