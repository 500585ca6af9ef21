"""Short ways to write schedules and small pipelines in tests."""

from __future__ import annotations

from collections.abc import Sequence

from autosched import Func, Input, Pipeline, Var, float32, uint16
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.lang.rdom import RDom
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)

_KINDS = {"b": LoopKind.BLOCK, "w": LoopKind.WARP, "t": LoopKind.THREAD, "s": LoopKind.SERIAL, "r": LoopKind.REDUCTION}

y, x = Var("y"), Var("x")


def stage(text: str) -> StageId:
    """Return the stage written as ``f`` or ``f.1``; ``f.staged`` is a copy."""
    func, _, number = text.rpartition(".")
    return StageId(func, int(number)) if number.isdigit() else StageId(text)


def loops(text: str) -> tuple[Loop, ...]:
    """Return loops from text such as ``by=4 bx=3 tx=32 sy=2 rr.k=5``: kind, dimension, extent."""
    found = []
    for item in text.split():
        name, extent = item.split("=")
        found.append(Loop(name[1:], _KINDS[name[0]], int(extent)))
    return tuple(found)


def tiling(name: str, text: str) -> StageTiling:
    """Return the loops of a stage."""
    return StageTiling(stage(name), loops(text))


def root(name: str, text: str) -> Root:
    """Return a root stage."""
    return Root(tiling(name, text))


def member(at: ComputeAt, order: Sequence[str], **tilings: str) -> FusedProducer:
    """Return a fused producer with the tilings of its stages, in order; ``f__1`` stands for ``f.1``."""
    return FusedProducer(tuple(tiling(n.replace("__", "."), t) for n, t in tilings.items()), at, tuple(order))


def block(host: str, depth: int) -> ComputeAt:
    """Return a place inside the block loops of a root."""
    return ComputeAt(Level.BLOCK, stage(host), depth)


def warp(host: str, depth: int) -> ComputeAt:
    """Return a place inside the block and warp loops of a root."""
    return ComputeAt(Level.WARP, stage(host), depth)


def thread(host: str, depth: int) -> ComputeAt:
    """Return a place inside one thread of a stage."""
    return ComputeAt(Level.THREAD, stage(host), depth)


def kernel(
    bound: BoundPipeline, roots: Sequence[Root], members: Sequence[FusedProducer] = (), inlined: Sequence[str] = ()
) -> Kernel:
    """Return a kernel; the calls of inlined Funcs are counted."""
    tilings = [r.tiling for r in roots] + [t for m in members for t in m.tilings]
    staged = [s for m in members if (s := cached_source(m.func)) is not None]
    calls = inlined_calls(insert_cache_reads(bound, staged), [t.stage for t in tilings], set(inlined))
    return Kernel(tuple(roots), tuple(members), tuple(Inlined(f, calls[f]) for f in bound.funcs if f in calls))


def schedule(bound: BoundPipeline, *kernels: Kernel) -> Schedule:
    """Return a schedule of kernels in order."""
    return Schedule(bound.pipeline.hash, kernels)


def blur_pipeline() -> Pipeline:
    """Return a clamped 3x3 blur of floats: ``img``, ``img_clamped``, ``across``, ``out``."""
    img = Input("img", float32, 2)
    edge = img.clamped()
    across, out = Func("across"), Func("out")
    across[y, x] = (edge[y, x - 1] + edge[y, x] + edge[y, x + 1]) / 3
    out[y, x] = (across[y - 1, x] + across[y, x] + across[y + 1, x]) / 3
    return Pipeline([out.over(y=(0, img.shape[0]), x=(0, img.shape[1]))], name="blur")


def chain_pipeline(stages: int, radius: int = 1) -> Pipeline:
    """Return Funcs ``f1`` to ``fN`` and ``out``, each the sum of a column of the one before, from a clamped input."""
    img = Input("img", uint16, 2)
    last = img.clamped()
    for k in range(1, stages + 1):
        f = Func(f"f{k}" if k < stages else "out")
        f[y, x] = last[y - radius, x] + last[y, x + radius]
        last = f
    return Pipeline([last.over(y=(0, img.shape[0]), x=(0, img.shape[1]))], name="chain")


def product_pipeline() -> Pipeline:
    """Return a matrix product: inputs ``a`` and ``b``, the sum ``dot`` over ``r.k``, and the output ``out``."""
    a, b = Input("a", float32, 2), Input("b", float32, 2)
    r = RDom("r", k=a.shape[1])
    out = Func("out")
    out[y, x] = sum_over(a[y, r.k] * b[r.k, x], over=r, name="dot")
    return Pipeline([out.over(y=(0, a.shape[0]), x=(0, b.shape[1]))], name="product")


def blur(height: int = 53, width: int = 77) -> BoundPipeline:
    """Return the blur bound to an image size."""
    return bind(blur_pipeline(), {"img": (height, width)})


def blur_with_shared(bound: BoundPipeline) -> Schedule:
    """Return the blur in one kernel of 32 x 8 tiles with ``across`` in shared memory (for the default size)."""
    shared = member(block("out", 2), "yx", across="tx=32 ty=8 sy=2")
    return schedule(bound, kernel(bound, [root("out", "by=7 bx=3 tx=32 ty=8")], [shared], ["img_clamped"]))
