"""Broken kernel IR is refused with the reason and the place; the IR of every lowered kernel passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.indices import index as ix
from autosched.errors import CompileError
from autosched.lang.dtypes import bool_, float32, int32
from autosched.lower.ir import (
    Alloc,
    Barrier,
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    For,
    If,
    IndexValue,
    KernelIR,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    SharedSlot,
    Stmt,
    Store,
    VarRef,
    WarpReduce,
)
from autosched.lower.program import lower
from autosched.lower.verify import verify
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target
from tests.schedule.building import blur, blur_with_shared
from tests.schedule.corner_cases import CORNER_CASES

IN = Buffer("img", float32, 64, Memory.GLOBAL)
OUT = Buffer("out", float32, 64, Memory.GLOBAL)
TILE = Buffer("tile", float32, 16, Memory.SHARED)
OTHER = Buffer("other", float32, 16, Memory.SHARED)
REG = Buffer("acc", float32, 4, Memory.REGISTER)
ONE = ConstValue(1.0, float32)
B, T, S = ix.var("b", 0, 3), ix.var("t", 0, 15), ix.var("s", 0, 3)


def threads(*body: Stmt, name: str = "t", extent: int = 16, axis: int = 0) -> For:
    return For(name, extent, LoopRole.THREAD, body, axis)


def serial(*body: Stmt, name: str = "s", extent: int = 4, depth: int = 0) -> For:
    return For(name, extent, LoopRole.SERIAL, body, depth=depth)


def kernel(*body: Stmt, depths: tuple[int, ...] = (), **changes: object) -> KernelIR:
    """A kernel of 4 blocks of 16 threads that may read ``img`` and write ``out``."""
    ir = KernelIR(
        name="k", title="", reads=(IN,), writes=(OUT,), scalars=(), grid_loops=(("b", 4),), block=(16, 1, 1), shared=(),
        shared_bytes=0, body=body, site_depths=depths,
    )  # fmt: skip
    return replace(ir, **changes)  # type: ignore[arg-type]


def store(site: int = 0, value: object = ONE, buffer: Buffer = OUT, index: ix.Index = T) -> Store:
    return Store(buffer, index, value, site)  # type: ignore[arg-type]


def shared_kernel(
    *body: Stmt, slots: tuple[SharedSlot, ...] = (SharedSlot(TILE, 0),), size: int = 64, sites: int = 2
) -> KernelIR:
    return kernel(*body, depths=(0,) * sites, shared=slots, shared_bytes=size)


WRITE = threads(store(0, buffer=TILE))
READ = threads(Let("v", BufferRead(TILE, T, 1)), name="t")
AT_15 = CompareIndex("le", T, 14, bool_)
ROUNDED = ix.sub(ix.floordiv(ix.add(S, 1), 2), ix.floordiv(S, 2))  # 0 or 1, its interval is wider
S8 = ix.var("s", 0, 7)
GUARDED = serial(If(CompareIndex("le", S8, 3, bool_), (store(0, buffer=REG, index=S8),)), extent=8)
FIRST_BLOCKS = CompareIndex("le", B, 2, bool_)
LATER_BLOCKS = CompareIndex("ge", B, 1, bool_)

SHUFFLE = WarpReduce(REG, 0, "add", 16, 0, 1)


def shuffled(*body: Stmt, extent: int = 16, block: tuple[int, int, int] = (16, 1, 1), depth: int = 0) -> KernelIR:
    return kernel(threads(Alloc(REG), *body, extent=extent), depths=(depth,) * 2, block=block)


CASES: dict[str, tuple[KernelIR, str]] = {
    "index name unbound": (kernel(threads(store(index=ix.var("q", 0, 3))), depths=(0,)), "q is used before"),
    "value unbound": (kernel(threads(store(value=VarRef("v", float32))), depths=(0,)), "v is used before"),
    "value out of scope": (
        kernel(threads(serial(Let("v", ONE)), store(value=VarRef("v", float32))), depths=(0,)),
        "v is used before",
    ),
    "value of a sibling branch": (
        kernel(threads(If(AT_15, (Let("v", ONE),), (store(value=VarRef("v", float32)),))), depths=(0,)),
        "v is used before",
    ),
    "value used before its line": (
        kernel(threads(store(value=VarRef("v", float32)), Let("v", ONE)), depths=(0,)),
        "v is used before",
    ),
    "unbound in data": (
        kernel(threads(store(index=ix.data(VarRef("v", int32), 0, 9, "v"))), depths=(0,)),
        "v is used before",
    ),
    "bound twice": (kernel(threads(Let("v", ONE), LetIndex("v", T))), "v is bound twice in one scope"),
    "shadowed": (kernel(threads(serial(LetIndex("t", 0)))), "t is bound twice in one scope"),
    "loop named like a buffer": (kernel(threads(name="out")), "out is bound twice in one scope"),
    "range assumed too narrow": (
        kernel(threads(store(index=ix.var("t", 0, 14))), depths=(0,)),
        r"assumes t in \[0, 14\], but its range is \[0, 15\]",
    ),
    "range of a bound index too narrow": (
        kernel(threads(LetIndex("at", ix.add(T, 1)), store(index=ix.var("at", 0, 15))), depths=(0,)),
        r"assumes at in \[0, 15\], but its range is \[1, 16\]",
    ),
    "range of the interior outside it": (
        kernel(
            If(LATER_BLOCKS, (threads(store()),), (threads(store(1, index=ix.var("b", 1, 3))),), True),
            depths=(0, 0),
        ),
        r"assumes b in \[1, 3\], but its range is \[0, 3\]",
    ),
    "input written": (kernel(threads(store(buffer=IN)), depths=(0,)), "input img is stored to"),
    "buffer undeclared": (kernel(threads(store(buffer=REG, index=0)), depths=(0,)), "the declaration is None"),
    "buffer of another size": (
        kernel(threads(store(buffer=replace(OUT, count=65))), depths=(0,)),
        "count=65.* is accessed, but",
    ),
    "register out of scope": (
        kernel(threads(serial(Alloc(REG)), store(buffer=REG, index=0)), depths=(0,)),
        "the declaration is None",
    ),
    "registers of the wrong kind": (kernel(threads(Alloc(TILE))), "is declared as an array in register memory"),
    "value of another type": (
        kernel(threads(store(value=IndexValue(T, int32))), depths=(0,)),
        "a value of int32 is stored to out, which has float32",
    ),
    "register index too large": (
        kernel(threads(Alloc(REG), serial(store(buffer=REG, index=ix.add(S, 1)))), depths=(1,)),
        r"index .* of register array acc\[4\] reaches \[1, 4\]",
    ),
    "register index negative": (
        kernel(threads(Alloc(REG), store(buffer=REG, index=ix.add(T, -15))), depths=(0,)),
        r"index .* of register array acc\[4\] reaches \[-15, 0\]",
    ),
    "register index from data": (
        kernel(
            threads(
                Let("v", IndexValue(T, int32)),
                Alloc(REG),
                store(buffer=REG, index=ix.data(VarRef("v", int32), 0, 9, "v")),
            ),
            depths=(0,),
        ),
        r"index .* of register array acc\[4\] cannot be bounded",
    ),
    "site twice": (kernel(threads(store(0), store(0)), depths=(0, 0)), "site 0 is used twice"),
    "site missing": (kernel(threads(store(1)), depths=(0, 0)), r"access sites have the depths \(-1, 0\), but \(0, 0\)"),
    "site beyond": (
        kernel(threads(store(0), store(1)), depths=(0,)),
        r"access sites have the depths \(0,\), but \(0,\)",
    ),
    "site at another depth": (
        kernel(threads(serial(store())), depths=(0,)),
        r"access sites have the depths \(1,\), but \(0,\) are recorded",
    ),
    "loop at another depth": (kernel(threads(serial(depth=1))), "loop s is inside 0 serial loops, but its depth is 1"),
    "loop that never runs": (kernel(threads(serial(extent=0))), "loop s has 0 iterations"),
    "threads inside a serial loop": (kernel(serial(threads())), "thread loop t is inside a serial loop or"),
    "threads under a condition": (
        kernel(If(FIRST_BLOCKS, (threads(),))),
        "thread loop t is inside a serial loop or",
    ),
    "threads inside themselves": (
        kernel(threads(threads(name="u"))),
        r"thread loop u over axis 0 is inside loops over axes \(0,\)",
    ),
    "threads from x to y": (
        kernel(threads(threads(name="u", extent=1, axis=1))),
        r"over axis 1 is inside loops over axes \(0,\)",
    ),
    "more threads than the block has": (
        kernel(threads(extent=17)),
        "thread loop t has 17 iterations, but the block has 16 threads",
    ),
    "work by all threads": (
        kernel(store(index=0), depths=(0,)),
        "out is stored to outside a loop over the block's threads",
    ),
    "barrier inside a nest": (kernel(threads(Barrier())), "a barrier is inside a thread nest"),
    "barrier under a condition": (
        kernel(If(FIRST_BLOCKS, (Barrier(),))),
        "a barrier is inside a thread nest",
    ),
    "uniform inside a nest": (kernel(threads(If(AT_15, (), (), True))), "is inside a thread nest"),
    "uniform on data": (
        kernel(If(BufferRead(Buffer("img", float32, 64, Memory.GLOBAL), 0, 0), (), (), True), depths=(0,)),
        "is not uniform",
    ),
    "some lanes of a shuffle": (shuffled(If(AT_15, (SHUFFLE,))), "of acc is not executed by all threads"),
    "a shuffle of all rows": (shuffled(SHUFFLE, block=(16, 2, 1)), "of acc is not executed by all threads"),
    "more lanes than threads": (
        shuffled(SHUFFLE, extent=8),
        "of acc over 16 lanes is in a nest of 8 lanes",
    ),
    "lanes of two warps": (
        shuffled(SHUFFLE, block=(40, 1, 1)),
        "of acc over 16 lanes is in a nest of 16 lanes, and blockDim.x is 40",
    ),
    "lanes that are no power of two": (
        shuffled(replace(SHUFFLE, width=12), extent=12, block=(12, 1, 1)),
        "of acc over 12 lanes",
    ),
    "lanes that divide": (shuffled(replace(SHUFFLE, op="truediv")), "warp reduction by truediv of .*acc"),
    "lanes combine memory": (shuffled(replace(SHUFFLE, buffer=OUT)), "warp reduction by add of .*out"),
    "lanes beyond the registers": (
        shuffled(serial(replace(SHUFFLE, index=ix.add(S, 1))), depth=1),
        "index .* of register array acc",
    ),
    "shared memory too small": (shared_kernel(WRITE, Barrier(), READ, size=60), "tile at byte 0 does not fit"),
    "shared memory misaligned": (
        shared_kernel(WRITE, Barrier(), READ, slots=(SharedSlot(TILE, 2),), size=128),
        "tile at byte 2 does not fit",
    ),
    "no barrier": (shared_kernel(WRITE, READ), "shared tile is accessed after tile without a barrier between them"),
    "no barrier before the next use of the bytes": (
        shared_kernel(
            WRITE,
            Barrier(),
            READ,
            threads(store(2, buffer=OTHER)),
            slots=(SharedSlot(TILE, 0), SharedSlot(OTHER, 32)),
            size=96,
            sites=3,
        ),
        "shared other is accessed after tile without a barrier between them",
    ),
    "no barrier on one path": (
        shared_kernel(
            WRITE,
            If(FIRST_BLOCKS, (Barrier(), READ), (threads(Let("v", BufferRead(TILE, T, 2))),), True),
            sites=3,
        ),
        "shared tile is accessed after tile without a barrier between them",
    ),
    "alive together": (
        shared_kernel(
            WRITE,
            Barrier(),
            threads(store(2, buffer=OTHER)),
            Barrier(),
            READ,
            slots=(SharedSlot(TILE, 0), SharedSlot(OTHER, 32)),
            size=96,
            sites=3,
        ),
        "other and tile overlap in shared memory while both are live",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_broken_ir_is_refused(name: str) -> None:
    ir, reason = CASES[name]
    with pytest.raises(CompileError, match=f"^internal error in the lowering of k: .*{reason}"):
        verify(ir)


GOOD: dict[str, Callable[[], KernelIR]] = {
    "nothing": lambda: kernel(),
    "loops and values": lambda: kernel(
        threads(
            LetIndex("at", ix.add(ix.scale(B, 16), T)),
            Let("v", BufferRead(IN, ix.var("at", 0, 63), 0)),
            Alloc(REG),
            serial(store(1, VarRef("v", float32), REG, S)),
            serial(If(CompareIndex("le", T, 9, bool_), (store(2, VarRef("v", float32), OUT, ix.var("at", 0, 63)),))),
        ),
        depths=(0, 1, 1),
    ),
    "names that end with their scope": lambda: kernel(
        threads(serial(Let("v", ONE)), serial(Let("v", ONE))), threads(Let("v", ONE))
    ),
    "narrower blocks in the interior": lambda: kernel(
        If(LATER_BLOCKS, (threads(store(index=ix.var("b", 1, 3))),), (threads(store(1)),), True),
        depths=(0, 0),
    ),
    "registers under a condition": lambda: kernel(threads(Alloc(REG), GUARDED), depths=(1,)),
    "registers where the interval is too wide": lambda: kernel(
        threads(Alloc(REG), serial(store(buffer=REG, index=ROUNDED))), depths=(1,)
    ),
    "lanes in a loop": lambda: shuffled(serial(replace(SHUFFLE, index=S)), depth=1),
    "lanes of a longer row": lambda: shuffled(SHUFFLE, block=(48, 1, 1)),
    "barrier on both paths": lambda: shared_kernel(WRITE, If(FIRST_BLOCKS, (Barrier(), READ), (), True)),
    "bytes used again": lambda: shared_kernel(
        WRITE,
        Barrier(),
        READ,
        Barrier(),
        threads(store(2, buffer=OTHER)),
        slots=(SharedSlot(TILE, 0), SharedSlot(OTHER, 32)),
        size=96,
        sites=3,
    ),
    "one thread needs no barrier": lambda: replace(
        shared_kernel(serial(store(0, buffer=TILE, index=S)), serial(Let("v", BufferRead(TILE, S, 1)))),
        block=(1, 1, 1),
        site_depths=(1, 1),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_sound_ir_passes(name: str) -> None:
    verify(GOOD[name]())


def test_a_removed_barrier_is_seen() -> None:
    bound = blur()
    (ir,) = lower(bound, blur_with_shared(bound), split_interior=False).kernels
    verify(ir)
    with pytest.raises(CompileError, match="shared across is accessed after across without a barrier"):
        verify(replace(ir, body=tuple(s for s in ir.body if not isinstance(s, Barrier))))


@pytest.mark.parametrize("name", CORNER_CASES)
def test_whatever_is_lowered_passes(name: str) -> None:
    """`lower` verifies each kernel itself, so this fails with the reason."""
    bound, h200 = CORNER_CASES[name]().bound(), get_target("h200")
    for seed in range(6):
        schedule = sample_schedule(bound, h200, np.random.default_rng(seed))
        for split in (True, False):
            assert lower(bound, schedule, split_interior=split).kernels
