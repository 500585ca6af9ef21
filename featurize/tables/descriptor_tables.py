"""What is known of nests and accesses before tile sizes are: a row of integers for each kind, shared by kernels.

Dimensions are padded to the pipeline's largest number of them, by loops of one iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.mainloop_step import is_one_step
from autosched.featurize.accesses.accesses import AccessGroup, AccessRow, StageAccesses
from autosched.featurize.accesses.offset_tables import OffsetTable
from autosched.featurize.instructions.arithmetic_work import DOUBLE, FLOAT, INTEGER, UNITS, WorkTable, code_size
from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS, moving_reductions, reduction_extents
from autosched.featurize.regions.memory_kinds import GLOBAL, REGISTER, SHARED
from autosched.featurize.regions.nest_location import NestLocation
from autosched.featurize.sketch.sketch import inner_reductions, lane_sizes, member_dims, shared_tile, tiled_dims
from autosched.featurize.tables.growable_table import DescriptorTable
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.policy import array_strides
from autosched.schedule.tilings import call_chain, loop_sizes
from autosched.schedule.types import Level, StageId

ROOT, BLOCK, THREAD = range(3)
LEVELS = {Level.ROOT: ROOT, Level.BLOCK: BLOCK, Level.THREAD: THREAD}
OWN_MEMORY = {ROOT: GLOBAL, BLOCK: SHARED, THREAD: REGISTER}
NEVER, IF_SMALL, ALWAYS = range(3)
"""Whether a nest keeps the points it updates in registers."""
WORD_BYTES = 4
FAR = 1 << 40


class DescriptorTables:
    """Kinds of nests and of accesses of one bound pipeline.

    Args:
        bound: The pipeline.
        work: Its stages' arithmetic.
        by_form: Whether accesses of the same form share their constants; not if it matters what their loops are called.

    Attributes:
        dims: Dimensions of nests, the largest number of them.
        ranks: Dimensions of sources, the largest number of them.
        tables: Constants of the kinds of accesses.
    """

    def __init__(self, bound: BoundPipeline, work: WorkTable, *, by_form: bool = True) -> None:
        self.bound = bound
        self.by_form = by_form
        self.work = work
        self._owning: dict[tuple[str, int], bool] = {}
        stages = [s for f in bound.funcs.values() for s in f.stages]
        tiled = [sum(d.parallel for d in s.loops) for s in stages]
        inside = [len(member_dims(bound, StageId(s.func, s.number))) for s in stages]
        self.dims = max(1, *tiled, *inside)
        self.ranks = max(
            1, *(f.ndim for f in bound.funcs.values()), *(len(i.shape) for i in bound.inputs.values())
        )  # fmt: skip
        d, q = self.dims, self.ranks
        self.nests = DescriptorTable(
            level=0, ndims=0, walked=d, order=d, sizes=d, lows=d, domain_low=d, domain_high=d, storage=d,
            storage_item=0, reductions=0, promotion=0, components=0, leading=0, bytes=0, whole=0, fastest=0,
            whole_fastest=0, within=d, innermost=0, branching=0, loads=0, operations=UNITS, integers=2, floats=0,
            size=0, held=0, terms=MOST_REDUCTIONS, nested=MOST_REDUCTIONS + d, own_threads=d, own_points=d,
            terms_shared=d, written=0, lanes=d, exchanged=0, combined=UNITS,
        )  # fmt: skip
        self.access = DescriptorTable(
            table=0, entries=0, memory=0, placed=0, store=0, own=0, affine=0, exact=0, everywhere=0, divides=0,
            phased=0, itemsize=0, rank=0, count=0, repeats=0, touched=0, coefficients=q * d, quotient=q, spread=q,
            known=q, moved=q * d, reach=q, reductions=0, strides=q, origin=q, divided=q, array_bytes=0,
            point_elements=0, point_lines=0, array=0, clamped=q, summed=MOST_REDUCTIONS,
            outside=0, by_data=0, atomic=0,
        )  # fmt: skip
        self.places: list[NestLocation] = []
        self._places: dict[NestLocation, int] = {}
        self.tables: list[OffsetTable] = []
        self._table_of: dict[object, int] = {}
        self._entries: dict[object, int] = {}
        self._arrays: dict[tuple[str, int], int] = {}
        self._anywhere: dict[object, dict[str, Any]] = {}

    def dims_of(self, level: int, stages: Sequence[StageId], nest: StageId | None = None) -> tuple[str, ...]:
        """Return the loops of a nest that threads divide, outermost first; ``stages`` share its threads."""
        return tiled_dims(self.bound, stages) if level == ROOT else member_dims(self.bound, nest or stages[0])

    def place(self, place: NestLocation) -> int:
        """Return the number of a place for nests."""
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = len(self.places)
            self.places.append(place)
        return found

    def nest(self, place: int, reached: StageAccesses) -> int:
        """Return the kind of a nest at a place, from what one evaluation touches."""
        key = place, id(reached)  # accesses live as long as their table does
        found = self.nests.find(key)
        return found if found is not None else self._new_nest(key, self.places[place], reached)

    def _written_points(self, func: BoundFunc, stage: BoundStage) -> int:
        """Return how many points a stage writes in the whole pipeline: of a scan over rows, those of its one step."""
        if stage.combine:
            return math.prod(loop_sizes(func, stage, func.extents).values())
        if is_one_step(self.bound, stage):
            sizes = loop_sizes(func, stage, func.extents)
            return math.prod(sizes[d.name] for d in stage.loops if d.parallel)
        return math.prod(func.extents)

    def _new_nest(self, key: object, place: NestLocation, reached: StageAccesses) -> int:
        id_, level, stages, _, _ = place
        func = self.bound.funcs[id_.func]
        stage = self.bound.stage(id_.func, id_.number)
        dims = self.dims_of(level, stages, id_)
        names = {d.name for d in stage.loops}
        sizes, lows = self.grid(stages[0] if level == ROOT else id_, dims)
        tile = place.order.tile or (shared_tile(self.bound, id_) if level == BLOCK else ())
        own = dict(zip(func.dims, func.region, strict=True))
        shared = lane_sizes(self.bound, (*stages, id_))
        steps = sum(n.bit_length() - 1 for d, n in shared.items() if d in names)
        domain = [own[d] if d in own and d in names else (0, FAR) for d in dims]
        slow_first = place.slow_first(self.bound)
        storage = [func.dims.index(d) for d in reversed(slow_first)]
        inlined = frozenset(reached.calls)
        operations = self.work.operations(stage, reached.calls)
        loads = call_chain(self.bound, [id_], set(inlined))
        return self.nests.add(
            key,
            level=level,
            ndims=len(dims),
            walked=self._padded([int(d in names) for d in dims], 0),
            order=self._padded(place.threads(self.bound, dims), -1),
            sizes=self._padded(sizes, 1),
            lows=self._padded(lows, 0),
            domain_low=self._padded([lo for lo, _ in domain], 0),
            domain_high=self._padded([hi for _, hi in domain], FAR),
            storage=self._padded(storage, -1),
            storage_item=func.dtypes[0].bytes_,
            reductions=self._reduction_points(stage, dims),
            promotion=self._promotion(func, level, stages),
            components=len(func.dtypes),
            leading=int(id_ == stages[0]),
            bytes=sum(d.bytes_ for d in func.dtypes),
            whole=math.prod(func.extents),
            written=self._written_points(func, stage),
            fastest=dims.index(slow_first[-1]) if func.dims and slow_first[-1] in dims else -1,
            whole_fastest=func.extents[storage[0]] if func.dims else 1,
            within=self._padded(place.within(self.bound, dims), 1),
            innermost=place.innermost(self.bound, dims),
            branching=self.work.branching(stage, inlined),
            loads=loads,
            operations=[int(n) for n in operations],
            integers=self.work.integer_instructions(stage, reached.calls),
            floats=self.work.float_instructions(stage, reached.calls),
            size=code_size(operations, reached),
            held=int(level == ROOT and id_.func == self.bound.register_blocked),
            terms=reduction_extents(stage, dims),
            nested=place.nested(self.bound, dims, self.dims),
            own_threads=self._padded([threads for threads, _ in tile], 0),
            own_points=self._padded([points for _, points in tile], 0),
            terms_shared=self._padded([int(d not in own) for d in dims], 0),
            lanes=self._padded([int(d in shared) for d in dims], 0),
            exchanged=len(func.dtypes) * steps,
            combined=_combined(func, steps),
        )

    def _padded(self, values: Sequence[int], fill: int) -> list[int]:
        return [*values, *(fill for _ in range(self.dims - len(values)))]

    def grid(self, stage: StageId, dims: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return points and lowest value of each dimension that a root kernel's blocks divide."""
        func = self.bound.funcs[stage.func]
        first = self.bound.stage(stage.func, stage.number)
        found = loop_sizes(func, first, func.extents)
        lows = {d: lo for d, (lo, _) in zip(func.dims, func.region, strict=True)}
        lows |= {d.name: d.lo for d in first.loops if d.reduction}
        lanes = lane_sizes(self.bound, (StageId(func.name, s.number) for s in func.stages))
        found, lows = found | lanes, lows | dict.fromkeys(lanes, 0)
        return [max(found.get(d, 1), 1) for d in dims], [lows[d] for d in dims]

    def _reduction_points(self, stage: BoundStage, dims: Sequence[str]) -> int:
        loops = {d.name: d for d in stage.loops}
        inner = [loops[d] for d in inner_reductions(stage, dims)]
        return math.prod(d.extent if d.reduction else 1 for d in inner)

    def _promotion(self, func: BoundFunc, level: int, stages: Sequence[StageId]) -> int:
        if level == THREAD or func.name == self.bound.register_blocked:
            return ALWAYS
        together = [self.bound.stage(s.func, s.number) for s in stages]
        if not all(self._owns_tile(func, s) for s in together) or not (len(together) > 1 or together[0].is_update):
            return NEVER
        return IF_SMALL

    def _owns_tile(self, func: BoundFunc, stage: BoundStage) -> bool:
        key = stage.func, stage.number
        if key not in self._owning:
            self._owning[key] = is_private_tile(func, stage)
        return self._owning[key]

    def accesses_at(self, place: int, group: AccessGroup, store: bool, memory: int, placed: bool) -> int:
        """Return the kind of a group of accesses in a nest, from a memory, with or without a place in it yet."""
        key = place, id(group), store, memory, placed
        found = self.access.find(key)
        if found is None:
            anywhere = place, id(group), store
            if anywhere not in self._anywhere:
                self._anywhere[anywhere] = self._access(*self.places[place][:3], group, store)
            known = self._anywhere[anywhere]
            found = self.access.add(key, **known, **self._from_memory(known, memory, placed))
        return found

    def _from_memory(self, known: Mapping[str, Any], memory: int, placed: bool) -> dict[str, int]:
        """Return what a memory, and a place in it, add to what is known of a kind of accesses anywhere."""
        size, strides = known["itemsize"], known["strides"][: known["rank"]]
        phased = memory == SHARED and placed and size < WORD_BYTES
        steps = tuple(s * size for s in strides) if memory == GLOBAL else (0,) * len(strides)
        entries = known["table"], bool(known["own"]), None if phased else steps
        return {
            "entries": self._entries.setdefault(entries, len(self._entries)),
            "memory": memory,
            "placed": int(placed),
            "phased": int(phased),
        }

    def _access(
        self, id_: StageId, level: int, stages: tuple[StageId, ...], group: AccessGroup, store: bool
    ) -> dict[str, Any]:
        """Return what is known of a group of accesses in a nest, whatever memory they are from."""
        func = self.bound.funcs[id_.func]
        stage = self.bound.stage(id_.func, id_.number)
        dims = self.dims_of(level, stages, id_)
        own = group.source == id_.func
        again = own and is_private_tile(func, stage)
        loops = {d.name: d for d in stage.loops}
        reductions = [(d, loops[d].lo, loops[d].hi) for d in inner_reductions(stage, dims) if loops[d].reduction]
        table = self._table(group, id_, dims, [] if again else reductions)
        size, strides, origin = self._array(group.source, group.component)
        coefficients, reach = self._coefficients(group, dims, {n: hi - lo + 1 for n, lo, hi in reductions})
        constants = list(zip(*group.offsets, strict=True))
        spread = [max(c) - min(c) for c in constants]
        affine = [r is not None for r in group.rows]
        divided = [k for k, r in enumerate(group.rows) if r is not None and r.quotient > 1]
        touched = id_ == (stages[-1] if store else stages[0])
        q = self.ranks
        elements, lines = _at_one_point(group, spread)
        return dict(
            table=table,
            store=int(store),
            own=int(own),
            affine=int(group.is_affine),
            exact=int(group.is_exact),
            everywhere=int(group.everywhere),
            divides=int(bool(divided)),
            itemsize=size,
            rank=len(group.rows),
            count=len(group.offsets),
            repeats=int(again),
            touched=int(touched),
            coefficients=coefficients,
            quotient=_filled([1 if r is None else r.quotient for r in group.rows], q, 1),
            spread=_filled(spread, q, 0),
            known=_filled([int(a) for a in affine], q, 1),
            moved=self._moved(group, dims),
            reach=_filled(reach, q, 0),
            reductions=math.prod(hi - lo + 1 for _, lo, hi in reductions),
            strides=_filled(strides, q, 0),
            origin=_filled(origin, q, 0),
            divided=_filled(divided, q, -1),
            array_bytes=self._points(group.source) * size,
            point_elements=elements,
            point_lines=lines,
            array=self._arrays.setdefault((group.source, group.component), len(self._arrays)),
            clamped=_filled([int(c) for c in group.clamped], q, 0),
            summed=moving_reductions(group, stage, dims),
            outside=int(group.source in self.bound.inputs),
            by_data=int(group.by_data),
            atomic=1 + func.dtypes[group.component].is_float if store and own and stage.combine else 0,
        )

    def _moved(self, group: AccessGroup, dims: Sequence[str]) -> list[int]:
        """Return which of a nest's dimensions each index that is not affine moves with."""
        found = [[0] * self.dims for _ in range(self.ranks)]
        for k, (row, names) in enumerate(zip(group.rows, group.moved_by, strict=False)):
            if row is None:
                found[k][: len(dims)] = [int(d in names) for d in dims]
        return [value for row in found for value in row]

    def _coefficients(
        self, group: AccessGroup, dims: Sequence[str], reductions: dict[str, int]
    ) -> tuple[list[int], list[int]]:
        """Return the factors of a nest's dimensions, source by source dimension, and how far reductions move each."""
        found = [[0] * self.dims for _ in range(self.ranks)]
        reach = [0] * len(group.rows)
        for k, r in enumerate(group.rows):
            for name, c in r.coefficients if r is not None else ():
                if name in dims:
                    found[k][dims.index(name)] += c
                else:
                    reach[k] += abs(c) * (reductions.get(name, 1) - 1)
        return [c for row in found for c in row], reach

    def _table(
        self, group: AccessGroup, nest: StageId, dims: Sequence[str], reductions: Sequence[tuple[str, int, int]]
    ) -> int:
        key: object = id(group), nest, tuple(dims), tuple(reductions)
        if self.by_form and not reductions:
            rows = tuple(None if r is None else (_positions(r, dims), r.quotient) for r in group.rows)
            key = rows, group.offsets, len(dims)
        if key not in self._table_of:
            self._table_of[key] = len(self.tables)
            self.tables.append(OffsetTable(group, nest, tuple(dims), tuple(reductions)))
        return self._table_of[key]

    def _array(self, source: str, component: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return item size, strides in elements and origin of an array in global memory."""
        if source in self.bound.inputs:
            i = self.bound.inputs[source]
            strides, _ = array_strides(i.shape, i.dtype.bytes_, pitched=False)
            return i.dtype.bytes_, strides, (0,) * len(i.shape)
        func = self.bound.funcs[source]
        size = func.dtypes[component].bytes_
        strides, _ = array_strides(func.extents, size, pitched=not func.is_output)
        return size, strides, tuple(lo for lo, _ in func.region)

    def _points(self, source: str) -> int:
        inputs = self.bound.inputs
        return math.prod(inputs[source].shape if source in inputs else self.bound.funcs[source].extents)


def _combined(func: BoundFunc, steps: int) -> list[int]:
    """Return the operations by unit with which a lane combines what it has with others', in so many steps."""
    found = [0] * UNITS
    for d in func.dtypes:
        found[INTEGER if not d.is_float else DOUBLE if d.bits == 64 else FLOAT] += steps
    return found


def _positions(row: AccessRow, dims: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the factors of a nest's dimensions by position."""
    return tuple(sorted((dims.index(name), c) for name, c in row.coefficients if name in dims))


def _filled(values: Sequence[int], width: int, fill: int) -> list[int]:
    return [*values, *(fill for _ in range(width - len(values)))]


def _at_one_point(group: AccessGroup, spread: Sequence[int]) -> tuple[int, int]:
    """Return the elements and the rows of them that one evaluation reads."""
    box = [1 if r is None else s // r.quotient + 1 for r, s in zip(group.rows, spread, strict=True)]
    elements = min(math.prod(box), len(group.offsets))
    return elements, min(math.prod(box[:-1]), elements)
