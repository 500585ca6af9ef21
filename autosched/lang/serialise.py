"""Pipelines as JSON data, for other processes to bind and measure.

One list has every distinct node once, operands before their users. Source locations are omitted: they do not affect
results, and lines move.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autosched.errors import DSLError, InputError
from autosched.lang.dtypes import as_dtype
from autosched.lang.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    Scalar,
    Select,
    ShapeDim,
    Unary,
    Var,
    children,
    postorder,
)
from autosched.lang.func import Definition, Func, Input, Output
from autosched.lang.pipeline import Pipeline, rvars_of
from autosched.lang.source_location import SourceLocation

VERSION = 1
Document = dict[str, Any]


def to_data(pipeline: Pipeline) -> Document:
    """Return a pipeline as data for `json`; equal pipelines give equal data."""
    return _Writer(pipeline).document()


def from_data(document: Mapping[str, Any]) -> Pipeline:
    """Return the pipeline of data that `to_data` returned.

    Raises:
        InputError: If the data have another version, or describe no pipeline.
    """
    try:
        if document["version"] != VERSION:
            raise InputError(f"a pipeline of version {document['version']!r} cannot be read, only version {VERSION}")
        pipeline = _Reader(document).pipeline()
        expected = document["hash"]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, DSLError) as error:
        raise InputError(f"the data describe no pipeline: {error!r}") from error
    if pipeline.hash != expected:
        raise InputError(f"the data of pipeline {pipeline.name!r} were changed: they do not match their hash")
    return pipeline


def with_locations(document: Document, places: Sequence[Sequence[SourceLocation | None]]) -> Pipeline:
    """Return the pipeline of data that `to_data` returned, with source locations.

    Args:
        document: The data.
        places: For each Func, in the pipeline's order, its location and those of its definitions.
    """
    pipeline = from_data(document)
    for func, (location, *definitions) in zip(pipeline.funcs, places, strict=True):
        func.location = location
        func._definitions = [replace(d, location=at) for d, at in zip(func.definitions, definitions, strict=True)]
    return pipeline


def _reduced(pipeline: Pipeline) -> tuple[Callable[..., Pipeline], tuple[object, ...]]:
    """Return the pickled form of a pipeline: flat data, since pickling nested nodes recurses to their depth."""
    places = [(f.location, *(d.location for d in f.definitions)) for f in pipeline.funcs]
    return with_locations, (to_data(pipeline), places)


copyreg.pickle(Pipeline, _reduced)


class _Writer:
    """Numbers of Funcs, inputs, params and nodes, and the data that refer to them.

    Args:
        pipeline: The pipeline.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._numbers: dict[Any, int] = {f: k for k, f in enumerate(pipeline.funcs)}
        self._numbers |= {i: k for k, i in enumerate(pipeline.inputs)}
        self._numbers |= {p: k for k, p in enumerate(pipeline.params)}
        orders = sorted({r.order for f in pipeline.funcs for r in rvars_of(f)})
        self._ranks = {order: rank for rank, order in enumerate(orders)}  # equal for equal pipelines
        self._nodes: list[list[Any]] = []
        self._done: dict[int, int] = {}

    def document(self) -> Document:
        """Return the whole pipeline."""
        p = self._pipeline
        funcs = [self._func(f) for f in p.funcs]
        outputs = [
            [self._numbers[o.func], None if o.box is None else [self._pair(b) for b in o.box]] for o in p.outputs
        ]
        return {
            "version": VERSION,
            "name": p.name,
            "hash": p.hash,
            "inputs": [[i.name, str(i.dtype), list(i.dims)] for i in p.inputs],
            "params": [[q.name, str(q.dtype), None if q.default is None else _value(q.default)] for q in p.params],
            "nodes": self._nodes,
            "funcs": funcs,
            "outputs": outputs,
        }

    def _func(self, f: Func) -> Document:
        definitions = [
            [[self._node(e) for e in d.indices], [self._node(e) for e in d.values], [self._node(r) for r in d.rvars]]
            for d in f.definitions
        ]
        ranges = {dim: self._pair(pair) for dim, pair in f.boundary_ranges.items()}
        return {
            "name": f.name,
            "dtypes": [str(d) for d in f.dtypes],
            "definitions": definitions,
            "boundary": f.boundary,
            "ranges": ranges,
        }

    def _pair(self, pair: tuple[Expr, Expr]) -> list[int]:
        return [self._node(pair[0]), self._node(pair[1])]

    def _node(self, root: Expr) -> int:
        for e in postorder([root], self._done, _operands):
            self._nodes.append(self._fields(e))
            self._done[id(e)] = len(self._nodes) - 1
        return self._done[id(root)]

    def _fields(self, e: Expr) -> list[Any]:
        operands = [self._done[id(c)] for c in _operands(e)]
        match e:
            case Const():
                return ["const", _value(e.value), str(e.dtype), e.weak]
            case Var():
                return ["var", e.name]
            case RVar():
                return ["rvar", e.name, self._ranks[e.order], *operands]
            case Param():
                return ["param", self._numbers[e]]
            case ShapeDim():
                return ["shape", self._numbers[e.input], e.axis]
            case Load():
                kind = "read" if isinstance(e.source, Input) else "load"
                return [kind, self._numbers[e.source], e.component, *operands]
            case Unary():
                return ["unary", e.op, str(e.dtype), e.weak, *operands]
            case Binary():
                return ["binary", e.op, str(e.dtype), e.weak, *operands]
            case Select():
                return ["select", str(e.dtype), e.weak, *operands]
            case Cast():
                return ["cast", str(e.dtype), *operands]
            case Call():
                return ["call", e.name, str(e.dtype), *operands]
        raise TypeError(f"no data for {type(e).__name__}")


class _Reader:
    """Creates Funcs, then nodes in order, then definitions.

    Args:
        document: Data of a `_Writer`.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._inputs = [Input(name, dtype, len(dims), dims=dims) for name, dtype, dims in document["inputs"]]
        self._params = [Param(name, as_dtype(dtype), _scalar(value)) for name, dtype, value in document["params"]]
        self._funcs = [Func(f["name"]) for f in document["funcs"]]
        self._dtypes = [tuple(as_dtype(d) for d in f["dtypes"]) for f in document["funcs"]]
        self._nodes: list[Expr] = []

    def pipeline(self) -> Pipeline:
        """Return the pipeline."""
        for fields in self._document["nodes"]:
            self._nodes.append(self._new_node(fields[0], fields[1:]))
        for func, dtypes, f in zip(self._funcs, self._dtypes, self._document["funcs"], strict=True):
            func.location = None
            func.boundary = f["boundary"]
            func.boundary_ranges = {dim: self._pair(pair) for dim, pair in f["ranges"].items()}
            func._dtypes = dtypes
            func._definitions = [self._definition(*d) for d in f["definitions"]]
        outputs = [Output(self._funcs[k], box and tuple(map(self._pair, box))) for k, box in self._document["outputs"]]
        return Pipeline(outputs, self._document["name"])

    def _definition(self, indices: Sequence[int], values: Sequence[int], rvars: Sequence[int]) -> Definition:
        loops = tuple(r for r in self._operands(rvars) if isinstance(r, RVar))
        return Definition(self._operands(indices), self._operands(values), loops, None)

    def _pair(self, pair: Sequence[int]) -> tuple[Expr, Expr]:
        low, high = pair
        return self._node(low), self._node(high)

    def _operands(self, numbers: Sequence[int]) -> tuple[Expr, ...]:
        return tuple(map(self._node, numbers))

    def _node(self, number: int) -> Expr:
        if number < 0:
            raise IndexError("a node has a negative number")
        return self._nodes[number]

    def _new_node(self, kind: str, fields: Sequence[Any]) -> Expr:
        node = self._node
        match kind, fields:
            case "const", (value, dtype, weak):
                number = _scalar(value)
                if number is None:
                    raise ValueError("a constant has no value")
                return Const(number, as_dtype(dtype), bool(weak))
            case "var", (name,):
                return Var(name)
            case "rvar", (name, rank, low, high):
                return RVar(name, node(low), node(high), rank)
            case "param", (k,):
                return self._params[int(k)]
            case "shape", (k, axis):
                return ShapeDim(self._inputs[k], axis)
            case "read", (k, 0, *indices):
                return Load(self._inputs[k], self._operands(indices), self._inputs[k].dtype)
            case "load", (k, component, *indices):
                return Load(self._funcs[k], self._operands(indices), self._dtypes[k][component], component)
            case "unary", (op, dtype, weak, a):
                return Unary(op, node(a), as_dtype(dtype), bool(weak))
            case "binary", (op, dtype, weak, a, b):
                return Binary(op, node(a), node(b), as_dtype(dtype), bool(weak))
            case "select", (dtype, weak, cond, t, f):
                return Select(node(cond), node(t), node(f), as_dtype(dtype), bool(weak))
            case "cast", (dtype, a):
                return Cast(node(a), as_dtype(dtype))
            case "call", (name, dtype, *args):
                return Call(name, self._operands(args), as_dtype(dtype))
        raise ValueError(f"a node is {kind!r} with {len(fields)} fields")


def _operands(e: Expr) -> Sequence[Expr]:
    """Return the operands of a node, including the bounds of a reduction loop."""
    return (e.lower, e.upper) if isinstance(e, RVar) else children(e)


def _value(value: Scalar) -> Any:
    """Return a scalar as JSON without loss of bits; JSON has neither infinities nor NaN."""
    return {"float": value.hex()} if isinstance(value, float) else value


def _scalar(value: Any) -> Scalar | None:
    if isinstance(value, Mapping):
        return float.fromhex(value["float"])
    if value is None or isinstance(value, bool | int):
        return value
    raise ValueError(f"{value!r} is no number")
