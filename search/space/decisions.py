"""Decisions of a search, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.types import Level
from autosched.search.beam.state import Params, PartialKernel


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: the compute location of a Func, or the tiling of one of its root kernels.

    Attributes:
        func: The Func.
        group: Number of the root kernel to tile; None for the compute location.
    """

    func: str
    group: int | None = None


class Option(NamedTuple):
    """One option: the kernels that replace those of a decision (`OptionEnumerator.replaced_kernels`).

    Attributes:
        kind: ``inline``, ``root``, ``block``, ``warp``, ``thread`` or ``tile``, for buckets and reports.
        func: The Func that is placed or tiled.
        added: Successors of the replaced kernels, then new kernels.
        level: Level of the Func; None for a tiling.
    """

    kind: str
    func: str
    added: tuple[PartialKernel, ...]
    level: Level | None


@dataclass(frozen=True, slots=True)
class TileOptions(Sequence[Option]):
    """The tilings of one root kernel as lazily built options.

    Attributes:
        func: The Func.
        sketch: The untiled kernel.
        tilings: Tile sizes of each option.
    """

    func: str
    sketch: KernelSketch
    tilings: Sequence[Params]
    _made: dict[int, Option] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.tilings)

    @overload
    def __getitem__(self, k: int) -> Option: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Option]: ...
    def __getitem__(self, k: int | slice) -> Option | Sequence[Option]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        option = self._made.get(k)
        if option is None:
            piece = PartialKernel(self.sketch, self.tilings[k], tiled=True)
            option = self._made[k] = Option("tile", self.func, (piece,), None)
        return option
