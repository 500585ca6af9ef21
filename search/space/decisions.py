"""What a search decides, and the candidates among which it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.types import Level
from autosched.search.beam.state import Params, PartialKernel


@dataclass(frozen=True, slots=True)
class Decision:
    """A question that the search answers: where a Func goes, or how one of its root kernels is tiled."""

    func: str
    group: int | None = None


class Option(NamedTuple):
    """One candidate: the kernels that replace those of a decision (`OptionEnumerator.replaced`).

    Attributes:
        kind: ``inline``, ``root``, ``block``, ``thread`` or ``tile``, for buckets and reports.
        func: The Func that is placed or tiled.
        added: Successors of the replaced kernels, then new ones.
        level: The level given to the Func, or None for a tiling.
    """

    kind: str
    func: str
    added: tuple[PartialKernel, ...]
    level: Level | None


@dataclass(frozen=True, slots=True)
class TileOptions(Sequence[Option]):
    """The tilings of one root kernel as options, made when they are looked at.

    Attributes:
        func: The Func.
        structure: The untiled kernel.
        tilings: Parameters of each option.
    """

    func: str
    structure: KernelSketch
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
        found = self._made.get(k)
        if found is None:
            piece = PartialKernel(self.structure, self.tilings[k], tiled=True)
            found = self._made[k] = Option("tile", self.func, (piece,), None)
        return found
