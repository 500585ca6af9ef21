"""Inputs, outputs and parameters of a compiled pipeline, and sorting of a call's arguments."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.lang.dtypes import DType
from autosched.lang.expr import Scalar
from autosched.runtime.call.buffers import as_scalar, overlaps


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array of a pipeline.

    Attributes:
        name: Its public name.
        dtype: Element type.
        shape: Extents, outermost first.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """The sorted arguments of one call; arrays are not validated yet.

    Attributes:
        arrays: The caller's value for each input.
        out: The caller's value for each output; None if outputs are to be made.
        scalars: Value of each run-time parameter, in its type.
    """

    arrays: dict[str, Any]
    out: dict[str, Any] | None
    scalars: dict[str, np.generic]

    @property
    def example(self) -> Any:
        """The first input, which decides the outputs' framework; None for a pipeline without inputs."""
        return next(iter(self.arrays.values()), None)


@dataclass(frozen=True, slots=True)
class CallSignature:
    """Inputs, outputs and parameters of a pipeline bound to shapes.

    Attributes:
        pipeline: The pipeline's name.
        inputs: The inputs.
        outputs: The outputs.
        scalars: Type of each run-time parameter.
        defaults: Values of run-time parameters that may be left out.
        fixed: Parameters whose value is built into the kernels.
    """

    pipeline: str
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    scalars: Mapping[str, DType]
    defaults: Mapping[str, np.generic]
    fixed: Mapping[str, Scalar]

    @classmethod
    def of(cls, bound: BoundPipeline, params: Mapping[str, Scalar] | None = None) -> CallSignature:
        """Return the signature of a bound pipeline.

        Args:
            bound: The pipeline.
            params: Default values of run-time parameters.

        Raises:
            InputError: If a value does not fit its parameter's type.
        """
        values = params or {}
        defaults = {
            p.name: as_scalar(value, p.name, p.dtype)
            for p in bound.scalars
            if (value := values.get(p.name, p.default)) is not None
        }
        return cls(
            pipeline=bound.pipeline.name,
            inputs=tuple(ArraySpec(i.name, i.dtype, i.shape) for i in bound.inputs.values()),
            outputs=output_specs(bound),
            scalars={p.name: p.dtype for p in bound.scalars},
            defaults=defaults,
            fixed=dict(bound.specialised),
        )

    def sort(
        self,
        positional: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        out: object,
        *,
        make: Callable[[ArraySpec], Any] | None = None,
    ) -> KernelCall:
        """Sort a call's arguments.

        Args:
            positional: Arguments in a dict, for names that cannot be keywords.
            keywords: Arguments by keyword.
            out: The caller's arrays for the outputs: one array, a sequence, a mapping by name, or None.
            make: Makes an array for a missing input; without it every input is required.

        Raises:
            InputError: If a name is unknown, given twice or missing, or a parameter's value does not fit.
        """
        arguments = self._merged(positional, keywords)
        arrays = {spec.name: arguments.pop(spec.name) for spec in self.inputs if spec.name in arguments}
        for spec in self.inputs:
            if spec.name in arrays:
                continue
            if make is not None:
                arrays[spec.name] = make(spec)
            else:
                self._refuse(
                    f"input {spec.name!r} is missing; pass {spec.name}=<array of {spec.dtype}, shape {spec.shape}>"
                )
        scalars = dict(self.defaults)
        for name, value in arguments.items():
            if name in self.scalars:
                scalars[name] = as_scalar(value, name, self.scalars[name])
            elif name in self.fixed:
                self._check_fixed(name, value)
            else:
                names = [*(spec.name for spec in self.inputs), *self.scalars, *self.fixed]
                self._refuse(f"there is no input or parameter {name!r}; {_nearest(name, names)}")
        for name, dtype in self.scalars.items():
            if name not in scalars:
                self._refuse(f"parameter {name!r} is missing and has no default; pass {name}=<number of {dtype}>")
        return KernelCall(arrays, self._named_outputs(out), scalars)

    def _merged(self, positional: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
        if positional is None:
            return dict(keywords)
        if not isinstance(positional, Mapping):
            example = self.inputs[0].name if self.inputs else "name"
            self._refuse(f"arrays are passed by keyword ({example}=array) or in one dict, not by position")
        if not keywords:
            return dict(positional)
        twice = sorted(positional.keys() & keywords.keys())
        if twice:
            self._refuse(f"{', '.join(twice)} is given both in the dict and by keyword; give it once")
        return {**positional, **keywords}

    def _check_fixed(self, name: str, value: object) -> None:
        fixed = self.fixed[name]
        if not isinstance(value, int | float | np.generic) or value != fixed:
            self._refuse(
                f"parameter {name!r} is built into these kernels as {fixed!r}, as it reaches an index or a domain; "
                f"schedule the pipeline again with params={{{name!r}: {value!r}}}"
            )

    def _named_outputs(self, out: object) -> dict[str, Any] | None:
        names = [spec.name for spec in self.outputs]
        if out is None:
            return None
        if isinstance(out, Mapping):
            if set(out) != set(names):
                self._refuse(f"out has the names {', '.join(map(str, out)) or 'none'}; it needs {', '.join(names)}")
            return {name: out[name] for name in names}
        if isinstance(out, tuple | list):
            if len(out) != len(names):
                self._refuse(f"out has {len(out)} arrays; it needs {len(names)}: {', '.join(names)}")
            return dict(zip(names, out, strict=True))
        if len(names) != 1:
            self._refuse(f"out is one value; it needs {len(names)} arrays: {', '.join(names)}")
        return {names[0]: out}

    def _refuse(self, problem: str) -> NoReturn:
        raise InputError(f"pipeline {self.pipeline!r}: {problem}")


def output_specs(bound: BoundPipeline) -> tuple[ArraySpec, ...]:
    """Return the output arrays of a bound pipeline: one for each component of each output."""
    funcs = bound.funcs
    return tuple(ArraySpec(name, funcs[f].dtypes[k], funcs[f].extents) for name, f, k in bound.output_components)


def check_no_overlap(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Refuse outputs that share memory with an input or with each other.

    Args:
        inputs: NumPy or CuPy arrays by name.
        outputs: Those of the outputs.

    Raises:
        InputError: Naming the two arrays.
    """
    seen: list[tuple[str, Any]] = [(f"input {name!r}", array) for name, array in inputs.items()]
    for name, array in outputs.items():
        for array_name, other in seen:
            if overlaps(array, other):
                raise InputError(
                    f"output {name!r} shares memory with {array_name}; "
                    "a pipeline reads its inputs while it writes: pass a separate array as out"
                )
        seen.append((f"output {name!r}", array))


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}It takes {', '.join(names) or 'nothing'}"
