"""`autosched run`: compute an app's outputs from arrays."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import numpy as np

from autosched.commands.files import Array, replacing, write_arrays
from autosched.commands.options import PATH, Pairs, execution_options, json_option, problem_options
from autosched.commands.problem import CommandProblem, input_arrays, origin_text, scheduled_for
from autosched.commands.show import format_time, print_json, shape_text
from autosched.lang.dtypes import is_float_dtype
from autosched.plural import counted
from autosched.runtime.backends.executable import Backend
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.search.tune.effort_levels import Effort


@click.command(short_help="Compute an app's outputs.")
@problem_options
@execution_options
@click.option("--output", type=PATH, metavar="FILE.npz", help="Where to write the output arrays, by name.")
@json_option
def run(
    app: str,
    inputs: Path | None,
    sizes: Pairs,
    params: Pairs,
    seed: int,
    backend: Backend | None,
    schedule_file: Path | None,
    strategy: str | None,
    effort: Effort | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run APP on the arrays of a file, or on generated ones, and write its outputs."""
    problem, arrays = input_arrays(app, inputs, sizes, params, seed)
    with nullcontext(None) if output is None else replacing(output) as file:
        started = time.perf_counter()
        scheduled = scheduled_for(problem, backend, schedule_file, strategy, effort)
        scheduled_at = time.perf_counter()
        kernel = scheduled.compile(backend)
        compiled_at = time.perf_counter()
        outputs = compute(kernel, arrays)
        finished = time.perf_counter()
        if file is not None:
            write_arrays(file, outputs)
    seconds = {
        "schedule": scheduled_at - started,
        "compile": compiled_at - scheduled_at,
        "run": finished - compiled_at,
    }
    if as_json:
        summary = _as_dict(problem, kernel, arrays, outputs, seconds)
        files = {"schedule_file": schedule_file and str(schedule_file), "output": output and str(output)}
        print_json({**summary, "checked_for": scheduled.target.name, **files})
        return
    kernels = len(scheduled.schedule.kernels)
    click.echo(f"{app}: {counted(kernels, 'kernel')} {origin_text(scheduled, schedule_file)}")
    click.echo(f"  {'; '.join(f'{step} {format_time(t)}' for step, t in seconds.items())} (backend {kernel.backend})")
    for name, array in outputs.items():
        low, high = _range(array)
        click.echo(f"  {name} {shape_text(array.dtype, array.shape)}, from {low:.6g} to {high:.6g}")
    if output is not None:
        click.echo(f"wrote {output}")


def compute(kernel: CompiledPipeline, arrays: dict[str, Array]) -> dict[str, Array]:
    """Return a pipeline's outputs by name."""
    result = kernel(arrays)
    names = [spec.name for spec in kernel.signature.outputs]
    return dict(zip(names, [result] if len(names) == 1 else result, strict=True))


def _range(array: Array) -> tuple[float, float]:
    """Return the least and greatest element, without NaN unless all are."""
    values = array[~np.isnan(array)] if is_float_dtype(array.dtype) else array
    return (float(values.min()), float(values.max())) if values.size else (float("nan"), float("nan"))


def _as_dict(
    problem: CommandProblem,
    kernel: CompiledPipeline,
    arrays: dict[str, Array],
    outputs: dict[str, Array],
    seconds: dict[str, float],
) -> dict[str, Any]:
    def described(array: Array) -> dict[str, Any]:
        return {"dtype": str(array.dtype), "shape": list(array.shape)}

    return {
        "app": problem.app.name,
        "backend": kernel.backend,
        "kernels": len(kernel.resources),
        "seconds": seconds,
        "inputs": {name: described(a) for name, a in arrays.items()},
        "outputs": {
            name: described(a) | dict(zip(("min", "max"), _range(a), strict=True)) for name, a in outputs.items()
        },
    }
