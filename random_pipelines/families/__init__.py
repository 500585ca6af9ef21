"""The families of pipelines, a module for each; importing this package registers all of them.

A family draws an idiom of users' programs: its inputs, its form, its sizes and types.
`autosched.random_pipelines.generate` adds stages of any kind.
"""

from __future__ import annotations

from autosched.random_pipelines.families import (
    attention,
    output_sets,
    rank_filters,
    recurrences,
    row_statistics,
    tables,
    time_loops,
    warps,
    wide_windows,
)
from autosched.random_pipelines.family import FAMILIES

__all__ = [
    "FAMILIES",
    "attention",
    "output_sets",
    "rank_filters",
    "recurrences",
    "row_statistics",
    "tables",
    "time_loops",
    "warps",
    "wide_windows",
]
