"""Enumeration of a decision's options: compute locations of a Func, or tilings of a root (Anderson, section 6)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import KernelSketch, innermost_dim, lane_sizes, thread_order
from autosched.schedule.kernel.vector_access import max_vector_length
from autosched.schedule.kernel.warp_tiles import WARP_THREADS
from autosched.schedule.types import Level
from autosched.search.beam.state import Params, PartialKernel, State, tiling_buckets
from autosched.search.evaluate.batched import Kernel
from autosched.search.evaluate.evaluator import TOO_MANY_READS, KernelEvaluator
from autosched.search.guidance.level_restrictions import EVERY_LEVEL, FUSED, level_restrictions
from autosched.search.rewrites.warp_reductions import has_lanes, only_whole_rows, only_whole_warps, with_long_rows
from autosched.search.settings import SearchSettings
from autosched.search.space.atomic_updates import has_atomic_update, only_whole_bins, reads_atomic_update
from autosched.search.space.compute_locations import ComputeLocations
from autosched.search.space.decisions import Decision, Option, TileOptions
from autosched.search.space.periods import periods
from autosched.search.space.row_scans import scan_stage, with_scan_tilings
from autosched.search.space.tilings import GuidedTile, default_tiling, member_tilings, root_tilings
from autosched.search.space.warp_tilings import WarpTile, lanes_of_region, warp_tilings

Ints = NDArray[np.int64]
KeptKernels = tuple[tuple[PartialKernel, ...], tuple[float, ...]]
"""Kernels of a state, and the cost of each."""
TilingSelection = Callable[[KernelSketch, list[Params]], list[Params]]
"""Function from a root kernel without undecided sources and its tilings to the tilings to try."""


@dataclass
class OptionEnumerator:
    """Enumerates the options of decisions; tilings and regions are cached by kernel.

    Args:
        evaluator: Evaluator of the pipeline's kernels.
        select_tilings: Selects the tilings of a root kernel to try; all of them if left out.

    Attributes:
        compute_locations: Compute locations of Funcs.
        allowed_levels: Kinds of compute locations that a guide leaves to some Funcs.
    """

    evaluator: KernelEvaluator
    select_tilings: TilingSelection | None = None
    compute_locations: ComputeLocations = field(init=False)
    allowed_levels: Mapping[str, frozenset[str]] = field(init=False)
    _extents: dict[tuple[KernelSketch, Params], tuple[int, ...]] = field(init=False, default_factory=dict)
    _tilings: dict[KernelSketch, list[Params]] = field(init=False, default_factory=dict)
    _tile_lists: dict[KernelSketch, TileOptions] = field(init=False, default_factory=dict)
    _member_tilings: dict[tuple[str, tuple[int, ...], bool], list[Params]] = field(init=False, default_factory=dict)
    _provisional: dict[KernelSketch, Params] = field(init=False, default_factory=dict)
    _blocks: dict[tuple[KernelSketch, Params], list[Option]] = field(init=False, default_factory=dict)
    _warps: dict[tuple[KernelSketch, Params], list[Option]] = field(init=False, default_factory=dict)
    _pieces: dict[tuple[KernelSketch, Params, bool], PartialKernel] = field(init=False, default_factory=dict)
    _buckets: dict[tuple[KernelSketch, int], Ints] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.compute_locations = ComputeLocations(self.evaluator.featurizer)
        self.allowed_levels = level_restrictions(self.bound, self.settings.guide)

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline."""
        return self.evaluator.bound

    @property
    def settings(self) -> SearchSettings:
        """Settings of the search."""
        return self.evaluator.settings

    def decisions(self) -> list[Decision]:
        """Return all decisions in order: consumers before producers, a Func's compute location before its tilings.

        In one phase, an option at root includes the tiling of the Func's first kernel.
        """
        decisions: list[Decision] = []
        decided = 1 if self.settings.phases == 1 else 0
        for name, func in reversed(list(self.bound.funcs.items())):
            if name in self.compute_locations.inlined_before:
                continue
            decisions.append(Decision(name))
            decisions += [Decision(name, k) for k in range(decided, len(self.compute_locations.root_sketches(func)))]
        return decisions

    def start_state(self) -> State:
        """Return the state without decisions, except for Funcs that are always inlined."""
        return start_state(dict.fromkeys(sorted(self.compute_locations.inlined_before), Level.INLINE))

    def replaced_kernels(self, state: State, decision: Decision) -> tuple[int, ...]:
        """Return the positions of the kernels that every option of a decision replaces.

        For a compute location these are the kernels that read the Func, for a tiling its untiled kernel.
        """
        if decision.group is None:
            positions = []
            for k, p in enumerate(state.pieces):
                if p.sources is None:
                    p.sources = self.compute_locations.reads(p.sketch)
                if decision.func in p.sources:
                    positions.append(k)
            return tuple(positions)
        if state.levels.get(decision.func) is not Level.ROOT:
            return ()
        untiled = (k for k, p in enumerate(state.pieces) if p.sketch.func == decision.func and not p.tiled)
        return tuple(itertools.islice(untiled, 1))

    def kept_kernels(self, state: State, replaced: tuple[int, ...]) -> KeptKernels:
        """Return the kernels that an option does not replace, and their costs."""
        kept = [k for k in range(len(state.pieces)) if k not in replaced]
        return tuple(state.pieces[k] for k in kept), tuple(state.costs[k] for k in kept)

    def apply_option(
        self, state: State, decision: Decision, option: Option, *, costed: bool = True, kept: KeptKernels | None = None,
        cost: float | None = None,
    ) -> State:  # fmt: skip
        """Return the state with one more decision made.

        Args:
            state: The state.
            decision: The decision.
            option: The chosen option.
            costed: Whether the added kernels have been evaluated; if not, they cost NaN.
            kept: Result of `kept_kernels`, if available.
            cost: Total cost of the added kernels, if available.
        """
        pieces, costs = kept or self.kept_kernels(state, self.replaced_kernels(state, decision))
        if cost is not None and len(option.added) == 1:
            added = [cost]
        else:
            added = [self.evaluator.verdict(p.sketch, p.params).cost if costed else math.nan for p in option.added]
        pieces, costs = (*pieces, *option.added), (*costs, *added)
        levels = state.levels if option.level is None else {**state.levels, option.func: option.level}
        return State(pieces, costs, levels, sum(costs), state.steps + 1, state)

    def options(
        self, state: State, decision: Decision, *, fusion: bool = True, only: str | None = None
    ) -> Sequence[Option]:
        """Return the options of a decision; none if it does not apply to the state.

        Args:
            state: The state.
            decision: The decision.
            fusion: Whether compute locations within reading kernels are included (the pre-pass only inlines). They
                require a call of `prefetch` with the state.
            only: Kind of compute location to include; all kinds if left out.
        """
        if decision.group is not None:
            return self._tile_options(state, decision)
        func = self.bound.funcs[decision.func]
        readers = self.replaced_kernels(state, decision)
        unchanged = [p for k, p in enumerate(state.pieces) if k not in readers]
        allowed = self.allowed_levels.get(decision.func, EVERY_LEVEL)
        if not fusion and allowed <= FUSED - {"inline"}:
            allowed = EVERY_LEVEL  # without fusion a guide cannot be met yet
        at_root = only in (None, "root") and "root" in allowed
        options = self._root_options(state, func, readers, unchanged) if at_root else []
        if func.is_output or not readers or (options and reads_atomic_update(self.bound, func)):
            return options
        kinds = [kind for kind in self.settings.locations if only in (None, kind) and kind in allowed]
        if "inline" in kinds and self.compute_locations.can_inline(func):
            options += self._inline_options(state, func, readers, unchanged)
        if fusion and len(readers) == 1 and self._has_one_kernel(state, func, readers[0]):
            if "block" in kinds and not state.pieces[readers[0]].sketch.warps:
                options += self._block_options(state, func, readers[0], unchanged)
            if "thread" in kinds and not has_atomic_update(func) and not has_lanes(func):
                options += self._thread_options(state, func, readers[0], unchanged)
            if "warp" in kinds and not has_lanes(func):
                options += self._warp_options(state, func, readers[0], unchanged)
        return self._with_given_roots(func, options)

    def _with_given_roots(self, func: BoundFunc, options: list[Option]) -> list[Option]:
        """Return the options at root, or all others, where the settings name the Funcs at root."""
        given = self.settings.kernel_roots
        if given is None:
            return options
        kept = [o for o in options if (o.level is Level.ROOT) == (func.name in given)]
        return kept or options

    def _has_one_kernel(self, state: State, func: BoundFunc, reader: int) -> bool:
        """Whether one kernel has all consumers of a Func, and its blocks need only parts of the Func."""
        # A consumer with an empty domain is outside of every kernel, although it reads nothing.
        inside = self.compute_locations.inside(state.pieces[reader].sketch)
        return inside.issuperset(func.consumers) and not self._is_needed_whole(func)

    def _is_needed_whole(self, func: BoundFunc) -> bool:
        """Whether every use of a Func needs all of it, so that no block should compute it; atomic updates are exempt.

        Each block has privatised bins of an atomic update.
        """
        return func.is_used_whole and not has_atomic_update(func)

    def _with_status(
        self,
        state: State,
        func: str,
        changed: Sequence[tuple[KernelSketch, PartialKernel]],
        kept: Iterable[PartialKernel],
    ) -> list[KernelSketch]:
        """Return the new sketches of kernels with the status of their undecided sources updated.

        Args:
            state: The state.
            func: The Func that is placed.
            changed: The new sketches, each with the kernel that it replaces.
            kept: All other kernels.
        """
        others = [q.sketch.inlined for q in kept if q.sketch.inlined]
        updated = []
        for k, (sketch, _) in enumerate(changed):
            elsewhere = sketch.inlined
            if elsewhere:
                siblings = (s.inlined for n, (s, _) in enumerate(changed) if n != k)
                elsewhere = elsewhere.intersection(frozenset().union(*others, *siblings))
            updated.append(self.compute_locations.status(sketch, state.levels, func, elsewhere))
        return updated

    def _interned(self, sketch: KernelSketch, params: Params, tiled: bool) -> PartialKernel:
        """Return the unique object of a kernel, which caches its structural hashes."""
        key = sketch, params, tiled
        piece = self._pieces.get(key)
        if piece is None:
            piece = self._pieces[key] = PartialKernel(sketch, params, tiled)
        return piece

    def _updated_pieces(
        self,
        state: State,
        func: str,
        changed: Sequence[tuple[KernelSketch, PartialKernel]],
        kept: Iterable[PartialKernel],
    ) -> tuple[PartialKernel, ...]:
        updated = self._with_status(state, func, changed, kept)
        return tuple(self._interned(s, p.params, p.tiled) for s, (_, p) in zip(updated, changed, strict=True))

    def _root_options(
        self, state: State, func: BoundFunc, readers: Sequence[int], kept: Sequence[PartialKernel]
    ) -> list[Option]:
        """Return the options at root: one, or in one phase one for each tiling of the first kernel."""
        sketches = self.compute_locations.root_sketches(func)
        new = [self._interned(s, self._provisional_params(s), tiled=False) for s in sketches]
        pieces = [*(state.pieces[k] for k in readers), *new]
        added = self._updated_pieces(state, func.name, [(p.sketch, p) for p in pieces], kept)
        if self.settings.phases == 2 or not new:
            return [Option("root", func.name, added, Level.ROOT)]
        first = len(readers)
        before, sketch, after = added[:first], added[first].sketch, added[first + 1 :]
        return [
            Option("root", func.name, (*before, PartialKernel(sketch, params, tiled=True), *after), Level.ROOT)
            for params in self.tilings(sketches[0])
        ]

    def _provisional_params(self, sketch: KernelSketch) -> Params:
        """Return the provisional tile sizes of a root kernel, used until its tiling is decided."""
        params = self._provisional.get(sketch)
        if params is None:
            grid = self.evaluator.kernel_model(sketch).grid
            vector = self._vector(sketch.func, grid.dims)
            params = tuple(default_tiling(grid.sizes.tolist(), vector, self.evaluator.target).tolist())
            self._provisional[sketch] = params
        return params

    def _inline_options(
        self, state: State, func: BoundFunc, readers: Sequence[int], kept: Sequence[PartialKernel]
    ) -> list[Option]:
        """Return the option to inline a Func, unless a kernel would load too much at one point."""
        pieces = [state.pieces[k] for k in readers]
        changed = [(self.compute_locations.inlined(p.sketch, func.name), p) for p in pieces]
        for sketch, _ in changed:
            if self.evaluator.kernel_model(self.compute_locations.bare(sketch)).overflow:
                self.evaluator.counts.pruned[TOO_MANY_READS.reason] += 1
                return []
        return [Option("inline", func.name, self._updated_pieces(state, func.name, changed, kept), Level.INLINE)]

    def _block_options(self, state: State, func: BoundFunc, reader: int, kept: Sequence[PartialKernel]) -> list[Option]:
        """Return the options at BLOCK, one for each tiling of the region; none if a block needs the whole Func."""
        piece = state.pieces[reader]
        sketch = self.compute_locations.at_block(piece.sketch, func.name)
        bare = self.compute_locations.at_block(self.compute_locations.bare(piece.sketch), func.name)
        extents = self._extents[bare, piece.params]
        if math.prod(extents) >= math.prod(func.extents):
            return []
        (updated,) = self._with_status(state, func.name, [(sketch, piece)], kept)
        options = self._blocks.get((updated, piece.params))
        if options is None:
            options = self._blocks[updated, piece.params] = [
                Option("block", func.name, (PartialKernel(updated, params, tiled=True),), Level.BLOCK)
                for threads in self.member_tilings(func.name, extents)
                for params in (self.with_threads(piece, sketch, func.name, threads),)
            ]
        return options

    def _warp_options(self, state: State, func: BoundFunc, reader: int, kept: Sequence[PartialKernel]) -> list[Option]:
        """Return the options at WARP, one for each tile of a warp; of each lanes, where warps have tiles already.

        The first Func at WARP gives the kernel tiles of its warps. Producers in shared memory are in their slices then.
        """
        piece = state.pieces[reader]
        sketch = self.compute_locations.at_block(piece.sketch, func.name)
        if not self._may_have_warps(sketch):
            return []
        (updated,) = self._with_status(state, func.name, [(sketch, piece)], kept)
        key = updated, piece.params if piece.sketch.warps else ()
        options = self._warps.get(key)
        if options is None:
            made = self._in_slices(piece, updated, func) if piece.sketch.warps else self._given_warps(updated, func)
            options = self._warps[key] = [
                Option("warp", func.name, (PartialKernel(*kernel, tiled=True),), Level.WARP) for kernel in made
            ]
        return options

    def _may_have_warps(self, sketch: KernelSketch) -> bool:
        """Whether the warps of a kernel may have tiles: no scan over rows, nor lanes or tiles that a guide chooses."""
        stages = [self.bound.stage(*s) for s in sketch.stages]
        if self.evaluator.target.kind != "cuda" or any(s.steps for s in stages):
            return False
        dims = self.evaluator.kernel_model(self.compute_locations.bare(sketch)).grid.dims
        return not (lane_sizes(self.bound, sketch.stages) or self._guided_tile(sketch.func, dims))

    def _in_slices(self, piece: PartialKernel, sketch: KernelSketch, func: BoundFunc) -> list[Kernel]:
        """Return a kernel with one more producer in the slices of its warps, for some lanes."""
        bare = self.compute_locations.at_block(self.compute_locations.bare(piece.sketch), func.name)
        extents = self._extents[bare, piece.params]
        if math.prod(extents) >= math.prod(func.extents):
            return []
        tilings = self.member_tilings(func.name, extents)
        narrow = [t for t in tilings if WARP_THREADS // 2 <= math.prod(t) <= WARP_THREADS]
        lanes = dict.fromkeys([lanes_of_region(self.bound, func.name, extents), *narrow])
        return [(sketch, self.with_threads(piece, sketch, func.name, t)) for t in lanes]

    def _given_warps(self, sketch: KernelSketch, func: BoundFunc) -> list[Kernel]:
        """Return a kernel with each tile of its warps; its producers have lanes that suit their regions."""
        model = self.evaluator.kernel_model(self.compute_locations.bare(sketch))
        tiles = self.warp_tilings(sketch)
        if not tiles:
            return []
        rows = np.ones((len(tiles), model.layout.count), np.int64)
        rows[:, : model.layout.root_serial.stop] = [t.root for t in tiles]
        extents = model.member_extents(rows)
        for name, where in model.layout.members:
            rows[:, where] = [lanes_of_region(model.bound, name, e) for e in extents[name].tolist()]
        partial = extents[func.name].prod(axis=1) < math.prod(func.extents)
        of_tile = {t[1:]: self.compute_locations.one(t.of(sketch)) for t in tiles}
        return [
            (of_tile[t[1:]], tuple(row)) for t, row, part in zip(tiles, rows.tolist(), partial, strict=True) if part
        ]

    def warp_tilings(self, sketch: KernelSketch) -> list[WarpTile]:
        """Return the tiles of warps to try for a kernel's root."""
        grid = self.evaluator.kernel_model(self.compute_locations.bare(sketch)).grid
        sizes = dict(zip(grid.dims, grid.sizes.tolist(), strict=True))
        return warp_tilings(self.bound, sketch.func, grid.dims, sizes, self.settings.max_serial_points)

    def given_warp_tile(self, state: State, func: str, tile: WarpTile, threads: Params) -> list[Option]:
        """Return the option at WARP with a given tile and given lanes of the Func; none if it does not apply.

        Args:
            state: The state.
            func: The Func.
            tile: The tile of a warp.
            threads: Lanes of the Func by dimension.
        """
        bound = self.bound.funcs[func]
        readers = self.replaced_kernels(state, Decision(func))
        if len(readers) != 1 or not self._has_one_kernel(state, bound, readers[0]):
            return []
        piece = state.pieces[readers[0]]
        sketch = self.compute_locations.at_block(piece.sketch, func)
        if not self._may_have_warps(sketch):
            return []
        unchanged = [p for k, p in enumerate(state.pieces) if k != readers[0]]
        (updated,) = self._with_status(state, func, [(sketch, piece)], unchanged)
        params = (*tile.root, *self.with_threads(piece, sketch, func, threads)[len(tile.root) :])
        made = PartialKernel(self.compute_locations.one(tile.of(updated)), params, tiled=True)
        return [Option("warp", func, (made,), Level.WARP)]

    def _thread_options(
        self, state: State, func: BoundFunc, reader: int, kept: Sequence[PartialKernel]
    ) -> list[Option]:
        """Return the options at THREAD, one for each distinct location."""
        piece = state.pieces[reader]
        options = []
        for sketch in self.compute_locations.at_thread(piece.sketch, func.name):
            location = sketch.location(func.name)
            assert location is not None
            if location.each_term and not self.settings.per_reduction_step:
                continue
            if not location.in_terms and lane_sizes(self.bound, (location.host,)):
                continue  # a thread has only some of a warp reduction's terms
            if location.enclosing and not self._has_loop(piece, location.host.func, location.enclosing - 1):
                continue  # the same as the next outer location
            updated = self._updated_pieces(state, func.name, [(sketch, piece)], kept)
            if self.compute_locations.may_index_dynamically(sketch, func.name):
                self.evaluator.dynamic_reads[updated[0].sketch] = func.name
            options.append(Option("thread", func.name, updated, Level.THREAD))
        return options

    def _has_loop(self, piece: PartialKernel, host: str, position: int) -> bool:
        """Whether a thread of the host has a serial loop over the dimension at a position."""
        layout = self.compute_locations.layout(piece.sketch)
        location = piece.sketch.location(host)
        if location is None:
            return piece.params[layout.root_serial][position] > 1
        return True

    def with_threads(self, piece: PartialKernel, sketch: KernelSketch, func: str, threads: Params) -> Params:
        """Return the tile sizes of a kernel with one more fused producer at BLOCK.

        Args:
            piece: The kernel without the producer.
            sketch: The sketch with the producer.
            func: The producer.
            threads: Threads of the producer by dimension.
        """
        before, after = self.compute_locations.layout(piece.sketch), self.compute_locations.layout(sketch)
        params = list(piece.params[: before.root_serial.stop])
        for name, _ in after.members:
            params += threads if name == func else piece.params[before.threads_of(name)]
        return tuple(params)

    def _vector(self, func: str, dims: Sequence[str]) -> int:
        """Return the position of the dimension of threadIdx.x."""
        order = thread_order(self.bound, func, dims)
        return dims.index(order[0]) if order else 0

    def _tile_options(self, state: State, decision: Decision) -> Sequence[Option]:
        """Return an option for each tiling of a root kernel; none if the decision does not apply."""
        untiled = [state.pieces[k].sketch for k in self.replaced_kernels(state, decision)]
        if not untiled:
            return []
        options = self._tile_lists.get(untiled[0])
        if options is None:
            options = TileOptions(decision.func, untiled[0], self.tilings(untiled[0]))
            self._tile_lists[untiled[0]] = options
        return options

    def fixed_tiling(self, state: State, decision: Decision, params: Params) -> Sequence[Option]:
        """Return the one option with given tile sizes of a root kernel; none if the decision does not apply."""
        untiled = [state.pieces[k].sketch for k in self.replaced_kernels(state, decision)]
        return TileOptions(decision.func, untiled[0], [params]) if untiled else []

    def provisional_tiling(self, state: State, decision: Decision) -> Sequence[Option]:
        """Return the one option with the provisional tile sizes of a root kernel; none if it does not apply."""
        untiled = [state.pieces[k] for k in self.replaced_kernels(state, decision)]
        return TileOptions(decision.func, untiled[0].sketch, [untiled[0].params]) if untiled else []

    def tilings(self, sketch: KernelSketch) -> list[Params]:
        """Return the tilings of a root kernel that occupy the multiprocessors."""
        bare = self.compute_locations.bare(sketch)
        if bare not in self._tilings and sketch.warps:
            cyclic = any(o.interleaved for s in sketch.stages for o in (sketch.order(s),))
            tiles = [t.root for t in self.warp_tilings(sketch) if bool(t.cyclic) == cyclic]
            self._tilings[bare] = list(dict.fromkeys(tiles))
        if bare not in self._tilings:
            grid = self.evaluator.kernel_model(bare).grid
            target = self.evaluator.target
            vector = self._vector(sketch.func, grid.dims)
            lanes = lane_sizes(self.bound, sketch.stages)
            whole = [k for k, d in enumerate(grid.dims) if d in lanes]
            settings = with_long_rows(self.settings) if self.bound.lane_loops else self.settings
            of_dim = periods(self.bound, sketch.func) if sketch.stages[0].number == 0 else {}
            at = {k: of_dim[d] for k, d in enumerate(grid.dims) if d in of_dim}
            guided = self._guided_tile(sketch.func, grid.dims)
            table = root_tilings(grid.sizes.tolist(), vector, settings, target, whole, at, guided)
            table = only_whole_bins(self.bound, self.bound.funcs[sketch.func], table)
            table = only_whole_rows(self.bound, sketch.func, grid, vector, table)
            if not len(table):
                self._tilings[bare] = []
                return self._tilings[bare]
            _, count = grid.blocks(table)
            blocks = count.prod(axis=1)
            busy = _busy(blocks, target.multiprocessors, self.settings.max_idle_multiprocessors)
            scan = scan_stage(self.bound, self.evaluator.kernel_model(bare))
            selected = table[busy] if scan is None else with_scan_tilings(scan, grid, vector, table, busy, target)
            tilings: list[Params] = [tuple(row) for row in selected.tolist()]
            self._tilings[bare] = tilings if self.select_tilings is None else self.select_tilings(bare, tilings)
        return self._tilings[bare]

    def _guided_tile(self, func: str, dims: Sequence[str]) -> dict[int, GuidedTile]:
        """Return the tile sizes that a guide gives the root kernel of a Func, by position of the dimension."""
        guide = self.settings.guide.of(func)
        threads, points = guide.threads, guide.serial_points()
        chosen = {k: GuidedTile(threads.get(d), points.get(d)) for k, d in enumerate(dims) if d != guide.stream}
        return {k: tile for k, tile in chosen.items() if tile != GuidedTile()}

    def pin_tilings(self, sketch: KernelSketch, tilings: list[Params]) -> None:
        """Fix the tilings of a root kernel that `tilings` returns."""
        self._tilings[self.compute_locations.bare(sketch)] = tilings

    def member_tilings(self, name: str, extents: Sequence[int], *, vectors: bool = False) -> list[Params]:
        """Return the threads to try for the region of a fused producer at BLOCK.

        Args:
            name: The producer.
            extents: Extents of the region by dimension.
            vectors: Whether one thread per vector of a row is tried as well.
        """
        key = name, tuple(extents), vectors
        tilings = self._member_tilings.get(key)
        if tilings is None:
            source = cached_source(name)
            func = insert_cache_reads(self.bound, [] if source is None else [source]).funcs[name]
            vector = func.dims.index(innermost_dim(func) or func.dims[-1]) if func.dims else 0
            longest = max_vector_length(max(d.bytes_ for d in func.dtypes)) if vectors else 1
            table = member_tilings(
                extents,
                vector,
                self.settings,
                self.evaluator.target,
                longest,
                long_rows=bool(self.bound.scans),
                without_loop=_dims_without_loop(func),
                guided=self._guided_threads(func),
            )
            table = only_whole_warps(self.bound, vector, table)
            tilings = self._member_tilings[key] = [tuple(t) for t in table.tolist()]
        return tilings

    def _guided_threads(self, func: BoundFunc) -> dict[int, int]:
        """Return the threads that a guide gives a fused producer, by position of the dimension."""
        own = self.settings.guide.kernels.get(func.name)
        return {} if own is None else {k: own.threads[d] for k, d in enumerate(func.dims) if d in own.threads}

    def tile_buckets(self, options: TileOptions, depth: int) -> Ints:
        """Return the bucket of each tiling of a root kernel; tilings with equal structural hash to a depth share it."""
        bare = self.compute_locations.bare(options.sketch)
        if len(options) == 1:
            return np.zeros(1, np.int64)
        if (bare, depth) not in self._buckets:
            tilings = np.array(options.tilings, np.int64)
            self._buckets[bare, depth] = tiling_buckets(tilings, self.compute_locations.layout(bare), depth)
        return self._buckets[bare, depth]

    def prefetch(self, states: Iterable[State], decision: Decision) -> None:
        """Compute the region of a Func that each state's reading kernel requires, in one batch per sketch."""
        if decision.group is not None or not {"block", "warp"} & set(self.settings.locations):
            return
        func = self.bound.funcs[decision.func]
        if func.is_output or self._is_needed_whole(func):
            return
        missing: dict[KernelSketch, dict[Params, PartialKernel]] = {}
        for state in states:
            readers = [p for p in state.pieces if func.name in self.compute_locations.reads(p.sketch)]
            if len(readers) == 1:
                sketch = self.compute_locations.at_block(self.compute_locations.bare(readers[0].sketch), func.name)
                if (sketch, readers[0].params) not in self._extents:
                    missing.setdefault(sketch, {})[readers[0].params] = readers[0]
        for sketch, pieces in missing.items():
            ones = (1,) * len(func.dims)
            rows = [self.with_threads(p, sketch, func.name, ones) for p in pieces.values()]
            regions = self.evaluator.kernel_model(sketch).member_extents(np.array(rows, np.int64))
            for params, extents in zip(pieces, regions[func.name].tolist(), strict=True):
                self._extents[sketch, params] = tuple(extents)


def _dims_without_loop(func: BoundFunc) -> list[int]:
    """Return the positions of the dimensions that no stage has a parallel loop over, as where a scan writes them."""
    parallel = {d.name for s in func.nonempty_stages for d in s.loops if d.parallel}
    return [k for k, name in enumerate(func.dims) if name not in parallel]


def _busy(blocks: Ints, multiprocessors: int, most_wasted: float) -> Ints:
    """Return the positions of grids with enough blocks and balanced waves (Anderson, section 6.3).

    The least number of blocks is halved until some grid has it. Grids with idle multiprocessors in the last wave are
    dropped if other grids remain.
    """
    least = 2 * multiprocessors
    while not (blocks >= least).any():
        least //= 2
    chosen = np.flatnonzero(blocks >= least)
    waves = blocks[chosen] / multiprocessors
    balanced = np.ceil(waves) / np.maximum(waves, 1 / multiprocessors) <= most_wasted
    result: Ints = chosen[balanced] if balanced.any() else chosen
    return result


def start_state(levels: Mapping[str, Level] | None = None) -> State:
    """Return the state without decisions, except given levels of Funcs."""
    return State((), (), dict(levels or {}), 0.0, 0)
