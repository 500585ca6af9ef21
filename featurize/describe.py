"""From a kernel of any schedule to the structure and tile sizes by which it is featurized."""

from __future__ import annotations

from autosched.analysis.bound import BoundPipeline
from autosched.analysis.staging import with_staged
from autosched.featurize.structure import Spot, Structure, columns, tiled_dims
from autosched.schedule.types import Kernel, Level, LoopKind, StageTiling

Params = tuple[int, ...]


def describe_kernel(bound: BoundPipeline, kernel: Kernel) -> tuple[Structure, Params]:
    """Return the structure and the parameters that come nearest to a kernel.

    Exact for kernels in the form that `build_kernel` gives them. Of others, the order of serial loops is taken to be
    that of the dimensions, and thread loops to be in the order of the features.
    """
    bound = with_staged(bound, kernel.staged)
    order = list(bound.funcs)
    members = sorted(kernel.members, key=lambda m: order.index(m.func))
    spots = []
    for m in members:
        enclosing = _enclosing(bound, kernel, m.at.depth, kernel.tiling(m.at.host)) if m.at.level is Level.THREAD else 0
        spots.append(Spot(m.func, m.at.level, m.at.host, enclosing, m.aligned))
    stages = tuple(r.tiling.stage for r in kernel.roots)
    structure = Structure(stages, tuple(spots), frozenset(i.func for i in kernel.inlined))
    layout = columns(bound, structure)
    params = [1] * layout.count
    root = kernel.roots[0].tiling
    dims = tiled_dims(bound, stages)
    params[layout.root_threads] = [root.extent(d, LoopKind.THREAD) for d in dims]
    params[layout.root_serial] = [root.extent(d, LoopKind.SERIAL) for d in dims]
    for m in members:
        if m.at.level is Level.BLOCK:
            own = bound.funcs[m.func].dims
            params[layout.threads_of(m.func)] = [m.tilings[0].extent(d, LoopKind.THREAD) for d in own]
    return structure, tuple(params)


def described_points(bound: BoundPipeline, kernel: Kernel) -> Params:
    """Return the points that the threads of each BLOCK Member's dimensions compute, as further parameters.

    They may be more than blocks need, as code is made for the largest demand that can be proved.
    """
    bound = with_staged(bound, kernel.staged)
    order = list(bound.funcs)
    members = sorted((m for m in kernel.members if m.at.level is Level.BLOCK), key=lambda m: order.index(m.func))
    return tuple(m.tilings[0].extent(d, LoopKind.SERIAL) for m in members for d in bound.funcs[m.func].dims)


def _enclosing(bound: BoundPipeline, kernel: Kernel, depth: int, host: StageTiling) -> int:
    """Return how many of the host's dimensions have their serial loop around a depth, outermost first."""
    around = {p.dim for p in host.loops[:depth] if p.kind is LoopKind.SERIAL}
    is_root = any(r.tiling.stage == host.stage for r in kernel.roots)
    stages = tuple(r.tiling.stage for r in kernel.roots)
    dims = tiled_dims(bound, stages) if is_root else bound.funcs[host.stage.func].dims
    last = max((k for k, d in enumerate(dims) if d in around), default=-1)
    return last + 1
