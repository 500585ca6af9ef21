"""Weights and choices of PolyMage-GPU's cost function (section 6, Tables 1 and 3)."""

from __future__ import annotations

from typing import NamedTuple

from autosched.errors import InputError


class CostWeights(NamedTuple):
    """Weights of the seven terms of a group's cost (Algorithm 2, line 35).

    Attributes:
        transactions: w1, of the global memory transactions of a warp.
        occupancy: w2, of the share of warps that a multiprocessor lacks.
        memory_time: w3, of the time of transactions over that of computing.
        shared_memory: w4, of the share of shared memory that is not allocated.
        registers: w5, of the share of registers that is not used.
        overlap: w6, of the share of points that several tiles compute.
        extra_blocks: w7, of the blocks of a multiprocessor in its last wave.
    """

    transactions: float
    occupancy: float
    memory_time: float
    shared_memory: float
    registers: float
    overlap: float
    extra_blocks: float


V100_WEIGHTS = CostWeights(50, 0.5, 60, 10, 2, 100, 1)
GTX_1080_TI_WEIGHTS = CostWeights(50, 0.5, 45, 20, 2, 100, 1)


class PolymageSettings(NamedTuple):
    """Weights, bounds and choices of the search.

    Attributes:
        weights: Weights of the cost, by default those of a V100 for every target.
        most_funcs: Most Funcs of a group, apart from inlined ones.
        tile_sizes: Points of a thread to try in each dimension.
        warps: Warps along the fastest dimension to try.
        rows: Threads along the other dimensions to try.
        most_points: Most points of a thread.
        transaction_bytes: Sizes of a global memory transaction to try: of the second- and of the first-level cache.
        register_shares: Shares of a tile in registers to try (``fracRegTile``); 0 keeps all of it in shared memory, the
            only share that schedules have.
    """

    weights: CostWeights = V100_WEIGHTS
    most_funcs: int = 10
    tile_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    warps: tuple[int, ...] = (1, 2, 4)
    rows: tuple[int, ...] = (1, 2, 4, 8, 16)
    most_points: int = 64
    transaction_bytes: tuple[int, ...] = (32, 128)
    register_shares: tuple[float, ...] = (0.0,)

    def check(self) -> None:
        """Raise if a choice is empty or out of range.

        Raises:
            InputError: If it is.
        """
        for name in ("tile_sizes", "warps", "rows", "transaction_bytes"):
            sizes = getattr(self, name)
            if not sizes or min(sizes) < 1:
                raise InputError(f"{name} is {sizes}: give at least one number, each at least 1")
        if self.register_shares != (0.0,):
            raise InputError(
                f"register_shares is {self.register_shares}: tiles of blocks are in shared memory; give (0.0,)"
            )
        if self.most_funcs < 1 or self.most_points < 1:
            raise InputError(
                f"most_funcs is {self.most_funcs} and most_points {self.most_points}: give at least 1 of each"
            )
