"""Settings of fusion by dynamic programming."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.errors import InputError


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """Bounds of the dynamic program over groups; compute locations and tile sizes are those of `SearchSettings`.

    Attributes:
        most_funcs: Most Funcs of a group, apart from those that are inlined into all of their readers; 1 fuses nothing.
        most_of_size: Most groups of each number of Funcs: those with one Func more than the groups that save most over
            their Funcs alone.
        most_nests: Loop nests of the kernels that may be evaluated, of all rewrites of a pipeline together, the bound
            of the search's time. Partitions are those of the groups that have been searched by then; each Func alone
            always has been. Refinement comes on top.
        width: Kernels of a group that its extensions by one Func start from, the cheapest ones with different tiles;
            twice as many of groups of three Funcs, four times of two, and eight times of one. 0 for all of them, which
            is exact, for pipelines of a few Funcs and few tile sizes.
        slack: Ratio of predicted times, of a group over the cheapest partition of its Funcs, above which the group is
            not extended; infinite for no limit.
        partitions: Partitions to refine, the cheapest ones.
        every_recomputation: Whether all sets of Funcs that are inlined into all of their readers are tried, two to the
            number of Funcs. Otherwise the baseline's set grows as long as the partition gets cheaper.
        clones: Whether groups may recompute Funcs that other groups store or compute as well.
        every_clone: Whether all sets of clones are tried, whose number explodes with the consumers of Funcs. Otherwise
            clones are added one by one, as long as the partition gets cheaper.
    """

    most_funcs: int = 10
    most_of_size: int = 384
    most_nests: int = 250_000
    width: int = 4
    slack: float = 1.2
    partitions: int = 8
    every_recomputation: bool = False
    clones: bool = True
    every_clone: bool = False

    def __post_init__(self) -> None:
        if self.most_funcs < 1 or self.width < 0 or self.partitions < 1:
            raise InputError(
                f"most_funcs is {self.most_funcs}, width {self.width} and partitions {self.partitions}: give at least "
                "1 Func, 0 kernels and 1 partition"
            )
        if self.most_of_size < 1 or self.most_nests < 0:
            raise InputError(
                f"most_of_size is {self.most_of_size} and most_nests {self.most_nests}: give at least 1 group, and 0 "
                "loop nests for Funcs alone"
            )
        if not self.slack >= 1:
            raise InputError(f"slack is {self.slack}: give a ratio of at least 1, such as 1.2, or infinity")


UNLIMITED = 1 << 62
"""A limit that no search reaches."""
EXACT = FusionSettings(
    most_funcs=UNLIMITED, most_of_size=UNLIMITED, most_nests=UNLIMITED, width=0, slack=float("inf"),
    every_recomputation=True, every_clone=True,
)  # fmt: skip
"""The cheapest schedule of the space, for pipelines of a few Funcs and few tile sizes."""
