"""Prefetch, concurrent streaming, and load/compute perspective of kernels (Artemis, section III)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch, thread_order
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.sliding_window.walk_search import direction_of, step_counts_of, with_step_count
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.tune.plan.variation import Variation


def prefetch_variations(kernel: Kernel) -> Iterator[Variation]:
    """Yield the other ways to load what a kernel with steps copies: at once, a step ahead, by async copies."""
    if kernel.mainloop_at is None:
        return
    for mode in TransferMode:
        if mode is not TransferMode.of(kernel):
            yield Variation(mode.name.lower().replace("_", " "), mode.applied)


def streaming_variations(evaluator: KernelEvaluator, kernel: Kernel) -> Iterator[Variation]:
    """Yield other numbers of steps of a block: serial streaming with all of a dimension, or concurrent streaming."""
    if not kernel.is_sliding_window or kernel.mainloop_at is None:
        return
    direction, host = direction_of(kernel), evaluator.bound.funcs[kernel.mainloop_at.host.func]
    extent = host.extents[host.dims.index(direction.dim)]
    for steps in step_counts_of(extent, direction.rows):
        if steps != kernel.mainloops[0].extent:
            kind = "serial streaming" if steps * direction.rows >= extent else "concurrent streaming"

            def stepped(k: Kernel, steps: int = steps) -> Kernel:
                return with_step_count(evaluator.bound, k, steps)

            yield Variation(f"{kind}, {steps} steps", stepped)


def perspective_variations(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, kernel: Kernel
) -> Iterator[Variation]:  # fmt: skip
    """Yield other numbers of threads that compute the tiles of a kernel's producers.

    * *Output perspective*: a block has the threads of its results, and each computes several points of a tile.
    * *Input perspective*: a thread for each point of a tile.
    * *Mixed perspective*: a thread for each point of a row of a tile, as many rows as the results have.
    """
    if kernel.mainloop_at is not None or not kernel.fused:
        return
    change: Callable[[str, Kernel], Kernel] = partial(_in_perspective, evaluator, enumerator)
    for perspective in ("output", "input", "mixed"):
        yield Variation(f"{perspective} perspective", partial(change, perspective))
    if evaluator.target.kind == "cuda":  # the C backend ignores it
        yield Variation("linear threads", lambda k: replace(k, linear_threads=not k.linear_threads))


def _in_perspective(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, perspective: str, kernel: Kernel
) -> Kernel:
    sketch: KernelSketch = enumerator.compute_locations.one(describe_kernel(evaluator.bound, kernel)[0])
    _, params = describe_kernel(evaluator.bound, kernel)
    model = evaluator.kernel_model(sketch)
    row = np.array([params], np.int64)
    extents = model.member_extents(row)
    threads = row[0, model.layout.root_threads].tolist()
    order = thread_order(model.bound, model.sketch.func, model.grid.dims)
    of_block = [threads[model.grid.dims.index(d)] for d in order]
    for func, where in model.layout.members:
        dims = model.bound.funcs[func].dims
        sizes = np.ones(len(dims), np.int64)
        for axis, dim in enumerate(thread_order(model.bound, func, dims)):
            extent = int(extents[func][0, dims.index(dim)])
            whole = perspective == "input" or (perspective == "mixed" and axis == 0)
            limit = of_block[axis] if axis < len(of_block) else 1
            sizes[dims.index(dim)] = extent if whole else min(extent, limit)
        row[0, where] = sizes
    return replace(build_kernel(model, row[0]), linear_threads=kernel.linear_threads)
