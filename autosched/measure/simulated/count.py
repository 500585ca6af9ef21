"""Count instructions and accesses of a kernel from its IR, by evaluating the address arithmetic of a few blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.lower.ir import KernelIR, Stmt
from autosched.lower.pipelines import CUDA_PASSES, run_passes
from autosched.measure.simulated.body import SITE_COUNTS, Body
from autosched.measure.simulated.chain import phase_chains
from autosched.measure.simulated.compiled import compiled_form
from autosched.measure.simulated.footprint import Footprints
from autosched.measure.simulated.sampling import (
    MIDDLE,
    Limits,
    Rows,
    block_box,
    block_branch,
    chosen_rows,
    representative_rows,
)
from autosched.measure.simulated.work import BufferWork, KernelWork, Phase, mean_phases


@dataclass(frozen=True)
class SiteCounts:
    """Counts of each access site, summed over some blocks; arrays of shape [sites], as in the emulator's trace."""

    requests: NDArray[np.int64]
    active_lanes: NDArray[np.int64]
    sectors: NDArray[np.int64]
    wavefronts: NDArray[np.int64]
    bank_conflicts: NDArray[np.int64]


def as_printed(kernel: KernelIR) -> KernelIR:
    """Return a kernel as the CUDA printer writes it."""
    return run_passes(kernel, CUDA_PASSES)


def count_sites(
    kernel: KernelIR, blocks: Sequence[Sequence[int]], scalars: Mapping[str, Any] | None = None
) -> SiteCounts:
    """Count the accesses of all threads of some blocks, as in the traced emulator.

    Args:
        kernel: The kernel.
        blocks: Positions in the loops over blocks, outermost first.
        scalars: Values of the kernel's parameters.
    """
    kernel = as_printed(kernel)
    rows = chosen_rows(kernel, blocks)
    table = np.zeros((len(kernel.site_depths), len(SITE_COUNTS)))
    for part, body in block_bodies(kernel, rows):
        counted = Body(kernel, part, Limits(None, None), scalars or {})
        counted.count(body)
        for site, counts in counted.sites.items():
            table[site] += counts
    return SiteCounts(*np.rint(table).astype(np.int64).T)


def count_kernel(
    kernel: KernelIR, scalars: Mapping[str, Any] | None = None, limits: Limits | None = None
) -> KernelWork:
    """Count the work of a kernel from a sample of blocks and iterations.

    Args:
        kernel: The kernel.
        scalars: Values of its parameters; missing ones are 1.
        limits: Limits of the sample.
    """
    kernel, limits = compiled_form(as_printed(kernel)), limits or Limits()
    rows = representative_rows(kernel, limits)
    phases: list[list[Phase]] = []
    footprints: list[tuple[Footprints, Rows]] = []
    load_sectors: dict[str, float] = {}
    executed = written = 0.0
    everything = float(rows.weight.sum())
    for part, statements in block_bodies(kernel, rows):
        body = Body(kernel, part, limits, scalars or {})
        body.count(statements)
        share = float(part.weight.sum()) / everything
        chains = phase_chains(statements)
        phases.append([
            Phase(
                **{n: v / kernel.blocks for n, v in p.items()}, **{n: v * share for n, v in chain.items()},
                **{n: v / everything for n, v in warps.busiest(part).items()},
            )
            for p, chain, warps in zip(body.phases, chains, body.of_warps, strict=True)
        ])  # fmt: skip
        footprints.append((body.footprints, part))
        executed, written = executed + body.executed, written + body.written
        for name, sectors in body.load_sectors.items():
            load_sectors[name] = load_sectors.get(name, 0.0) + sectors / kernel.blocks
    return KernelWork(
        name=kernel.name, grid=tuple(n for _, n in reversed(kernel.grid_loops)), threads=kernel.threads,
        shared_bytes=kernel.shared_bytes, phases=mean_phases(phases),
        buffers=_buffers(kernel, footprints, load_sectors), repeats=executed / everything / max(written, 1.0),
        tiles=kernel.warp_tiles,
    )  # fmt: skip


def block_bodies(kernel: KernelIR, rows: Rows) -> list[tuple[Rows, tuple[Stmt, ...]]]:
    """Return the bodies of a kernel, each with the rows whose blocks execute it."""
    body, parts = kernel.body, []
    while (split := block_branch(body)) is not None:
        inside = np.ones(len(rows), bool)
        for (name, _), (lo, hi) in zip(kernel.grid_loops, block_box(kernel, split), strict=True):
            at = rows.position[name][:, 0]
            inside &= (lo <= at) & (at <= hi)
        parts.append((rows.where(inside), split.then))
        rows, body = rows.where(~inside), split.orelse
    return [(part, code) for part, code in (*parts, (rows, body)) if len(part)]


def _buffers(
    kernel: KernelIR, footprints: Sequence[tuple[Footprints, Rows]], load_sectors: Mapping[str, float]
) -> tuple[BufferWork, ...]:
    """Return the work on each array, from the middle block."""
    middle, rows = next((f, r) for f, r in footprints if (r.block == MIDDLE).any())
    others = [f for f, _ in footprints if f is not middle]
    loops = len(kernel.grid_loops)
    return tuple(
        middle.buffer_work(b, rows, loops, load_sectors.get(b.name, 0.0), others)
        for b in (*kernel.reads, *kernel.writes)
    )
