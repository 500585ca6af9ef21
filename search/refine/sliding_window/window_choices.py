"""Choices that a guide makes for a kernel with windows in registers; what is left out is searched."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class WindowChoices:
    """Choices for a kernel with windows in registers.

    Attributes:
        dim: Dimension along which windows slide; None for any.
        threads: Threads of the block, which cover the tile of the outermost window, by dimension.
        points: Points of a thread by dimension, without the streamed one.
        steps: Steps of a block; None for any.
        private: Funcs whose rows are in registers; None for all that can be. Copies are in registers where they can be.
        shared: Funcs whose rows are all in shared memory.
        copies: Whether further sources are copied.
    """

    dim: str | None = None
    threads: Mapping[str, int] = field(default_factory=dict)
    points: Mapping[str, int] = field(default_factory=dict)
    steps: int | None = None
    private: frozenset[str] | None = None
    shared: frozenset[str] = frozenset()
    copies: bool = True

    def __bool__(self) -> bool:
        """Whether anything is chosen."""
        return self != WindowChoices()

    def candidates(self, windows: Collection[str], copies: Collection[str]) -> list[list[str]]:
        """Return the sets of private windows to try, the first legal one of which is taken; empty for any.

        Args:
            windows: The windows of a kernel.
            copies: Those of them that are copies.
        """
        if self.private is None:
            return []
        chosen = [w for w in windows if w in self.private]
        if len(chosen) < len(self.private & set(windows)) or not chosen:
            return []
        with_copies = [w for w in windows if w in self.private or (w in copies and w not in self.shared)]
        others = [[w for w in windows if w in self.private or w == c] for c in with_copies if c not in self.private]
        return [with_copies, *others, chosen]
