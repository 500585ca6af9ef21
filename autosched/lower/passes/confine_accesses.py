"""Confine the accesses of all blocks to global memory to the tile of one block, for code differencing.

Before, for 16 blocks along y, with a tile that begins at row 8 * y_b:

    in_at = 512*y_b + 64*y_t + x_t
    out[in_at] = in[in_at - 64] + in[in_at + 64]

After:

    in_at_tile = 64*y_t + x_t + 4096
    out[in_at_tile] = in[in_at_tile - 64] + in[in_at_tile + 64]

Guards, positions in shared memory and values that depend on the block are unchanged, so that each block executes the
same instructions but those of its addresses. Nearly every access then hits in a cache (Listing 3 of the Artemis paper).
The result is garbage, for timing alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis.indices import index as ix
from autosched.errors import InputError
from autosched.lower.ir import (
    Body,
    Buffer,
    BufferRead,
    CompareIndex,
    If,
    IndexValue,
    KernelIR,
    Let,
    LetIndex,
    Memory,
    Partitioning,
    Stmt,
    Store,
    Value,
    VarRef,
    indices_of,
    values_of,
    walk,
)
from autosched.lower.ir_queries import conjuncts, values_in
from autosched.lower.ir_visitor import map_parts, map_values

SUFFIX = "_tile"
"""Suffix of the names of confined positions."""

Place = Mapping[str, ix.Index]
"""Position of the tile by block loop."""


def confine_accesses(kernel: KernelIR, threads: int = 1) -> KernelIR:
    """Return a kernel whose blocks all access the tile of one block in global memory.

    Args:
        kernel: A verified kernel, before the passes of a printer.
        threads: Threads of the host that share the blocks, in the order of the blocks; each gets a tile of its own, as
            stores of several cores to the same cache lines would be slower than those of the kernel. 1 on a GPU.

    Raises:
        InputError: If the kernel has one block, updates global memory atomically, or has no tile that is inside of its
            arrays for all threads of all blocks. The message has the reason.
    """
    problem = _problem(kernel, threads)
    if problem:
        raise InputError(f"kernel {kernel.name} cannot be confined to a tile: {problem}")
    names = _Names.of(kernel)
    for place in _places(kernel, threads):
        confinement = _Confinement(place, names)
        body = confinement.body(kernel.body)
        if not confinement.is_outside:
            return replace(kernel, body=body)
    raise InputError(
        f"kernel {kernel.name} cannot be confined to a tile: no block's tile lies inside of the arrays for the guards "
        "of all blocks; take a larger problem, or tiles that divide it"
    )


def _problem(kernel: KernelIR, threads: int) -> str:
    if kernel.blocks == 1:
        return "it has one block, whose tile is all that it accesses"
    if max(n for _, n in kernel.grid_loops) < threads:
        return f"it has no {threads} blocks along a dimension, one for each thread; take fewer threads"
    if any(isinstance(s, Store) and s.combine and s.buffer.memory is Memory.GLOBAL for s in walk(kernel.body)):
        return "it updates global memory atomically, and all blocks would wait for the same elements"
    return ""


def _places(kernel: KernelIR, threads: int) -> Iterator[Place]:
    """Yield positions of the tile: in the middle of the interior, of the grid, then at its ends."""
    grid = kernel.grid_loops
    spread = max(range(len(grid)), key=lambda k: grid[k][1])
    number = _thread_number(grid, threads)
    interior = _interior(kernel)
    choices: list[list[ix.Index]] = []
    for k, (name, n) in enumerate(grid):
        last = n - (threads if k == spread else 1)
        lo, hi = interior.get(name, (0, n - 1))
        middle = min(max((lo + hi - (threads - 1 if k == spread else 0)) // 2, 0), last)
        starts = dict.fromkeys((middle, last // 2, (last + 1) // 2, 0, last))
        choices.append([ix.add(start, number) if k == spread else start for start in starts])
    for combination in itertools.product(*choices):
        yield {name: at for (name, _), at in zip(grid, combination, strict=True)}


def _interior(kernel: KernelIR) -> dict[str, tuple[int, int]]:
    """Return the inclusive range of the interior blocks in each loop over blocks that the kernel partitions."""
    ranges = dict.fromkeys((name for name, _ in kernel.grid_loops), (0, 1 << 62))
    for s in walk(kernel.body):
        if isinstance(s, If) and s.partition is Partitioning.BLOCKS:
            for test in conjuncts(s.condition):
                if isinstance(test, CompareIndex) and isinstance(test.b, int) and ix.key(test.a)[1:-1] in ranges:
                    lo, hi = ranges[name := ix.key(test.a)[1:-1]]
                    ranges[name] = (max(lo, test.b), hi) if test.op == "ge" else (lo, min(hi, test.b))
    return {name: found for name, found in ranges.items() if found != (0, 1 << 62)}


def _thread_number(grid: Sequence[tuple[str, int]], threads: int) -> ix.Index:
    """Return the thread of a block, if consecutive blocks are divided evenly among threads."""
    if threads == 1:
        return 0
    block: ix.Index = 0
    count = 1
    for name, n in reversed(grid):
        block = ix.add(block, ix.scale(ix.var(name, 0, n - 1), count))
        count *= n
    number: ix.Index = ix.floordiv(block, -(-count // threads))
    return number


@dataclass(frozen=True)
class _Names:
    """Names of scalars of a kernel.

    Attributes:
        varying: Those that depend on the block other than through global memory.
        addressed: Those that addresses of global memory depend on.
        suffix: Suffix of the names of confined scalars.
    """

    varying: frozenset[str]
    addressed: frozenset[str]
    suffix: str

    @classmethod
    def of(cls, kernel: KernelIR) -> _Names:
        varying = {name for name, _ in kernel.grid_loops}
        uses: dict[str, set[str]] = {}
        addressed: set[str] = set()
        for s in walk(kernel.body):
            if isinstance(s, Let | LetIndex):
                used = _names_in(s)
                uses.setdefault(s.name, set()).update(used)
                if not varying.isdisjoint(used):
                    varying.add(s.name)
            for index in _addresses(s):
                addressed |= _names_of_index(index)
        pending = list(addressed)
        while pending:
            for name in uses.get(pending.pop(), set()) - addressed:
                addressed.add(name)
                pending.append(name)
        suffix = SUFFIX
        while any(f"{name}{suffix}" in uses for name in uses):
            suffix += "_"
        return cls(frozenset(varying), frozenset(addressed), suffix)


def _addresses(s: Stmt) -> Iterator[ix.Index]:
    """Yield the indices of the accesses of a statement to global memory."""
    if isinstance(s, Store) and s.buffer.memory is Memory.GLOBAL:
        yield s.index
    for v in values_in(s):
        if isinstance(v, BufferRead) and v.buffer.memory is Memory.GLOBAL:
            yield v.index


def _names_in(s: Let | LetIndex) -> set[str]:
    """Return the scalars and loop variables that a binding depends on other than through global memory."""
    return _names_of_index(s.index) if isinstance(s, LetIndex) else _names_of_value(s.value)


def _names_of_value(v: Value) -> set[str]:
    if isinstance(v, VarRef):
        return {v.name}
    if isinstance(v, BufferRead) and v.buffer.memory is Memory.GLOBAL:
        return set()
    names: set[str] = set()
    for index in indices_of(v):
        names |= _names_of_index(index)
    for a in values_of(v):
        names |= _names_of_value(a)
    return names


def _names_of_index(e: ix.Index) -> set[str]:
    names: set[str] = set()
    for t in ix.atoms(e):
        if not isinstance(t, ix.Atom):
            names.add(t.name)
        elif t.kind in ("data", "select") and t.payload is not None:
            names |= _names_of_value(t.payload)
    return names


@dataclass
class _Confinement:
    """Rewrites a kernel for one place of the tile.

    Attributes:
        place: The place.
        names: Names of the kernel's scalars.
        is_outside: Whether an address may lie outside of its array.
    """

    place: Place
    names: _Names
    is_outside: bool = False
    _positions: dict[str, ix.Index] = field(default_factory=dict)

    def body(self, statements: Body) -> Body:
        """Return statements with confined addresses; positions that addresses need are bound beside the block's."""
        return tuple(t for s in statements for t in self._statement(s))

    def _statement(self, s: Stmt) -> Iterator[Stmt]:
        kept = map_parts(s, indices=self._kept_index, values=self._kept_value, bodies=self.body)
        if isinstance(kept, Store) and kept.buffer.memory is Memory.GLOBAL:
            assert isinstance(s, Store)
            kept = replace(kept, index=self._address(s.buffer, s.index))
        yield kept
        if isinstance(s, Let | LetIndex) and s.name in self.names.varying & self.names.addressed:
            yield from self._confined_binding(s)

    def _confined_binding(self, s: Let | LetIndex) -> Iterator[Stmt]:
        name = s.name + self.names.suffix
        if isinstance(s, Let):
            if any(isinstance(v, BufferRead) for v in values_in(s)):
                self.is_outside = True  # an access would be executed twice
            yield Let(name, self._moved_value(s.value))
            return
        index = self._moved(s.index)
        self._positions[s.name] = ix.var(name, *ix.interval(index))
        if isinstance(self._positions[s.name], ix.Affine):
            yield LetIndex(name, index)

    def _kept_value(self, value: Value) -> Value:
        """Return a value of the block with confined loads."""

        def visit(v: Value) -> Value:
            if isinstance(v, BufferRead) and v.buffer.memory is Memory.GLOBAL:
                return replace(v, index=self._address(v.buffer, v.index))
            return map_parts(v, indices=self._kept_index)

        return map_values(value, visit)

    def _kept_index(self, e: ix.Index) -> ix.Index:
        """Return an index of the block; loads that it depends on are confined."""
        return e if not _has_loads(e) else self._with_payloads(e, {}, self._kept_value)

    def _address(self, buffer: Buffer, index: ix.Index) -> ix.Index:
        moved = self._moved(index)
        lo, hi = ix.interval(moved)
        self.is_outside |= lo < 0 or hi >= buffer.count
        return moved

    def _moved(self, e: ix.Index) -> ix.Index:
        """Return an index with the place of the tile in place of the block."""
        return self._with_payloads(e, {**self.place, **self._positions}, self._moved_value)

    def _moved_value(self, value: Value) -> Value:
        """Return a value of the tile's place."""

        def visit(v: Value) -> Value:
            match v:
                case BufferRead() if v.buffer.memory is Memory.GLOBAL:
                    return replace(v, index=self._address(v.buffer, v.index))
                case IndexValue() | CompareIndex() | BufferRead():
                    return map_parts(v, indices=self._moved)
                case VarRef(name=name) if name in self.names.varying & self.names.addressed:
                    return replace(v, name=name + self.names.suffix)
            return v

        return map_values(value, visit)

    def _with_payloads(self, e: ix.Index, env: Mapping[str, ix.Index], change: object) -> ix.Index:
        """Return an index with substituted variables, and changed values that it depends on."""
        assert callable(change)

        def on_data(t: ix.Atom) -> object:
            value = change(t.payload)
            text = t.key if value is t.payload else f"{t.key}{self.names.suffix}"
            return ix.data(value, *t.interval, text) if t.kind == "data" else (value, text)

        moved: ix.Index = ix.substitute(e, env, on_data)
        return moved


def _has_loads(e: ix.Index) -> bool:
    """Whether an index has a load from global memory as a part."""
    atoms = (t for t in ix.atoms(e) if isinstance(t, ix.Atom) and t.kind in ("data", "select"))
    payloads = (t.payload for t in atoms if t.payload is not None)
    return any(isinstance(v, BufferRead) for p in payloads for v in _all_values(p))


def _all_values(value: Value) -> Iterator[Value]:
    yield value
    for a in values_of(value):
        yield from _all_values(a)
