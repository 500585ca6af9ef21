"""Values of kernel IR for many threads at once: integers for addresses and guards, data where these depend on it.

Arrays have shape ``[iterations of each enclosing loop, innermost first, rows, 32]``; a constant axis has length 1 or is
absent. Bindings are evaluated lazily: most values do not affect addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.indices import index as ix
from autosched.errors import CompileError
from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import COMPARISONS, Call, Const
from autosched.lower.ir import (
    BufferRead,
    CompareIndex,
    ConstValue,
    IndexValue,
    LetVector,
    Op,
    ShuffleRead,
    Value,
    VarRef,
    VectorElement,
)
from autosched.measure.simulated.data import virtual_data
from autosched.reference.arithmetic import UFUNCS, conversion, float_max, float_min, operation

Lanes = Any
"""An integer or an array over lanes."""

_ATOMS = {"min": np.minimum, "max": np.maximum, "prod": np.multiply}


class Evaluator:
    """Evaluates indices and values in the scope of the interpreted statements.

    Args:
        scalars: Values of the kernel's scalar parameters; missing ones are 1.
    """

    def __init__(self, scalars: Mapping[str, Any]) -> None:
        self._scalars = scalars
        self._loops: dict[str, Lanes] = {}
        self._indices: dict[str, ix.Index] = {}
        self._values: dict[str, Value] = {}
        self._vectors: dict[str, LetVector] = {}
        self._cache: dict[Any, Lanes] = {}

    def bind_loop(self, name: str, at: Lanes) -> None:
        """Bind a loop variable to its values, and drop cached results of earlier ones."""
        if name in self._loops or self._indices.pop(name, None) is not None:
            self._cache.clear()
        self._loops[name] = at

    def value_over_loop(self, v: Value, name: str, extent: int) -> Any:
        """Return a value in all iterations of the only enclosing loop, ``[extent, ...]``.

        Args:
            v: The value.
            name: The loop.
            extent: Number of its iterations.
        """
        executed = self._loops[name]
        self.bind_loop(name, np.arange(extent)[:, None, None])
        value = self.value(v)
        self.bind_loop(name, executed)
        return value

    def bind_index(self, name: str, index: ix.Index) -> None:
        """Bind the name of an integer, and drop cached results of an earlier one."""
        if name in self._indices or self._loops.pop(name, None) is not None:
            self._cache.clear()
        self._indices[name] = index

    def bind_value(self, name: str, value: Value) -> None:
        """Bind the name of a value."""
        self._values[name] = value

    def bind_vector(self, s: LetVector) -> None:
        """Bind the name of a vector load."""
        self._vectors[s.name] = s

    def index(self, e: ix.Index) -> Lanes:
        """Return an index."""
        if not isinstance(e, ix.Affine):
            return e
        value = self._cache.get(e.key)
        if value is None:
            value = e.const
            for t, c in e.terms:
                value = value + c * self._term(t)
            self._cache[e.key] = value
        return value

    def _term(self, t: ix.Term) -> Lanes:
        if isinstance(t, ix.LoopVar):
            if t.name in self._indices:
                return self._named(t.name)
            return self._loops[t.name]
        value = self._cache.get(t.key)
        if value is None:
            value = self._cache[t.key] = self._atom(t)
        return value

    def _named(self, name: str) -> Lanes:
        value = self._cache.get(("name", name))
        if value is None:
            value = self._cache["name", name] = self.index(self._indices[name])
        return value

    def _atom(self, t: ix.Atom) -> Lanes:
        args = [self.index(a) for a in t.args]
        match t.kind:
            case "div":
                return args[0] // t.payload
            case "mod":
                return args[0] % t.payload
            case "data":
                return np.asarray(self.value(t.payload)).astype(np.int64)
            case "select":
                return np.where(self.value(t.payload), args[0], args[1])
        return _ATOMS[t.kind](args[0], args[1])

    def value(self, v: Value) -> Any:
        """Return a value in its NumPy type."""
        match v:
            case ConstValue():
                return np.asarray(v.value).astype(v.dtype.numpy)
            case VarRef():
                return self._ref(v)
            case IndexValue():
                number = np.asarray(self.index(v.index)).astype(np.int32)
                return number if v.dtype == int32 else conversion(int32, v.dtype)(number)
            case CompareIndex():
                return UFUNCS[v.op](self.index(v.a), self.index(v.b))
            case BufferRead() | ShuffleRead():
                return virtual_data(np.asarray(self.index(v.index), np.int64), v.buffer.dtype)
            case VectorElement():
                s = self._vectors[v.vector]
                return virtual_data(np.asarray(self.index(ix.add(s.index, v.number)), np.int64), s.buffer.dtype)
            case Op():
                with np.errstate(all="ignore"):
                    return _applied(v, [self.value(a) for a in v.args])
        raise CompileError(f"the simulated device has no value for {type(v).__name__}")

    def _ref(self, v: VarRef) -> Any:
        if v.name not in self._values:
            return np.asarray(self._scalars.get(v.name, 1)).astype(v.dtype.numpy)
        value = self._cache.get(("value", v.name))
        if value is None:
            value = self._cache["value", v.name] = self.value(self._values[v.name])
        return value


def _applied(v: Op, args: list[Any]) -> Any:
    """Return the result of an operation, with the reference's semantics."""
    operand = v.args[0].dtype
    match v.name:
        case "cast" | "fptosi":
            return conversion(operand, v.dtype)(args[0])
        case "select":
            return np.where(args[0], args[1], args[2])
        case "min" | "max" if v.dtype.is_float:
            return (float_min if v.name == "min" else float_max)(args[0], args[1])
        case "neg" | "abs":
            return (np.negative if v.name == "neg" else np.absolute)(args[0])
        case "not":
            return np.logical_not(args[0]) if v.dtype.kind == "b" else np.invert(args[0])
        case "shl" | "shr":
            shift = np.left_shift if v.name == "shl" else np.right_shift
            return shift(args[0], np.bitwise_and(args[1], v.dtype.scalar(v.dtype.bits - 1)))
        case name if name in COMPARISONS or name in UFUNCS:
            return UFUNCS[name](*args)
    return _called(v.name, v.dtype, args)


def _called(name: str, dtype: DType, args: list[Any]) -> Any:
    node = Call(name, tuple(Const(0, dtype) for _ in args), dtype)
    return operation(node)(*args)


def lanes_of(value: Lanes) -> NDArray[np.int64]:
    """Return an index as an array with lanes on the last axis."""
    lanes = np.asarray(value, np.int64)
    return lanes.reshape(1, 1) if lanes.ndim == 0 else lanes
