"""Descriptor tables: static facts about nests and groups of accesses, one row each, shared by kernels.

Columns are those of `descriptor_columns`. Dimensions are padded to the pipeline's largest number by loops of one
iteration.
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
from autosched.featurize.instructions.invariant_work import InvariantWork, invariant_work
from autosched.featurize.instructions.reduction_loops import moving_reductions, reduction_extents
from autosched.featurize.regions.memory_kinds import GLOBAL, REGISTER, SHARED
from autosched.featurize.regions.nest_location import NestLocation
from autosched.featurize.sketch.sketch import inner_reductions, lane_sizes, member_dims, shared_tile, tiled_dims
from autosched.featurize.tables.descriptor_columns import ACCESS_COLUMNS, NEST_COLUMNS, column_widths
from autosched.featurize.tables.growable_table import DescriptorTable
from autosched.featurize.tables.padding import pad_row
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.policy import array_strides
from autosched.schedule.tilings import call_chain, loop_sizes
from autosched.schedule.types import Level, StageId

ROOT, BLOCK, THREAD = range(3)
LEVELS = {Level.ROOT: ROOT, Level.BLOCK: BLOCK, Level.THREAD: THREAD}
OWN_MEMORY = {ROOT: GLOBAL, BLOCK: SHARED, THREAD: REGISTER}
NEVER, IF_SMALL, ALWAYS = range(3)
"""When the points that a nest updates are promoted to registers."""
WORD_BYTES = 4
UNLIMITED = 1 << 40
"""Highest point of a dimension without a domain."""


class DescriptorTables:
    """Interned descriptors of the nests and accesses of one bound pipeline.

    Args:
        bound: The pipeline.
        work: Arithmetic of its stages.
        by_form: Whether accesses of the same form share an offset table; not where names of loops count.
        interleaves: Whether interleaved points are described; a processor's lanes are iterations of one loop anyway.

    Attributes:
        dims: ``D``, most dimensions of any nest.
        ranks: ``Q``, most dimensions of any array.
        nests: Columns `NEST_COLUMNS`.
        access: Columns `ACCESS_COLUMNS`.
        locations: Locations of nests by number.
        tables: Offset tables by number.
    """

    def __init__(
        self, bound: BoundPipeline, work: WorkTable, *, by_form: bool = True, interleaves: bool = True
    ) -> None:
        self.bound = bound
        self.by_form = by_form
        self.interleaves = interleaves
        self.work = work
        self._owning: dict[tuple[str, int], bool] = {}
        stages = [s for f in bound.funcs.values() for s in f.stages]
        tiled = [sum(d.parallel for d in s.loops) for s in stages]
        inside = [len(member_dims(bound, StageId(s.func, s.number))) for s in stages]
        self.dims = max(1, *tiled, *inside)
        self.ranks = max(
            1, *(f.ndim for f in bound.funcs.values()), *(len(i.shape) for i in bound.inputs.values())
        )  # fmt: skip
        self.nests = DescriptorTable(**column_widths(NEST_COLUMNS, self.dims, self.ranks))
        self.access = DescriptorTable(**column_widths(ACCESS_COLUMNS, self.dims, self.ranks))
        self.locations: list[NestLocation] = []
        self._location_numbers: dict[NestLocation, int] = {}
        self.tables: list[OffsetTable] = []
        self._table_of: dict[object, int] = {}
        self._cache_classes: dict[object, int] = {}
        self._arrays: dict[tuple[str, int], int] = {}
        self._of_any_memory: dict[object, dict[str, Any]] = {}

    def dims_of(self, level: int, stages: Sequence[StageId], nest: StageId | None = None) -> tuple[str, ...]:
        """Return the loops of a nest that threads divide, outermost first; ``stages`` share its threads."""
        if level == ROOT:
            return tiled_dims(self.bound, stages)
        return member_dims(self.bound, nest or stages[0], Level.THREAD if level == THREAD else Level.BLOCK)

    def location_number(self, location: NestLocation) -> int:
        """Return the number of a location of nests."""
        number = self._location_numbers.get(location)
        if number is None:
            number = self._location_numbers[location] = len(self.locations)
            self.locations.append(location)
        return number

    def nest(self, location: int, reached: StageAccesses) -> int:
        """Return the row of a nest at a location.

        Args:
            location: Number of the location.
            reached: Accesses of one evaluation.
        """
        key = location, id(reached)  # accesses live as long as their table
        row = self.nests.find(key)
        return row if row is not None else self._new_nest(key, self.locations[location], reached)

    def _new_nest(self, key: object, location: NestLocation, reached: StageAccesses) -> int:
        dims = self.dims_of(location.level, location.stages, location.stage)
        return self.nests.add(
            key,
            level=location.level,
            ndims=len(dims),
            leading=int(location.stage == location.stages[0]),
            private=int(location.private),
            indexes_registers=int(location.indexes_registers),
            promotion=self._promotion(self.bound.funcs[location.stage.func], location.level, location.stages),
            **self._nest_loops(location, dims),
            **self._nest_storage(location, dims),
            **self._nest_code(location, reached, dims),
        )

    def _nest_loops(self, location: NestLocation, dims: Sequence[str]) -> dict[str, int | list[int]]:
        """Return the columns of a nest's loops: dimensions, reductions, their order, and tiles of its own."""
        id_, level = location.stage, location.level
        func, stage = self.bound.funcs[id_.func], self.bound.stage(*id_)
        looped = {d.name for d in stage.loops}
        sizes, lows = self.grid(location.stages[0] if level == ROOT else id_, dims)
        tile = location.order.tile or (shared_tile(self.bound, id_) if level == BLOCK else ())
        region = dict(zip(func.dims, func.region, strict=True))
        domain = [region[d] if d in region and d in looped else (0, UNLIMITED) for d in dims]
        lanes = lane_sizes(self.bound, (*location.stages, id_))
        return {
            "looped": self._pad([int(d in looped) for d in dims], 0),
            "order": self._pad(location.threads(self.bound, dims), -1),
            "sizes": self._pad(sizes, 1),
            "lows": self._pad(lows, 0),
            "domain_low": self._pad([lo for lo, _ in domain], 0),
            "domain_high": self._pad([hi for _, hi in domain], UNLIMITED),
            "reductions": self._reduction_points(stage, dims),
            "terms": reduction_extents(stage, dims),
            "inside_reductions": self._pad(location.inside_reductions(self.bound, dims), 1),
            "innermost": location.innermost(self.bound, dims),
            "loop_order": location.loop_order(self.bound, dims, self.dims),
            "fixed_threads": self._pad([threads for threads, _ in tile], 0),
            "fixed_points": self._pad([points for _, points in tile], 0),
            "interleaved": self._pad([int(d in location.order.interleaved and self.interleaves) for d in dims], 0),
            "over_terms": self._pad([int(d not in region) for d in dims], 0),
            "slides": self._pad([int(d == func.slides) for d in dims], 0),
            "kept_steps": func.kept_steps,
            "register_rows": func.window[0] if func.window is not None else 0,
            "shared_rows": func.window[1] if func.window is not None else 0,
            "lanes": self._pad([int(d in lanes) for d in dims], 0),
        }

    def _nest_storage(self, location: NestLocation, dims: Sequence[str]) -> dict[str, int | list[int]]:
        """Return the columns of the Func that a nest computes: points, bytes and storage order."""
        func = self.bound.funcs[location.stage.func]
        slow_first = location.slow_first(self.bound)
        storage = [func.dims.index(d) for d in reversed(slow_first)]
        return {
            "storage": self._pad(storage, -1),
            "storage_item": func.dtypes[0].bytes_,
            "components": len(func.dtypes),
            "bytes": sum(d.bytes_ for d in func.dtypes),
            "func_points": math.prod(func.extents),
            "written_points": self._written_points(func, self.bound.stage(*location.stage)),
            "fastest": dims.index(slow_first[-1]) if func.dims and slow_first[-1] in dims else -1,
            "func_fastest": func.extents[storage[0]] if func.dims else 1,
            "register_blocked": int(location.level == ROOT and func.name == self.bound.register_blocked),
        }

    def _nest_code(
        self, location: NestLocation, reached: StageAccesses, dims: Sequence[str]
    ) -> dict[str, int | Sequence[int]]:
        """Return the columns of one evaluation's instructions, and of a point's warp reduction."""
        func, stage = self.bound.funcs[location.stage.func], self.bound.stage(*location.stage)
        inlined = frozenset(reached.calls)
        operations = self.work.operations(stage, reached.calls)
        floats = self.work.float_instructions(stage, reached.calls)
        invariant = self._invariant_dim(location, dims)
        hoisted = invariant_work(stage, dims[invariant]) if invariant >= 0 else InvariantWork((0.0,) * UNITS)
        looped = {d.name for d in stage.loops}
        lanes = lane_sizes(self.bound, (*location.stages, location.stage))
        steps = sum(n.bit_length() - 1 for d, n in lanes.items() if d in looped)
        return {
            "branching": self.work.branching(stage, inlined),
            "loads": call_chain(self.bound, [location.stage], set(inlined)),
            "operations": [int(n - h) for n, h in zip(operations, hoisted.saved, strict=True)],
            "invariant": invariant,
            "invariant_operations": [int(n) for n in hoisted.operations],
            "invariant_floats": hoisted.floats,
            "integer_instructions": self.work.integer_instructions(stage, reached.calls),
            "float_instructions": floats - hoisted.saved_floats,
            "code_size": code_size(operations, reached),
            "shuffles": len(func.dtypes) * steps,
            "combine_operations": _combine_operations(func, steps),
        }

    def _invariant_dim(self, location: NestLocation, dims: Sequence[str]) -> int:
        """Return the position of the innermost dimension with interleaved points of a pure stage, -1 without any."""
        if not self.interleaves or self.bound.stage(*location.stage).is_update:
            return -1
        return max((k for k, d in enumerate(dims) if d in location.order.interleaved), default=-1)

    def _pad(self, values: Sequence[int], fill: int) -> list[int]:
        return pad_row(values, self.dims, fill)

    def _written_points(self, func: BoundFunc, stage: BoundStage) -> int:
        """Return the points that a stage writes in the whole pipeline; of a row scan, those of one step."""
        if stage.combine:
            return math.prod(loop_sizes(func, stage, func.extents).values())
        if is_one_step(self.bound, stage):
            sizes = loop_sizes(func, stage, func.extents)
            return math.prod(sizes[d.name] for d in stage.loops if d.parallel)
        return math.prod(func.extents)

    def grid(self, stage: StageId, dims: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return points and lowest point of each dimension that a root kernel's blocks divide."""
        func = self.bound.funcs[stage.func]
        first = self.bound.stage(stage.func, stage.number)
        sizes = loop_sizes(func, first, func.extents)
        lows = {d: lo for d, (lo, _) in zip(func.dims, func.region, strict=True)}
        lows |= {d.name: d.lo for d in first.loops if d.reduction}
        lanes = lane_sizes(self.bound, (StageId(func.name, s.number) for s in func.stages))
        sizes, lows = sizes | lanes, lows | dict.fromkeys(lanes, 0)
        return [max(sizes.get(d, 1), 1) for d in dims], [lows[d] for d in dims]

    def _reduction_points(self, stage: BoundStage, dims: Sequence[str]) -> int:
        loops = {d.name: d for d in stage.loops}
        inner = [loops[d] for d in inner_reductions(stage, dims)]
        return math.prod(d.extent if d.reduction else 1 for d in inner)

    def _promotion(self, func: BoundFunc, level: int, stages: Sequence[StageId]) -> int:
        if level == THREAD or func.name == self.bound.register_blocked:
            return ALWAYS
        sharing = [self.bound.stage(s.func, s.number) for s in stages]
        if not all(self._owns_tile(func, s) for s in sharing) or not (len(sharing) > 1 or sharing[0].is_update):
            return NEVER
        return IF_SMALL

    def _owns_tile(self, func: BoundFunc, stage: BoundStage) -> bool:
        key = stage.func, stage.number
        if key not in self._owning:
            self._owning[key] = is_private_tile(func, stage)
        return self._owning[key]

    def accesses_at(self, location: int, group: AccessGroup, store: bool, memory: int, placed: bool) -> int:
        """Return the row of a group of accesses in a nest.

        Args:
            location: Number of the nest's location.
            group: The accesses.
            store: Whether they store.
            memory: The memory of the array.
            placed: Whether the array has a layout in this memory yet.
        """
        key = location, id(group), store, memory, placed
        row = self.access.find(key)
        if row is None:
            shared_key = location, id(group), store
            if shared_key not in self._of_any_memory:
                self._of_any_memory[shared_key] = self._access(self.locations[location], group, store)
            columns = self._of_any_memory[shared_key]
            row = self.access.add(key, **columns, **self._in_memory(columns, memory, placed))
        return row

    def _in_memory(self, columns: Mapping[str, Any], memory: int, placed: bool) -> dict[str, int]:
        """Return the columns of a group that depend on the memory."""
        size, strides = columns["itemsize"], columns["strides"][: columns["rank"]]
        phased = memory == SHARED and placed and size < WORD_BYTES
        steps = tuple(s * size for s in strides) if memory == GLOBAL else (0,) * len(strides)
        cache_class = columns["table"], bool(columns["own"]), None if phased else steps
        return {
            "cache_class": self._cache_classes.setdefault(cache_class, len(self._cache_classes)),
            "memory": memory,
            "placed": int(placed),
            "phased": int(phased),
        }

    def _access(self, location: NestLocation, group: AccessGroup, store: bool) -> dict[str, Any]:
        """Return the columns of a group of accesses in a nest that do not depend on the memory."""
        id_, stages = location.stage, location.stages
        func, stage = self.bound.funcs[id_.func], self.bound.stage(*id_)
        dims = self.dims_of(location.level, stages, id_)
        reads_itself = group.source == id_.func
        accumulates = reads_itself and is_private_tile(func, stage)
        loops = {d.name: d for d in stage.loops}
        reductions = [(d, loops[d].lo, loops[d].hi) for d in inner_reductions(stage, dims) if loops[d].reduction]
        return {
            "table": self._table(group, id_, dims, [] if accumulates else reductions),
            "store": int(store),
            "own": int(reads_itself),
            "accumulates": int(accumulates),
            "promoted_times": int(id_ == (stages[-1] if store else stages[0])),
            "reductions": math.prod(hi - lo + 1 for _, lo, hi in reductions),
            "moving_reductions": moving_reductions(group, stage, dims),
            "atomic": 1 + func.dtypes[group.component].is_float if store and reads_itself and stage.combine else 0,
            **self._access_indices(group, dims, {n: hi - lo + 1 for n, lo, hi in reductions}),
            **self._access_array(group),
        }

    def _access_indices(
        self, group: AccessGroup, dims: Sequence[str], reductions: Mapping[str, int]
    ) -> dict[str, int | list[int]]:
        """Return the columns of a group's indices, given the iterations of the reductions at each point."""
        coefficients, reach = self._coefficients(group, dims, reductions)
        spread = [max(c) - min(c) for c in zip(*group.offsets, strict=True)]
        divided = [k for k, r in enumerate(group.rows) if r is not None and r.quotient > 1]
        elements, lines = _at_one_point(group, spread)
        q = self.ranks
        return {
            "affine": int(group.is_affine),
            "exact": int(group.is_exact),
            "everywhere": int(group.everywhere),
            "by_data": int(group.by_data),
            "divides": int(bool(divided)),
            "rank": len(group.rows),
            "count": len(group.offsets),
            "coefficients": coefficients,
            "quotient": pad_row([1 if r is None else r.quotient for r in group.rows], q, 1),
            "spread": pad_row(spread, q, 0),
            "affine_dims": pad_row([int(r is not None) for r in group.rows], q, 1),
            "moved_by": self._moved_by(group, dims),
            "reach": pad_row(reach, q, 0),
            "divided": pad_row(divided, q, -1),
            "clamped": pad_row([int(c) for c in group.clamped], q, 0),
            "point_elements": elements,
            "point_lines": lines,
        }

    def _access_array(self, group: AccessGroup) -> dict[str, int | list[int]]:
        """Return the columns of the array that a group accesses, laid out in global memory."""
        size, strides, origin = self._array(group.source, group.component)
        return {
            "itemsize": size,
            "strides": pad_row(strides, self.ranks, 0),
            "origin": pad_row(origin, self.ranks, 0),
            "array_bytes": self._points(group.source) * size,
            "array": self._arrays.setdefault((group.source, group.component), len(self._arrays)),
            "is_input": int(group.source in self.bound.inputs),
        }

    def _moved_by(self, group: AccessGroup, dims: Sequence[str]) -> list[int]:
        """Return which of a nest's dimensions each index that is not affine depends on."""
        flags = [[0] * self.dims for _ in range(self.ranks)]
        for k, (row, names) in enumerate(zip(group.rows, group.moved_by, strict=False)):
            if row is None:
                flags[k][: len(dims)] = [int(d in names) for d in dims]
        return [value for row in flags for value in row]

    def _coefficients(
        self, group: AccessGroup, dims: Sequence[str], reductions: Mapping[str, int]
    ) -> tuple[list[int], list[int]]:
        """Return the coefficients of a nest's dimensions, index by index, and the reach of reductions in each."""
        matrix = [[0] * self.dims for _ in range(self.ranks)]
        reach = [0] * len(group.rows)
        for k, r in enumerate(group.rows):
            for name, c in r.coefficients if r is not None else ():
                if name in dims:
                    matrix[k][dims.index(name)] += c
                else:
                    reach[k] += abs(c) * (reductions.get(name, 1) - 1)
        return [c for row in matrix for c in row], reach

    def _table(
        self, group: AccessGroup, nest: StageId, dims: Sequence[str], reductions: Sequence[tuple[str, int, int]]
    ) -> int:
        """Return the number of a group's offset table."""
        key: object = id(group), nest, tuple(dims), tuple(reductions)
        if self.by_form and not reductions:
            rows = tuple(None if r is None else (_coefficients_by_position(r, dims), r.quotient) for r in group.rows)
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


def _combine_operations(func: BoundFunc, steps: int) -> list[int]:
    """Return the operations by unit of a lane in a warp reduction of ``steps`` shuffles."""
    operations = [0] * UNITS
    for d in func.dtypes:
        operations[INTEGER if not d.is_float else DOUBLE if d.bits == 64 else FLOAT] += steps
    return operations


def _coefficients_by_position(row: AccessRow, dims: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the position and coefficient of a nest's dimensions in an index."""
    return tuple(sorted((dims.index(name), c) for name, c in row.coefficients if name in dims))


def _at_one_point(group: AccessGroup, spread: Sequence[int]) -> tuple[int, int]:
    """Return the distinct elements of one evaluation, and their contiguous rows."""
    box = [1 if r is None else s // r.quotient + 1 for r, s in zip(group.rows, spread, strict=True)]
    elements = min(math.prod(box), len(group.offsets))
    return elements, min(math.prod(box[:-1]), elements)
