"""Run lowered pipelines on the emulator and the C backend in tests: results and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lower.program import Program
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.emulator import ParamSpec, compile_emulated
from autosched.runtime.emulator.trace import Trace
from tests.comparable import comparable

Arrays = Mapping[str, np.ndarray[Any, Any]]


def random_inputs(bound: BoundPipeline, seed: int = 3) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs of the pipeline's shapes."""
    rng = np.random.default_rng(seed)
    return {
        i.name: (rng.random(i.shape) * 100 - 50 * (i.dtype.kind != "u")).astype(i.dtype.numpy)
        for i in bound.inputs.values()
    }


def assert_backends_agree(
    bound: BoundPipeline, program: Program, *, emulate: bool = True, inputs: Arrays | None = None
) -> None:
    """Check the emulator's and the C backend's outputs against the interpreter's, bit for bit."""
    inputs = random_inputs(bound) if inputs is None else inputs
    expected = interpret(bound.pipeline, inputs, {})
    for backend in (*([EmulatedExecutable(program)] if emulate else []), CpuExecutable(program)):
        outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
        backend.run(inputs, outputs, {})
        for n, result in outputs.items():
            np.testing.assert_array_equal(comparable(result), comparable(expected[n]), type(backend).__name__)


def traced(bound: BoundPipeline, program: Program) -> Trace:
    """Run a pipeline of one kernel and return the emulator's counts."""
    (ir,) = program.kernels
    k = print_cuda(ir)
    specs = [ParamSpec("in" if p.kind == "in" else "out", p.dtype.numpy, p.name, p.count) for p in k.params]
    helpers = scalar_prelude(called_scalar_functions(k.body))
    compiled = compile_emulated(k.body, k.name, specs, common_prelude=helpers, traced=True, site_depths=k.site_depths)
    arrays: dict[str, Any] = {a.buffer.name: random_inputs(bound)[n] for n, a in program.inputs.items()}
    arrays |= {a.buffer.name: np.zeros(a.extents, a.buffer.dtype.numpy) for a in program.outputs.values()}
    trace = compiled.launch(k.grid, k.block, k.shared_bytes, [arrays[p.name] for p in k.params])
    assert trace is not None
    return trace
