"""Resident blocks of a kernel: forms, legality, and the launch bounds in generated code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.codegen.cuda import print_cuda
from autosched.errors import ScheduleError
from autosched.export.cuda_source import relax_launch_bounds
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.io.text import canonical_text, schedule_text
from autosched.schedule.kernel.register_limit import most_resident_blocks, register_limit, resident_blocks_for
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import blur, blur_with_shared

H200, CPU = get_target("h200"), get_target("cpu")


def bounded(schedule: Schedule, blocks: int) -> Schedule:
    return replace(schedule, kernels=tuple(replace(k, resident_blocks=blocks) for k in schedule.kernels))


def test_text_json_and_hashes() -> None:
    bound = blur()
    plain = blur_with_shared(bound)
    schedule = bounded(plain, 4)
    assert from_json(to_json(bound, schedule), bound) == schedule and '"resident_blocks": 4' in to_json(bound, schedule)
    assert "resident_blocks" not in to_json(bound, plain)
    assert "registers for at least 4 blocks on a multiprocessor" in schedule_text(bound, schedule)
    assert "resident blocks 4" in canonical_text(schedule)
    assert len({structural_hash(s, 1) for s in (plain, schedule, bounded(plain, 2))}) == 3
    text = to_json(bound, schedule).replace('"resident_blocks": 4', '"resident_blocks": -1')
    with pytest.raises(ScheduleError, match=r"resident_blocks is -1: give a whole number from 0"):
        from_json(text, bound)


@pytest.mark.parametrize(("blocks", "legal"), [(0, True), (1, True), (8, True), (9, False), (-1, False)])
def test_a_multiprocessor_has_the_threads_of_all_blocks(blocks: int, legal: bool) -> None:
    bound = blur(600, 600)
    schedule = bounded(schedule_roots(bound, H200), blocks)  # 256 threads a block
    reasons = violations(bound, schedule, H200)
    assert bool(reasons) != legal, reasons
    if blocks == 9:
        assert "at most 8 blocks of 256 threads; use fewer" in reasons[0]
    if blocks > 0:
        assert not violations(bound, bounded(schedule_roots(bound, CPU), blocks), CPU), "a CPU ignores them"


def test_limits_of_registers() -> None:
    """As in the CUDA guide: 64 K registers divided by the resident threads, in multiples of 8, at most 255."""
    assert [register_limit(H200, 256, n) for n in (0, 1, 2, 3, 4, 8)] == [255, 255, 128, 80, 64, 32]
    assert register_limit(H200, 1024, 1) == 64 and register_limit(H200, 33, 16) == 64, "whole warps"
    assert [resident_blocks_for(H200, 256, r) for r in (255, 128, 64, 40, 32)] == [1, 2, 4, 6, 7]
    assert register_limit(H200, 32, resident_blocks_for(H200, 32, 32)) == 64, "32 blocks of 32 threads are the most"
    for threads in (96, 128, 256, 512, 1024):
        for registers in (32, 64, 128, 255):
            blocks = resident_blocks_for(H200, threads, registers)
            assert register_limit(H200, threads, blocks) <= registers and blocks <= most_resident_blocks(H200, threads)
            assert blocks == 1 or register_limit(H200, threads, blocks - 1) > registers, "the least number"


def test_generated_code() -> None:
    """CUDA has the second argument of the launch bounds and is not relaxed; C, and all other text, is the same."""
    bound = blur()
    plain, schedule = blur_with_shared(bound), bounded(blur_with_shared(bound), 4)
    before, after = (print_cuda(lower(bound, s).kernels[-1]).body for s in (plain, schedule))
    assert after == before.replace(")(", ", 4)(", 1) and ", 4)(" in after
    assert relax_launch_bounds(after) == after != relax_launch_bounds(before)
    assert_backends_agree(bound, lower(bound, schedule))


@pytest.mark.skipif(not have_nvrtc(), reason="needs NVRTC")
def test_compiled_registers_are_within_the_limit() -> None:
    problem = Problem.app("rhs4sgcurv", small=True)
    bound = problem.bind()
    roots = schedule_roots(bound, H200)
    kernels = [k for k in roots.kernels if k.root_funcs[0] == list(bound.funcs)[-1]]
    registers = []
    for blocks in (0, 4, 8):
        program = lower(bound, bounded(roots, blocks))
        index = roots.kernels.index(kernels[0])
        (found,) = compile_cubin(print_cuda(program.kernels[index]).source, "sm_90").kernels.values()
        registers.append(found.registers)
    assert registers[0] > 64 >= registers[1] > 32 >= registers[2], registers


def test_features_do_not_depend_on_them() -> None:
    bound = blur()
    (kernel,) = blur_with_shared(bound).kernels
    featurizer = Featurizer(bound, H200)
    values = []
    for blocks in (0, 2):
        sketch, params = describe_kernel(bound, replace(kernel, resident_blocks=blocks))
        assert sketch.resident_blocks == blocks
        model = featurizer.model(sketch)
        assert build_kernel(model, np.array(params)).resident_blocks == blocks
        values.append(model.evaluate(np.array([params])).features)
    np.testing.assert_array_equal(*values)


def test_random_schedules_have_some() -> None:
    bound = blur()
    drawn = [sample_schedule(bound, H200, np.random.default_rng(k), varied=True) for k in range(80)]
    counts = {k.resident_blocks for s in drawn for k in s.kernels}
    assert 0 in counts and len(counts) > 3 and max(counts) <= 4
    plain = [sample_schedule(bound, CPU, np.random.default_rng(k), varied=True) for k in range(20)]
    assert all(k.resident_blocks == 0 for s in plain for k in s.kernels)
