"""Accesses of rewrites that share stages."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.featurize.accesses.accesses import AccessTable, StageAccesses
from autosched.measure.problem import Problem

INLINED = (frozenset[str](), frozenset({"blur_x"}), frozenset({"blur_x", "gray", "input_clamped"}))


def all_accesses(bound: BoundPipeline) -> list[StageAccesses]:
    table = AccessTable(bound)
    return [
        table.of(f.name, s.number, frozenset(names & bound.funcs.keys()))
        for names in INLINED
        for f in bound.funcs.values()
        for s in f.nonempty_stages
    ]


def test_accesses_do_not_depend_on_earlier_tables_of_other_rewrites() -> None:
    app = "unsharp"
    first = Problem.app(app, small=True).bind()
    copied = insert_cache_reads(first, ["input"])
    shared = [f.name for f in first.funcs.values() if copied.funcs[f.name].stages[0] is f.stages[0]]
    assert shared
    plain = all_accesses(first)
    after_plain = all_accesses(copied)
    second = Problem.app(app, small=True).bind()
    alone = all_accesses(insert_cache_reads(second, ["input"]))
    assert after_plain == alone
    assert all_accesses(second) == plain
