"""Powers of the weights of linear recurrences, as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Const, Expr, Unary
from autosched.lang.functions import select
from autosched.lang.operators import typed_const

Values = tuple[Expr, ...]
_Matrix = tuple[tuple[Expr, Expr], tuple[Expr, Expr]]


def times_powers(weights: Sequence[Expr | None], values: Values, count: int) -> Values:
    """Return the values multiplied by ``count`` weights each."""
    return tuple(v if w is None else _times_power(w, v, count) for w, v in zip(weights, values, strict=True))


def times_matrix_power(weights: tuple[Expr, Expr], values: tuple[Expr, Expr], count: int) -> Values:
    """Return two consecutive elements, the later one first, ``count`` steps of a recurrence of second order later.

    Zeros stay zero, also where a power overflows.
    """
    d = values[0].dtype
    zero, one = typed_const(0, d), typed_const(1, d)
    rows = _matrix_power(((_folded(weights[0]), _folded(weights[1])), (one, zero)), count)

    def product(entry: Expr, value: Expr) -> Expr:
        scaled = Binary("mul", entry, value, d)
        return select(value == zero, zero, scaled) if d.is_float else scaled

    return tuple(Binary("add", product(row[0], values[0]), product(row[1], values[1]), d) for row in rows)


def _matrix_power(matrix: _Matrix, count: int) -> _Matrix:
    result: _Matrix | None = None
    while count:
        if count & 1:
            result = matrix if result is None else _matrix_product(result, matrix)
        count >>= 1
        if count:
            matrix = _matrix_product(matrix, matrix)
    assert result is not None
    return result


def _matrix_product(a: _Matrix, b: _Matrix) -> _Matrix:
    def entry(row: tuple[Expr, Expr], k: int) -> Expr:
        d = row[0].dtype
        first, second = (_folded(Binary("mul", row[j], b[j][k], d)) for j in range(2))
        return _folded(Binary("add", first, second, d))

    return (entry(a[0], 0), entry(a[0], 1)), (entry(a[1], 0), entry(a[1], 1))


def _folded(e: Expr) -> Expr:
    """Return sums, products and negations of constants as one constant, rounded after each operation."""
    match e:
        case Binary(op="add" | "mul"):
            operands = [_folded(e.a), _folded(e.b)]
        case Unary(op="neg"):
            operands = [_folded(e.a)]
        case _:
            return e
    constants = [np.asarray(c.value).astype(e.dtype.numpy) for c in operands if isinstance(c, Const)]
    if len(constants) < len(operands):
        return e
    with np.errstate(all="ignore"):
        value = {"add": np.add, "mul": np.multiply, "neg": np.negative}[e.op](*constants)
    return Const(value.item(), e.dtype)


def _times_power(weight: Expr, value: Expr, count: int) -> Expr:
    """Return ``weight ** count * value``, with the zeros and infinities of one multiplication after the other.

    A power that overflows or underflows has no influence on a zero or an infinity beyond its sign.
    """
    power = _power(weight, count)
    product = Binary("mul", power, value, value.dtype)
    if not value.dtype.is_float or (isinstance(weight, Const) and _is_normal(float(weight.value), count, value.dtype)):
        return product
    d = value.dtype
    zero, one = typed_const(0, d), typed_const(1, d)
    sign = select(weight > zero, one, select(weight < zero, Unary("neg", one, d), weight))  # 0 and NaN stay
    infinite = (value == typed_const(float("inf"), d)) | (value == typed_const(float("-inf"), d))
    return select((value == zero) | infinite, Binary("mul", _power(sign, count), value, d), product)


def _power(weight: Expr, count: int) -> Expr:
    """Return a power by repeated squaring."""
    result: Expr | None = None
    while count:
        if count & 1:
            result = weight if result is None else Binary("mul", result, weight, weight.dtype)
        count >>= 1
        if count:
            weight = Binary("mul", weight, weight, weight.dtype)
    assert result is not None
    return result


def _is_normal(weight: float, count: int, dtype: DType) -> bool:
    """Whether no power up to ``count`` overflows or underflows."""
    largest = {2: 2.0**15, 4: 2.0**126, 8: 2.0**1022}[dtype.bytes_]
    try:
        power = abs(weight) ** count
    except OverflowError:
        return False
    return isfinite(power) and 1 / largest <= power <= largest
