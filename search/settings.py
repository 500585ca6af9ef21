"""Settings of searches, and presets (Anderson, sections 3, 4 and 6, with extensions)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from autosched.deprecation import renamed_fields
from autosched.errors import InputError
from autosched.search.guidance.guide import Guide

Sampling = Literal["hierarchical", "exhaustive"]
Atomics = Literal["none", "exact", "all"]

SAMPLES = 80
"""Default number of searches whose schedules are ranked together, as in the paper."""


@renamed_fields(
    copies="cache_read_tolerance", stores="materialise", splits="rfactor", shuffles="warp_reductions",
    joins="horizontal_fusion", streams="mainloops", slides="sliding_windows", each_term="per_reduction_step",
    baseline="baseline_tolerance", serial="thread_tile_sizes", odd_serial="odd_thread_tile_sizes",
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of the beam search, of the rewrites and refinements that it tries, and of its pruning rules.

    Defaults are those of the paper, or of Halide's Anderson2021 where the paper gives no number. `PAPER` switches off
    all extensions of the paper: refinement, cache reads, materialised producers, rfactor, atomic updates, warp
    reductions, mainloops, sliding windows, linear threads, cyclic distribution, hybrid tiles, time tiles and the
    preference for the baseline. Fields that say "GPU only" have no effect on CPU targets. A larger ``beam_size``, more
    ``passes`` or more ``refine`` rounds usually find better schedules in more time.

    Attributes:
        beam_size: States expanded at each decision; 1 is greedy search.
        passes: Passes of the beam search. Each pass compares states by one more layer of their structural hash.
        sampling: Options costed at each decision: `hierarchical` costs log2 of each bucket of similar options,
            `exhaustive` all of them.
        freeze: Whether a pre-pass fixes the decisions of all but the log2 N most expensive Funcs (section 4).
        phases: Decisions per Func: 2 chooses a compute location and then, at root, a tiling (section 6); 1 chooses
            both at once.
        refine: Most rounds of large-neighbourhood search around the best states
            (`autosched.search.refine.large_neighbourhood`); 0 for none.
        refine_patience: Groups of neighbourhoods without a gain after which a round ends; 0 for no such end.
        refine_beam: States expanded at each decision of large-neighbourhood search.
        cache_read_tolerance: Limit for cache reads in shared memory, as a ratio of predicted times with and without
            them (`autosched.search.refine.cache_reads`, GPU only); 0 for no cache reads. Above a ratio of 1, a cache
            read must save a larger share of transactions than it costs time. The default is within the error of
            predictions (docs/decisions/0007-cache-read-tolerance.md).
        materialise: Whether a Func with several readers may be fused into the first reading kernel, which also writes
            it to global memory for the others (`autosched.search.refine.materialise`, GPU only).
        rfactor: Whether reductions with too few points to occupy the device are factored into partial reductions
            (`autosched.search.rewrites.rfactor`).
        atomics: Scatter updates for which atomic updates are tried, if ``rfactor`` is on (GPU only): ``none``;
            ``exact`` for those whose order makes no difference; ``all`` for floating-point sums as well, whose rounding
            then varies from run to run.
        warp_reductions: Whether the lanes of a warp may share a reduction with few points, and on a CPU the lanes of
            vectors a reduction of neighbouring elements (`autosched.search.rewrites.warp_reductions`).
        packing: Whether blocks may copy operands in another storage order, so that lanes are contiguous
            (`autosched.search.refine.packing`, applied to the best schedules, CPU only).
        windows: Whether reductions over neighbouring elements may be computed by doubling
            (`autosched.search.rewrites.window_doubling`).
        scans: Whether scans may be computed by blocks in parallel (`autosched.search.rewrites.scan_blocking`).
        deinterleaving: Whether reads with a stride may be from a copy with every n-th element side by side
            (`autosched.search.rewrites.deinterleaving`).
        hoisting: Whether values that depend on one coordinate alone may be in a Func of that coordinate
            (`autosched.search.rewrites.invariant_hoisting`).
        unrolling: Whether reductions that read tables of constants may be unrolled, with the entries as constants
            (`autosched.search.rewrites.reduction_unrolling`).
        narrowing: Whether integers are computed and stored in the narrowest types that hold them
            (`autosched.search.rewrites.integer_narrowing`, CPU only).
        folding: Whether values that a Func repeats at shifted points may be in a Func of their own
            (`autosched.search.rewrites.computation_folding`).
        horizontal_fusion: Whether outputs that share sources may be computed in one kernel
            (`autosched.search.rewrites.horizontal_fusion`, GPU only). Its gain depends on registers, which models
            predict poorly, so switch it on only where schedules are compiled or measured.
        fission: Whether outputs may be computed in other groups of kernels, tuples by components, and very large
            expressions in parts (`autosched.search.rewrites.output_fission`, GPU only). As with ``horizontal_fusion``,
            registers decide.
        retiming: Whether sums over planes may be accumulated plane by plane
            (`autosched.search.rewrites.retiming`, GPU only). Floating-point results then differ by rounding.
        kernel_roots: The Funcs that are computed at root, for searches of one fission; all others are computed inside
            the kernels that read them where that is legal. None leaves both to the search.
        mainloops: Whether reductions may have a mainloop, which stages its operands in shared memory step by step
            (`autosched.search.refine.mainloop`, applied to the best schedules, GPU only).
        per_reduction_step: Whether a thread may compute a producer once per reduction step, for all points of its
            register tile. Producers that do not vary with the step are computed outside of the reduction.
        sliding_windows: Whether blocks may slide along a dimension, with producers in rolling buffers in shared memory
            (`autosched.search.refine.sliding_window`, applied to the best schedules, GPU only). ``locations`` must
            include ``block``.
        linear_threads: Whether the stages of a kernel with tiles in shared memory may number their threads by a linear
            index (`autosched.search.refine.linear_threads`, applied to the best schedules, GPU only). The threads of
            their producers are refined for both numberings.
        cyclic_distribution: Whether the points of a thread along the fastest dimension may be as far apart as there are
            threads (`autosched.search.refine.cyclic_distribution`, applied to the best schedules, GPU only).
        warp_tiles: Whether each warp of a block may have a tile of its own, with its producers in its shared memory
            (`autosched.search.refine.warp_tiles`, applied to the best schedules, GPU only).
        hybrid_tiles: Whether a share of the tiles of warps may be in registers: 1/4, 1/2, 3/4 or all of their steps,
            along any dimension (`autosched.search.refine.hybrid_tiles`, applied to the best schedules, and to the best
            ones with tiles of warps, GPU only). ``locations`` must include ``warp``.
        time_tiles: Whether runs of Funcs that compute the same are fused in kernels of each depth
            (`autosched.search.refine.time_tile_search`). ``locations`` must include ``block``.
        partitions: Whether the cheapest partitions into small groups are refined beside the states of beam search
            (`autosched.search.fusion`, GPU only).
        baseline_tolerance: Ratio of predicted times up to which the schedule of the baseline, or of Sioutas' strategy,
            is preferred to the best one (`autosched.search.strategies.prefer_baseline`, CPU only). With 0 they are
            excluded.
        dropout: Probability that a whole pass drops no state; a value below 1 makes samples differ.
        locations: Levels tried in addition to root: ``inline``, ``block``, ``warp`` (GPU only) and ``thread``.
        thread_tile_sizes: Points per thread to try in each dimension (section 6.1).
        odd_thread_tile_sizes: Odd points per thread, tried where they make the thread extent a multiple of a warp.
        vector_threads: Threads along x to try (section 6.2).
        other_threads: Threads along y and z to try.
        max_serial_points: Most points of a thread's register tile; more are not unrolled.
        max_recompute: Most points computed per point needed; states above are pruned.
        max_inlined_calls: Most evaluations of an inlined Func per point of its consumer.
        max_idle_multiprocessors: Most time of a grid, relative to one with perfectly balanced waves of blocks.
        max_idle_lanes: Most idle lanes in a stage's active warps, relative to the most threads of a block.
        max_thread_points: Most points of a producer in the registers of a thread.
        max_thread_bytes: Most bytes of a producer in the registers of a thread.
        guide: Choices of an expert, which restrict the options (`autosched.search.guidance`).
    """

    beam_size: int = 32
    passes: int = 5
    sampling: Sampling = "hierarchical"
    freeze: bool = True
    phases: int = 2
    refine: int = 1
    refine_patience: int = 0
    refine_beam: int = 4
    cache_read_tolerance: float = 1.06
    materialise: bool = True
    rfactor: bool = True
    atomics: Atomics = "exact"
    warp_reductions: bool = True
    packing: bool = True
    windows: bool = True
    scans: bool = True
    deinterleaving: bool = True
    hoisting: bool = True
    unrolling: bool = True
    narrowing: bool = True
    folding: bool = True
    horizontal_fusion: bool = False
    fission: bool = False
    retiming: bool = False
    kernel_roots: tuple[str, ...] | None = None
    mainloops: bool = True
    per_reduction_step: bool = True
    sliding_windows: bool = True
    linear_threads: bool = True
    cyclic_distribution: bool = True
    warp_tiles: bool = False
    hybrid_tiles: bool = True
    time_tiles: bool = True
    partitions: bool = True
    baseline_tolerance: float = 1.0
    dropout: float = 1.0
    locations: tuple[str, ...] = ("inline", "block", "thread")
    thread_tile_sizes: tuple[int, ...] = (1, 2, 4, 8)
    odd_thread_tile_sizes: tuple[int, ...] = (3, 5, 7)
    vector_threads: tuple[int, ...] = (16, 32, 64)
    other_threads: tuple[int, ...] = (1, 2, 4, 8, 16)
    max_serial_points: int = 16
    max_recompute: float = 10.0
    max_inlined_calls: int = 256
    max_idle_multiprocessors: float = 1.2
    max_idle_lanes: float = 0.5
    max_thread_points: int = 16
    max_thread_bytes: int = 128
    guide: Guide = field(default_factory=Guide)

    def __post_init__(self) -> None:
        if self.beam_size < 1 or self.passes < 1:
            raise InputError(f"beam_size is {self.beam_size} and passes {self.passes}: give at least 1 of each")
        if self.phases not in (1, 2):
            raise InputError(f"phases is {self.phases}: choose 1 or 2")
        if self.refine < 0 or self.refine_patience < 0 or self.refine_beam < 1:
            raise InputError(
                f"refine is {self.refine}, refine_patience {self.refine_patience} and refine_beam {self.refine_beam}: "
                "give at least 0 rounds, 0 groups and 1 state"
            )
        if self.atomics not in get_args(Atomics):
            raise InputError(f"atomics is {self.atomics!r}: choose {', '.join(get_args(Atomics))}")
        if self.cache_read_tolerance < 0:
            raise InputError(f"cache_read_tolerance is {self.cache_read_tolerance}: give 0, or a factor such as 1.06")
        if self.baseline_tolerance < 0:
            raise InputError(f"baseline_tolerance is {self.baseline_tolerance}: give 0, or a factor such as 1")
        if not 0.0 < self.dropout <= 1.0:
            raise InputError(f"dropout is {self.dropout}: give a probability above 0, at most 1")
        unknown = set(self.locations) - {"inline", "block", "warp", "thread"}
        if unknown:
            raise InputError(f"no location {sorted(unknown)[0]!r}: choose among inline, block, warp, thread")


PAPER = SearchSettings(
    refine=0,
    cache_read_tolerance=0.0,
    materialise=False,
    rfactor=False,
    atomics="none",
    warp_reductions=False,
    packing=False,
    windows=False,
    scans=False,
    deinterleaving=False,
    hoisting=False,
    unrolling=False,
    narrowing=False,
    folding=False,
    mainloops=False,
    sliding_windows=False,
    linear_threads=False,
    cyclic_distribution=False,
    hybrid_tiles=False,
    time_tiles=False,
    partitions=False,
    baseline_tolerance=0.0,
)
"""Beam search of the paper: 32 states, and 5 passes of which the first is the pre-pass."""

COMPILED = SearchSettings(horizontal_fusion=True)
"""Settings of the modes, which compile or measure their schedules, so that spilled registers show."""

MEASURED = replace(COMPILED, fission=True)
"""Settings of autotuning, which measures its candidates."""

GREEDY = replace(PAPER, beam_size=1, passes=1, dropout=0.01, freeze=False)
"""Greedy search with dropout, for the diverse schedules that tuning measures (section 8): one pass, one state."""
