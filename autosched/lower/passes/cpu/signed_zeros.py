"""Sums and differences whose zero has the wrong sign in code from gcc.

gcc folds ``0 - x`` and ``0 + -x`` to ``-x`` if one expression shows that ``x`` is never -0, as for converted integers.
For ``x == 0`` the difference is +0, and ``-x`` is -0. The fold happens at all optimisation levels, before values have
names. It does not happen to operands of a function.
"""

from __future__ import annotations

from autosched.lower.ir import ConstValue, IndexValue, Op, Value, walk_values


def loses_signed_zero(v: Op) -> bool:
    """Whether one operand of a float sum or difference may fold to zero, and the other converts an integer."""
    a, b = v.args
    return (_may_fold_to_zero(a) and _converts_integer(b)) or (_may_fold_to_zero(b) and _converts_integer(a))


def _converts_integer(v: Value) -> bool:
    return any(
        isinstance(part, IndexValue)
        or (isinstance(part, Op) and part.name == "cast" and not part.args[0].dtype.is_float)
        for part in walk_values(v)
    )


def _may_fold_to_zero(v: Value) -> bool:
    """Whether a compiler may prove that a float is zero, from constants or because it is ``x - x``."""
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
