"""Move the guards and clamps of rows out of the loop over them (loop unswitching).

In blocks at the end of a result, guards and clamped indices of each row keep `unroll_and_jam` from combining rows. In
most of these blocks they act on no row: the blocks are at the end of another dimension.

Rewrite:
    for y < 8: if (16*b + y <= h) for lane: S(max(16*b + y - 2, 0))
    ->  if (2 - 16*b <= 0 && 8 <= h - 16*b + 1) for y < 8: for lane: S(16*b + y - 2)
        else for y < 8: if (16*b + y <= h) for lane: S(max(16*b + y - 2, 0))
"""

from __future__ import annotations

from autosched.lang.dtypes import bool_
from autosched.lower.ir import CompareIndex, For, Value
from autosched.lower.ir_queries import conjunction
from autosched.lower.passes.cpu.split_index_set import unclamped


def unswitch_rows(rows: For) -> tuple[Value, For] | None:
    """Return a condition that all rows fulfil at once, and the loop without guards and clamps where it holds.

    None if there are none, or if a guard holds for few rows.

    Args:
        rows: A loop around a lane loop.
    """
    loop, lows, highs = unclamped(rows)
    if not loop.body or (not lows and not highs):
        return None
    tests: list[Value] = [CompareIndex("le", low, 0, bool_) for low in lows]
    tests += [CompareIndex("le", rows.extent, high, bool_) for high in highs]
    return conjunction(tests), loop
