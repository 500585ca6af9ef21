"""Distribute the lane loop (threadIdx.x) over a thread's body and make it innermost, for the C backend.

Serial loops of the body become the outer loops, and each straight-line piece gets a vectorisable lane loop of its own.
Per-thread register arrays get a lane dimension. Lanes are independent between barriers, so the interchange is legal.
Values bound outside a piece are computed again in each piece that uses them.

The lane loop is not left outermost because gcc 12 with ``omp simd`` miscompiles outer loops around inner loops with
conditions (with AVX-512), and rarely vectorises others.

Rewrite:
    for lane: { acc; for s: { let a; store acc[s] } }
    ->  acc[][lanes]; for s: { for lane: { let a; store acc[s][lane] } }

A warp reduction stands between lane loops: one statement combines the elements of all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    CompareIndex,
    For,
    If,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Stmt,
    Store,
    Value,
    WarpReduce,
    walk,
)
from autosched.lower.ir_queries import (
    access_steps,
    conjunction,
    conjuncts,
    names_in_indices,
    names_in_value,
    names_used,
    reads_in,
)
from autosched.lower.ir_visitor import Node, map_parts
from autosched.schedule import cpu_policy

Binding = Let | LetIndex


def make_lane_loop_innermost(loop: For) -> tuple[Stmt, ...]:
    """Return the statements that replace a lane loop (a thread loop of axis 0)."""
    if not any(isinstance(s, For | WarpReduce) for s in walk(loop.body)):
        return (guard_to_bound(loop),)
    return _Distributor(loop).run()


def distribute(loop: For, lanes: int, first: ix.Index) -> tuple[Stmt, ...]:
    """Return `make_lane_loop_innermost` of a part of a lane loop.

    Args:
        loop: The loop.
        lanes: Number of lanes in the part.
        first: First lane of the part.
    """
    part = replace(loop, extent=lanes, comment=f"{loop.comment}, {lanes} of them")
    return _Distributor(part, ix.add(first, ix.var(loop.name, 0, lanes - 1))).run()


def guard_to_bound(loop: For) -> Stmt:
    """Turn the guard around a lane loop's body into an upper bound of the loop, so that tails vectorise.

    Rewrite:
        for lane < n: if (8*y + lane <= h && y <= k) S   ->   if (y <= k) for lane < min(n, h - 8*y + 1): S
    """
    *before, last = loop.body
    if not isinstance(last, If) or last.orelse or not all(isinstance(s, Binding) for s in before):
        return loop
    upper_bounds: list[ix.Index] = []
    inside: list[Value] = []
    outside: list[Value] = []
    bound_here = {s.name for s in before if isinstance(s, Binding)}
    for test in conjuncts(last.condition):
        names = names_in_value(test)
        upper_bound = _upper_bound(test, loop.name)
        if not names & (bound_here | {loop.name}):
            outside.append(test)
        elif upper_bound is not None and not names & bound_here:
            upper_bounds.append(upper_bound)
        else:
            inside.append(test)
    guarded = (replace(last, condition=conjunction(inside)),) if inside else last.then
    bounded = replace(loop, body=(*before, *guarded), upper_bounds=tuple(upper_bounds))
    return If(conjunction(outside), (bounded,)) if outside else bounded


def _upper_bound(test: Value, lane: str) -> ix.Index | None:
    """Return the number of lanes for which ``a*lane + rest <= limit`` holds, for a positive integer ``a``."""
    if not isinstance(test, CompareIndex) or test.op != "le":
        return None
    room = ix.sub(test.b, test.a)
    scale = [c for t, c in ix.terms_of(room) if isinstance(t, ix.LoopVar) and t.name == lane]
    if len(scale) != 1 or scale[0] >= 0:
        return None
    rest = ix.sub(room, ix.scale(ix.var(lane, 0, 1 << 30), scale[0]))
    if lane in ix.loop_vars(rest):
        return None
    upper_bound: ix.Index = ix.add(ix.floordiv(rest, -scale[0]), 1)
    return upper_bound


def is_unit_stride(loop: For) -> bool:
    """Whether neighbouring lanes access neighbouring elements in all accesses, so that vectors are profitable.

    `autosched.lower.passes.coalesce_accesses.is_contiguous` is satisfied by one such access in memory instead.

    For 16-bit elements a row apart and ``omp simd``, gcc 12 loads all elements in between. Code size and compile time
    explode.
    """
    if any(isinstance(s, Store) and s.combine for s in walk(loop.body)):
        return False
    return all(abs(step) <= cpu_policy.MAX_VECTOR_STEP for _, step in access_steps(loop))


def is_gather(loop: For) -> bool:
    """Whether addresses in a loop depend on data that it loads.

    gcc 12 hoists lane-invariant code out of a lane loop, and then unrolls and jams the loop around it. The loads of
    the second iteration's addresses are then repeated in every lane.
    """
    return any(
        loaded and names_in_indices([r.index for r in reads] + ([s.index] if isinstance(s, Store) else [])) & loaded
        for s, reads, loaded in _with_loaded(loop)
    )


def has_non_affine_addresses(loop: For) -> bool:
    """Whether an address in a loop around lane loops is not affine in its variable, as of clamped or mirrored rows.

    gcc 12 unrolls and jams such a loop, then finds the address of the second iteration not to be affine in the lane,
    and vectorises nothing. Indices that are not affine in the lane do not count: lanes with them have loops of their
    own, see `autosched.lower.passes.cpu.split_index_set`.
    """
    lanes = {s.name for s in walk(loop.body) if isinstance(s, For) and s.role is LoopRole.THREAD}
    indices = [s.index for s in walk(loop.body) if isinstance(s, Store | LetIndex)]
    indices += [read.index for read in reads_in(loop.body)]
    atoms = [t for index in indices for t, _ in ix.terms_of(index) if isinstance(t, ix.Atom)]
    return any(loop.name in names and not names & lanes for names in map(_names, atoms))


def _names(atom: ix.Atom) -> set[str]:
    return {name for argument in atom.args for name in ix.loop_vars(argument)}


def is_scatter(loop: For) -> bool:
    """Whether store addresses depend on loaded data, and all accessed elements have at least 4 bytes.

    Compilers cannot prove that such stores of different lanes do not alias. Without ``omp simd`` they do not vectorise
    the arithmetic either.
    """
    scatters = False
    for s, reads, loaded in _with_loaded(loop):
        accessed = [r.buffer for r in reads]
        if isinstance(s, Store):
            if s.combine:
                return False
            accessed.append(s.buffer)
            scatters |= bool(names_in_indices([s.index]) & loaded)
        if any(b.dtype.bytes_ < cpu_policy.SCATTERED_BYTES for b in accessed):
            return False
    return scatters


def _with_loaded(loop: For) -> Iterator[tuple[Stmt, list[BufferRead], frozenset[str]]]:
    """Yield the statements of a loop, the loads of each, and the names that depend on data loaded before it."""
    loaded: frozenset[str] = frozenset()
    for s in walk(loop.body):
        reads = reads_in((s,))
        yield s, reads, loaded
        if isinstance(s, Binding) and (reads or (loaded and names_used((s,)) & loaded)):
            loaded |= {s.name}


class _Distributor:
    """Distributes one lane loop.

    Args:
        lane: The loop.
        position: The lane's number in the whole row, for a part of a row.
    """

    def __init__(self, lane: For, position: ix.Index | None = None) -> None:
        self.lane = lane
        self.position = position
        self.allocs: list[Stmt] = []
        self.expanded: dict[str, Buffer] = {}  # arrays with a lane dimension, by name

    def run(self) -> tuple[Stmt, ...]:
        body = self._distribute(self.lane.body, [], [])
        return (*self.allocs, *body)

    def _distribute(self, body: Sequence[Stmt], visible: list[Binding], guards: list[Value]) -> tuple[Stmt, ...]:
        """Split a body at its loops; ``visible`` are the bindings so far, ``guards`` the conditions around it."""
        out: list[Stmt] = []
        piece: list[Stmt] = []
        visible = list(visible)

        def flush() -> None:
            if any(isinstance(s, Store | If) for s in piece):
                out.append(self._lane_loop(piece, visible, guards))
            visible.extend(s for s in piece if isinstance(s, Binding))
            piece.clear()

        for s in body:
            match s:
                case Alloc():
                    wide = Buffer(s.buffer.name, s.buffer.dtype, s.buffer.count * self.lane.extent, Memory.REGISTER)
                    self.expanded[s.buffer.name] = wide
                    self.allocs.append(Alloc(wide))
                case For():
                    flush()
                    out.append(replace(s, body=self._distribute(s.body, visible, guards), role=LoopRole.SERIAL))
                case WarpReduce():
                    flush()
                    row = ix.scale(s.index, self.lane.extent)
                    out.append(replace(s, buffer=self.expanded[s.buffer.name], index=row))
                case If() if any(isinstance(t, For | Alloc) for t in walk((*s.then, *s.orelse))):
                    flush()
                    assert not s.orelse, "a guard has one branch"
                    out += self._distribute(s.then, visible, [*guards, s.condition])
                case _:
                    piece.append(s)
        flush()
        return tuple(out)

    def _lane_loop(self, piece: Sequence[Stmt], visible: Sequence[Binding], guards: Sequence[Value]) -> Stmt:
        inner: tuple[Stmt, ...] = tuple(piece)
        for g in reversed(guards):
            inner = (If(g, inner),)
        needed = names_used(inner)
        bindings: list[Stmt] = []
        for b in reversed(visible):  # latest first: a binding comes after the names that it uses
            if b.name in needed:
                bindings.insert(0, b)
                needed |= names_used((b,))
        return guard_to_bound(replace(self.lane, body=self._expand((*bindings, *inner))))

    def _expand(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return statements in which arrays have a lane dimension, and lanes their number in the whole row."""
        return tuple(self._expand_node(map_parts(s, bodies=self._expand)) for s in body)

    def _expand_node(self, node: Node) -> Node:
        moved = map_parts(node, values=self._expand_node, indices=self._index)
        if not isinstance(moved, Store | BufferRead):
            return moved
        expanded = self.expanded.get(moved.buffer.name)
        if expanded is None or moved.buffer.memory is not Memory.REGISTER:
            return moved
        return replace(moved, buffer=expanded, index=self._lane_index(moved.index))

    def _index(self, e: ix.Index) -> ix.Index:
        """Return an index with the lane's number in the whole row."""
        if self.position is None:
            return e
        substituted: ix.Index = ix.substitute(e, {self.lane.name: self.position})  # data in indices are names
        return substituted

    def _lane_index(self, e: ix.Index) -> ix.Index:
        index: ix.Index = ix.add(ix.scale(e, self.lane.extent), ix.var(self.lane.name, 0, self.lane.extent - 1))
        return index
