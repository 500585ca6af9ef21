"""Candidates are pruned for the code that unrolled loops repeat, not for loops that stay loops."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, exp, float32
from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level, StageId
from autosched.search.evaluate.pruning_rules import REASONS, reasons_of
from autosched.search.settings import SearchSettings
from autosched.target import get_target

CPU = get_target("cpu")
n, s = Var("n"), Var("s")


@pytest.mark.parametrize(("terms", "each_term", "pruned"), [(700, True, False), (8, True, False), (700, False, True)])
def test_terms_of_a_host_that_stay_a_loop_are_no_copies(terms: int, each_term: bool, pruned: bool) -> None:
    """Distances to all samples, which a thread computes one by one, or all in advance."""
    queries, samples = Input("queries", float32, 2), Input("samples", float32, 2)
    distance, total = Func("distance"), Func("total")
    axis, sample = RDom("axis", d=4), RDom("sample", s=terms)
    distance[s, n] = 0.0
    distance[s, n] += (queries[axis.d, n] - samples[s, axis.d]) ** 2
    total[n] = 0.0
    total[n] += exp(-distance[sample.s, n])
    bound = bind(Pipeline([total.over(n=(0, 4096))]), {"queries": (4, 4096), "samples": (terms, 4)})
    host = StageId("total", 1)
    location = ComputeLocation("distance", Level.THREAD, host, each_term=each_term)
    featurizer = Featurizer(bound, CPU)
    model = featurizer.model(KernelSketch((StageId("total"), host), (location,)))
    found = featurizer.evaluate([model], [np.array([(256, 1)], np.int64)])
    reason = int(reasons_of(found, SearchSettings(), CPU)[0])
    assert (reason > 0) == pruned, REASONS[reason]
