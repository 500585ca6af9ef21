"""Batched enumeration of patterns equals that of each pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.featurize.accesses import unrolled_accesses
from autosched.featurize.accesses.access_batches import AccessPatternBatch
from autosched.featurize.accesses.access_cache import UniqueAccessCache
from autosched.featurize.accesses.offset_tables import UniqueAccesses
from autosched.featurize.accesses.unrolled_accesses import Reads
from autosched.featurize.featurizer import Featurizer, SketchFeaturizer
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.descriptor_tables import DescriptorTables
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import Beam
from tests.featurize.random_kernels import H200, bound_app, drawn_states

APPS = ("harris", "unsharp", "interpolate", "conv_layer", "bilateral_grid", "max_filter", "hist")


def accesses(e: UniqueAccesses, which: slice, ranks: int) -> Counter[tuple[object, ...]]:
    """Return the multiplicity of each kind of access."""
    left = np.zeros((len(e.start[which]), ranks), np.int64)
    left[:, : e.remainders.shape[1]] = e.remainders[which]
    rows = np.concatenate([e.full[which], e.start[which, None], left, e.width[which, None]], axis=1)
    found: Counter[tuple[object, ...]] = Counter()
    for row, times in zip(rows.tolist(), e.times[which].tolist(), strict=True):
        found[tuple(row)] += times
    return found


class ComparedPool(UniqueAccessCache):
    """A cache that enumerates accesses in both ways and compares them."""

    compared = 0

    def of(
        self, keys: Ints, wanted: Bools, unrolled: Bools, several: Callable[[Ints], tuple[UniqueAccesses, Ints]],
        single: Callable[[int], UniqueAccesses],
    ) -> Ints:  # fmt: skip
        rows = np.flatnonzero(wanted & unrolled)
        rows = np.sort(rows[np.unique(keys[rows], return_index=True)[1]])
        batched, count = several(rows)
        end = np.cumsum(count).tolist()
        for n, (row, last) in enumerate(zip(rows.tolist(), end, strict=True)):
            mine = accesses(batched, slice(last - int(count[n]), last), self.kinds.ranks)
            assert mine == accesses(single(row), slice(None), self.kinds.ranks)
        self.compared += len(rows)
        return super().of(keys, wanted, unrolled, several, single)


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("name", APPS)
def test_batches_of_patterns(name: str, vectors: bool) -> None:
    bound = bound_app(name)
    featurizer = Featurizer(bound, H200)
    pool = featurizer.tables.entries = ComparedPool(featurizer.tables.kinds, amortised=True, vectors=vectors)
    chosen: dict[SketchFeaturizer, set[tuple[int, ...]]] = {}
    for state in drawn_states(bound, 3 if name == "interpolate" else 6):
        for piece in state.pieces:
            chosen.setdefault(featurizer.model(piece.sketch), set()).add(piece.params)
    featurizer.evaluate(list(chosen), [np.array(sorted(params)) for params in chosen.values()])
    assert pool.compared > 20


LONG = [pytest.param(name, marks=pytest.mark.fuzz) for name in ("learned_demosaic", "depthwise_separable_conv")]


@pytest.mark.parametrize("name", ["sgemm", "conv_layer", *LONG])
def test_patterns_of_a_search(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mainloop steps have reductions too long to be unrolled, and refined tiles have rolled loops."""
    pools: list[ComparedPool] = []
    skipping: list[AccessPatternBatch] = []

    class Noted(ComparedPool):
        def __init__(self, kinds: DescriptorTables, *, amortised: bool, vectors: bool = False) -> None:
            super().__init__(kinds, amortised=amortised, vectors=vectors)
            pools.append(self)

    def noted(patterns: AccessPatternBatch, reads: Reads) -> Ints:
        if patterns.skipped.any():
            skipping.append(patterns)
        return skipped_moves(patterns, reads)

    skipped_moves = unrolled_accesses._skipped_moves
    monkeypatch.setattr(unrolled_accesses, "_skipped_moves", noted)
    monkeypatch.setattr("autosched.featurize.tables.pipeline_tables.UniqueAccessCache", Noted)
    one = get_app(name)
    Beam(SearchSettings(beam_size=1, passes=1)).search(bind(one.build(), one.shapes()), H200)
    assert sum(pool.compared for pool in pools) > 100 and skipping
