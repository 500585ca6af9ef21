"""Legality of hybrid tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, RDom, Var, clamp, int32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import ScheduleError
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import FusedProducer, HybridTile, Kernel, TileAlignment
from autosched.target import get_target
from tests.lower.hybrid_cases import hybrid, reading, rows, rows_kernel
from tests.schedule.building import block, kernel, member, product_pipeline, root, schedule, thread
from tests.schedule.mainloop_cases import in_steps, product

H200 = get_target("h200")
y, x = Var("y"), Var("x")
ROWS = rows(1024)


def tile(text: str = "sx=17 tx=32", dim: str = "x", iterations: int = 8) -> FusedProducer:
    return hybrid(member(block("blury", 2), "yx", blurx=text), dim, iterations)


def blurred(producer: FusedProducer, loops: str = "by=3 bx=2 sx=16 tx=32") -> Kernel:
    return kernel(ROWS, [root("blury", loops)], [producer])


def of_product() -> tuple[BoundPipeline, Kernel]:
    """Return a matrix product whose sums over 8 lanes are in a hybrid tile."""
    bound = bind(product_pipeline(), {"a": (40, 32), "b": (32, 48)})
    stages = member(block("out", 2), "yx", dot="sx=4 ty=4", dot__1="tr.k=8 rr.k=4 ty=4 sx=4")
    return bound, kernel(bound, [root("out", "by=10 bx=12 tx=4 ty=4")], [hybrid(stages, "x", 1)])


def histogram() -> tuple[BoundPipeline, Kernel]:
    """Return a histogram in a hybrid tile, whose update writes at data."""
    img, f, out, r = Input("img", int32, 2), Func("f"), Func("out"), RDom("r", k=16)
    f[y, x] = 0
    f[y, clamp(img[y, r.k], 0, 31)] += 1
    out[y, x] = f[y, x] + 1
    bound = bind(Pipeline(out.over(y=(0, 4), x=(0, 32)), name="counts"), {"img": (4, 16)})
    producer = hybrid(member(block("out", 1), "yx", f="tx=32", f__1="rr.k=16"), "x", 1)
    return bound, kernel(bound, [root("out", "by=4 tx=32")], [producer])


def in_registers(one: Kernel) -> Kernel:
    """Return a kernel whose producers all have hybrid tiles."""
    return replace(one, fused=tuple(hybrid(p, p.storage_order[-1], 1) for p in one.fused))


PRODUCT = product()
PREFIX = "blurx has a hybrid tile: "
ILLEGAL: dict[str, tuple[BoundPipeline, Kernel, str]] = {
    "a dimension of another Func": (ROWS, blurred(tile(dim="z")), PREFIX + "z is none of its dimensions (y, x)"),
    "no iterations": (
        ROWS, blurred(replace(tile(), registers=HybridTile("x", 0))),
        PREFIX + "0 iterations of x are in registers, and its tile has 17; give 1 to 17, or keep it in shared memory",
    ),
    "too many iterations": (
        ROWS, blurred(tile(iterations=18)),
        PREFIX + "18 iterations of x are in registers, and its tile has 17; give 1 to 17, or keep it in shared memory",
    ),
    "materialised": (
        ROWS, blurred(replace(tile(), materialised=True)),
        PREFIX + "its tile can be neither materialised, nor aligned, nor private; keep it in shared memory",
    ),
    "aligned": (
        ROWS, blurred(replace(tile(), aligned=TileAlignment(4))),
        PREFIX + "its tile can be neither materialised, nor aligned, nor private; keep it in shared memory",
    ),
    "per thread": (
        ROWS, blurred(replace(member(thread("blury", 4), "yx", blurx="sy=1 sx=3"), registers=HybridTile("x", 1))),
        PREFIX + "only producers at BLOCK or WARP of a kernel without mainloop or sliding window can have one",
    ),
    "in a mainloop": (
        PRODUCT, in_registers(in_steps(PRODUCT)),
        "a.staged has a hybrid tile: only producers at BLOCK or WARP of a kernel without mainloop or sliding window "
        "can have one",
    ),
    "two serial loops": (
        ROWS, blurred(tile("sx=6 sx=3 tx=32")),
        PREFIX + "blurx has 2 serial loops outside its thread loop over x; give it one",
    ),
    "blocks of two warps": (
        ROWS, blurred(tile("sx=9 tx=64", iterations=4), "by=3 bx=2 sx=8 tx=64"),
        "blurx have hybrid tiles, and lanes of one warp read each other's registers: the block has 64 threads; give "
        "its stages at most 32, or keep the tiles in shared memory",
    ),
    "other lanes than the reader": (
        ROWS, blurred(tile("sx=33 tx=16")),
        "blury has 32 threads along x and reads the hybrid tile of blurx, which has 16 lanes there; give both the same "
        "number",
    ),
    "registers": (
        ROWS, blurred(tile("sx=129 tx=32", iterations=65), "by=3 bx=1 sx=128 tx=32"),
        "the hybrid tiles of blurx take 260 bytes of a thread's registers, up to 65 elements each; the limits are 256 "
        "and 64; give fewer iterations in registers",
    ),
    "reads by data": (
        *reading("by data"),
        "out reads f, which has a hybrid tile, at points at no constant distance from its own; keep f in shared memory",
    ),
    "a warp reduction": (
        *of_product(),
        "dot has a hybrid tile: dot.1 is a warp reduction, whose lanes share points; keep it in shared memory",
    ),
    "updates at data": (
        *histogram(),
        "f has a hybrid tile: its stages must write and read it at their own point; keep it in shared memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_tiles_are_refused(name: str) -> None:
    bound, wrong, reason = ILLEGAL[name]
    found, *_ = kernel_violations(bound, wrong, H200)
    assert found == reason


@pytest.mark.parametrize("index", ["mirrored", "third", "transposed", "permuted"])
def test_reads_among_few_lanes_are_legal(index: str) -> None:
    assert kernel_violations(*reading(index), H200) == []


def test_the_same_tiles_are_legal() -> None:
    assert kernel_violations(ROWS, blurred(tile()), H200) == []
    assert kernel_violations(ROWS, rows_kernel(ROWS, 8, 16, 2), H200) == []
    assert kernel_violations(ROWS, blurred(tile()), get_target("cpu")) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('{"dim": "z", "iterations": 8}', "'z'"),
        ('{"dim": "x", "iterations": 0}', "0"),
        ('{"dim": "x"}', "iterations"),
    ],
)
def test_wrong_values_in_files_are_named(wrong: str, message: str) -> None:
    text = to_json(ROWS, schedule(ROWS, blurred(tile())))
    right = '{"dim": "x", "iterations": 8}'
    assert right in text
    with pytest.raises(ScheduleError, match="registers") as caught:
        from_json(text.replace(right, wrong), ROWS)
    assert message in str(caught.value)
