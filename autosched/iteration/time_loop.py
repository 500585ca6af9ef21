"""A field update that is scheduled and applied any number of times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.errors import InputError
from autosched.iteration.deep_tuning import autotune_steps, schedule_steps
from autosched.iteration.field_update import MOST_FUSED_STEPS, FieldUpdate
from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
from autosched.iteration.version_reader import load_versions
from autosched.lang.expr import Scalar
from autosched.target import Target


class TimeLoop(FieldUpdate):
    """Repeated application of a pipeline that computes fields from themselves; made by `iterate`.

    Arguments are those of `FieldUpdate`.
    """

    def schedule(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        target: str | Target = "h200",
        params: Mapping[str, Scalar] | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        most_fused: int = MOST_FUSED_STEPS,
        **options: Any,
    ) -> ScheduledTimeLoop:
        """Find schedules of 1, 2, 3, ... fused steps (deep tuning), which serve any number of steps.

        The search ends when the fused steps are no longer bound by memory, or take longer a step than one step less.

        Args:
            shapes: Shape of every input by name.
            target: As for `autosched.schedule`.
            params: As for `autosched.schedule`.
            inputs: Arrays with the shapes of the inputs, instead of ``shapes``.
            most_fused: Most fused steps.
            **options: Further keywords of `autosched.schedule`, for each search.

        Returns:
            The time loop with its schedules.

        Raises:
            InputError: As `autosched.schedule`, and if a field and its next value differ in shape.
            BoundsError: As `autosched.schedule`.
            MeasureError: As `autosched.schedule`.
        """
        return schedule_steps(self, self._shapes_of(shapes, inputs), target, params, most_fused, options)

    def autotune(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        target: str | Target = "h200",
        params: Mapping[str, Scalar] | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        most_fused: int = MOST_FUSED_STEPS,
        database: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> ScheduledTimeLoop:
        """Tune 1, 2, 3, ... fused steps by measurements; see `schedule` and `autosched.autotune`.

        Args:
            shapes: As for `schedule`.
            target: As for `schedule`.
            params: As for `schedule`.
            inputs: As for `schedule`.
            most_fused: As for `schedule`.
            database: As for `autosched.autotune`; each version has a file of its own, ``NAME-2.sqlite`` that of two
                steps.
            **options: Further keywords of `autosched.autotune`. ``seconds`` is the budget of all versions together.

        Returns:
            The time loop with its schedules.

        Raises:
            InputError: As for `schedule`.
            MeasureError: As for `autosched.autotune`.
            DatabaseError: As for `autosched.autotune`.
        """
        shapes = self._shapes_of(shapes, inputs)
        return autotune_steps(self, shapes, target, params, most_fused, database, options)

    def load(
        self,
        path: str | os.PathLike[str],
        shapes: Mapping[str, Sequence[int]] | None = None,
        target: str | Target = "h200",
        params: Mapping[str, Scalar] | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
    ) -> ScheduledTimeLoop:
        """Return this time loop with the schedules of a file of `ScheduledTimeLoop.save`.

        Args:
            path: The file.
            shapes: As for `schedule`.
            target: As for `schedule`.
            params: As for `schedule`.
            inputs: As for `schedule`.

        Raises:
            InputError: If the file cannot be read; otherwise as for `schedule`.
            ScheduleError: If it has no schedules of this time loop, was made for another target, or the schedules are
                illegal for the shapes.
        """
        return load_versions(path, self, self._shapes_of(shapes, inputs), target, params)

    def _shapes_of(
        self, shapes: Mapping[str, Sequence[int]] | None, inputs: Mapping[str, Any] | None
    ) -> Mapping[str, Sequence[int]]:
        if (shapes is None) == (inputs is None):
            example = ", ".join(f"{i.name!r}: ({', '.join(i.dims)}{',' * (i.ndim == 1)})" for i in self.inputs)
            raise InputError(f"give shapes={{{example}}} or the arrays as inputs={{...}}, one of them")
        if inputs is None:
            return shapes or {}
        return {name: tuple(array.shape) for name, array in inputs.items()}
