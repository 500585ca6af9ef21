"""The baseline schedule without any search, cost model or measurement."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.results import baseline_alone
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.request import OneShotAnswer, Request
from autosched.target import Target


def baseline_answer(bound: BoundPipeline, target: Target, request: Request) -> OneShotAnswer:
    """Return the answer to a request with `Request.is_baseline`."""
    result = baseline_alone(bound, target)
    provenance = Provenance(strategy="roots", seed=request.seed, took_s=result.seconds)
    return OneShotAnswer(result.best, provenance, result)
