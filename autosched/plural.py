"""Numbers of things in messages."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 schedule``, ``0 schedules``, ``1 batch``, ``2 batches``.

    Args:
        count: The number.
        noun: The singular of a regular noun.
    """
    plural = f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
