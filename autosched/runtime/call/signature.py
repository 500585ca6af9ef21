"""What a compiled pipeline takes and returns, and sorting a call's arguments into it."""

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
    """The arguments of one call, sorted and named but with arrays not looked at yet.

    Attributes:
        arrays: What the caller passed for each input.
        out: What the caller passed for each output; None if outputs are to be made.
        scalars: Value of each run-time parameter, in its type.
    """

    arrays: dict[str, Any]
    out: dict[str, Any] | None
    scalars: dict[str, np.generic]

    @property
    def example(self) -> Any:
        """The first input, whose framework outputs are made in; None for a pipeline without inputs."""
        return next(iter(self.arrays.values()), None)


@dataclass(frozen=True, slots=True)
class CallSignature:
    """Inputs, outputs and parameters of a pipeline bound to shapes.

    Attributes:
        pipeline: The pipeline's name.
        inputs: What has to be passed.
        outputs: What is returned.
        scalars: Type of each parameter that is passed at a call.
        defaults: Values of those that may be left out.
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
            params: Values of run-time parameters to use where a call does not pass them.

        Raises:
            InputError: If a value does not fit its parameter's type.
        """
        given = params or {}
        defaults = {
            p.name: as_scalar(value, p.name, p.dtype)
            for p in bound.scalars
            if (value := given.get(p.name, p.default)) is not None
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
            make: Returns an array for an input that is left out; without it none may be.

        Raises:
            InputError: If a name is unknown, given twice or missing, or a parameter's value does not fit.
        """
        given = self._merged(positional, keywords)
        arrays = {spec.name: given.pop(spec.name) for spec in self.inputs if spec.name in given}
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
        for name, value in given.items():
            if name in self.scalars:
                scalars[name] = as_scalar(value, name, self.scalars[name])
            elif name in self.fixed:
                self._check_fixed(name, value)
            else:
                known = [*(spec.name for spec in self.inputs), *self.scalars, *self.fixed]
                self._refuse(f"there is no input or parameter {name!r}; {_nearest(name, known)}")
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
    """Return what a bound pipeline computes: one array for each component of each output."""
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
        for what, other in seen:
            if overlaps(array, other):
                raise InputError(
                    f"output {name!r} shares memory with {what}; "
                    "a pipeline reads its inputs while it writes: pass a separate array as out"
                )
        seen.append((f"output {name!r}", array))


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}It takes {', '.join(known) or 'nothing'}"
