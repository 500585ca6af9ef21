"""Steps of which the next one's chunks are loaded while one is computed, into the other of two buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from autosched.analysis.indices import index as ix
from autosched.lower.emit.register_blocking import allocate_register_tiles, store_register_tiles, update
from autosched.lower.ir import Alloc, Barrier, For, LetIndex, LoopRole, Memory, Stmt
from autosched.schedule.plan import Nest, NestLoop

if TYPE_CHECKING:
    from autosched.lower.emit.thread_nest import ThreadNestEmitter

Values = Mapping[str, ix.Index]
"""What loops that the block walks stand at, by name."""


def emit_double_buffered(
    nests: ThreadNestEmitter, loops: Sequence[NestLoop], members: Sequence[Sequence[Nest]],
    add: Callable[[], tuple[Stmt, ...]],
) -> tuple[Stmt, ...]:  # fmt: skip
    """Return the statements of all steps.

    The last step loads its own chunks once more, into the buffer that nobody reads: that is cheaper than a branch. What
    is copied asynchronously goes there at once, and has arrived when the next step begins.

    Args:
        nests: Emits the nests.
        loops: What the block walks.
        members: The nests of what is staged, each alone in its group.
        add: Emits what is computed in a step.
    """
    past = {m.func for m in nests.plan.kernel.fused if m.asynchronous}
    copied = [group[0] for group in members if group[0].stage.func in past]
    staged = [group[0] for group in members if group[0].stage.func not in past]
    held = [allocate_register_tiles(nests, n, Memory.PRIVATE) for n in staged]
    statements: list[Stmt] = [Alloc(b) for h in held for b in h.buffers]
    beginning = dict.fromkeys((p.name for p in loops), 0)
    for n in staged:
        with _at(nests, n, beginning) as first:
            statements += nests.emit((first,))
    statements += _copies(nests, copied, beginning)
    steps = _PipelineSteps.over(nests, loops)
    depth = nests.out.scope.depth
    nests.out.push(steps.names, fence=True, serial=True)
    body: list[Stmt] = [*steps.bindings, Barrier(bool(copied))]
    nests.body.rotation = ix.sub(1, steps.parity)
    body += _copies(nests, copied, steps.next_values)
    nests.body.rotation = 0
    for n, h in zip(staged, held, strict=True):
        with _at(nests, n, steps.next_values) as following:
            body += nests.emit((following,), lambda h=h, n=following: update(nests, h, n))  # type: ignore[misc]
    nests.body.rotation = steps.parity
    body += add()
    nests.body.rotation = ix.sub(1, steps.parity)
    for n, h in zip(staged, held, strict=True):
        with _at(nests, n, steps.next_values) as following:
            body += nests.emit((following,), lambda h=h, n=following: store_register_tiles(nests, h, n))  # type: ignore[misc]
    nests.body.rotation = 0
    assert not nests.out.pop(), "nothing is hoisted out of a nest"
    note = f"{', '.join(p.dim for p in loops)}: {steps.count} steps"
    statements.append(For(steps.name, steps.count, LoopRole.MAINLOOP, tuple(body), depth=depth, comment=note))
    if copied:  # the last ones must not arrive in memory that others have by then
        statements.append(Barrier(waits_for_copies=True))
    return tuple(statements)


def _copies(nests: ThreadNestEmitter, copied: Sequence[Nest], values: Values) -> tuple[Stmt, ...]:
    """Return statements that begin the copies of a step."""
    statements: list[Stmt] = []
    nests.body.asynchronous = True
    for n in copied:
        with _at(nests, n, values) as moved:
            statements += nests.emit((moved,))
    nests.body.asynchronous = False
    return tuple(statements)


@dataclass(frozen=True, slots=True)
class _PipelineSteps:
    """One loop in place of all that the block walks.

    Attributes:
        name: Its variable.
        count: Its iterations.
        names: Everything that is bound in it.
        bindings: Statements that bind the loops' values in this step and in the next, and whose turn it is.
        following: The loops' values in the next step.
        turn: Which buffer is read.
    """

    name: str
    count: int
    names: tuple[str, ...]
    bindings: tuple[LetIndex, ...]
    next_values: Values
    parity: ix.Index

    @classmethod
    def over(cls, nests: ThreadNestEmitter, loops: Sequence[NestLoop]) -> _PipelineSteps:
        count = prod(p.extent for p in loops)
        moving = [p for p in loops if p.extent > 1]
        name = moving[0].name if len(moving) == 1 else nests.body.namer("step")
        step = ix.var(name, 0, count - 1)
        later = ix.minimum(ix.add(step, 1), count - 1)
        bindings: list[LetIndex] = []
        following: dict[str, ix.Index] = {}
        inner = count
        for p in loops:
            inner //= p.extent
            if p.extent == 1:
                continue
            if p.name != name:
                bindings.append(LetIndex(p.name, ix.mod(ix.floordiv(step, inner), p.extent)))
            after = nests.body.namer(p.name, "next")
            bindings.append(LetIndex(after, ix.mod(ix.floordiv(later, inner), p.extent)))
            following[p.name] = ix.var(after, 0, p.extent - 1)
        turn = nests.body.namer("turn")
        bindings.append(LetIndex(turn, ix.mod(step, 2)))
        names = (name, *(b.name for b in bindings))
        return cls(name, count, names, tuple(bindings), following, ix.var(turn, 0, 1 if count > 1 else 0))


@contextmanager
def _at(nests: ThreadNestEmitter, n: Nest, values: Values) -> Iterator[Nest]:
    """Give a Member's nest in another step, with its buffer beginning where the region of that step does."""
    name = n.stage.func
    own = nests.plan.allocations[name]
    nests.body.shifted[name] = replace(own, base=_moved(own.base, values))
    yield replace(n, low=_moved(n.low, values), high=_moved(n.high, values))
    del nests.body.shifted[name]


def _moved(box: Mapping[str, ix.Index], values: Values) -> dict[str, ix.Index]:
    return {d: ix.substitute(i, values) for d, i in box.items()}
