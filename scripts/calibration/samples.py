"""Kernels of the C backend with their times, to calibrate the CPU's timing model.

`measured` times schedules of suite apps here; `labelled` reads times from a results database or a Parquet file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.c import ENTRY, print_c
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.lang.expr import Scalar
from autosched.measure.store.cpu_labels import target_of_labels
from autosched.measure.store.labels import open_labels
from autosched.model.data.samples import by_problem, one_source
from autosched.model.data.samples_from_measurements import samples_from
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.compile.host_compiler import compile_shared_library
from autosched.runtime.host_memory import aligned_empty
from autosched.schedule.io.serialise import from_json
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import Target
from calibration.rate_fit import Sample

SIZES: Mapping[str, Mapping[str, int]] = {
    "blur": {"W": 1536, "H": 2560},
    "unsharp": {"W": 1536, "H": 1280},
    "harris": {"W": 1536, "H": 1280},
    "bilateral_grid": {"W": 1536, "H": 1280},
    "stencil_chain": {"W": 1536, "H": 640},
    "interpolate": {"W": 1536, "H": 1280},
    "canny": {"W": 1536, "H": 1280},
    "max_filter": {"W": 768, "H": 640},
    "nl_means": {"W": 192, "H": 160},
    "conv_layer": {"N": 1, "CI": 64, "CO": 64, "W": 50, "H": 40},
    "sgemm": {"M": 512, "N": 512, "K": 512},
    "depthwise_separable_conv": {"N": 2},
    "camera_pipe": {"W": 1296, "H": 984},
    "hypterm": {"W": 96, "H": 96, "D": 96},
    "smoother27pt": {"W": 160, "H": 160, "D": 160},
    "smoother7pt": {"W": 256, "H": 256, "D": 256},
    "iir_blur": {"W": 1536, "H": 1280},
    "pyramid_blend": {"W": 1536, "H": 1280},
}
"""Apps and sizes with run times of one to a hundred milliseconds."""
MIX = CandidateMix(beam=3, refined=3, greedy=3, states=4, legal=0, mutations=10, steps=0)
"""Schedules of an app in addition to those of the strategies."""
STAMPS = "as_stamps"
CLOCK = f"""
#include <time.h>
static double {STAMPS}_now(void)
{{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}}"""


class TimedKernels:
    """A pipeline through C with the time of each kernel.

    The clock is the calling thread's processor time, which excludes other processes; run with ``OMP_NUM_THREADS=1``.

    Args:
        scheduled: The pipeline.
    """

    def __init__(self, scheduled: ScheduledPipeline) -> None:
        self.program = scheduled.program
        source = print_c(self.program)
        count = len(self.program.kernels)
        self.arrays, self.scalars = source.arrays, source.scalars
        library = ctypes.CDLL(str(compile_shared_library(_with_stamps(source.text, count), "c")))
        self._entry = library[ENTRY]
        self._entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._entry.restype = None
        self._stamps = (ctypes.c_double * (count + 1)).in_dll(library, STAMPS)
        self._workspace = aligned_empty(self.program.workspace_bytes)

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], params: Mapping[str, Scalar]) -> Any:
        """Run once and return the seconds of each kernel."""
        base = self._workspace.ctypes.data
        address = {a.buffer.name: inputs[n].ctypes.data for n, a in self.program.inputs.items()}
        address |= {a.buffer.name: outputs[n].ctypes.data for n, a in self.program.outputs.items()}
        address |= {slot.buffer.name: base + slot.offset for slot in self.program.workspace}
        values = scalar_arguments(self.program, params)
        arrays = (ctypes.c_void_p * max(len(self.arrays), 1))(*(address[n] for n in self.arrays))
        scalars = (ctypes.c_void_p * max(len(self.scalars), 1))(*(values[n].ctypes.data for n, _ in self.scalars))
        self._entry(arrays, scalars)
        return np.diff(np.array(self._stamps))


def _with_stamps(text: str, kernels: int) -> str:
    """Return generated C that records the time before each kernel and after the last."""
    head, entry = text.split(f"void {ENTRY}(", 1)
    lines: list[str] = []
    number = 0
    for line in entry.split("\n"):
        begins = line.strip() == "#pragma omp parallel" or (line == "    {" and "omp parallel" not in lines[-1])
        if begins:
            lines.append(f"    {STAMPS}[{number}] = {STAMPS}_now();")
            number += 1
        lines.append(line)
    assert number == kernels, "the entry function of the generated C has an unexpected form"
    lines.insert(lines.index("}"), f"    {STAMPS}[{number}] = {STAMPS}_now();")
    declared = f"{CLOCK}\ndouble {STAMPS}[{kernels + 1}];\n"
    return f"{head}{declared}void {ENTRY}(" + "\n".join(lines)


def schedules(bound: BoundPipeline, target: Target, mix: CandidateMix, seed: int) -> Iterator[tuple[str, Schedule]]:
    """Yield schedules of all strategies, and a mix of training candidates."""
    for name, strategy in STRATEGIES.items():
        for ranked in strategy.search(bound, target, count=3).ranked:
            yield name, ranked.schedule
    yield from CandidateGenerator(bound, target, seed).draw(mix)


def measured(name: str, target: Target, rounds: int, seed: int = 0, mix: CandidateMix = MIX) -> list[Sample]:
    """Return the samples of an app, with the least times of some rounds."""
    app = get_app(name)
    pipeline, _ = app.configure({})
    bound = bind(pipeline, app.shapes(SIZES[name]), {})
    inputs = app.make_inputs(SIZES[name])
    params: dict[str, Scalar] = {p.name: p.default for p in pipeline.params if p.default is not None}
    chosen: dict[Schedule, str] = {}
    for strategy, schedule in schedules(bound, target, mix, seed):
        chosen.setdefault(schedule, strategy)
    scheduled = [ScheduledPipeline(bound, s, target) for s in chosen]
    first = scheduled[0].compile("cpu")(inputs)
    results = first if isinstance(first, tuple) else (first,)
    timed = [TimedKernels(s) for s in scheduled]
    outputs = dict(zip(timed[0].program.outputs, map(np.empty_like, results), strict=True))
    best: list[Any] = [np.inf] * len(timed)
    for _ in range(rounds):
        for k, kernels in enumerate(timed):
            best[k] = np.minimum(best[k], kernels.run(inputs, outputs, params))
    model = CpuModel(replace(target, multiprocessors=1))
    featurizer = Featurizer(bound, target)
    return [
        Sample(name, chosen[s.schedule], counted(featurizer, model, s.schedule), seconds)
        for s, seconds in zip(scheduled, best, strict=True)
    ]


def counted(featurizer: Featurizer, model: CpuModel, schedule: Schedule) -> Any:
    """Return the model's counts of each kernel of a schedule, ``float64[kernels, parts]``.

    None where a kernel has too many reads at a point for the featurizer.
    """
    counts = []
    view = apply_rewrites(featurizer.bound, schedule)
    if view is not featurizer.bound:  # rfactor
        featurizer = Featurizer(view, featurizer.target)
    for kernel in schedule.kernels:
        sketch, tiles = describe_kernel(featurizer.bound, kernel)
        one = featurizer.model(sketch)
        if one.overflow:
            return None
        params = np.array([(*tiles, *described_points(featurizer.bound, kernel))], np.int64)
        counts.append(model.counts(one.tables.evaluate([one], [params]))[0])
    return np.array(counts)


def labelled(path: Path, target: Target) -> tuple[list[Sample], Target]:
    """Return the samples of labels with kernel times, all of one source, and their processor.

    Args:
        path: A results database or a Parquet file.
        target: This machine's processor.
    """
    with closing(open_labels([path])) as labels:
        samples = samples_from(labels, target.name)
    target = target_of_labels(target, one_source(samples))
    found = []
    for title, group in by_problem(samples):
        bound = group[0].problem.bind()
        featurizer, model = Featurizer(bound, target), CpuModel(target)
        for s in group:
            counts = counted(featurizer, model, from_json(s.schedule, bound))
            if counts is not None and len(counts) == len(s.kernel_seconds):
                found.append(Sample(title, "labelled", counts, np.array(s.kernel_seconds)))
    return found, target
