"""Rewrites of statements: one definition becomes several, under the same names of outputs.

Each kind has a module: `computation_folding`, `expression_fission`, `retiming`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComputationFolding, Retiming, StatementRewrite
from autosched.analysis.rewrites.computation_folding import folding_error
from autosched.analysis.rewrites.expression_fission import expression_fission_error
from autosched.analysis.rewrites.retiming import retiming_error
from autosched.analysis.rewrites.rewrite import apply


def rewrite_statements(bound: BoundPipeline, statements: Sequence[StatementRewrite]) -> BoundPipeline:
    """Return the pipeline with rewritten statements; the same ones give the same object.

    Args:
        bound: The pipeline, with all earlier rewrites. Its rewritten statements and all later rewrites are replaced.
        statements: The rewrites, in the order of their application.

    Raises:
        ScheduleError: If a statement cannot be rewritten so, see `statement_error`.
    """
    rewritten = bound.rewritten
    first = rewritten.before_statements or rewritten.before_fission or rewritten.before_fusion
    return reduce(apply, statements, first or rewritten.before_clones or rewritten)


def statement_error(bound: BoundPipeline, statement: StatementRewrite) -> str:
    """Return the reason why a statement cannot be rewritten; empty if it can."""
    match statement:
        case ComputationFolding():
            return folding_error(bound, statement)
        case Retiming():
            return retiming_error(bound, statement)
        case _:
            return expression_fission_error(bound, statement)
