"""Jam terms of a reduction: several terms in one lane loop, for the C backend (unroll and jam).

    for r < 4096: for lane < 512: { a = load sum[lane]; b = load in[r, lane]; store sum[lane] = a + b }
    ->  for r4 < 1024: for lane < 512: { a = load sum[lane]; b = load in[4*r4, lane]; store sum[lane] = a + b;
                                         c = load sum[lane]; d = load in[4*r4 + 1, lane]; store sum[lane] = c + d; ... }

gcc jams two terms by itself, and then loses the running sums from its registers. The rows of jammed terms are fetched
side by side. The terms of a lane keep their order.
"""

from __future__ import annotations

from autosched.analysis.identifiers import Namer
from autosched.lower.ir import Body, For, Let, LetIndex, LoopRole, Stmt, Store
from autosched.lower.ir_queries import access_steps, reads_in
from autosched.lower.passes.cpu.distribute_lane_loop import is_gather, is_unit_stride
from autosched.lower.passes.cpu.split_index_set import split_at_clamps
from autosched.lower.passes.cpu.unroll_and_jam import jam, operation_count, with_bindings, with_lanes_outside
from autosched.schedule import cpu_policy


def jam_terms(loop: For, namer: Namer) -> tuple[For, Body] | None:
    """Return a loop over groups of terms, and the lane loop of the terms that are left.

    None unless the loop surrounds one lane loop of straight-line code that accumulates in arrays of its threads, and
    terms are rows that do not overlap (`cpu_policy.terms_are_jammed`).

    Args:
        loop: A loop around a lane loop (a thread loop of axis 0). Bindings between the two move into the lane loop.
        namer: Returns names that are new in the kernel.
    """
    if not has_separate_terms(loop):
        return None
    once = with_bindings(loop)
    assert once is not None
    groups, left = divmod(loop.extent, cpu_policy.JAMMED_TERMS)
    jammed = jam(loop, once, cpu_policy.JAMMED_TERMS, namer)
    if jammed is None:
        return None
    if not left:
        return jammed[0], ()
    rest = with_lanes_outside(loop, once, left, namer, groups * cpu_policy.JAMMED_TERMS)
    return None if rest is None else (jammed[0], (rest,))


def has_separate_terms(loop: For) -> bool:
    """Whether a loop accumulates terms in a lane loop, and each term reads a row of its own.

    Args:
        loop: A loop around lane loops.
    """
    once = with_bindings(loop)
    if once is None or not _accumulates(once.body, loop.name) or len(split_at_clamps(once)) > 1:
        return False
    if not is_unit_stride(once) or is_gather(once):
        return False
    along_lanes, along_terms = access_steps(once), access_steps(For(loop.name, loop.extent, LoopRole.SERIAL, once.body))
    rows = [
        abs(term) >= abs(lane) * once.extent
        for (buffer, lane), (_, term) in zip(along_lanes, along_terms, strict=True)
        if lane and not buffer.in_registers
    ]
    return bool(rows) and all(rows) and cpu_policy.terms_are_jammed(loop.extent, operation_count(once.body))


def _accumulates(body: Body, terms: str) -> bool:
    """Whether straight-line code stores to arrays of its thread alone, at elements that do not depend on the term."""
    stores = [s for s in body if isinstance(s, Store)]
    if not stores or not all(isinstance(s, Let | LetIndex | Store) for s in body):
        return False
    if any(s.combine or not s.buffer.in_registers or _moves(s, body, terms) for s in stores):
        return False
    return {s.buffer.name for s in stores} <= {r.buffer.name for r in reads_in(body)}


def _moves(store: Store, body: Body, terms: str) -> bool:
    """Whether the element of a store moves with the term."""
    bindings: tuple[Stmt, ...] = tuple(s for s in body if isinstance(s, LetIndex))
    return any(step for _, step in access_steps(For(terms, 1, LoopRole.SERIAL, (*bindings, store))))
