"""Execution of updates: serial loops run in Python, all others in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from autosched.errors import InputError
from autosched.lang.func import Func, Input
from autosched.reference.buffers import Array, Loop, ReferenceBuffer, Scope, blocks, scope_of
from autosched.reference.dependence import PointAccesses, injective_loops, serial_loops
from autosched.reference.patterns import match_folds, match_selection
from autosched.reference.program import Bindings
from autosched.reference.reductions import run_folds, run_scatter, run_selection
from autosched.reference.stage import Box, ReferenceStage
from autosched.reference.update import Update

MAX_STEPS = 1_000_000


def run_update(
    stage: ReferenceStage, domain: Box, bindings: Bindings, sources: Mapping[Func | Input, ReferenceBuffer]
) -> None:
    """Apply an update to the values of its Func, with the result of serial execution.

    Raises:
        InputError: If more than `MAX_STEPS` iterations must run serially.
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
        _run_serially(update)
    else:
        _run_at_once(update)


def _split_loops(update: Update) -> tuple[list[Loop] | None, list[Loop]]:
    """Return the loops with one accumulator per point, and the reduced loops; None if points may coincide."""
    stage = update.stage
    in_indices = {key for n in stage.indices for key in stage.numbering.loops[n]}
    kept = [loop for loop in stage.reduction if loop[0] in in_indices]
    if not injective_loops(update).issuperset(key for key, _ in kept):
        return None, []
    return [*kept, *update.pure], [loop for loop in stage.reduction if loop[0] not in in_indices]


def _reads_itself(stage: ReferenceStage) -> bool:
    return any(stage.func in stage.numbering.sources[n] for n in (*stage.indices, *stage.values))


def _run_at_once(update: Update, serial: Sequence[Loop] = ()) -> None:
    """Run the serial loops one iteration after another, all other loops at once."""
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


def _run_serially(update: Update) -> None:
    stage = update.stage
    serial, accesses = serial_loops(update)
    steps = prod(len(r) for _, r in serial)
    if accesses is not None and steps > 1 and len(stage.self_accesses()) == 1:
        rounds = _rounds(accesses)
        if int(rounds.max()) + 1 < steps:
            _run_in_rounds(update, accesses, rounds)
            return
    if steps > MAX_STEPS:
        raise InputError(
            f"{stage.name} needs {steps} steps one after another, as each depends on the one before; "
            f"the interpreter runs at most {MAX_STEPS}. Use smaller inputs, or write the update as "
            "f[i] = f[i] op value with op one of + - * min max & | ^"
        )
    _run_at_once(update, serial)


def _rounds(accesses: PointAccesses) -> Array:
    """Return the number of earlier accesses to the same point, for each access."""
    position = np.arange(len(accesses.iteration))
    return position - np.maximum.accumulate(np.where(accesses.starts, position, 0))


def _run_in_rounds(update: Update, accesses: PointAccesses, rounds: Array) -> None:
    """Run an update with one access per iteration; round k runs the k-th access to each point at once."""
    if int(rounds.max()) >= MAX_STEPS:
        raise InputError(
            f"{update.stage.name} updates one point {int(rounds.max()) + 1} times one after another; the interpreter "
            f"does so at most {MAX_STEPS} times. Use smaller inputs"
        )
    stage = update.stage
    enumerated = {key for key, _ in accesses.loops}
    box = [loop for loop in update.pure if loop[0] not in enumerated]
    parts = [{key: value.reshape(1, *value.shape) for key, value in scope_of(block).items()} for block in blocks(box)]
    program = update.program(*stage.indices, *stage.values)
    order = np.argsort(rounds, kind="stable")
    ends = np.cumsum(np.bincount(rounds))
    coordinates = [accesses.coordinate(axis)[order] + r.start for axis, (_, r) in enumerate(accesses.loops)]
    for start, end in itertools.pairwise([0, *ends.tolist()]):
        column = (-1, *[1] * len(box))
        step = {key: at[start:end].reshape(column) for (key, _), at in zip(accesses.loops, coordinates, strict=True)}
        for part in parts:
            computed = program.run(part | step)
            update.store(computed[: len(stage.indices)], computed[len(stage.indices) :])
