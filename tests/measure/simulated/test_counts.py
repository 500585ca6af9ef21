"""Counts from the IR equal those of the emulator, site by site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from autosched.analysis.indices import index as ix
from autosched.lower.ir import BufferRead, KernelIR, Let, LetIndex, Store, walk
from autosched.lower.program import Program, lower
from autosched.measure.simulated.count import SiteCounts, count_sites
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import Trace
from autosched.search.strategies.protocol import STRATEGIES
from tests.measure.simulated.programs import (
    H200,
    bound_app,
    corner_blocks,
    default_scalars,
    emulated,
    random_program,
)

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

QUANTITIES = ("requests", "active_lanes", "sectors", "wavefronts", "bank_conflicts")
AFFINE = {
    "harris": {"H": 67, "W": 101}, "stencil_chain": {"H": 43, "W": 79}, "sgemm": {}, "conv_layer": {}, "max_filter": {},
    "iir_blur": {}, "canny": {},
}  # fmt: skip
VARIED = {
    "unsharp": {}, "harris": {"H": 67, "W": 104}, "stencil_chain": {"H": 43, "W": 80}, "max_filter": {}, "canny": {},
}  # fmt: skip
SEEDS = range(2)


def assert_equal_counts(
    found: SiteCounts, name: str, seed: int, program: Program, kernel: KernelIR, blocks: Sequence[tuple[int, ...]]
) -> Trace:
    trace = emulated(program, kernel, blocks)
    for quantity in QUANTITIES:
        mine, true = getattr(found, quantity), getattr(trace, quantity)
        where = np.flatnonzero(mine[: len(true)] != true)
        assert not len(where) and not mine[len(true) :].any(), (
            f"{name} seed {seed} {kernel.name}: {quantity} of sites {where.tolist()} {mine[where].tolist()}, "
            f"counted {true[where].tolist()}"
        )
    return trace


@pytest.mark.parametrize("name", AFFINE)
def test_counts_equal_the_emulator(name: str) -> None:
    bound = bound_app(name, **AFFINE[name])
    for seed in SEEDS:
        program = random_program(bound, seed)
        for kernel in program.kernels:
            blocks = corner_blocks(kernel)
            found = count_sites(kernel, blocks, default_scalars(program))
            assert_equal_counts(found, name, seed, program, kernel, blocks)


@pytest.mark.parametrize("name", ["camera_pipe", "hist", "bilateral_grid"])
def test_counts_equal_the_emulator_where_addresses_depend_on_data(name: str) -> None:
    """Each stage in a kernel of its own, so that data come from memory, which holds the same for both."""
    bound = bound_app(name)
    program = lower(bound, STRATEGIES["roots"].search(bound, H200).best)
    gathers = 0
    for kernel in program.kernels:
        blocks = corner_blocks(kernel)
        found = count_sites(kernel, blocks, default_scalars(program))
        assert_equal_counts(found, name, 0, program, kernel, blocks)
        gathers += any(t.kind == "data" for t in _atoms(kernel))
    assert gathers


@pytest.mark.parametrize("name", ["unsharp", "harris", "stencil_chain", "max_filter", "canny"])
def test_vectors_copies_and_aligned_tiles(name: str) -> None:
    """A coalesced access counts once, and rows of shared memory have the pitch of the generated code."""
    bound = bound_app(name, **VARIED[name])
    joined = staged = aligned = 0
    for seed in (1, 2):
        program = random_program(bound, seed, vectors=True, varied=True)
        staged += sum(len(k.cache_reads) for k in program.schedule.kernels)
        aligned += sum(m.aligned is not None for k in program.schedule.kernels for m in k.fused)
        for kernel in program.kernels:
            blocks = corner_blocks(kernel)
            found = count_sites(kernel, blocks, default_scalars(program))
            trace = assert_equal_counts(found, name, seed, program, kernel, blocks)
            joined += int((trace.length > 1).sum())
    assert joined
    assert staged
    assert aligned


def _atoms(kernel: KernelIR) -> Iterator[ix.Atom]:
    for s in walk(kernel.body):
        indices = [s.index] if isinstance(s, LetIndex | Store) else []
        if isinstance(s, Let) and isinstance(s.value, BufferRead):
            indices.append(s.value.index)
        for e in indices:
            yield from (t for t in ix.atoms(e) if isinstance(t, ix.Atom))
