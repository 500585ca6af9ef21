"""Pipelines that an export has to be careful with."""

from __future__ import annotations

from typing import Any

import numpy as np

import autosched
from autosched import Func, Input, Param, Pipeline, ScheduledPipeline, Var, bool_, float16, float32, int64
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.target import get_target

Array = np.ndarray[Any, Any]
BLOCK, THREAD, SERIAL = LoopKind.BLOCK, LoopKind.THREAD, LoopKind.SERIAL

ODD_SHAPES = {"register": (37, 53), "M_PI": (37, 53), "LOAD": (53,)}


def odd() -> Pipeline:
    """Return a pipeline of all kinds of types, outputs and names.

    Its names are keywords, macros and words of generated code; its parameters a float16, an int64 and a bool; its
    outputs a float16 whose box begins inside, a bool, and a pair.
    """
    y, x = Var("y"), Var("EOF")
    half, mask, table = Input("register", float16, 2), Input("M_PI", bool_, 2), Input("LOAD", int64, 1)
    gain, shift = Param("stream", float16, 0.1), Param("nullptr", int64, -(1 << 40) - 3)
    negate = Param("as_scratch", bool_, True)
    smooth, stdout, flags, pair = Func("smooth"), Func("stdout"), Func("workspace"), Func("dim3")
    smooth[y, x] = half[y, x - 1] * gain + half[y, x + 1]
    stdout[y, x] = smooth[y - 1, x] + smooth[y + 1, x]
    flags[y, x] = mask[y, x] ^ negate
    pair[y, x] = (table[x] + shift, autosched.select(mask[y, x], 1.5, autosched.cast(float32, table[x] % 7)))
    height, width = half.shape
    whole = {"y": (0, height), "EOF": (0, width)}
    return Pipeline(
        [stdout.over(y=(1, height - 1), EOF=(1, width - 1)), flags.over(**whole), pair.over(**whole)], name="example"
    )


def odd_inputs() -> dict[str, Array]:
    """Return inputs of `odd`, with numbers beyond the range of 32 bits."""
    rng = np.random.default_rng(5)
    return {
        "register": rng.standard_normal((37, 53)).astype(np.float16),
        "M_PI": rng.random((37, 53)) < 0.5,
        "LOAD": rng.integers(-(1 << 62), 1 << 62, 53),
    }


def with_large_tiles() -> ScheduledPipeline:
    """Return a blur whose only kernel keeps 65 KiB in shared memory."""
    pipeline = get_app("blur").build()
    bound = bind(pipeline, {"input": (130, 258)})
    output, blur_x = StageId("output"), StageId("blur_x")
    serial = (Loop("y", SERIAL, 16), Loop("x", SERIAL, 8))
    root = (Loop("y", BLOCK, 1), Loop("x", BLOCK, 1), Loop("x", THREAD, 32), Loop("y", THREAD, 8), *serial)
    member = FusedProducer(
        tilings=(StageTiling(blur_x, (Loop("x", THREAD, 32), Loop("y", THREAD, 8), Loop("y", SERIAL, 17), serial[1])),),
        at=ComputeAt(Level.BLOCK, host=output, depth=2),
        storage_order=("y", "x"),
    )
    kernel = Kernel((Root(StageTiling(output, root)),), (member,))
    return ScheduledPipeline(bound, Schedule(pipeline.hash, (kernel,)), get_target("h200"))
