"""Sample of a kernel's warps: the whole middle block, and some warps of blocks at the edges.

Rows are pairs of a block and a warp; arrays over lanes have shape ``[rows, 32]``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.terms import UNBOUNDED
from autosched.lower.ir import CompareIndex, If, KernelIR, Partitioning, Stmt, walk_values
from autosched.lower.ir_queries import conjuncts

WARP = 32
MIDDLE = 0
"""Number of the middle block; numbers from 1 are the blocks before it in each loop, the innermost first."""
OTHERS = -1
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the executed sample of a kernel; None means no limit.

    Attributes:
        warps: Warps of each block other than the middle one.
        lanes: Lanes times iterations of loops without unrolling, at once.
    """

    warps: int | None = 4
    lanes: int | None = 1 << 15


@dataclass(frozen=True)
class Rows:
    """Executed warps.

    Attributes:
        position: Index of each row's block in each loop over blocks, by the loop's name; ``[rows, 1]``.
        thread: Thread index of each lane along x, y, z; ``[rows, 32]``.
        active: Lanes that are threads of the block.
        weight: Represented warps of the grid; 0 for blocks that only determine overlap.
        block: `MIDDLE`, the number of a neighbour of the middle block, or `OTHERS`.
    """

    position: Mapping[str, NDArray[np.int64]]
    thread: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    active: NDArray[np.bool_]
    weight: NDArray[np.float64]
    block: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.weight)

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return a subset of the rows."""
        x, y, z = (t[chosen] for t in self.thread)
        return replace(
            self, position={n: p[chosen] for n, p in self.position.items()}, thread=(x, y, z),
            active=self.active[chosen], weight=self.weight[chosen], block=self.block[chosen],
        )  # fmt: skip


def interior(kernel: KernelIR) -> Box:
    """Return the first and last interior block in each loop; all blocks of a kernel with one body."""
    split = uniform_branch(kernel)
    return tuple((0, n - 1) for _, n in kernel.grid_loops) if split is None else block_box(kernel, split)


def uniform_branch(kernel: KernelIR) -> If | None:
    """Return the branch between interior and boundary blocks, if a kernel has one."""
    return block_branch(kernel.body)


def block_branch(body: Sequence[Stmt]) -> If | None:
    """Return the branch between blocks that a body is, or None."""
    first = body[0] if body else None
    return first if isinstance(first, If) and first.partition is Partitioning.BLOCKS else None


def block_box(kernel: KernelIR, branch: If) -> Box:
    """Return the first and last block in each loop that take a branch."""
    box = {name: (0, n - 1) for name, n in kernel.grid_loops}
    for test in walk_values(branch.condition):
        if isinstance(test, CompareIndex):
            (name,) = ix.loop_vars(test.a)
            lo, hi = box[name]
            box[name] = (int(test.b), hi) if test.op == "ge" else (lo, int(test.b))  # type: ignore[arg-type]
    return tuple(box.values())


def share_of_steps(branch: If) -> float:
    """Return the share of steps, from 0 to 1, that take a branch on the range of one variable."""
    variables = {}
    first, last = -UNBOUNDED, UNBOUNDED
    for test in conjuncts(branch.condition):
        match test:
            case CompareIndex(op="ge", a=ix.Affine(terms=((ix.LoopVar() as v, 1),), const=0), b=int(limit)):
                variables[v.name], first = v, max(first, limit)
            case CompareIndex(op="le", a=ix.Affine(terms=((ix.LoopVar() as v, 1),), const=0), b=int(limit)):
                variables[v.name], last = v, min(last, limit)
            case _:
                raise ValueError(f"a block does not take the branch on {branch.condition} in a range of its steps")
    (steps,) = variables.values()
    return (min(last, steps.hi) - max(first, steps.lo) + 1) / (steps.hi - steps.lo + 1)


def chosen_rows(kernel: KernelIR, blocks: Sequence[Sequence[int]]) -> Rows:
    """Return all warps of some blocks, each with weight 1 and block `OTHERS`.

    Args:
        kernel: The kernel.
        blocks: Positions in the loops over blocks, outermost first.
    """
    warps = -(-kernel.threads // WARP)
    return _rows(kernel, [(p, w, 1.0, OTHERS) for p in blocks for w in range(warps)])


def representative_rows(kernel: KernelIR, limits: Limits) -> Rows:
    """Return warps that represent the whole grid."""
    extents = [n for _, n in kernel.grid_loops]
    box = interior(kernel)
    middle = tuple((lo + hi + 1) // 2 for lo, hi in box)
    warps = -(-kernel.threads // WARP)
    few = _few_warps(warps, limits.warps)
    samples: list[tuple[Sequence[int], int, float, int]] = []
    for position, weight in _blocks(extents, box):
        if position == middle:
            samples += [(middle, w, weight, MIDDLE) for w in range(warps)]
        else:
            samples += [(position, w, weight * stands_for, OTHERS) for w, stands_for in few]
    for number, k in enumerate(reversed(range(len(extents))), start=1):
        if extents[k] > 1:
            neighbour = list(middle)
            neighbour[k] += -1 if middle[k] > 0 else 1
            samples += [(neighbour, w, 0.0, number) for w in range(warps)]
    return _rows(kernel, samples)


def _blocks(extents: Sequence[int], box: Box) -> list[tuple[tuple[int, ...], float]]:
    """Return blocks with their weights: the middle one, one beyond each end of each loop, first and last."""
    levels = [_levels(n, lo, hi) for n, (lo, hi) in zip(extents, box, strict=True)]
    middle = tuple((lo + hi + 1) // 2 for lo, hi in box)
    first, last = tuple(0 for _ in extents), tuple(n - 1 for n in extents)
    weights: dict[tuple[int, ...], float] = {middle: 0.0}
    corners = 0.0
    for combination in itertools.product(*levels):
        position = tuple(at for at, _ in combination)
        weight = math.prod(float(w) for _, w in combination)
        if sum(at != mid for at, mid in zip(position, middle, strict=True)) <= 1 or position in (first, last):
            weights[position] = weights.get(position, 0.0) + weight
        else:
            corners += weight
    for end in (first, last):
        weights[end] = weights.get(end, 0.0) + corners / 2
    return [(p, w) for p, w in weights.items() if w > 0 or p == middle]


def _levels(extent: int, lo: int, hi: int) -> list[tuple[int, int]]:
    """Return positions in one loop with their weights: below the interior, in its middle, above it."""
    below, above = max(lo, 1), max(extent - 1 - hi, 1)  # the first and the last may differ even without guards
    middle = (lo + hi + 1) // 2
    if extent <= 2 or below + above >= extent:
        below, above = middle, extent - 1 - middle
    counts = {0: 0, middle: 0, extent - 1: 0}
    for k, n in ((0, below), (middle, extent - below - above), (extent - 1, above)):
        counts[k] += n
    return [(k, n) for k, n in counts.items() if n > 0]


def _few_warps(warps: int, limit: int | None) -> list[tuple[int, float]]:
    """Return warps of a block with their weights; the first and the last have weight 1."""
    if limit is None or warps <= limit:
        return [(w, 1.0) for w in range(warps)]
    inner = [1 + (warps - 2) * (2 * k + 1) // (2 * (limit - 2)) for k in range(limit - 2)]
    share = (warps - 2) / len(inner)
    return [(0, 1.0), *((w, share) for w in inner), (warps - 1, 1.0)]


def _rows(kernel: KernelIR, samples: Sequence[tuple[Sequence[int], int, float, int]]) -> Rows:
    lane = np.array([w for _, w, _, _ in samples], np.int64)[:, None] * WARP + np.arange(WARP)
    x, y, _ = kernel.block
    position: dict[str, Any] = {
        name: np.array([p[k] for p, _, _, _ in samples], np.int64)[:, None]
        for k, (name, _) in enumerate(kernel.grid_loops)
    }
    position |= {name: np.full((len(samples), 1), n // 2) for name, n in kernel.step_loops}  # one launch for all
    return Rows(
        position=position, thread=(lane % x, lane // x % y, lane // (x * y)), active=lane < kernel.threads,
        weight=np.array([w for _, _, w, _ in samples]), block=np.array([b for _, _, _, b in samples], np.int64),
    )  # fmt: skip
