"""Loop nests as text, compared literally, and the canonical text, compared as a key."""

from __future__ import annotations

import dataclasses
from textwrap import dedent

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, float32, int32, uint8
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import load_apps
from autosched.schedule.io.definition_text import definition_text
from autosched.schedule.io.text import canonical_kernel_text, canonical_text, schedule_text
from autosched.schedule.legality.validate import validate
from autosched.schedule.sampling.random_schedule import sample_schedule
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
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.stage_limits import short_app

H200 = get_target("h200")
KINDS = {"b": LoopKind.BLOCK, "t": LoopKind.THREAD, "s": LoopKind.SERIAL, "r": LoopKind.REDUCTION}
y, x = Var("y"), Var("x")


def tiling(func: str, loops: str, number: int = 0) -> StageTiling:
    """Loops as text: ``"b y 12, t x 32"``."""
    split = [p.split() for p in loops.split(", ")] if loops else []
    return StageTiling(StageId(func, number), tuple(Loop(d, KINDS[k], int(n)) for k, d, n in split))


def member(func: str, loops: str, level: Level, host: str, depth: int) -> FusedProducer:
    return FusedProducer((tiling(func, loops),), ComputeAt(level, StageId(host), depth), ("y", "x"))


def schedule_of(bound: BoundPipeline, *kernels: Kernel) -> Schedule:
    """A schedule, checked to be legal."""
    schedule = Schedule(bound.pipeline.hash, kernels)
    validate(bound, schedule, H200)
    return schedule


@pytest.fixture(scope="module")
def sobel() -> BoundPipeline:
    """A clamped input, ``gray``, its derivative along x, and an output that squares the derivative nearby."""
    img = Input("img", float32, 2)
    clamped = img.clamped()
    gray, dx, out = Func("gray"), Func("dx"), Func("out")
    gray[y, x] = clamped[y, x] * 0.299
    dx[y, x] = gray[y, x + 1] - gray[y, x - 1]
    out[y, x] = dx[y, x] * dx[y, x] + dx[y + 1, x]
    height, width = img.shape
    return bind(Pipeline(out.over(y=(0, height), x=(0, width)), name="sobel"), {"img": (64, 96)})


def fused() -> Kernel:
    """Everything in one kernel: ``gray`` in shared memory, ``dx`` in registers, the boundary inlined."""
    return Kernel(
        (Root(tiling("out", "b y 8, b x 3, t x 32, t y 4, s y 2")),),
        (
            member("gray", "t x 32, t y 4, s y 3, s x 2", Level.BLOCK, "out", 2),
            member("dx", "s y 2, s x 1", Level.THREAD, "out", 5),
        ),
        (Inlined("img_clamped", 1),),
    )


def test_fused_kernel(sobel: BoundPipeline) -> None:
    assert schedule_text(sobel, schedule_of(sobel, fused())) == dedent("""\
        sobel: 1 kernel

        kernel 0: out[y 64, x 96] from img
          8 x 3 = 24 blocks of 32 x 4 = 128 threads, 1296 bytes of shared memory a block
          inlined, 1 call: img_clamped[y, x] = img[min(max(y, 0), 63), min(max(x, 0), 95)]
          block y 8  (step 8)
            block x 3  (step 32)
              gray[y 9, x 34]: in shared memory, 1296 bytes
                thread x 32  (threadIdx.x, step 2)
                  thread y 4  (threadIdx.y, step 3)
                    serial y 3
                      serial x 2
                        gray[y, x] = img_clamped[y, x] * 0.299
              barrier
              out[y 8, x 32]: to global memory
                thread x 32  (threadIdx.x)
                  thread y 4  (threadIdx.y, step 2)
                    serial y 2
                      dx[y 2, x 1]: in registers, 8 bytes a thread
                        serial y 2
                          dx[y, x] = gray[y, x + 1] - gray[y, x - 1]
                      out[y, x] = dx[y, x] * dx[y, x] + dx[y + 1, x]
        """)


def test_fused_stages_are_in_one_thread_nest() -> None:
    a, b = Input("A", float32, 2), Input("B", float32, 2)
    product, k = Func("product"), RDom("r", k=(0, a.shape[1])).k
    product[y, x] = 0.0
    product[y, x] += a[y, k] * b[k, x]
    pipeline = Pipeline(product.over(y=(0, a.shape[0]), x=(0, b.shape[1])), name="matmul")
    bound = bind(pipeline, {"A": (16, 40), "B": (40, 32)})
    loops = "b y 4, t x 32, t y 4"
    kernel = Kernel((Root(tiling("product", loops)), Root(tiling("product", f"{loops}, r r.k 40", 1))))
    assert schedule_text(bound, schedule_of(bound, kernel)) == dedent("""\
        matmul: 1 kernel

        kernel 0: product[y 16, x 32] from A, B
          4 blocks of 32 x 4 = 128 threads
          block y 4  (step 4)
            product[y 4, x 32]: to global memory
              thread x 32  (threadIdx.x)
                thread y 4  (threadIdx.y)
                  product[y, x] = 0.0
                  reduction r.k 40
                    product[y, x] = product[y, x] + A[y, r.k] * B[r.k, x]
        """)


def test_updates_at_computed_points_and_sources_of_kernels() -> None:
    img = Input("img", uint8, 2)
    r, i = RDom("r", y=(0, img.shape[0]), x=(0, img.shape[1])), Var("i")
    hist, out = Func("hist"), Func("out")
    hist[i] = cast(int32, 0)
    hist[cast(int32, img[r.y, r.x])] += 1
    out[y, x] = hist[cast(int32, img[y, x])]
    bound = bind(Pipeline(out, name="equalise"), {"img": (10, 20)})
    text = schedule_text(bound, schedule_of(bound, *schedule_roots(bound, H200).kernels))
    assert "\nkernel 1: hist.1[i 256] from img\n  1 block of 1 thread\n  hist.1: to global memory\n" in text
    assert "        hist[int32(img[r.y, r.x])] = hist[int32(img[r.y, r.x])] + 1\n" in text
    assert "\nkernel 2: out[y 10, x 20] from img, hist\n" in text


def test_funcs_of_one_name_have_unique_names() -> None:
    img = Input("img", float32, 2)
    out = Func("out")
    q = RDom("q", d=(0, 3))
    down, across = sum_over(img[y + q.d, x], over=q), sum_over(img[y, x + q.d], over=q)
    out[y, x] = down - across
    bound = bind(Pipeline(out.over(y=(0, 8), x=(0, 8))), {"img": (10, 10)})
    text = schedule_text(bound, schedule_roots(bound, H200))
    assert "sum[y, x] = sum[y, x] + img[y + q.d, x]\n" in text
    assert "sum_1[y, x] = sum_1[y, x] + img[y, x + q.d]\n" in text
    assert "out[y, x] = sum[y, x] - sum_1[y, x]\n" in text


def test_definitions_too_large_to_read_are_summarised() -> None:
    img, out = Input("img", float32, 2), Func("out")
    value = img[y, x]
    for _ in range(60):  # as a tree, the expression has 2 ** 60 leaves
        value = value * value
    out[y, x] = value
    bound = bind(Pipeline(out), {"img": (4, 4)})
    assert "out[y, x] = <60 operations on img>\n" in schedule_text(bound, schedule_roots(bound, H200))


def test_long_lines_break_outside_of_indices() -> None:
    app = load_apps()["harris"]
    bound = bind(app.build(), app.shapes())
    lines = schedule_text(bound, schedule_roots(bound, H200)).splitlines()
    assert max(map(len, lines)) <= 110
    assert all(line.count("[") == line.count("]") for line in lines)


@pytest.mark.parametrize("name", list(load_apps()))
def test_every_stage_of_the_suite_has_its_line(name: str) -> None:
    bound = short_app(name)
    sampled = [sample_schedule(bound, H200, np.random.default_rng(seed)) for seed in range(3)]
    for schedule in (schedule_roots(bound, H200), *sampled):
        unwrapped = " ".join(schedule_text(bound, schedule).split())
        for stage in (s for func in bound.funcs.values() for s in func.stages if s.values and not s.is_empty):
            written = definition_text(bound, stage).partition(" = ")[0]
            assert f" {written} = " in unwrapped


def test_canonical_text() -> None:
    assert canonical_text(Schedule("hash", (fused(),))) == (
        "root out.0(block y 8, block x 3, thread x 32, thread y 4, serial y 2) stored; "
        "member dx.0(serial y 2, serial x 1) @ thread out.0 5 [y x]; "
        "member gray.0(thread x 32, thread y 4, serial y 3, serial x 2) @ block out.0 2 [y x]; "
        "inline img_clamped x1"
    )


def test_canonical_text_ignores_only_the_listing_order() -> None:
    kernel = fused()
    shuffled = dataclasses.replace(kernel, fused=kernel.fused[::-1], inlined=kernel.inlined[::-1])
    assert canonical_kernel_text(shuffled) == canonical_kernel_text(kernel)
    gray, dx = kernel.fused
    root = kernel.roots[0]
    changed = [
        dataclasses.replace(kernel, roots=(dataclasses.replace(root, materialised=False),)),
        dataclasses.replace(kernel, roots=(Root(tiling("out", "b x 3, b y 8, t x 32, t y 4, s y 2")),)),
        dataclasses.replace(kernel, roots=(Root(tiling("out", "b y 8, b x 3, t x 32, t y 4, s y 3")),)),
        dataclasses.replace(kernel, roots=(Root(tiling("out", "b y 8, b x 3, t x 32, s y 4, t y 2")),)),
        dataclasses.replace(kernel, fused=(gray,)),
        dataclasses.replace(kernel, fused=(dataclasses.replace(gray, storage_order=("x", "y")), dx)),
        dataclasses.replace(kernel, fused=(dataclasses.replace(gray, materialised=True), dx)),
        dataclasses.replace(kernel, fused=(gray, member("dx", "s y 2, s x 1", Level.THREAD, "out", 4))),
        dataclasses.replace(kernel, fused=(gray, member("dx", "s y 2, s x 1", Level.THREAD, "gray", 5))),
        dataclasses.replace(kernel, fused=(gray, member("dx", "s y 2, s x 1", Level.WARP, "out", 5))),
        dataclasses.replace(kernel, inlined=()),
        dataclasses.replace(kernel, inlined=(Inlined("img_clamped", 2),)),
    ]
    texts = [canonical_kernel_text(k) for k in (kernel, *changed)]
    assert len(set(texts)) == len(texts)
