"""Funcs that a kernel reads, without an enumeration of its accesses."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.search.space.compute_locations import ComputeLocations
from autosched.target import get_target
from tests.search.fusion.random_graphs import random_graph, random_outputs

H200 = get_target("h200")


def random_sketch(locations: ComputeLocations, rng: np.random.Generator) -> KernelSketch:
    """Return a kernel of a random root, with producers in random places."""
    funcs = locations.bound.funcs
    root = list(funcs)[int(rng.integers(len(funcs)))]
    sketch = locations.root_sketches(funcs[root])[0]
    for name in reversed(list(funcs)):
        if name not in locations.reads(sketch) or funcs[name].is_output:
            continue
        place = int(rng.integers(4))
        if place == 1:
            sketch = locations.inlined(sketch, name)
        elif place == 2:
            sketch = locations.at_block(sketch, name)
        elif place == 3 and (inside := locations.at_thread(sketch, name)):
            sketch = inside[0]
    return sketch


@pytest.mark.parametrize("seed", range(12))
def test_reads_are_the_sources_of_all_accesses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for bound in (random_graph(seed), random_outputs(seed)):
        locations = ComputeLocations(Featurizer(bound, H200))
        for _ in range(8):
            sketch = random_sketch(locations, rng)
            model = locations.featurizer.model(sketch)
            assert not model.overflow
            sources = {group.source for stage in model.rows for group in model.accesses_of(stage).loads}
            assert locations.reads(sketch) == sources & bound.funcs.keys()
