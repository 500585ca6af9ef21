"""Lower thread nests to serial loops and lane loops for the C backend.

One pass over a kernel calls the rewrites of this folder loop by loop, in the order of the text, so that all of them
share one `Namer` and one set of bound indices:

    lane loop                  strip_mine, which includes make_lane_loop_innermost; strip_mine_wide; collapse_all
    loop around a lane loop    peel_last_iteration; unroll_and_jam, after unswitch_rows; jam_gathers; jam_terms;
                               split_scatter_loop if it gathers; keep_carried_values
    innermost lane loop        cut_into_vectors, unroll_by_period, split_at_clamps, split_scatter_loop, shift_tail,
                               which includes split_table_lookups
    serial loop                privatise_bins, keep_carried_values
    statement                  BooleanIndices.hidden, with ConvertedIntegers.hidden of values

In the result, lane loops have the role LANES or VECTOR, and no loop over threadIdx.x has the role THREAD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices.index import Index, substitute
from autosched.lower.ir import (
    Barrier,
    Body,
    CompilerHint,
    For,
    Hint,
    If,
    KernelIR,
    LetIndex,
    LocalScope,
    LoopRole,
    RegisterChoice,
    ScatterChoice,
    Stmt,
    Store,
    WarpReduce,
    walk,
)
from autosched.lower.ir_queries import kernel_names, names_used
from autosched.lower.passes.cpu.boolean_index import BooleanIndices
from autosched.lower.passes.cpu.collapse_lanes import collapse_all
from autosched.lower.passes.cpu.converted_integers import ConvertedIntegers
from autosched.lower.passes.cpu.distribute_lane_loop import (
    has_non_affine_addresses,
    is_gather,
    is_scatter,
    is_unit_stride,
    make_lane_loop_innermost,
)
from autosched.lower.passes.cpu.jam_gathers import jam_gathers
from autosched.lower.passes.cpu.jam_terms import jam_terms
from autosched.lower.passes.cpu.loop_dependence import carries_dependence
from autosched.lower.passes.cpu.peel_last_iteration import peel_last_iteration
from autosched.lower.passes.cpu.privatise_bins import privatise_bins
from autosched.lower.passes.cpu.replace_scalars import keep_carried_values
from autosched.lower.passes.cpu.shift_tail import shift_tail
from autosched.lower.passes.cpu.split_index_set import split_at_clamps
from autosched.lower.passes.cpu.split_scatter_loop import SplitScatter, split_scatter_loop
from autosched.lower.passes.cpu.strip_mine import (
    cut_into_vectors,
    keeps_sums_in_registers,
    strip_mine,
    strip_mine_wide,
)
from autosched.lower.passes.cpu.unroll_and_jam import jam_ends, unroll_and_jam
from autosched.lower.passes.cpu.unroll_by_period import unroll_by_period
from autosched.lower.passes.cpu.unswitch_rows import unswitch_rows

AnyStmt = TypeVar("AnyStmt", bound=Stmt)


def lower_thread_nests(kernel: KernelIR, *, guarded: bool = True) -> KernelIR:
    """Return a kernel whose thread nests are serial loops and lane loops.

    Args:
        kernel: A kernel without arrays in PRIVATE memory.
        guarded: Whether compiler workarounds are applied: hints and kept values for carried dependences, hidden ranges
            of boolean indices, and hidden integers that were floating-point numbers.
    """
    return replace(kernel, body=_NestLowering(kernel, guarded).statements(kernel.body))


class _NestLowering:
    """Lowers one kernel, in the order of the text."""

    def __init__(self, kernel: KernelIR, guarded: bool) -> None:
        self._guarded = guarded
        self._boolean_indices = BooleanIndices(kernel.body, ConvertedIntegers(kernel.body).hidden)
        self._namer = Namer(kernel_names(kernel))
        self._bound: dict[str, Index] = {}
        self._is_in_lanes = False
        self._around: For | None = None

    def statements(self, body: Body) -> Body:
        """Return lowered statements."""
        return tuple(t for s in body for t in self._statement(s))

    def _statement(self, s: Stmt) -> Body:
        match s:
            case For():
                return self._loop(s)
            case If():
                return (self._if(s),)
            case Barrier() | WarpReduce():
                return (s,)
            case LetIndex():
                self._bound[s.name] = substitute(s.index, self._bound)
        return (self._hidden(s),)

    def _if(self, s: If) -> If:
        condition = self._hidden(s)
        then = self.statements(s.then)
        return replace(condition, then=then, orelse=self.statements(s.orelse))

    def _hidden(self, s: AnyStmt) -> AnyStmt:
        """Return a statement with the ranges of its boolean indices and the origin of its integers hidden."""
        if not self._guarded:
            return s
        self._boolean_indices.add(s)  # rewrites may have given it new names
        return self._boolean_indices.hidden(s)

    def _loop(self, s: For) -> Body:
        if s.role is LoopRole.THREAD and s.extent == 1:
            return (LocalScope(self.statements(s.body)),)
        if s.role is LoopRole.THREAD and s.axis == 0:
            few = self._scopes(strip_mine(s, self._namer))
            wide = strip_mine_wide(s, self._namer)
            return few if wide is None else (RegisterChoice(self._scopes(wide), few),)
        if s.role is LoopRole.THREAD and (rows := self._jammed_thread_rows(s)):
            return rows
        if s.role is LoopRole.SERIAL and not self._is_in_lanes and (private := privatise_bins(s, self._namer)):
            return (LocalScope(self.statements(private)),)
        before, s, hints = self._with_kept_values(s)
        body = self.statements(s.body)
        if s.ordered or (s.role is LoopRole.SERIAL and not self._is_in_lanes and _updates_unrolled_arrays(s)):
            hints = (CompilerHint(Hint.ONE_BY_ONE), *hints)
        return (*before, replace(s, body=(*body, *hints)))

    def _scopes(self, scopes: Sequence[Body]) -> Body:
        """Return lowered consecutive scopes of a distributed lane loop."""
        return tuple(LocalScope(self._pieces(collapse_all(scope))) for scope in scopes)

    def _jammed_thread_rows(self, s: For) -> Body:
        """Return loops over groups of rows in place of a loop over threads; nothing if their lanes share few loads."""
        *between, last = s.body
        if not isinstance(last, For) or last.role is not LoopRole.THREAD or last.axis != 0 or last.extent == 1:
            return ()
        rows = replace(s, body=(*between, *make_lane_loop_innermost(last)))
        return self._jammed(rows)

    def _jammed(self, rows: For) -> Body:
        """Return loops over groups of rows, lowered; nothing if rows are not jammed."""
        if jammed := self._jammed_lanes(rows):
            return jammed
        if (unswitched := unswitch_rows(rows)) and (jammed := self._jammed_lanes(unswitched[1])):
            return (If(unswitched[0], jammed, self._loop_around_lanes(rows)),)
        gathers = jam_gathers(rows, self._namer, self._bound)
        return () if gathers is None else self._loop_around_lanes(gathers)

    def _jammed_lanes(self, rows: For) -> Body:
        """Return loops over groups of rows, and over the lanes at both ends with clamps; nothing if none is jammed."""
        if jammed := unroll_and_jam(rows, self._namer):
            return self._loop_around_lanes(jammed)
        *between, lanes = rows.body
        if not isinstance(lanes, For) or len(parts := split_at_clamps(lanes)) == 1:
            return ()
        middle = next(part for part in parts if part.body is not lanes.body)
        jammed = unroll_and_jam(replace(rows, body=(*between, middle)), self._namer)
        if jammed is None:
            return ()
        loops = list(self._loop_around_lanes(jammed))
        for part in parts:
            if part is not middle:
                ends = replace(rows, body=(*between, part))
                loops.append(self._rows_of_ends(jam_ends(ends, rows.extent // jammed.extent, self._namer) or ends))
        return tuple(loops)

    def _jammed_terms(self, terms: For) -> Body:
        """Return a loop over groups of terms, lowered, and the terms that are left; nothing if terms are not jammed."""
        jammed = jam_terms(terms, self._namer)
        if jammed is None:
            return ()
        groups, left = jammed
        *before, loop = self._loop_around_lanes(groups)
        assert isinstance(loop, For)
        hints = () if _has_hint(loop, Hint.ONE_BY_ONE) else (CompilerHint(Hint.ONE_BY_ONE),)
        return (*before, replace(loop, body=(*loop.body, *hints)), *self._pieces(left))

    def _rows_of_ends(self, rows: For) -> For:
        """Return a lowered loop over rows whose lanes are at one end, and not split again."""
        body = tuple(t for s in rows.body for t in (self._lane_loop(s) if isinstance(s, For) else self._statement(s)))
        return replace(rows, role=LoopRole.SERIAL, body=body)

    def _pieces(self, body: Body) -> Body:
        """Return lowered pieces of a distributed lane loop."""
        return tuple(t for s in body for t in self._piece(s))

    def _piece(self, s: Stmt) -> Body:
        match s:
            case For(role=LoopRole.THREAD) if vectors := cut_into_vectors(s, self._namer):
                return tuple(t for loop in vectors for t in self._vectors(loop))
            case For(role=LoopRole.THREAD):
                return tuple(t for loop in unroll_by_period(s, self._namer) for t in self._parts(loop))
            case For() if peeled := peel_last_iteration(s):
                first, last = peeled
                return (*self._piece(first), LocalScope(self._pieces(last)))
            case For():
                return self._jammed(s) or self._jammed_terms(s) or self._loop_around_lanes(s)
            case If() if any(isinstance(t, For) for t in s.then):
                condition = self._hidden(s)
                return (replace(condition, then=self._pieces(s.then), orelse=()),)
        return self._statement(s)

    def _vectors(self, s: For) -> Body:
        """Return a lowered loop over single vectors, or the lanes that are left over."""
        if s.role is LoopRole.THREAD:
            return self._parts(s)
        return (replace(s, body=tuple(t for v in s.body if isinstance(v, For) for t in self._parts(v))),)

    def _parts(self, loop: For) -> Body:
        """Return the lowered parts of a lane loop. The part without clamps has most lanes."""
        parts = (loop,) if loop.few_points else split_at_clamps(loop)
        lowered: list[Stmt] = []
        for part in parts:
            body = self._lane_loop(part)
            has_most = len(parts) == 1 or part.body is not loop.body
            lowered += [t for s in body for t in shift_tail(s, self._namer)] if has_most else body
        return tuple(lowered)

    def _loop_around_lanes(self, s: For) -> Body:
        """Return a loop around lane loops; first steps of scatter loops that do not depend on it come before it."""
        lane_loops, splits = self._splits_of_all_lane_loops(s)
        before, s, hints = self._with_kept_values(s)
        if not splits:
            return (*before, self._around_pieces(s, hints))
        whole = (self._around_body(s, self._whole(lane_loops), hints),)
        first = self._first_steps(splits)
        return (*before, ScatterChoice(whole, (*first, self._around_body(s, self._second_steps(splits), hints))))

    def _around_pieces(self, s: For, hints: Body) -> For:
        around, self._around = self._around, s
        pieces = self._pieces(s.body)
        self._around = around
        return self._around_body(s, pieces, hints)

    def _around_body(self, s: For, body: Body, hints: Body) -> For:
        in_registers = self._around is not None and keeps_sums_in_registers(s, self._around)
        if in_registers or is_gather(s) or has_non_affine_addresses(s):
            hints = (CompilerHint(Hint.ONE_BY_ONE), *hints)
        return replace(s, role=LoopRole.SERIAL, body=(*body, *hints))

    def _with_kept_values(self, s: For) -> tuple[Body, For, Body]:
        """Return lowered statements before a loop, the loop, and hints at the end of its body."""
        if not self._guarded or s.role is LoopRole.THREAD or not carries_dependence(s, self._bound):
            return (), s, ()
        before, loop = keep_carried_values(s, self._namer) or ((), s)
        return self._pieces(before), loop, (CompilerHint(Hint.CARRIES_DEPENDENCE),)

    def _splits_of_all_lane_loops(self, s: For) -> tuple[list[For], list[SplitScatter]]:
        """Return a loop's lane loops and their splits; no splits if a first step depends on the loop."""
        if not is_gather(s) or not all(isinstance(t, For) and t.role is LoopRole.THREAD for t in s.body):
            return [], []
        loops = [part for t in s.body if isinstance(t, For) for part in split_at_clamps(t)]
        splits = [split for part in loops if (split := split_scatter_loop(part, self._namer))]
        names = names_used([split.first for split in splits])
        return loops, splits if len(splits) == len(loops) and s.name not in names else []

    def _lane_loop(self, s: For) -> Body:
        split = split_scatter_loop(s, self._namer)
        if split is None:
            return self._whole([s])
        whole = self._whole([s])
        first = self._first_steps([split])
        return (ScatterChoice(whole, (*first, *self._second_steps([split]))),)

    def _whole(self, loops: Sequence[For]) -> Body:
        return tuple(self._lanes(s, not s.few_points and (is_unit_stride(s) or is_scatter(s))) for s in loops)

    def _first_steps(self, splits: Sequence[SplitScatter]) -> Body:
        return tuple(
            t for split in splits for t in (*self.statements(split.rows), self._lanes(split.first, split.in_vectors))
        )

    def _second_steps(self, splits: Sequence[SplitScatter]) -> Body:
        return tuple(self._lanes(split.second, False) for split in splits)

    def _lanes(self, s: For, in_vectors: bool) -> For:
        self._is_in_lanes = True
        body = self.statements(s.body)
        self._is_in_lanes = False
        return replace(s, role=LoopRole.VECTOR if in_vectors else LoopRole.LANES, body=body)


def _has_hint(s: For, hint: Hint) -> bool:
    return any(isinstance(t, CompilerHint) and t.hint is hint for t in s.body)


def _updates_unrolled_arrays(s: For) -> bool:
    """Whether each iteration of a loop stores to several elements of a thread's arrays, in an unrolled loop."""
    unrolled = (t for t in walk(s.body) if isinstance(t, For) and t.role is LoopRole.UNROLLED)
    return any(isinstance(t, Store) and t.buffer.in_registers for u in unrolled for t in walk(u.body))
