"""Generic rewriting of IR: unchanged nodes are returned themselves, and every node type is covered."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args

import pytest

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_, float32
from autosched.lower import ir
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    For,
    If,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
)
from autosched.lower.ir_queries import conjunction, conjuncts, names_used, reads_in, value_key
from autosched.lower.ir_visitor import map_indices, map_parts, map_statements, map_values

A = Buffer("a", float32, 64, Memory.GLOBAL)
X = ix.var("x", 0, 7)
READ = BufferRead(A, X, 0)
SUM = Op("add", (READ, VarRef("v", float32)), float32)
STORE = Store(A, ix.add(X, 1), SUM, 1)
BODY: tuple[Stmt, ...] = (
    LetIndex("at", X),
    For("x", 8, LoopRole.SERIAL, (If(CompareIndex("le", X, 3, bool_), (Let("w", SUM), STORE)),)),
)
PARTS = {
    "Value": "values", "tuple[Value, ...]": "values", "Index": "indices", "tuple[Index, ...]": "indices",
    "tuple[CompareIndex, ...]": "values", "Body": "bodies", "tuple[Stmt, ...]": "bodies",
}  # fmt: skip


@pytest.mark.parametrize("node", [*get_args(ir.Stmt), *get_args(ir.Value)], ids=lambda n: n.__name__)
def test_nodes_list_all_fields_with_parts(node: type) -> None:
    for name, part in ((f.name, PARTS.get(str(f.type))) for f in fields(node)):  # annotations are text
        expected = "sites" if name == "site" or name.endswith("_site") else part
        listed = [k for k in ("values", "indices", "bodies", "sites") if name in getattr(node.FIELDS, k)]
        assert listed == ([expected] if expected else []), name


def test_unchanged_trees_are_returned_themselves() -> None:
    assert map_parts(STORE, indices=lambda e: e, values=lambda v: v, sites=lambda n: n) is STORE
    assert map_statements(BODY, lambda s: s) is BODY
    assert map_values(SUM, lambda v: v) is SUM
    assert map_indices(STORE, lambda e: e) is STORE


def test_parts_are_mapped_in_order() -> None:
    seen: list[object] = []

    def note(part: object) -> None:
        seen.append(part)

    map_parts(
        STORE,
        indices=lambda e: (note(ix.key(e)), e)[1],
        values=lambda v: (note(v), v)[1],
        sites=lambda n: (note(n), n)[1],
    )
    assert seen == [ix.key(STORE.index), SUM, 1]


def test_statements_are_rewritten_from_the_inside() -> None:
    names: list[str] = []

    def doubled(s: Stmt) -> Stmt | tuple[Stmt, ...]:
        names.append(type(s).__name__)
        return (s, s) if isinstance(s, Store) else s

    rewritten = map_statements(BODY, doubled)
    assert names == ["LetIndex", "Let", "Store", "If", "For"]
    assert sum(isinstance(s, Store) for s in ir.walk(rewritten)) == 2
    assert rewritten[0] is BODY[0]


def test_values_are_rewritten_from_the_inside() -> None:
    def renamed(v: Value) -> Value:
        return replace(v, name="u") if isinstance(v, VarRef) else v

    assert map_values(SUM, renamed) == Op("add", (READ, VarRef("u", float32)), float32)
    moved = map_indices(STORE, lambda e: ix.add(e, 1))
    assert (ix.key(moved.index), [ix.key(r.index) for r in reads_in((moved,))]) == (
        ix.key(ix.add(X, 2)),
        [ix.key(ix.add(X, 1))],
    )


def test_queries_see_indices_and_inner_statements() -> None:
    loop = For("y", 8, LoopRole.SERIAL, (STORE,), upper_bounds=(ix.var("n", 0, 8),))
    assert names_used((loop,)) == {"x", "v", "n"}
    tests = [CompareIndex("le", X, k, bool_) for k in range(3)]
    assert list(conjuncts(conjunction(tests))) == tests
    assert value_key(ConstValue(0.0, float32)) != value_key(ConstValue(-0.0, float32))
