"""Results that follow from a bound pipeline, kept as long as the pipeline itself."""

from __future__ import annotations

from typing import Any

from autosched.analysis.bound_pipeline import BoundPipeline


def pipeline_memo(bound: BoundPipeline, name: str) -> dict[Any, Any]:
    """Return the dictionary of that name which belongs to a pipeline; a copy of the pipeline has one of its own.

    It lies in the instance dictionary, as cached properties do. A table with weak keys would not do: rewritten
    pipelines refer to the pipeline that they come from, so that an entry would keep its own key alive.
    """
    memo: dict[Any, Any] | None = vars(bound).get(name)
    return vars(bound).setdefault(name, {}) if memo is None else memo
