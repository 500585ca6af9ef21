"""`autosched bench`: an app's time compared with a reference and with a plain copy of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from autosched.analysis.bind import bind
from autosched.commands.bottlenecks import bottlenecks_data, diagnoses_of, print_bottlenecks, print_differences
from autosched.commands.files import Array
from autosched.commands.options import Pairs, execution_options, json_option, problem_options
from autosched.commands.problem import CommandProblem, input_arrays, origin_text, scheduled_for
from autosched.commands.show import format_time, print_json, shape_text
from autosched.commands.timing import (
    CommandTiming,
    time_copy_on_gpu,
    time_copy_on_host,
    time_on_gpu,
    time_on_host,
)
from autosched.errors import InputError
from autosched.measure.compare.code_differencing import KernelDifference, difference_kernels
from autosched.plural import counted
from autosched.reference import interpret
from autosched.runtime.backends.executable import Backend
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.tune.effort_levels import Effort
from autosched.target import Target

REFERENCES = ("numpy", "interpreter")


@dataclass(frozen=True, slots=True)
class _Result:
    """Measurements of one process.

    Attributes:
        ours: Times of the compiled pipeline with preallocated outputs.
        reference: Times of the reference, which allocates its outputs.
        reference_name: Name of the reference.
        mismatch: Description of the mismatch; empty if results agree.
        moved_bytes: Bytes of all inputs and outputs.
        copy: Times of a plain copy of the same number of bytes.
    """

    ours: CommandTiming
    reference: CommandTiming
    reference_name: str
    mismatch: str
    moved_bytes: int
    copy: CommandTiming

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth of the copy, reads plus writes."""
        return self.moved_bytes / self.copy.median_s


@click.command(short_help="Time an app against a reference.")
@problem_options
@execution_options
@click.option("--against", type=click.Choice(REFERENCES),
              help="Reference: the app in NumPy and SciPy (the default) or this library's interpreter.")  # fmt: skip
@click.option("--difference", is_flag=True,
              help="Time each kernel with its accesses confined to one tile as well (code differencing), and show its "
              "bottleneck.")  # fmt: skip
@json_option
@click.pass_context
def bench(
    context: click.Context,
    app: str,
    inputs: Path | None,
    sizes: Pairs,
    params: Pairs,
    seed: int,
    backend: Backend | None,
    schedule_file: Path | None,
    strategy: str | None,
    effort: Effort | None,
    against: str | None,
    difference: bool,
    as_json: bool,
) -> None:
    """Time APP against a reference, in one process, and against the time to move its bytes.

    The exit code is 1 if the results do not agree.
    """
    problem, arrays = input_arrays(app, inputs, sizes, params, seed)
    scheduled = scheduled_for(problem, backend, schedule_file, strategy, effort)
    kernel = scheduled.compile(backend)
    if difference:
        _check_device(scheduled.target, kernel.backend)
    name, reference = _reference(problem, arrays, against)
    result = _measure(problem, kernel, arrays, name, reference)
    differences = _differences(problem, scheduled, seed) if difference else ()
    ratios = {d.name: d.ratio for d in differences if not d.problem}
    times = {d.name: d.seconds for d in differences}
    diagnoses = diagnoses_of(scheduled, confined_ratios=ratios, seconds=times) if difference else []
    if as_json:
        data = _as_dict(problem, kernel, result) | {"checked_for": scheduled.target.name}
        if difference:
            data |= {"differences": [asdict(d) for d in differences], "bottlenecks": bottlenecks_data(diagnoses)}
        print_json(data)
    else:
        _print(problem, kernel, arrays, origin_text(scheduled, schedule_file), result)
        if difference:
            print_differences(differences)
            print_bottlenecks(diagnoses)
    if result.mismatch:
        click.echo(f"error: wrong result: {result.mismatch}", err=True)
        context.exit(1)


def _check_device(target: Target, backend: Backend) -> None:
    """Refuse code differencing of a schedule for another device than the backend's."""
    if (target.kind, backend) not in (("cpu", "cpu"), ("cuda", "cuda")):
        raise InputError(
            f"--difference times kernels on the device of the schedule, and a schedule for {target.name} runs on the "
            f"backend {backend}: leave out --schedule or --target"
        )


def _differences(problem: CommandProblem, scheduled: ScheduledPipeline, seed: int) -> tuple[KernelDifference, ...]:
    bound = bind(problem.pipeline, problem.shapes, problem.params)
    return difference_kernels(bound, scheduled.schedule, scheduled.target, problem.params, seed=seed)


def _reference(
    problem: CommandProblem, arrays: Mapping[str, Array], against: str | None
) -> tuple[str, Callable[[], Mapping[str, Array]]]:
    """Return the reference's name and a function that runs it once."""

    def by_app() -> Mapping[str, Array]:
        return problem.app.reference(arrays, problem.values)

    def by_interpreter() -> Mapping[str, Array]:
        return interpret(problem.pipeline, arrays, problem.params)

    if against != "interpreter":
        try:
            by_app()
        except InputError as error:
            if against is not None:
                raise
            click.echo(f"note: {error}; measuring against the interpreter", err=True)
        else:
            return "NumPy/SciPy", by_app
    return "NumPy interpreter", by_interpreter


def _measure(
    problem: CommandProblem,
    kernel: CompiledPipeline,
    arrays: Mapping[str, Array],
    name: str,
    reference: Callable[[], Mapping[str, Array]],
) -> _Result:
    on_gpu = kernel.backend == "cuda"
    if on_gpu:
        import cupy as module
    else:
        module = np
    given = {key: module.asarray(array) for key, array in arrays.items()}
    out = {s.name: module.empty(s.shape, s.dtype.numpy) for s in kernel.signature.outputs}
    ours = (time_on_gpu if on_gpu else time_on_host)(lambda: kernel(given, out=out))
    got = {key: module.asnumpy(array) if on_gpu else array for key, array in out.items()}
    expected = reference()
    mismatches = {key: problem.app.tolerance.mismatch(array, np.asarray(expected[key])) for key, array in got.items()}
    moved_bytes = sum(array.nbytes for array in (*arrays.values(), *got.values()))
    return _Result(
        ours,
        time_on_host(reference),
        name,
        "; ".join(f"{key}: {text}" for key, text in mismatches.items() if text),
        moved_bytes,
        (time_copy_on_gpu if on_gpu else time_copy_on_host)(moved_bytes),
    )


def _print(
    problem: CommandProblem, kernel: CompiledPipeline, arrays: Mapping[str, Array], origin: str, result: _Result
) -> None:
    shapes = ", ".join(f"{name} {shape_text(a.dtype, a.shape)}" for name, a in arrays.items())
    click.echo(f"{problem.app.name}, {shapes}; {origin}")
    moved = f"a copy that moves the same {result.moved_bytes / 1e6:.4g} MB, {result.bytes_per_s / 1e9:.3g} GB/s"
    rows = (
        (f"backend {kernel.backend}", result.ours.median_s, f"median of {counted(result.ours.runs, 'run')}"),
        (result.reference_name, result.reference.median_s, f"median of {counted(result.reference.runs, 'run')}"),
        ("limit", result.copy.median_s, moved),
    )
    for title, seconds, note in rows:
        click.echo(f"  {title:<20} {format_time(seconds):>10}  {note}")
    ratio = result.reference.median_s / result.ours.median_s
    speed = f"{ratio:.3g} times as fast as {result.reference_name}"
    click.echo(f"  {speed}; {result.copy.median_s / result.ours.median_s:.1%} of the speed of the limit")


def _as_dict(problem: CommandProblem, kernel: CompiledPipeline, result: _Result) -> dict[str, Any]:
    return {
        "app": problem.app.name,
        "backend": kernel.backend,
        "shapes": {name: list(shape) for name, shape in problem.shapes.items()},
        "reference_name": result.reference_name,
        "ours": asdict(result.ours),
        "reference": asdict(result.reference),
        "ratio": result.reference.median_s / result.ours.median_s,
        "limit": {
            "seconds": result.copy.median_s,
            "moved_bytes": result.moved_bytes,
            "copy_bytes_per_s": result.bytes_per_s,
        },
        "mismatch": result.mismatch or None,
    }
