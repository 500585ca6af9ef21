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
    """Return the samples of a target.

    Args:
        labels: The results, in a database or in Parquet files.
        target: Name of the target.
        source: Source of the labels; by default there must be one source.
        generator: Version of the code generator, as its code determines times; by default the latest.

    Raises:
        InputError: There are no such results, or several sources.
        DatabaseError: The database cannot be read.
    """
    sources = sorted({r.source for r in labels.rows(target=target)}) if source is None else [source]
    if len(sources) > 1:
        raise InputError(f"{labels.path} has labels of {' and '.join(sources)} for {target}; choose a source")
    generators = labels.generators(sources[0]) if sources and generator is None else [generator]
    chosen = generators[0] if generators else None
    samples = [
        Sample(
            problem, family_of(problem), row.schedule, row.source, row.seconds, row.kernel_seconds, row.registers,
            row.spill_bytes,
        )
        for row in (labels.rows(source=sources[0], target=target, generator=chosen) if sources else ())
        if row.seconds is not None
        for problem in (row.problem,)
    ]  # fmt: skip
    if not samples:
        of = f" from {source}" if source else ""
        others = ", ".join(sorted(labels.sources()))
        has = f" (it has labels of {others})" if others else ""
        raise InputError(f"{labels.path} has no times{of} for {target}; measure some with scripts/make_dataset.py{has}")
    return samples


def family_of(problem: Problem) -> str:
    """Return the family of a problem: its app with all sizes and variants, or the random pipeline."""
    return get_app(json.loads(problem.arguments)["name"]).family if problem.kind == "app" else problem.title
