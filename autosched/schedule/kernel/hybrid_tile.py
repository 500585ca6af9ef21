"""Hybrid tiles: the last steps of a producer's tile are in registers, the steps before them in shared memory.

Lanes compute the tile in steps along the split dimension (Jangda and Guha 2020, section 5 and appendix A). A step is a
parallelogram tile: steps end where the tile ends, so that those of a producer lie to the right of those of its
consumers by the largest dependence on points to the right. A read is then never of a later step, and the right-most
one is of the lane's own register:

    steps along x      | shared memory, with the overlap on the left | step 0 | step 1 |   registers
    lane t of step s                                      first + W*s + t

In a dimension, a lane has ``points`` neighbouring points in each step, and ``lanes`` lanes follow one another. So
point ``base + e`` belongs to lane ``e // points % lanes`` in step ``e // (points * lanes)``, where it is point
``e % points``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autosched.analysis.indices import index as ix
from autosched.errors import ScheduleError
from autosched.schedule.kernel.lane_layout import HybridStorage, LaneLayout
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.plan import Nest
from autosched.schedule.types import HybridTile, LoopKind


def hybrid_storage(tile: HybridTile, group: Sequence[Nest]) -> HybridStorage:
    """Return the storage of a producer's hybrid tile.

    Args:
        tile: The directive.
        group: The producer's nests, which have the same points of a thread.

    Raises:
        ScheduleError: If the ends of the tile are at no constant distance from one point of the block.
    """
    n = group[0]
    threads = thread_loops(group)
    axes = {p.name: axis for axis, p in enumerate(threads)}
    layouts = []
    shared = 0
    reduced = {d.name for d in n.stage.reductions}
    for dim in (d for d in n.low if d not in reduced):
        loops = [p for p in n.loops if p.dim == dim and p.kind is not LoopKind.BLOCK and p.extent > 1]
        position = next((k for k, p in enumerate(loops) if p.kind is LoopKind.THREAD), None)
        inner = loops[position + 1 :] if position is not None else []
        points = prod(p.extent for p in inner)
        lanes = loops[position].extent if position is not None else 1
        axis = axes[loops[position].name] if position is not None else None
        if dim == tile.dim:
            end = without_clamps_of_blocks(n.high[dim], n, dim)
            base = ix.sub(end, points * lanes * tile.iterations - 1)
            shared = ix.extent(n.low[dim], ix.sub(base, 1))
            steps = tile.iterations
        else:
            base = without_clamps_of_blocks(n.low[dim], n, dim, upper=False)
            steps = -(-ix.extent(base, n.high[dim]) // (points * lanes))
        layouts.append(LaneLayout(dim, base, points, lanes, steps, axis))
    return HybridStorage(n.stage.func, tile.dim, tuple(layouts), tuple(p.extent for p in threads), shared)


def without_clamps_of_blocks(bound: ix.Index, n: Nest, dim: str, *, upper: bool = True) -> ix.Index:
    """Return the end of a tile without the clamps that boundary blocks have.

    Args:
        bound: An end of the tile, symbolic in block loops.
        n: A nest of the producer.
        dim: The dimension.
        upper: Whether it is the upper end.

    Raises:
        ScheduleError: If the end is not affine in block loops, or the tile goes beyond it.
    """

    def choose(t: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
        if t.kind not in ("min", "max"):
            return None
        moving = [a for a in args if ix.loop_vars(a)]
        return moving[0] if len(moving) == 1 else None

    end = ix.rewritten(bound, choose)
    beyond = ix.extent(ix.add(end, 1), bound) if upper else ix.extent(ix.add(bound, 1), end)
    if any(isinstance(t, ix.Atom) for t in ix.atoms(end)) or beyond > 0:
        raise ScheduleError(
            f"{n.stage.func} has a hybrid tile, whose {'last' if upper else 'first'} point along {dim} must be at a "
            "constant distance from a point of the block; keep the tile in shared memory"
        )
    return end
