"""Counts of candidates as text."""

from __future__ import annotations

from collections.abc import Mapping


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts by name as a text, such as ``14 plain, 6 mainloop``."""
    return ", ".join(f"{count} {name}" for name, count in counts.items())
