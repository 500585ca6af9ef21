"""A function that builds a pipeline from Inputs and Params, called with arrays and numbers."""

from __future__ import annotations

import enum
import inspect
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np

from autosched.errors import DSLError, InputError
from autosched.lang.dtypes import DType, as_dtype, bfloat16, bool_, float32, int32, int64, promote
from autosched.lang.expr import Expr, Param, Scalar
from autosched.lang.func import Func, Input, Output
from autosched.lang.pipeline import Pipeline
from autosched.runtime.call.array_signature import ArraySignature, common_device, signature_of
from autosched.runtime.call.frameworks import ArrayDevice, device_of

NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating, bfloat16.numpy.type)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Built = TypeVar("Built")
Given = Mapping[str, Input | Param]
"""The Input or Param that a function gets for each positional parameter."""


@dataclass(frozen=True, slots=True)
class ClassifiedArguments:
    """Arguments of a call, by kind.

    Attributes:
        arrays: Arrays by parameter.
        forms: Their types and shapes.
        scalars: Numbers by parameter.
        structure: Values of keyword-only parameters.
        device: The arrays' device.
    """

    arrays: Mapping[str, Any]
    forms: Mapping[str, ArraySignature]
    scalars: Mapping[str, Scalar]
    structure: Mapping[str, Any]
    device: ArrayDevice


class BuilderFunction(Generic[Built]):
    """A function that builds a pipeline, once for each combination of types and structure.

    Positional parameters are those of the pipeline: the function gets an `Input` for an array and a `Param` for a
    number. Keyword-only parameters are structure: the function gets their values.

    Args:
        function: The function.
        kind: What it is called in messages.
        finish: Makes the result from what the function returned, its arguments, and its name.

    Raises:
        InputError: If the function takes ``*args`` or ``**kwargs``.
    """

    def __init__(
        self, function: Callable[..., Any], kind: str, finish: Callable[[object, Given, str], Built]
    ) -> None:  # fmt: skip
        self.function = function
        self.signature = inspect.signature(function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self._kind, self._finish = kind, finish
        for p in self.signature.parameters.values():
            if p.kind not in (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY):
                raise InputError(
                    f"{kind} {self.name!r} takes {p}: give each array, number and option a parameter of its own"
                )
        self._built: dict[Hashable, Built] = {}
        self._lock = threading.RLock()

    def classify(self, /, *args: Any, **kwargs: Any) -> ClassifiedArguments:
        """Return the arguments of a call by kind.

        Raises:
            TypeError: If the arguments do not fit the function's parameters, as for any function.
            InputError: If one is neither array nor number, or arrays are on several devices.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arrays: dict[str, Any] = {}
        forms: dict[str, ArraySignature] = {}
        scalars: dict[str, Scalar] = {}
        structure: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
                structure[name] = value
            elif isinstance(value, NUMBERS):
                scalars[name] = value  # type: ignore[assignment]  # NumPy's numbers too
            else:
                arrays[name], forms[name] = value, self._form(name, value)
        return ClassifiedArguments(arrays, forms, scalars, structure, common_device(forms))

    def build(self, given: ClassifiedArguments) -> Built:
        """Return what the function builds for some types and structure, from the cache or by calling it.

        Raises:
            DSLError: If the function builds no pipeline.
        """
        inputs = {name: (form.dtype, len(form.shape)) for name, form in given.forms.items()}
        floats = [form.dtype for form in given.forms.values() if form.dtype.is_float]
        params = {name: _param_dtype(value, floats) for name, value in given.scalars.items()}
        frozen = tuple(self._frozen(name, value) for name, value in given.structure.items())
        key = (tuple(inputs.items()), tuple(params.items()), frozen)
        with self._lock:
            if key not in self._built:
                self._built[key] = self._call(inputs, params, given.structure)
            return self._built[key]

    def clear(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._built.clear()

    def _call(
        self, inputs: Mapping[str, tuple[DType, int]], params: Mapping[str, DType], structure: Mapping[str, Any]
    ) -> Built:
        """Call the function and check its result."""
        given: dict[str, Input | Param] = {name: Input(name, *form) for name, form in inputs.items()}
        given |= {name: Param(name, dtype) for name, dtype in params.items()}
        given = {name: given[name] for name in self.signature.parameters if name in given}
        begin = Func("begin").number
        returned = self.function(*given.values(), **structure)
        built = self._finish(returned, given, self.name if self.name.isidentifier() else "pipeline")
        funcs = outputs_of(returned)
        check_origin(Pipeline(funcs), begin, given, f"{self._kind} {self.name!r}")
        return built

    def _form(self, name: str, value: Any) -> ArraySignature:
        form = signature_of(value, name)
        if form is not None:
            return form
        if isinstance(value, Func | Input | Output | Expr):
            hint = f"to build a part of a larger pipeline, call {self.name}.__wrapped__"
        else:
            hint = "pass an array or a number; values that shape the pipeline go to keyword-only parameters"
        raise InputError(
            f"argument {name!r} of {self.name!r}: a value of type {type(value).__qualname__} is neither array nor "
            f"number; {hint}"
        )

    def _frozen(self, name: str, value: Any) -> Hashable:
        """Return a hashable key of a keyword-only argument that distinguishes 1, 1.0 and True."""
        match value:
            case None | str() | bytes() | enum.Enum():
                return type(value), value
            case bool() | int() | float() | np.generic():
                return type(value), repr(value)  # distinguishes -0.0 from 0.0, and NaN equals itself
            case tuple():
                return type(value), tuple(self._frozen(name, item) for item in value)
            case frozenset():
                return type(value), frozenset(self._frozen(name, item) for item in value)
        shaping = f"keyword-only argument {name!r} of {self.name!r} shapes the pipeline"
        if isinstance(value, Func | Input | Output | Expr) or device_of(value) is not None:
            raise InputError(f"{shaping}, so it cannot be of type {type(value).__qualname__}: pass it by position")
        try:
            hash(value)
        except TypeError:
            raise InputError(
                f"{shaping}, so it must be hashable, and a {type(value).__qualname__} is not: pass a tuple"
            ) from None
        return type(value), value


def outputs_of(returned: object) -> list[Func | Output]:
    """Return the outputs among the values that a function has returned."""
    values: list[Any] = list(returned) if isinstance(returned, tuple | list) else [returned]
    return [value for value in values if isinstance(value, Func | Output)]


def pipeline_of_returned(returned: object, kind: str, name: str) -> Pipeline:
    """Return the pipeline of the outputs that a function has returned.

    Args:
        returned: A Func, ``f.over(...)``, or several.
        kind: What the function is called in messages.
        name: The function's name.

    Raises:
        DSLError: If there is something else.
    """
    outputs: list[Any] = list(returned) if isinstance(returned, tuple | list) else [returned]
    for output in outputs:
        if not isinstance(output, Func | Output):
            raise DSLError(
                f"{kind} {name!r} returns a value of type {type(output).__qualname__}",
                hint="return the output Func, f.over(...) for a box of it, or a tuple of such",
            )
    return Pipeline(outputs, name=name)


def check_origin(
    pipeline: Pipeline, begin: int, given: Mapping[str, Input | Param], name: str
) -> None:  # fmt: skip
    """Refuse Funcs, inputs and parameters from outside: each call of the function would redefine them.

    Args:
        pipeline: The pipeline that a function has built.
        begin: Number of the first Func of the call.
        given: The function's arguments.
        name: Its kind and name.

    Raises:
        DSLError: If there is one.
    """
    own_ids = {id(value) for value in given.values()}
    for func in pipeline.funcs:
        if func.number < begin:
            raise DSLError(
                f"Func {func.name!r} was made outside the {name} that uses it",
                location=func.location,
                hint="make every Func inside, or in a function that is called from inside",
            )
    leaves: tuple[Input | Param, ...] = (*pipeline.inputs, *pipeline.params)
    for leaf in leaves:
        if id(leaf) not in own_ids:
            kind = type(leaf).__name__
            raise DSLError(
                f"{kind} {leaf.name!r} is no parameter of the {name} that uses it",
                hint=f"give the function a positional parameter {leaf.name}; it gets an Input or a Param for it",
            )


def _param_dtype(value: Any, floats: list[DType]) -> DType:
    """Return the type of the parameter of a number."""
    match value:
        case np.generic():
            return as_dtype(value.dtype)
        case bool():
            return bool_
        case int():
            return int32 if int32.min_value <= value <= int32.max_value else int64
    return reduce(promote, floats) if floats else float32
