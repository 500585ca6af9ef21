"""Execution of folds and selections, many iterations at a time, with the results of serial execution.

Integer folds are reassociated, as integers wrap. Floating-point sums and products accumulate one iteration after
another. Minima, maxima and selections keep the first of equal values, as NumPy's argmin and argmax do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from autosched.lang.dtypes import is_float_dtype
from autosched.reference.access import flat_index, read
from autosched.reference.arithmetic import UFUNCS
from autosched.reference.buffers import BLOCK_ELEMENTS, Array, Loop, Value, blocks, extent, scope_of
from autosched.reference.patterns import Fold, Selection
from autosched.reference.update import Update

_KEPT_ELEMENTS = 1 << 14
"""Accumulators per block, few enough for many iterations per evaluation."""


def run_folds(update: Update, folds: Sequence[Fold], kept: list[Loop], reduced: list[Loop]) -> None:
    """Fold the ``reduced`` loops into one accumulator per point of the ``kept`` loops."""
    for at, accumulators in _accumulators(update, kept):
        for rows in _rows(update, [f.value for f in folds], at, reduced):
            accumulators = [_fold(f.op, acc, r) for f, acc, r in zip(folds, accumulators, rows, strict=True)]
        _store(update, at, accumulators)


def run_selection(update: Update, selection: Selection, kept: list[Loop], reduced: list[Loop]) -> None:
    """Select over the ``reduced`` loops for each point of the ``kept`` loops."""
    for at, accumulators in _accumulators(update, kept):
        for rows in _rows(update, selection.values, at, reduced):
            accumulators = _select(selection, accumulators, rows)
        _store(update, at, accumulators)


def run_scatter(update: Update, folds: Sequence[Fold]) -> None:
    """Fold into points that several iterations may update, in the order of the iterations."""
    stage = update.stage
    program = update.program(*stage.indices, *(f.value for f in folds))
    rank = len(stage.indices)
    for block in blocks([*stage.reduction, *update.pure]):
        shape = tuple(len(r) for _, r in block)
        computed = program.run(scope_of(block))
        at = flat_index(update.buffer.arrays[0].shape, update.buffer.origin, tuple(computed[:rank]))
        at = np.broadcast_to(at, shape).reshape(-1)
        for fold, array, value in zip(folds, update.buffer.arrays, computed[rank:], strict=True):
            _scatter(fold.op, array.reshape(-1), at, np.broadcast_to(value, shape).reshape(-1))


def _accumulators(update: Update, kept: list[Loop]) -> Iterator[tuple[list[Loop], list[Array]]]:
    """Yield blocks of the kept loops with the current values of each component, flattened."""
    program = update.program(*update.stage.indices)
    for at in blocks(kept, _KEPT_ELEMENTS):
        indices = program.run(scope_of(at))
        shape = tuple(len(r) for _, r in at)
        current = [read(array, update.buffer.origin, *indices) for array in update.buffer.arrays]
        yield at, [np.broadcast_to(c, shape).reshape(-1).copy() for c in current]


def _store(update: Update, at: list[Loop], accumulators: list[Array]) -> None:
    shape = tuple(len(r) for _, r in at)
    indices = update.program(*update.stage.indices).run(scope_of(at))
    update.store(indices, [acc.reshape(shape) for acc in accumulators])


def _rows(update: Update, roots: Sequence[int], at: list[Loop], reduced: list[Loop]) -> Iterator[list[Array]]:
    """Yield values in order, one row per iteration of the reduced loops, one column per accumulator."""
    program = update.program(*roots)
    columns = extent(at)
    for part in blocks(reduced, max(1, BLOCK_ELEMENTS // columns)):
        loops = [*part, *at]
        shape = tuple(len(r) for _, r in loops)
        yield [np.broadcast_to(v, shape).reshape(-1, columns) for v in program.run(scope_of(loops))]


def _fold(op: str, acc: Array, rows: Array) -> Array:
    ufunc = UFUNCS[op]
    if not is_float_dtype(acc.dtype):
        total = (np.add if op == "sub" else ufunc).reduce(rows, axis=0, dtype=acc.dtype)
        return np.asarray(ufunc(acc, total))
    if op in ("min", "max"):
        return _first_best(op, np.concatenate([acc[None], rows]))
    if rows.shape[1] >= rows.shape[0]:
        for row in rows:
            acc = ufunc(acc, row)
        return acc
    return np.asarray(ufunc.accumulate(np.concatenate([acc[None], rows]), axis=0, dtype=acc.dtype)[-1])


def _first_best(op: str, rows: Array) -> Array:
    """Return the first minimum or maximum of each column; a NaN counts as the best, as in argmin and argmax."""
    best = rows.argmin(axis=0) if op == "min" else rows.argmax(axis=0)
    return np.asarray(np.take_along_axis(rows, best[None], axis=0)[0])


def _select(selection: Selection, accumulators: list[Array], rows: list[Array]) -> list[Array]:
    candidates, current = rows[selection.key], accumulators[selection.key]
    if is_float_dtype(candidates.dtype) and not selection.takes_nan:
        worst = candidates.dtype.type(-np.inf if selection.greater else np.inf)
        candidates = np.where(np.isnan(candidates), worst, candidates)
    best = (candidates.argmax(axis=0) if selection.greater else candidates.argmin(axis=0))[None]
    best_value = np.take_along_axis(candidates, best, axis=0)[0]
    better = best_value > current if selection.greater else best_value < current
    if selection.takes_nan:
        better |= np.isnan(best_value) & ~np.isnan(current)
    return [
        np.where(better, np.take_along_axis(new, best, axis=0)[0], old)
        for new, old in zip(rows, accumulators, strict=True)
    ]


def _scatter(op: str, array: Array, at: Array, value: Array) -> None:
    before = array.copy() if is_float_dtype(array.dtype) and op in ("min", "max") else None
    UFUNCS[op].at(array, at, value)
    if before is not None:
        _keep_first_of_equals(array, before, at, value)


def _keep_first_of_equals(array: Array, before: Array, at: Array, value: Value) -> None:
    """Keep the first of equal values: of zeros with different signs, and of NaNs."""
    now, old = array[at], before[at]
    unchanged = (old == now) | np.isnan(old)
    array[at] = np.where(unchanged, old, now)
    candidates = np.flatnonzero(~unchanged & ((value == now) | np.isnan(value)))[::-1]
    array[at[candidates]] = value[candidates]
