"""The version of the code generator: a hash of its output for a few fixed schedules.

Times of two releases, or two states of a checkout, are comparable if these texts and the compiler flags are equal. A
changed comment in the sources does not invalidate measurements; changed emitted code or C compiler flags do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.lang.dtypes import float32, int32, uint8
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, exp
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over
from autosched.lower.program import lower
from autosched.measure.compile.content_keys import text_digest
from autosched.runtime.compile.host_compile_flags import kernel_options
from autosched.runtime.compile.host_compiler import find_compiler, gnu_version, have_compiler, processor_options
from autosched.schedule.io.serialise import from_json
from autosched.schedule.types import Schedule

Printer = Literal["cuda", "c"]

SCHEDULES = files("autosched.measure").joinpath("generator_schedules.jsonl")
"""Stored random schedules of the pipelines below, independent of the sampler."""


def generator_version(printer: Printer) -> str:
    """Return twelve hexadecimal digits that change with the emitted code and the C compiler flags.

    Compiler workarounds do not count: `autosched.measure.compile.program_version` distinguishes programs with some.

    Args:
        printer: The printer, of CUDA or C.
    """
    return _version(printer, _options() if printer == "c" else ())


@lru_cache(maxsize=8)
def _version(printer: Printer, options: tuple[str, ...]) -> str:
    texts = [*options]
    for bound, schedule in fixed_schedules(printer):
        program = lower(bound, schedule)
        cuda = printer == "cuda"
        texts += [print_cuda(k).source for k in program.kernels] if cuda else [print_c(program, guarded=False).text]
    return text_digest(texts)[:12]


def fixed_schedules(printer: Printer) -> Iterator[tuple[BoundPipeline, Schedule]]:
    """Yield pipeline and schedule of each program whose text determines the version of a printer."""
    pipelines = {bound.pipeline.name: bound for bound in (_stencil(), _reduction(), _wide(), _channels(), _window())}
    for line in SCHEDULES.read_text(encoding="utf-8").splitlines():
        fixed = json.loads(line)
        if fixed["printer"] == printer:
            bound = pipelines[fixed["pipeline"]]
            yield bound, from_json(json.dumps(fixed["schedule"]), bound)


def _options() -> tuple[str, ...]:
    if not have_compiler():
        return ()
    compiler = find_compiler()
    return (*kernel_options(gnu_version(compiler)), *processor_options(compiler))


def _stencil() -> BoundPipeline:
    """Return a separable blur of bytes with a boundary condition, an upsampled difference and elementary functions."""
    y, x = Var("y"), Var("x")
    image = Input("image", uint8, 2)
    clamped = image.clamped()
    rows, blurred, out = Func("rows"), Func("blurred"), Func("out")
    rows[y, x] = (cast(float32, clamped[y, x - 1]) + clamped[y, x] + clamped[y, x + 1]) / 3.0
    blurred[y, x] = (rows[y - 1, x] + 2.0 * rows[y, x] + rows[y + 1, x]) * 0.25
    out[y, x] = cast(uint8, clamp(clamped[y, x] + exp(-blurred[y // 2, x // 2]) * 3.5, 0.0, 255.0))
    return bind(Pipeline([out.over(y=(0, 67), x=(0, 131))], name="stencil"), {"image": (67, 131)})


def _wide() -> BoundPipeline:
    """Return a large stencil, whose neighbouring rows share most loads."""
    y, x = Var("y"), Var("x")
    image, out = Input("image", float32, 2), Func("out")
    taps = [image[y + dy, x + dx] * (1.0 + dy + 5.0 * dx) for dy in range(5) for dx in range(5)]
    out[y, x] = sum(taps[1:], taps[0])
    return bind(Pipeline([out.over(y=(0, 72), x=(0, 131))], name="wide"), {"image": (76, 135)})


def _window() -> BoundPipeline:
    """Return weighted sums over a two-dimensional window on wide rows."""
    y, x, near = Var("y"), Var("x"), RDom("near", y=3, x=5)
    image, weights, out = Input("image", float32, 2), Input("weights", float32, 2), Func("out")
    out[y, x] = cast(float32, 0)
    out[y, x] += weights[near.y, near.x] * image[y + near.y, x + near.x]
    return bind(Pipeline([out.over(y=(0, 9), x=(0, 400))], name="window"), {"image": (11, 404), "weights": (3, 5)})


def _channels() -> BoundPipeline:
    """Return two stages over a channels-last image, whose rows in memory are narrow."""
    y, x, c = Var("y"), Var("x"), Var("c")
    image, rows, out = Input("image", float32, 3), Func("rows"), Func("out")
    rows[y, x, c] = image[y, x, c] + image[y, x + 1, c]
    out[y, x, c] = rows[y, x, c] * rows[y + 1, x, c]
    return bind(Pipeline([out.over(y=(0, 19), x=(0, 70), c=(0, 3))], name="channels"), {"image": (20, 71, 3)})


def _reduction() -> BoundPipeline:
    """Return a matrix product, its prefix sum, and a histogram of the sums."""
    i, j, b = Var("i"), Var("j"), Var("b")
    left, right = Input("left", float32, 2), Input("right", float32, 2)
    terms, steps, points = RDom("terms", k=37), RDom("steps", j=(1, 40)), RDom("points", i=24, j=40)
    product, scan, counts = Func("product"), Func("scan"), Func("counts")
    product[i, j] = sum_over(left[i, terms.k] * right[terms.k, j], over=terms)
    scan[i, j] = product[i, j]
    scan[i, steps.j] += scan[i, steps.j - 1]
    counts[b] = cast(float32, 0)
    counts[clamp(cast(int32, scan[points.i, points.j]), 0, 15)] += 1.0
    outputs = [counts.over(b=(0, 16)), scan.over(i=(0, 24), j=(0, 40))]
    return bind(Pipeline(outputs, name="reduction"), {"left": (24, 37), "right": (37, 40)})
