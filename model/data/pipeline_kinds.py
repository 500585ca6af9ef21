"""Kinds of pipelines: families of random pipelines, with the suite's apps of the same idiom.

An app or a random pipeline is a family of its own in a data set. A model that is judged on attention, say, must have
seen neither the suite's attention nor random pipelines around one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

APP_KINDS: Mapping[str, frozenset[str]] = {
    "attention": frozenset({"attention"}),
    "recurrences": frozenset({"iir_blur"}),
    "row_statistics": frozenset(
        {"cross_entropy", "group_norm", "layer_norm", "layer_norm_softmax", "rms_norm", "softmax", "standardize"}
    ),
    "tables": frozenset({"hist"}),
    "time_loops": frozenset({"stencil_chain"}),
    "wide_windows": frozenset({"box", "max_filter"}),
}
"""The families of apps of each kind that has some."""


def kinds_of(family: str) -> frozenset[str]:
    """Return the kinds of a family of a data set.

    >>> sorted(kinds_of("random double_precision attention 17"))
    ['attention', 'double_precision']
    >>> sorted(kinds_of("softmax")), sorted(kinds_of("random 17"))
    (['row_statistics'], [])
    """
    first, *words = family.split(" ")
    if first == "random":
        return frozenset(words[:-1])  # the last one is the seed
    return frozenset(kind for kind, apps in APP_KINDS.items() if family in apps)


def all_kinds(families: Iterable[str]) -> list[str]:
    """Return the kinds of families in alphabetical order."""
    return sorted({kind for family in families for kind in kinds_of(family)})
