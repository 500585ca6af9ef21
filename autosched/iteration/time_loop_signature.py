"""Arguments of a compiled time loop: arrays, parameters, the number of steps, and values of parameters by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.errors import InputError
from autosched.iteration.field_update import TIMES, FieldUpdate, StepValues, check_times
from autosched.lang.dtypes import DType, int64
from autosched.plural import counted
from autosched.runtime.call.buffers import as_scalar
from autosched.runtime.call.signature import ArraySpec, CallSignature, KernelCall

SEQUENCES = (tuple, list, np.ndarray)
"""Types of values by step; anything else that is no function is one number."""


@dataclass(frozen=True, slots=True)
class TimeLoopSignature(CallSignature):
    """Inputs, outputs and parameters of a time loop bound to shapes.

    Attributes:
        by_step: Type of each parameter with a value for each step.
        step_values: Its values in calls that give none.
    """

    by_step: Mapping[str, DType] = field(default_factory=dict)
    step_values: Mapping[str, StepValues | None] = field(default_factory=dict)

    @classmethod
    def of_update(
        cls, update: FieldUpdate, shapes: Mapping[str, tuple[int, ...]], step: CallSignature
    ) -> TimeLoopSignature:
        """Return the signature of a time loop.

        Args:
            update: One step.
            shapes: Shape of every input.
            step: The signature of one step.
        """
        inputs = {i.name: ArraySpec(i.name, i.dtype, tuple(shapes[i.name])) for i in update.inputs}
        outputs = (replace(inputs[f], name=name) for f, name in zip(update.fields, update.output_names, strict=True))
        dtypes = {p.name: p.dtype for p in update.step.params}
        shared = {name: dtype for name, dtype in step.scalars.items() if name not in update.by_step}
        return cls(
            pipeline=update.name,
            inputs=tuple(inputs.values()),
            outputs=tuple(outputs),
            scalars={TIMES: int64, **shared},
            defaults={TIMES: np.int64(update.times), **{k: v for k, v in step.defaults.items() if k in shared}},
            fixed=step.fixed,
            by_step={name: dtypes[name] for name in update.by_step},
            step_values=update.by_step,
        )

    def sort(
        self,
        positional: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        out: object,
        *,
        make: Callable[[ArraySpec], Any] | None = None,
    ) -> KernelCall:
        """Sort a call's arguments; values by step are scalars of the names of `step_scalar`.

        Args:
            positional: As for `CallSignature.sort`.
            keywords: As for `CallSignature.sort`.
            out: As for `CallSignature.sort`.
            make: As for `CallSignature.sort`.

        Raises:
            InputError: As `CallSignature.sort`, and if ``times`` or a value of a step does not fit.
        """
        arguments = self._merged(positional, keywords)
        if isinstance(arguments.get(TIMES), bool | np.bool_):
            check_times(arguments[TIMES])  # a conversion to int64 would take it for a number
        given = {name: arguments.pop(name, self.step_values.get(name)) for name in self.by_step}
        call = CallSignature.sort(self, arguments, {}, out, make=make)
        times = check_times(call.scalars[TIMES].item())
        values: dict[str, np.generic] = {}
        for name, dtype in self.by_step.items():
            for number, value in enumerate(self.values_of(name, given[name], times)):
                try:
                    values[step_scalar(name, number)] = as_scalar(value, name, dtype)
                except InputError as error:
                    raise InputError(
                        f"{error} in step {number}; the type of {name!r} is that of its values in by_step, or its "
                        "declared one: give values of this type"
                    ) from error
        return replace(call, scalars={**call.scalars, **values})

    def values_of(self, name: str, given: StepValues | None, times: int) -> list[Any]:
        """Return the values of a parameter, one for each step.

        Args:
            name: The parameter.
            given: A function of the step's number, values for all steps, or one number.
            times: Number of steps.

        Raises:
            InputError: If values are missing.
        """
        if given is None:
            raise InputError(
                f"time loop {self.pipeline!r}: parameter {name!r} has a value for each step; pass {name}=<function of "
                f"the step's number>, or {times} numbers"
            )
        if callable(given):
            return [given(number) for number in range(times)]
        if not isinstance(given, SEQUENCES):
            return [given] * times
        if len(given) < times:
            raise InputError(
                f"time loop {self.pipeline!r}: parameter {name!r} has {counted(len(given), 'value')} for "
                f"{counted(times, 'step')}: pass a value for each step"
            )
        return list(given[:times])


def step_scalar(name: str, step: int) -> str:
    """Return the name of a parameter's value in a step; no parameter has such a name."""
    return f"{name}@{step}"
