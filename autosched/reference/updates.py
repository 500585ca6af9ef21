"""Running an update: in Python only the loops that carry a dependence, everything else at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from autosched.errors import InputError
from autosched.lang.func import Func, Input
from autosched.reference.buffers import Array, Loop, ReferenceBuffer, Scope, blocks, scope_of
from autosched.reference.dependence import Touched, injective_loops, serial_loops
from autosched.reference.patterns import match_folds, match_selection
from autosched.reference.program import Bindings
from autosched.reference.reductions import run_folds, run_scatter, run_selection
from autosched.reference.stage import Box, ReferenceStage
from autosched.reference.update import Update

MAX_STEPS = 1_000_000


def run_update(
    stage: ReferenceStage, domain: Box, bindings: Bindings, sources: Mapping[Func | Input, ReferenceBuffer]
) -> None:
    """Apply an update to the values of its Func, as if all its iterations ran in order.

    Raises:
        InputError: If more than `MAX_STEPS` iterations would have to be run one after another.
    """
    update = Update(stage, stage.pure(domain), sources[stage.func], bindings, sources)
    folds, selection = match_folds(stage), match_selection(stage)
    accumulates = folds is not None or selection is not None
    kept, reduced = _split_loops(update) if accumulates else (None, [])
    if folds is not None and kept is not None:
        run_folds(update, folds, kept, reduced)
    elif folds is not None:
        run_scatter(update, folds)
    elif selection is not None and kept is not None:
        run_selection(update, selection, kept, reduced)
    elif _reads_itself(stage):
        _run_in_steps(update)
    else:
        _run_at_once(update)


def _split_loops(update: Update) -> tuple[list[Loop] | None, list[Loop]]:
    """Return the loops that tell accumulators apart and those that are reduced; None if points may meet otherwise."""
    stage = update.stage
    placing = {key for n in stage.indices for key in stage.numbering.loops[n]}
    telling = [loop for loop in stage.reduction if loop[0] in placing]
    if not injective_loops(update).issuperset(key for key, _ in telling):
        return None, []
    return [*telling, *update.pure], [loop for loop in stage.reduction if loop[0] not in placing]


def _reads_itself(stage: ReferenceStage) -> bool:
    return any(stage.func in stage.numbering.sources[n] for n in (*stage.indices, *stage.values))


def _run_at_once(update: Update, serial: Sequence[Loop] = ()) -> None:
    """Run the iterations of all but the serial loops together, and those one after another."""
    stage = update.stage
    keys = {key for key, _ in serial}
    parallel = [loop for loop in (*stage.reduction, *update.pure) if loop[0] not in keys]
    parts = [scope_of(block) for block in blocks(parallel)]
    program = update.program(*stage.indices, *stage.values)
    rank = len(stage.indices)
    for step in _steps(serial):
        for part in parts:
            computed = program.run(part | step)
            update.store(computed[:rank], computed[rank:])


def _steps(serial: Sequence[Loop]) -> Iterator[Scope]:
    names = [key for key, _ in serial]
    for point in itertools.product(*(r for _, r in serial)):
        yield dict(zip(names, map(np.int64, point), strict=True))


def _run_in_steps(update: Update) -> None:
    stage = update.stage
    serial, touched = serial_loops(update)
    steps = prod(len(r) for _, r in serial)
    if touched is not None and steps > 1 and len(stage.own_accesses()) == 1:
        rounds = _rounds(touched)
        if int(rounds.max()) + 1 < steps:
            _run_in_rounds(update, touched, rounds)
            return
    if steps > MAX_STEPS:
        raise InputError(
            f"{stage.name} needs {steps} steps one after another, as each depends on the one before; "
            f"the interpreter walks at most {MAX_STEPS}. Use smaller inputs, or write the update as "
            "f[i] = f[i] op value with op one of + - * min max & | ^"
        )
    _run_at_once(update, serial)


def _rounds(touched: Touched) -> Array:
    """Return, for each iteration in the order of ``affected_kernels``, how many before it met at its point."""
    place = np.arange(len(touched.iteration))
    return place - np.maximum.accumulate(np.where(touched.starts, place, 0))


def _run_in_rounds(update: Update, touched: Touched, rounds: Array) -> None:
    """Run an update that touches one point an iteration: together, the k-th iterations to meet at each point."""
    if int(rounds.max()) >= MAX_STEPS:
        raise InputError(
            f"{update.stage.name} updates one point {int(rounds.max()) + 1} times one after another; the interpreter "
            f"does so at most {MAX_STEPS} times. Use smaller inputs"
        )
    stage = update.stage
    listed = {key for key, _ in touched.loops}
    box = [loop for loop in update.pure if loop[0] not in listed]
    others = [{key: value.reshape(1, *value.shape) for key, value in scope_of(block).items()} for block in blocks(box)]
    program = update.program(*stage.indices, *stage.values)
    order = np.argsort(rounds, kind="stable")
    ends = np.cumsum(np.bincount(rounds))
    coordinates = [touched.coordinate(axis)[order] + r.start for axis, (_, r) in enumerate(touched.loops)]
    for start, end in itertools.pairwise([0, *ends.tolist()]):
        column = (-1, *[1] * len(box))
        here = {key: at[start:end].reshape(column) for (key, _), at in zip(touched.loops, coordinates, strict=True)}
        for part in others:
            computed = program.run(part | here)
            update.store(computed[: len(stage.indices)], computed[len(stage.indices) :])
