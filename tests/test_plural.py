"""Numbers in messages agree with their nouns."""

from __future__ import annotations

import pytest

from autosched.plural import counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "schedule", "1 schedule"), (0, "schedule", "0 schedules"), (2, "batch", "2 batches"), (1, "batch", "1 batch")],
)
def test_counted(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text
