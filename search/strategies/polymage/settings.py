"""Choices of PolyMage-GPU's automatic fusion (section 6)."""

from __future__ import annotations

from typing import NamedTuple

from autosched.errors import InputError
from autosched.search.strategies.polymage.cost_weights import V100_WEIGHTS, CostWeights, find_cost_weights

WARP, BLOCK = "warp", "block"
"""Owners of a tile."""


class PolymageSettings(NamedTuple):
    """Weights, bounds and choices of the search.

    Attributes:
        weights: Weights of the cost, by default those of a V100 for every target.
        tile_of: Owner of a group's tile: ``"warp"`` (section 4) or ``"block"``.
        most_funcs: Most Funcs of a group, apart from inlined ones.
        tile_sizes: Points of a thread to try in each dimension.
        lanes: Lanes of a warp along the fastest dimension to try; the others are along the next one.
        warps_of_block: Warps of a block to try where each has a tile.
        warps: Warps of a block along the fastest dimension to try where the block has the tile.
        rows: Threads along the other dimensions to try where the block has the tile.
        most_points: Most points of a thread.
        transaction_bytes: Sizes of a global memory transaction to try: of the second- and of the first-level cache.
        register_shares: Shares of a warp's tile in registers to try (``fracRegTile``); 0 keeps all of it in shared
            memory, 1 leaves only the overlap along one dimension there. Tiles of blocks have share 0.
    """

    weights: CostWeights = V100_WEIGHTS
    tile_of: str = WARP
    most_funcs: int = 10
    tile_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    lanes: tuple[int, ...] = (32, 16, 8)
    warps_of_block: tuple[int, ...] = (1, 2, 4, 8, 16)
    warps: tuple[int, ...] = (1, 2, 4)
    rows: tuple[int, ...] = (1, 2, 4, 8, 16)
    most_points: int = 64
    transaction_bytes: tuple[int, ...] = (32, 128)
    register_shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

    @classmethod
    def of_weights(cls, name: str) -> PolymageSettings:
        """Return the settings with weights by their name or from a file, and their sizes of transactions.

        Raises:
            InputError: If there are none (`autosched.search.strategies.polymage.cost_weights.find_cost_weights`).
        """
        found = find_cost_weights(name)
        return cls(found.weights, transaction_bytes=found.transaction_bytes)

    def check(self) -> None:
        """Raise if a choice is empty or out of range.

        Raises:
            InputError: If it is.
        """
        for name in ("tile_sizes", "lanes", "warps_of_block", "warps", "rows", "transaction_bytes"):
            sizes = getattr(self, name)
            if not sizes or min(sizes) < 1:
                raise InputError(f"{name} is {sizes}: give at least one number, each at least 1")
        if any(32 % n for n in self.lanes):
            raise InputError(f"lanes is {self.lanes}: give divisors of the 32 lanes of a warp")
        shares = self.register_shares
        if not shares or min(shares) < 0 or max(shares) > 1:
            raise InputError(f"register_shares is {shares}: give at least one share, each from 0 to 1")
        if self.tile_of not in (WARP, BLOCK):
            raise InputError(f"tile_of is {self.tile_of!r}: a tile belongs to a {WARP!r} or to a {BLOCK!r}")
        if self.most_funcs < 1 or self.most_points < 1:
            raise InputError(
                f"most_funcs is {self.most_funcs} and most_points {self.most_points}: give at least 1 of each"
            )
        if min(self.weights) < 0:
            raise InputError(f"weights are {tuple(self.weights)}: give none below 0")
