"""One small schedule for each directive of docs/reference/schedule-language.md; writes the page's loop nests and JSON.

    python -m tests.schedule.directives

The page has the blocks of a directive in the order of `Example.blocks`; `test_directives.py` compares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, exp, float32, floor, int32, uint8
from autosched import max as larger
from autosched import min as smaller
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    ComputationFolding,
    Deinterleaving,
    ExpressionFission,
    FuncClone,
    HorizontalFusion,
    IntegerNarrowing,
    InvariantHoisting,
    ReductionUnrolling,
    Retiming,
    RFactor,
    ScanBlocking,
    WindowDoubling,
)
from autosched.analysis.rewrites.component_fission import split_components
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads
from autosched.analysis.rewrites.func_cloning import clone_funcs
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs
from autosched.analysis.rewrites.integer_narrowing import narrow_integers
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.analysis.rewrites.scan_blocking import block_scans
from autosched.analysis.rewrites.statement import rewrite_statements
from autosched.analysis.rewrites.window_doubling import double_windows
from autosched.schedule.io.serialise import to_document
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import FusedProducer, Kernel, Schedule, TileAlignment
from autosched.target import get_target
from tests.lower.hybrid_cases import rows, rows_kernel
from tests.schedule.building import block, blur, kernel, member, root, thread, warp
from tests.schedule.mainloop_cases import in_steps, product, stream

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "schedule-language.md"
y, x = Var("y"), Var("x")

Json = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """Schedules without a directive and with it, and the part of the second one's JSON that expresses it."""

    after: str
    json: Any = None
    before: str = ""

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Language and text of the page's blocks, in order."""
        shown = [("text", self.before)] if self.before else []
        shown.append(("text", self.after))
        return shown if self.json is None else [*shown, ("json", compact(self.json))]


def text(bound: BoundPipeline, *kernels: Kernel) -> str:
    """Return a legal schedule as text."""
    return schedule_text(bound, checked(bound, *kernels)).partition("\n\n")[2].rstrip() + "\n"


def excerpt(nest: str, first: str, last: str) -> str:
    """Return the lines of a loop nest from one that begins with a text to the one before another does."""
    lines = nest.splitlines(keepends=True)
    begin = next(k for k, line in enumerate(lines) if line.strip().startswith(first))
    end = next(k for k, line in enumerate(lines[begin:], begin) if line.strip().startswith(last))
    return "".join(lines[begin:end])


def checked(bound: BoundPipeline, *kernels: Kernel) -> Schedule:
    """Return a schedule, which must be legal for an H200."""
    found = Schedule.for_pipeline(bound, kernels)
    validate(bound, found, get_target("h200"))
    return found


def written(bound: BoundPipeline, *kernels: Kernel) -> Json:
    """Return a schedule as the values of its JSON."""
    found: Json = json.loads(json.dumps(to_document(bound, checked(bound, *kernels))))
    return found


def compact(value: Any, indent: str = "") -> str:
    """Return JSON in which values that fit in a line take one line."""
    line = json.dumps(value)
    if len(indent) + len(line) <= 110 or not isinstance(value, dict | list) or not value:
        return line + ("" if indent else "\n")
    deeper = indent + "  "
    if isinstance(value, dict):
        inside = [f"{deeper}{json.dumps(key)}: {compact(v, deeper)}" for key, v in value.items()]
        found = "{\n" + ",\n".join(inside) + f"\n{indent}}}"
    else:
        found = "[\n" + ",\n".join(f"{deeper}{compact(v, deeper)}" for v in value) + f"\n{indent}]"
    return found + ("" if indent else "\n")


def last_kernel(nests: str) -> str:
    """Return the text of the last of several kernels."""
    return nests.rpartition("\n\n")[2]


def blurred() -> BoundPipeline:
    """Return the 3x3 blur of 64 x 128 floats."""
    return blur(64, 128)


TILE = "by=8 bx=4 tx=32 ty=8"
"""Blocks of 8 x 32 points, a point a thread."""


def start() -> Example:
    bound = blurred()
    first = kernel(bound, [root("across", "by=9 bx=4 tx=32 ty=8")], [], ["img_clamped"])
    return Example(text(bound, first, kernel(bound, [root("out", TILE)])))


def tiling() -> Example:
    bound = blurred()
    first = kernel(bound, [root("across", "by=9 bx=4 tx=32 ty=8")], [], ["img_clamped"])
    last = kernel(bound, [root("out", "by=4 bx=4 tx=32 ty=4 sy=4")])
    shown = written(bound, first, last)["kernels"][1]["roots"]
    return Example(last_kernel(text(bound, first, last)), shown)


def inline() -> Example:
    bound = blurred()
    found = kernel(bound, [root("out", TILE)], [], ["img_clamped", "across"])
    return Example(text(bound, found), written(bound, found)["kernels"][0]["inlined"])


def shared_tile(**changes: Any) -> tuple[BoundPipeline, Kernel]:
    bound = blurred()
    tile = replace(member(block("out", 2), "yx", across="tx=32 ty=8 sy=2"), **changes)
    return bound, kernel(bound, [root("out", TILE)], [tile], ["img_clamped"])


def per_block() -> Example:
    bound, found = shared_tile()
    return Example(text(bound, found), written(bound, found)["kernels"][0]["members"][0])


def per_warp() -> Example:
    bound = blurred()
    tile = member(warp("out", 4), "yx", across="sy=10 tx=32")
    found = kernel(bound, [root("out", "by=4 bx=2 wy=2 wx=2 sy=8 tx=32")], [tile], ["img_clamped"])
    shown = written(bound, found)["kernels"][0]
    loops = [p for p in shown["roots"][0]["loops"] if p["kind"] == "warp"]
    return Example(text(bound, found), {"loops": loops, "at": shown["members"][0]["at"]})


def hybrid_tile() -> Example:
    bound = rows(1024, 40)
    found = rows_kernel(bound, 8, warps=2)
    return Example(text(bound, found), written(bound, found)["kernels"][0]["members"][0]["registers"])


def linear() -> Example:
    bound, along_axes = shared_tile()
    tile = member(block("out", 2), "yx", across="tx=32 ty=10")
    found = replace(along_axes, fused=(tile,), linear_threads=True)
    return Example(excerpt(text(bound, found), "kernel 0", "out[y, x] ="), {"linear_threads": True})


def per_thread() -> Example:
    bound = blurred()
    rows = member(thread("out", 4), "yx", across="sy=6 sx=1")
    found = kernel(bound, [root("out", "by=4 bx=4 tx=32 ty=4 sy=4")], [rows], ["img_clamped"])
    return Example(text(bound, found), written(bound, found)["kernels"][0]["members"][0]["at"])


def regression() -> BoundPipeline:
    """Return sums over 64 samples at 512 queries, whose terms are functions of a distance."""
    queries, samples = Input("queries", float32, 1), Input("samples", float32, 1)
    n, s, r = Var("n"), Var("s"), RDom("r", s=samples.shape[0])
    distance, total = Func("distance"), Func("total")
    difference = queries[n] - samples[s]
    distance[s, n] = exp(-(difference * difference))
    total[n] = 0.0
    total[n] += distance[r.s, n] * samples[r.s]
    return bind(Pipeline(total.over(n=(0, queries.shape[0]))), {"queries": (512,), "samples": (64,)})


def per_term() -> Example:
    bound = regression()
    weights = member(thread("total.1", 3), ("s", "n"), distance="ss=1 sn=4")
    roots = [root("total", "bn=4 tn=32 sn=4"), root("total.1", "bn=4 tn=32 rr.s=64 sn=4")]
    found = kernel(bound, roots, [weights])
    return Example(text(bound, found), written(bound, found)["kernels"][0]["members"][0]["at"])


def storage_order() -> Example:
    bound = blurred()
    tile = member(block("out", 2), "xy", across="tx=32 ty=8 sy=2")
    found = kernel(bound, [root("out", TILE)], [tile], ["img_clamped"])
    order = written(bound, found)["kernels"][0]["members"][0]["storage_order"]
    return Example(excerpt(text(bound, found), "across", "barrier"), {"storage_order": order})


def cached() -> tuple[BoundPipeline, FusedProducer]:
    img, across = Input("img", float32, 2), Func("across")
    across[y, x] = img[y, x] + img[y, x + 1] + img[y, x + 2]
    bound = bind(Pipeline(across.over(y=(0, 64), x=(0, 128))), {"img": (64, 130)})
    return bound, member(block("across", 2), "yx", **{"img.staged": "tx=32 ty=8 sx=2"})


def cache_read() -> Example:
    bound, tile = cached()
    found = kernel(bound, [root("across", TILE)], [tile])
    before = text(bound, kernel(bound, [root("across", TILE)]))
    place = written(bound, found)["kernels"][0]["members"][0]["at"]
    return Example(text(bound, found), {"func": "img.staged", "at": place}, before)


def aligned() -> Example:
    bound = blurred()
    tile = member(block("out", 2), "yx", **{"img_clamped": "tx=32 ty=8 sy=2 sx=2"})
    tile = replace(tile, aligned=TileAlignment(4, 0))
    found = kernel(bound, [root("out", TILE)], [tile], ["across"])
    columns = written(bound, found)["kernels"][0]["members"][0]["aligned"]
    return Example(excerpt(text(bound, found), "img_clamped", "barrier"), {"aligned": columns})


def mainloop() -> Example:
    bound = product(48, 72, 24)
    return Example(text(bound, in_steps(bound)), written(bound, in_steps(bound))["kernels"][0]["members"][0])


def double_buffering() -> Example:
    bound = product(48, 72, 24)
    found = in_steps(bound).with_double_buffering()
    return Example(excerpt(text(bound, found), "reduction r.k 6", "out"), {"buffers": 2})


def async_copy() -> Example:
    bound = product(48, 72, 24)
    found = in_steps(bound).with_async_copies()
    return Example(excerpt(text(bound, found), "a.staged", "b.staged"), {"buffers": 2, "asynchronous": True})


def sliding_window() -> Example:
    bound = blurred()
    rows = member(stream("out", 3), "yx", across="sy=2 tx=32")
    found = kernel(bound, [root("out", "by=4 bx=4 sy=8 tx=32 sy=2")], [rows], ["img_clamped"])
    return Example(text(bound, found), written(bound, found)["kernels"][0]["members"][0])


def two_readers() -> BoundPipeline:
    """Return a Func that two outputs read."""
    img = Input("img", float32, 2)
    twice, near, far = Func("twice"), Func("near"), Func("far")
    twice[y, x] = img[y, x] * 2
    near[y, x] = twice[y, x] + 1
    far[y, x] = twice[y, 127 - x]
    box = {"y": (0, 64), "x": (0, 128)}
    return bind(Pipeline([near.over(**box), far.over(**box)]), {"img": (64, 128)})


def materialised() -> Example:
    bound = two_readers()
    tile = replace(member(block("near", 2), "yx", twice="tx=32 ty=8"), materialised=True)
    found = kernel(bound, [root("near", TILE)], [tile]), kernel(bound, [root("far", TILE)])
    return Example(text(bound, *found), {"func": "twice", "stored": True})


def summed() -> BoundPipeline:
    """Return the sum of an image."""
    image, total = Input("image", float32, 2), Func("total")
    r = RDom("r", y=image.shape[0], x=image.shape[1])
    total[()] = 0.0
    total[()] += image[r.y, r.x]
    return bind(Pipeline([total]), {"image": (64, 128)})


def deinterleaving() -> Example:
    img, w, f, r = Input("img", float32, 2), Input("w", float32, 1), Func("f"), RDom("r", x=(0, 8))
    f[y, x] = 0.0
    f[y, x] += img[y, 2 * x + r.x] * w[r.x]
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"img": (64, 264), "w": (8,)})
    roots = root("f", TILE), root("f.1", f"{TILE} rr.x=8")
    before = text(bound, kernel(bound, list(roots)))
    copied = deinterleave_reads(bound, [Deinterleaving("f", "img", 2)])
    copy = kernel(copied, [root("img_by2", "by=8 bx=5 tx=32 ty=8 sphase=2")])
    found = kernel(copied, list(roots))
    return Example(
        text(copied, copy, found), {"deinterleavings": written(copied, copy, found)["deinterleavings"]}, before
    )


def invariant_hoisting() -> Example:
    img, f = Input("img", float32, 2), Func("f")
    position = cast(float32, x) * 0.75 + 0.25
    f[y, x] = img[y, cast(int32, floor(position))] * (1 - (position - floor(position)))
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"img": (64, 96)})
    before = text(bound, kernel(bound, [root("f", TILE)]))
    hoisted = hoist_invariants(bound, [InvariantHoisting("f", "x")])
    table, found = kernel(hoisted, [root("f_of_x", "bx=4 tx=32")]), kernel(hoisted, [root("f", TILE)])
    return Example(text(hoisted, table, found), {"hoistings": written(hoisted, table, found)["hoistings"]}, before)


def reduction_unrolling() -> Example:
    img, f, g, offset, r, k = (
        Input("img", float32, 2),
        Func("f"),
        Func("g"),
        Func("offset"),
        RDom("r", x=(0, 4)),
        Var("k"),
    )
    offset[x] = x * x % 3
    g[k, y, x] = img[y, x + k] * 2
    f[y, x] = 0.0
    f[y, x] += g[clamp(offset[r.x], 0, 2), y, x + r.x]
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"img": (64, 136)})
    roots = [root("f", TILE), root("f.1", f"{TILE} rr.x=4")]
    before = text(bound, kernel(bound, [root("offset", "tx=4")]), kernel(bound, roots, inlined=["g"]))
    unrolled = unroll_reductions(bound, [ReductionUnrolling("f", 1, "r.x")])
    found = kernel(unrolled, [root("f", TILE)])
    return Example(text(unrolled, found), {"unrollings": written(unrolled, found)["unrollings"]}, before)


def integer_narrowing() -> Example:
    img, gray, f = Input("img", uint8, 3), Func("gray"), Func("f")
    gray[y, x] = (cast(int32, img[0, y, x]) + cast(int32, img[1, y, x])) >> 1
    f[y, x] = gray[y, x + 1] - gray[y, x]
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"img": (2, 64, 129)})
    loops = root("gray", "by=8 bx=5 tx=32 ty=8"), root("f", TILE)
    before = text(bound, *(kernel(bound, [r]) for r in loops))
    narrow = narrow_integers(bound, [IntegerNarrowing(("gray",))])
    kernels = [kernel(narrow, [r]) for r in loops]
    return Example(text(narrow, *kernels), {"narrowings": written(narrow, *kernels)["narrowings"]}, before)


def rfactor() -> Example:
    bound = summed()
    before = text(bound, kernel(bound, [root("total", ""), root("total.1", "rr.y=64 rr.x=128")]))
    parts = apply_rfactors(bound, [RFactor("total", 1, (("r.x", 128),))])
    first = kernel(parts, [root("total_part", "bk0=4 tk0=32"), root("total_part.1", "bk0=4 tk0=32 rr.y=64")])
    last = kernel(parts, [root("total", ""), root("total.1", "rpart.k0=128")])
    return Example(text(parts, first, last), {"splits": written(parts, first, last)["splits"]}, before)


def window_doubling() -> Example:
    img, f, r = Input("img", float32, 2), Func("f"), RDom("r", x=(0, 16))
    f[y, x] = 0.0
    f[y, x] = larger(f[y, x], img[y, x + r.x])
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"img": (64, 143)})
    before = text(bound, kernel(bound, [root("f", TILE), root("f.1", f"{TILE} rr.x=16")]))
    windowed = double_windows(bound, [WindowDoubling("f", 1, "r.x")])
    tile = member(block("f", 2), "yx", f_w4="tx=44 ty=8")
    found = kernel(windowed, [root("f", TILE)], [tile], ["f_w16"])
    return Example(text(windowed, found), {"windows": written(windowed, found)["windows"]}, before)


def scan_blocking() -> Example:
    img, f, r = Input("img", float32, 2), Func("f"), RDom("r", y=(1, 64))
    f[y, x] = img[y, x]
    f[r.y, x] += f[r.y - 1, x]
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"img": (64, 128)})
    before = text(bound, kernel(bound, [root("f", TILE)]), kernel(bound, [root("f.1", "bx=4 tx=32 rr.y=63")]))
    blocked = block_scans(bound, [ScanBlocking("f", 1, 16)])
    totals = [root("f_total", "bk=3 bx=4 tx=32"), root("f_total.1", "bk=3 bx=4 tx=32 relements.i=16")]
    tile = member(block("f", 2), "kix", f_block="tx=32 ti=16", f_block__1="tx=32 relement.i=15")
    found = kernel(blocked, totals), kernel(blocked, [root("f", "by=4 bx=4 tx=32 ty=16")], [tile], ["f_carry1"])
    return Example(text(blocked, *found), {"scans": written(blocked, *found)["scans"]}, before)


def histogram() -> BoundPipeline:
    """Return a histogram of bytes."""
    img, h, i = Input("img", uint8, 2), Func("h"), Var("i")
    r = RDom("r", y=img.shape[0], x=img.shape[1])
    h[i] = 0
    h[cast(int32, img[r.y, r.x])] += 1
    return bind(Pipeline(h.over(i=(0, 256))), {"img": (64, 128)})


def atomic() -> Example:
    bound = histogram()
    before = text(bound, kernel(bound, [root("h", "bi=8 ti=32")]), kernel(bound, [root("h.1", "rr.y=64 rr.x=128")]))
    parts = apply_rfactors(bound, [RFactor("h", 1, (("r.y", 4),), atomic=True)])
    place = block("h_part", 1)
    own = member(place, ("k0", "i"), h_shared="ti=256", h_shared__1="tr.x=32 tshare.j0=4 sshare.j0=4 sr.x=4")
    first = kernel(parts, [root("h_part", "bk0=4 ti=256")], [own])
    last = kernel(parts, [root("h", "bi=8 ti=32"), root("h.1", "bi=8 ti=32 rpart.k0=4")])
    return Example(text(parts, first, last), {"splits": written(parts, first, last)["splits"]}, before)


def warp_reduction() -> Example:
    image, mean = Input("image", float32, 2), Func("mean")
    r = RDom("r", x=image.shape[1])
    mean[y] = 0.0
    mean[y] += image[y, r.x]
    bound = bind(Pipeline(mean.over(y=(0, image.shape[0]))), {"image": (64, 128)})
    before = text(bound, kernel(bound, [root("mean", "by=2 ty=32"), root("mean.1", "by=2 ty=32 rr.x=128")]))
    found = kernel(bound, [root("mean", "by=64"), root("mean.1", "by=64 rr.x=4 tr.x=32")])
    return Example(text(bound, found), written(bound, found)["kernels"][0]["roots"][1]["loops"], before)


def fluxes() -> BoundPipeline:
    """Return the divergence of a product of two fields."""
    a, b, f = Input("a", float32, 2), Input("b", float32, 2), Func("f")
    f[y, x] = a[y, x] * b[y, x] - a[y, x + 2] * b[y, x + 2] + 8 * (a[y, x + 1] * b[y, x + 1])
    return bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"a": (64, 130), "b": (64, 130)})


def computation_folding() -> Example:
    bound = fluxes()
    folded = rewrite_statements(bound, [ComputationFolding("f")])
    tile = member(block("f", 2), "yx", f_folded="tx=34 ty=8")
    found = kernel(folded, [root("f", TILE)], [tile])
    before = text(bound, kernel(bound, [root("f", TILE)]))
    return Example(text(folded, found), {"statements": written(folded, found)["statements"]}, before)


def expression_fission() -> Example:
    bound = fluxes()
    parts = rewrite_statements(bound, [ExpressionFission("f", 2)])
    kernels = [kernel(parts, [root(name, TILE)]) for name in ("f_part", "f")]
    before = text(bound, kernel(bound, [root("f", TILE)]))
    return Example(text(parts, *kernels), {"statements": written(parts, *kernels)["statements"]}, before)


def retiming() -> Example:
    a, f, z = Input("a", float32, 3), Func("f"), Var("z")
    f[z, y, x] = (a[z, y, x] + a[z + 1, y, x] + a[z + 1, y, x + 1] + a[z + 2, y, x]) * 0.25
    bound = bind(Pipeline(f.over(z=(0, 32), y=(0, 64), x=(0, 128))), {"a": (34, 64, 129)})
    planes = "bz=4 by=8 bx=4 sz=8 tx=32 ty=8"
    retimed = rewrite_statements(bound, [Retiming("f", "z")])
    sums = member(stream("f", 4), "zyx", f_planes="sz=1 tx=32 ty=8")
    found = kernel(retimed, [root("f", planes)], [sums])
    before = text(bound, kernel(bound, [root("f", planes)]))
    return Example(text(retimed, found), {"statements": written(retimed, found)["statements"]}, before)


def component_fission() -> Example:
    image, f = Input("image", float32, 2), Func("f")
    f[y, x] = (image[y, x + 1] - image[y, x], image[y + 1, x] - image[y, x])
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 128))), {"image": (65, 129)})
    split = split_components(bound, [ComponentFission("f", ((0,), (1,)))])
    kernels = [kernel(split, [root(name, TILE)]) for name in ("f_0", "f_1")]
    before = text(bound, kernel(bound, [root("f", TILE)]))
    return Example(text(split, *kernels), {"fissions": written(split, *kernels)["fissions"]}, before)


def horizontal_fusion() -> Example:
    image = Input("image", float32, 2)
    edge, across, down = image.clamped(), Func("across"), Func("down")
    across[y, x] = edge[y, x + 1] - edge[y, x - 1]
    down[y, x] = edge[y + 1, x] - edge[y - 1, x]
    box = {"y": (0, 64), "x": (0, 128)}
    bound = bind(Pipeline([across.over(**box), down.over(**box)]), {"image": (64, 128)})
    apart = (kernel(bound, [root(f, TILE)], [], ["image_clamped"]) for f in ("across", "down"))
    before = text(bound, *apart)
    joined = fuse_outputs(bound, [HorizontalFusion(("across", "down"))])
    (name,) = set(joined.funcs) - {"image_clamped"}
    found = kernel(joined, [root(name, TILE)], [], ["image_clamped"])
    return Example(text(joined, found), {"joins": written(joined, found)["joins"]}, before)


def func_clone() -> Example:
    image, f, g, h = Input("image", float32, 2), Func("f"), Func("g"), Func("h")
    f[y, x] = image[y, x] * image[y, x]
    g[y, x] = f[y, x] + f[y, x + 1]
    h[y, x] = f[2 * y, x] + f[2 * y + 1, x]
    boxes = [g.over(y=(0, 64), x=(0, 128)), h.over(y=(0, 32), x=(0, 128))]
    bound = bind(Pipeline(boxes), {"image": (64, 129)})
    tiles = {"f": "by=8 bx=5 tx=32 ty=8", "g": TILE, "h": "by=4 bx=4 tx=32 ty=8"}
    before = text(bound, *(kernel(bound, [root(name, loops)]) for name, loops in tiles.items()))
    cloned = clone_funcs(bound, [FuncClone("f", ("h",))])
    tile = member(block("g", 2), "yx", f="tx=32 ty=8 sx=2")
    kernels = [kernel(cloned, [root("g", TILE)], [tile]), kernel(cloned, [root("h", tiles["h"])], [], ["f_clone"])]
    return Example(text(cloned, *kernels), {"clones": written(cloned, *kernels)["clones"]}, before)


def seam() -> BoundPipeline:
    """Return the least cost of a path from the top of an image to each point."""
    image, m, r = Input("image", float32, 2), Func("m"), RDom("r", y=(1, 64))

    def above(d: int) -> Any:
        return m[r.y - 1, clamp(x + d, 0, 127)]

    m[y, x] = image[y, x]
    m[r.y, x] += smaller(smaller(above(-1), above(0)), above(1))
    return bind(Pipeline(m.over(y=(0, 64), x=(0, 128))), {"image": (64, 128)})


def scan() -> Example:
    bound = seam()
    first = kernel(bound, [root("m", TILE)])
    one_block = text(bound, first, kernel(bound, [root("m.1", "rr.y=63 tx=128")]))
    launches = text(bound, first, kernel(bound, [root("m.1", "rr.y=63 bx=4 tx=32")]))
    return Example(last_kernel(launches), before=last_kernel(one_block))


EXAMPLES: Mapping[str, Callable[[], Example]] = {
    "The starting point": start,
    "Loops and tiles": tiling,
    "Inline": inline,
    "Compute per block": per_block,
    "Compute per warp": per_warp,
    "Hybrid tile": hybrid_tile,
    "Linear threads": linear,
    "Compute per thread": per_thread,
    "Compute per reduction step": per_term,
    "Storage order": storage_order,
    "Aligned tiles": aligned,
    "Cache read": cache_read,
    "Materialise": materialised,
    "Mainloop": mainloop,
    "Double buffering": double_buffering,
    "Async copy": async_copy,
    "Sliding window": sliding_window,
    "Window by doubling": window_doubling,
    "Scan by blocks": scan_blocking,
    "Deinterleaving": deinterleaving,
    "Invariant hoisting": invariant_hoisting,
    "Reduction unrolling": reduction_unrolling,
    "Integer narrowing": integer_narrowing,
    "Rfactor": rfactor,
    "Atomic update": atomic,
    "Warp reduction": warp_reduction,
    "Computation folding": computation_folding,
    "Expression fission": expression_fission,
    "Retiming": retiming,
    "Component fission": component_fission,
    "Horizontal fusion": horizontal_fusion,
    "Clone": func_clone,
    "Scans": scan,
}
"""The example below each heading of the page."""

_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```(text|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """Return the text below each heading of the second level."""
    return {m.group(1): m.group(2) for m in _SECTION.finditer(page)}


def with_examples(page: str) -> str:
    """Return the page with the blocks of each directive as they are; there must be as many as before."""

    def section(match: re.Match[str]) -> str:
        make = EXAMPLES.get(match.group(1))
        if make is None:
            return match.group(0)
        blocks: Iterator[tuple[str, str]] = iter(make().blocks)
        return _BLOCK.sub(lambda _: "```{}\n{}```".format(*next(blocks)), match.group(0))

    return _SECTION.sub(section, page)


if __name__ == "__main__":
    PAGE.write_text(with_examples(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
