"""What a search may do (Anderson, sections 3, 4 and 6, and what goes beyond)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from autosched.errors import InputError

Sampling = Literal["hierarchical", "exhaustive"]
Atomics = Literal["none", "exact", "all"]


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of the beam search and of the pruning rules.

    The defaults are the paper's (and, where it leaves a number out, those of Halide's Anderson2021), but for
    ``refine``, ``refine_beam``, ``copies``, ``stores``, ``splits``, ``atomics``, ``shuffles``, ``streams``, ``slides``
    and ``baseline``, which are ours: `PAPER` is without.

    Attributes:
        beam_size: States expanded at each decision; 1 is a greedy search.
        passes: How often the search is run, each time told apart by one more layer of structure.
        sampling: `hierarchical` costs log2 of every bucket of alike candidates, `exhaustive` all of them.
        freeze: Whether a pre-pass fixes the decisions of all but log2 N Funcs (section 4).
        phases: 2 decides a Func's place and then, at root, its tiles (section 6); 1 decides both at once.
        refine: Rounds at most of the search around the best states (`autosched.search.refine`); 0 for none.
        refine_beam: States expanded at each decision of these.
        copies: How many times as long a kernel may be predicted to take with copies of sources in shared memory for
            them to be made (`autosched.search.stage`, after the refinement, for GPUs); 0 for none. Where it takes
            longer, a larger share of its transactions must be saved than that costs. The default lies within what
            predictions of two such kernels are wrong by (docs/decisions/0007-cache-read-tolerance.md).
        stores: Whether Funcs that several kernels read are tried in the blocks of the first of these, which store them
            for the others (`autosched.search.store`, after the refinement, for GPUs).
        splits: Whether reductions that leave most of the device idle are tried in pieces (`autosched.search.splits`).
        atomics: Which updates that scatter threads may share by atomic operations, where reductions are tried in pieces
            (for GPUs): ``none``, ``exact`` for those whose order makes no difference, or ``all``, floating-point sums
            among them, which then round differently from run to run.
        shuffles: Whether lanes of a warp are tried that share the terms of reductions with few points
            (`autosched.search.across`, for GPUs).
        joins: Whether outputs that read the same are tried in one kernel (`autosched.search.joins`, for GPUs). Whether
            that pays depends on registers, of which models know little: it is for those who ask the compiler.
        streams: Whether reductions are tried in steps that stage their terms in shared memory
            (`autosched.search.streams`, for the schedules that a search has found, for GPUs).
        each_term: Whether threads may compute a Func once for each term of a reduction, for all of their points that
            read it (a Func that is the same for all terms is computed outside the reduction).
        slides: Whether blocks are tried that walk a dimension, with windows in shared memory that slide along it
            (`autosched.search.slides`, for the best schedules that a search has found, for GPUs, where ``locations``
            have ``block``).
        baseline: How many times as long as the best schedule the baseline, or Sioutas', may be predicted to take on a
            CPU to be preferred (`autosched.search.baseline`); with 1 they compete like any other, with 0 they do not.
        dropout: Probability that a whole pass drops no state; below 1 it makes samples differ.
        locations: Levels that are offered besides root, of ``inline``, ``block`` and ``thread``.
        serial: Points of a thread that are tried in each dimension (section 6.1).
        odd_serial: Odd ones, tried where they make the thread extent a multiple of a warp.
        vector_threads: Threads in x that are tried (section 6.2).
        other_threads: Threads that are tried in the other dimensions.
        max_serial_points: Points of a thread in all; more are not unrolled.
        max_recompute: Points computed over points needed, beyond which a state is pruned.
        max_inlined_calls: Evaluations of one inlined Func at one point of its consumer.
        max_idle_multiprocessors: Ratio of the time with whole blocks to that with blocks cut at will.
        max_idle_lanes: Idle lanes of a stage's active warps over the threads a block can have.
        max_thread_points: Points of a Func computed inside a thread.
        max_thread_bytes: Bytes of a Func computed inside a thread.
    """

    beam_size: int = 32
    passes: int = 5
    sampling: Sampling = "hierarchical"
    freeze: bool = True
    phases: int = 2
    refine: int = 1
    refine_beam: int = 4
    copies: float = 1.06
    stores: bool = True
    splits: bool = True
    atomics: Atomics = "exact"
    shuffles: bool = True
    joins: bool = False
    streams: bool = True
    each_term: bool = True
    slides: bool = True
    baseline: float = 1.0
    dropout: float = 1.0
    locations: tuple[str, ...] = ("inline", "block", "thread")
    serial: tuple[int, ...] = (1, 2, 4, 8)
    odd_serial: tuple[int, ...] = (3, 5, 7)
    vector_threads: tuple[int, ...] = (16, 32, 64)
    other_threads: tuple[int, ...] = (1, 2, 4, 8, 16)
    max_serial_points: int = 16
    max_recompute: float = 10.0
    max_inlined_calls: int = 256
    max_idle_multiprocessors: float = 1.2
    max_idle_lanes: float = 0.5
    max_thread_points: int = 16
    max_thread_bytes: int = 128

    def __post_init__(self) -> None:
        if self.beam_size < 1 or self.passes < 1:
            raise InputError(f"beam_size is {self.beam_size} and passes {self.passes}: give at least 1 of each")
        if self.phases not in (1, 2):
            raise InputError(f"phases is {self.phases}: choose 1 or 2")
        if self.refine < 0 or self.refine_beam < 1:
            raise InputError(
                f"refine is {self.refine} and refine_beam {self.refine_beam}: give at least 0 rounds and 1 state"
            )
        if self.atomics not in get_args(Atomics):
            raise InputError(f"atomics is {self.atomics!r}: choose {', '.join(get_args(Atomics))}")
        if self.copies < 0:
            raise InputError(f"copies is {self.copies}: give 0, or a factor such as 1.06")
        if self.baseline < 0:
            raise InputError(f"baseline is {self.baseline}: give 0, or a factor such as 1")
        if not 0.0 < self.dropout <= 1.0:
            raise InputError(f"dropout is {self.dropout}: give a probability above 0, at most 1")
        unknown = set(self.locations) - {"inline", "block", "thread"}
        if unknown:
            raise InputError(f"no location {sorted(unknown)[0]!r}: choose among inline, block, thread")


PAPER = SearchSettings(
    refine=0, copies=0.0, stores=False, splits=False, atomics="none", shuffles=False, streams=False, slides=False,
    baseline=0.0,
)  # fmt: skip
"""Beam search as the paper has it: 32 states, 5 passes of which the first freezes."""

GREEDY = SearchSettings(
    beam_size=1, passes=1, dropout=0.01, freeze=False, refine=0, copies=0.0, stores=False, splits=False,
    atomics="none", shuffles=False, streams=False, slides=False, baseline=0.0,
)  # fmt: skip
"""One of the many different schedules that tuning measures (section 8): one pass, one state, some states dropped."""
