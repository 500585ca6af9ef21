"""Samples from the results of measurements."""

from __future__ import annotations

import json

from autosched.apps import get_app
from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.measure.store.labels import LabelTable
from autosched.model.data.samples import Sample


def samples_from(
    labels: LabelTable, target: str, *, source: str | None = None, generator: str | None = None
) -> list[Sample]:
    """Return what is known of schedules for a target.

    Args:
        labels: The results, in a database or in Parquet files.
        target: Name of the target.
        source: Where labels come from; when left out there must be one source.
        generator: Version of the code generator; the latest when left out, as another generator's times are of other
            code.

    Raises:
        InputError: There are no such results, or they come from several sources.
        DatabaseError: The database cannot be read.
    """
    sources = sorted({r.source for r in labels.rows(target=target)}) if source is None else [source]
    if len(sources) > 1:
        raise InputError(f"{labels.path} has labels of {' and '.join(sources)} for {target}; choose a source")
    generators = labels.generators(sources[0]) if sources and generator is None else [generator]
    chosen = generators[0] if generators else None
    found = [
        Sample(
            problem, family_of(problem), row.schedule, row.source, row.seconds, row.kernel_seconds, row.registers,
            row.spill_bytes,
        )
        for row in (labels.rows(source=sources[0], target=target, generator=chosen) if sources else ())
        if row.seconds is not None
        for problem in (row.problem,)
    ]  # fmt: skip
    if not found:
        of = f" from {source}" if source else ""
        known = ", ".join(sorted(labels.sources()))
        has = f" (it has labels of {known})" if known else ""
        raise InputError(f"{labels.path} has no times{of} for {target}; measure some with scripts/make_dataset.py{has}")
    return found


def family_of(problem: Problem) -> str:
    """Return what a problem is held out with: its app with all sizes and variants, or the random pipeline."""
    return get_app(json.loads(problem.arguments)["name"]).family if problem.kind == "app" else problem.title
