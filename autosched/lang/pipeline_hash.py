"""Structural hash of a pipeline: of its canonical, numbered graph, without names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from autosched.lang.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    Select,
    ShapeDim,
    Source,
    Unary,
    Var,
    children,
    postorder,
)
from autosched.lang.func import Func, Input, Output

Scope = Mapping[str | int, str]
"""Numbered names of a definition's loops: by name for Vars, by ``id`` for reduction variables."""


class HashedPipeline(Protocol):
    """The parts of a pipeline that its hash covers."""

    funcs: tuple[Func, ...]
    inputs: tuple[Input, ...]
    params: tuple[Param, ...]
    outputs: tuple[Output, ...]


def pipeline_hash(pipeline: HashedPipeline) -> str:
    """Return 64 hex digits, equal for pipelines of equal structure over inputs of equal types and ranks."""
    writer = _Writer(pipeline)
    for f in pipeline.funcs:
        writer.write_func(f)
    for o in pipeline.outputs:
        box = [(writer.node(low, {}), writer.node(high, {})) for low, high in o.box or ()]
        writer.lines.append(f"output {writer.ids[o.func]} {box if o.box is not None else 'deduced'}")
    return hashlib.sha256("\n".join(writer.lines).encode()).hexdigest()


def _with_plain_comparison(values: Sequence[Expr]) -> Sequence[Expr]:
    """Return the values of a definition; for argmax and argmin, with a comparison that ignores NaN.

    Stored schedules and times refer to hashes of that form, and do not depend on the handling of NaN.
    """
    condition = values[0].cond if values and isinstance(values[0], Select) else None
    match condition:
        case Binary(
            op="and",
            a=Unary(op="not", a=Binary(op="le" | "ge" as op, a=new, b=Load() as kept)),
            b=Binary(op="eq", a=Load() as one, b=Load() as other),
        ) if new.dtype.is_float and kept is one is other:
            plain = Binary("gt" if op == "le" else "lt", new, kept, condition.dtype)
        case _:
            return values
    same = [isinstance(v, Select) and v.cond is condition for v in values]
    return [replace(v, cond=plain) for v in values if isinstance(v, Select)] if all(same) else values


class _Writer:
    """Canonical text: inputs, params and Funcs by position, and one line for every distinct node."""

    def __init__(self, pipeline: HashedPipeline) -> None:
        self.ids: dict[Source, str] = {i: f"in{k}" for k, i in enumerate(pipeline.inputs)}
        self.ids |= {f: f"f{k}" for k, f in enumerate(pipeline.funcs)}
        self.params = {p: f"p{k}" for k, p in enumerate(pipeline.params)}
        self.lines = [f"{self.ids[i]} {i.dtype} {i.ndim}" for i in pipeline.inputs]
        self.lines += [f"{self.params[p]} {p.dtype}" for p in pipeline.params]
        self._numbers: dict[str, int] = {}
        self._done: dict[int, int] = {}

    def write_func(self, f: Func) -> None:
        self.lines.append(f"{self.ids[f]} {f.dtypes} boundary={f.boundary}")
        for d in f.definitions:
            self._done = {}
            scope: dict[str | int, str] = {v.name: f"v{k}" for k, v in enumerate(f.vars)}
            loops = [(self.node(r.lower, scope), self.node(r.upper, scope)) for r in d.rvars]
            scope |= {id(r): f"r{k}" for k, r in enumerate(d.rvars)}
            indices = [self.node(e, scope) for e in d.indices]
            values = _with_plain_comparison(d.values)
            self.lines.append(f"stage {loops} {indices} = {[self.node(e, scope) for e in values]}")

    def node(self, root: Expr, scope: Scope) -> int:
        for e in postorder([root], self._done):
            text = self._head(e, scope) + str([self._done[id(c)] for c in children(e)])
            if text not in self._numbers:
                self._numbers[text] = len(self._numbers)
                self.lines.append(text)
            self._done[id(e)] = self._numbers[text]
        return self._done[id(root)]

    def _head(self, e: Expr, scope: Scope) -> str:
        match e:
            case Const():
                return f"const {e.value!r} {e.dtype} {e.weak}"
            case Var():
                return scope[e.name]
            case RVar():
                return scope[id(e)]
            case Param():
                return self.params[e]
            case ShapeDim():
                return f"shape {self.ids[e.input]} {e.axis}"
            case Load():
                return f"load {self.ids[e.source]} {e.component}"
            case Unary() | Binary():
                return f"{e.op} {e.dtype} {e.weak}"
            case Select():
                return f"select {e.dtype} {e.weak}"
            case Cast():
                return f"cast {e.dtype}"
            case Call():
                return f"call {e.name} {e.dtype}"
        raise TypeError(f"no hash for {type(e).__name__}")
