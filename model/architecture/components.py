"""The cost of a stage from its schedule features and the coefficients a network gives it (Anderson, Appendix B).

Coefficients are numbered as in the paper. Where its listing, its text and its implementation disagree, the intended
quantity is computed:

* Thread footprints are multiplied by the number of threads. The listing multiplies them by the number of realizations,
  like footprints of realizations, which at root would count one thread for the whole grid.
* The number of tasks of a stage is the number of blocks of the grid.
* Global and shared load transactions have their own coefficients (c28, c27), which the listing omits; without them,
  their cost would have no unit.
* Efficiencies divide transactions of all four kinds.
* The number of scalars of an inlined Func is its number of evaluations.

All functions take features ``float[R, F]`` and coefficients ``float[R, 30]`` of R stages and return a cost ``float[R]``
in units of `ModelSettings.unit_seconds`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autosched.featurize.schema import INDEX

COEFFICIENTS = 30
"""c0 to c29; c23 is not used, as in the paper."""
LEAST_EFFICIENCY = 1 / 32
"""One lane of 32 uses the transferred bytes; a lower bound for divisors."""


@dataclass(frozen=True)
class StageFeatures:
    """Schedule features of R stages by name.

    Attributes:
        values: ``float[R, F]``, in the schema's order.
        multiprocessors: Multiprocessors of the device; Anderson's ``num_cores``.
    """

    values: Tensor
    multiprocessors: int

    def __call__(self, name: str) -> Tensor:
        """Return one feature, ``float[R]``."""
        return self.values[:, INDEX[name]]

    @property
    def inlined(self) -> Tensor:
        """Whether a row is of an inlined Func, ``bool[R]``."""
        return self("inlined_calls") > 0

    @property
    def scalars(self) -> Tensor:
        """Evaluations of the stage: the product of its loops, or the calls of an inlined Func."""
        return torch.where(self.inlined, self("inlined_calls"), self("num_scalars"))

    @property
    def threads(self) -> Tensor:
        """Threads that compute the stage, in the whole grid."""
        return self("num_blocks") * self("num_threads_per_block")


def compute_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of evaluating points (c1, c3, c4, c19).

    Evaluations count once per point and once per thread; inlined ones have their own coefficients. Multiprocessors
    run whole blocks, so a partial last wave counts as whole, and idle lanes of a warp count too.
    """
    points = f.threads * f("points_computed_per_thread")
    cost = torch.where(f.inlined, f.scalars * c[:, 3] + points * c[:, 4], f.scalars * c[:, 1] + points * c[:, 19])
    tasks = (f("inner_parallelism") * f("outer_parallelism")).clamp(min=1) / f.multiprocessors
    wasted_rounds = torch.ceil(tasks) / tasks.clamp(min=1)
    busy_lanes = (1 - f("idle_lane_wastage")).clamp(min=LEAST_EFFICIENCY)
    return cost * wasted_rounds / torch.where(f.inlined, torch.ones_like(busy_lanes), busy_lanes)


def footprint_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of the distinct bytes and rows that are read.

    For each realization (rows c5, c16, c8 and bytes c6, c20, c7 of global, shared and register memory), each thread
    (rows c18, c17, c2; bytes c13, c11, c0), each point (bytes c10, rows c12) and each block (bytes c14, rows c15).
    """
    by_realization = (
        c[:, 5] * f("unique_global_lines_read_per_realization")
        + c[:, 16] * f("unique_shared_lines_read_per_realization")
        + c[:, 8] * f("unique_register_lines_read_per_realization")
        + c[:, 6] * f("unique_global_bytes_read_per_realization")
        + c[:, 20] * f("unique_shared_bytes_read_per_realization")
        + c[:, 7] * f("unique_register_bytes_read_per_realization")
    )
    by_thread = (
        c[:, 18] * f("unique_global_lines_read_per_thread")
        + c[:, 17] * f("unique_shared_lines_read_per_thread")
        + c[:, 2] * f("unique_register_lines_read_per_thread")
        + c[:, 13] * f("unique_global_bytes_read_per_thread")
        + c[:, 11] * f("unique_shared_bytes_read_per_thread")
        + c[:, 0] * f("unique_register_bytes_read_per_thread")
    )
    by_point = c[:, 10] * f("unique_bytes_read_per_point") + c[:, 12] * f("unique_lines_read_per_point")
    by_block = c[:, 14] * f("unique_bytes_read_per_task") + c[:, 15] * f("unique_lines_read_per_task")
    return (
        f("num_realizations") * by_realization
        + f.threads * by_thread
        + f.scalars * by_point
        + f("num_blocks") * by_block
    )


def load_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of load transactions of global (c28) and shared memory (c27), over their efficiency."""
    return f("num_blocks") * (
        c[:, 28] * _over_efficiency(f, "global", "load") + c[:, 27] * _over_efficiency(f, "shared", "load")
    )


def store_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of store transactions of shared (c29) and global memory (c21), and of false sharing (c22).

    False sharing occurs between blocks that write to the same rows, in inverse proportion to the part of a row of each.
    """
    transactions = f("num_blocks") * (
        c[:, 29] * _over_efficiency(f, "shared", "store") + c[:, 21] * _over_efficiency(f, "global", "store")
    )
    sharing = c[:, 22] * f.scalars / f("global_innermost_bytes_at_task").clamp(min=1)
    return transactions + torch.where(f("inner_parallelism") > 1, sharing, torch.zeros_like(sharing))


def allocation_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of allocating the stage's results (c24)."""
    return c[:, 24] * f("num_realizations")


def parallelism_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of launching kernels (c25) and their blocks (c26)."""
    blocks = f("inner_parallelism")
    launches = torch.where(blocks > 1, c[:, 25], torch.zeros_like(blocks))
    return f("num_productions") * (launches + (blocks - 1).clamp(min=0) * c[:, 26])


def working_set_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of the working set (c9): register pressure and cache usage."""
    return c[:, 9] * f("working_set")


COMPONENTS = {
    "compute": compute_cost,
    "footprint": footprint_cost,
    "load": load_cost,
    "store": store_cost,
    "allocation": allocation_cost,
    "parallelism": parallelism_cost,
    "working_set": working_set_cost,
}
"""All components by name; a stage's cost is their sum."""


def stage_cost(f: StageFeatures, c: Tensor) -> Tensor:
    """Return the cost of stages, ``float[R]``: the sum of all components."""
    costs = [component(f, c) for component in COMPONENTS.values()]
    return torch.stack(costs).sum(dim=0)


def _over_efficiency(f: StageFeatures, memory: str, access: str) -> Tensor:
    """Return transactions of one kind over the used share of their bytes; inlined Funcs have no efficiency."""
    transactions = f(f"num_{memory}_mem_{access}s_per_block")
    used = f(f"{memory}_mem_{access}_efficiency").clamp(min=LEAST_EFFICIENCY)
    return transactions / torch.where(f.inlined, torch.ones_like(used), used)
