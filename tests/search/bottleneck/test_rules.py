"""The rules of section IV-A: each with a kernel of ours that it applies to, and one that it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import autosched
from autosched import Func, Input, Pipeline, ScheduledPipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.search.bottleneck.classification import BottleneckKind
from autosched.search.bottleneck.diagnosis import diagnose
from autosched.search.bottleneck.kernel_profile import MemoryLevel
from autosched.search.bottleneck.rules import RULES, Move, Optimisation, turned_off
from autosched.target import get_target
from tests.schedule import building
from tests.schedule.building import block, kernel, member, root
from tests.search.bottleneck.kernels import feature_diagnoses, polynomial, scheduled_app, simulated_diagnoses
from tests.search.cpu_cases import TWO_CORES

DRAM, L2, L1, SHARED = MemoryLevel
x, y = Var("x"), Var("y")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="registers come from ptxas")


def moves(diagnosis) -> set[Move]:  # type: ignore[no-untyped-def]
    return {rule.move for rule in diagnosis.rules}


def test_six_rules_are_those_of_the_paper() -> None:
    of_paper = [rule.name for rule in RULES if rule.is_from_paper]
    assert of_paper == [
        "compute", "registers", "iterated bandwidth", "spatial caches", "spatial DRAM", "shared memory",
    ]  # fmt: skip
    assert len({rule.move for rule in RULES}) == len(RULES)
    assert all(set(rule.words) == {"cuda", "cpu"} for rule in RULES)


def test_compute_bound_kernels_reduce_operations() -> None:
    s = autosched.schedule(polynomial(320), {"image": (4096, 4096)}, "h200", strategy="roots")
    (d,) = feature_diagnoses(s).values()
    assert d.bottleneck.kind is BottleneckKind.COMPUTE and Move.REDUCE_OPERATIONS in moves(d)
    assert turned_off(d.rules) >= {Optimisation.SHARED_MEMORY, Optimisation.UNROLLING}
    few = autosched.schedule(polynomial(1), {"image": (4096, 4096)}, "h200", strategy="roots")
    (d,) = feature_diagnoses(few).values()
    assert Move.REDUCE_OPERATIONS not in moves(d) and not turned_off(d.rules)


@needs_nvrtc
def test_kernels_short_of_registers_split() -> None:
    """addsgd6 has 166 registers a thread, so that 12 warps are resident; hypterm's first output has 32."""
    d = feature_diagnoses(scheduled_app("addsgd6"))["addsgd6_output_0"]
    assert d.profile.registers is not None and d.profile.registers > 128
    assert Move.FISSION in moves(d) and Optimisation.UNROLLING in turned_off(d.rules)
    assert Move.FISSION not in moves(feature_diagnoses(scheduled_app("hypterm"))["hypterm_output_0"])


@pytest.mark.parametrize(("app", "is_divisible"), [("addsgd6", True), ("smoother7pt", False)])
def test_fission_is_a_hint_where_outputs_can_be_divided(app: str, is_divisible: bool) -> None:
    """Twelve sweeps return one value, whose kernel has no fission."""
    scheduled = scheduled_app(app)
    first = next(iter(feature_diagnoses(scheduled).values()))
    spilled = diagnose(scheduled.bound, scheduled.schedule, 0, replace(first.profile, spill_bytes=64))
    assert any("--fission-candidates" in hint for hint in spilled.hints) == is_divisible
    assert (Move.FISSION in moves(spilled)) == is_divisible
    assert (Move.USE_FEWER_REGISTERS in moves(spilled)) != is_divisible
    assert Optimisation.UNROLLING in turned_off(spilled.rules)


def test_iterated_stencils_fuse_steps() -> None:
    d = feature_diagnoses(scheduled_app("smoother7pt", {"D": 256, "H": 256, "W": 256}))["smoother7pt_sweep_2"]
    assert d.traits.is_iterated and d.bottleneck.level is DRAM
    assert moves(d) == {Move.FUSE_STEPS}
    cpu = scheduled_app("smoother7pt", {"D": 256, "H": 256, "W": 256}, "cpu")
    d = feature_diagnoses(cpu)["smoother7pt_sweep_2"]
    assert moves(d) == {Move.FUSE_STEPS} and "parallel loop" in d.hints[0]


def test_one_kernel_of_all_sweeps_has_none_to_fuse() -> None:
    app = get_app("smoother7pt")
    shapes = {"in": (256, 256, 256)}
    s = autosched.schedule(app.build(T=2), shapes, TWO_CORES, measure_finalists=False, reuse=False)
    (d,) = feature_diagnoses(s).values()
    assert d.traits.is_iterated and not d.traits.has_sweeps_beside
    assert d.bottleneck.kind is BottleneckKind.BANDWIDTH and Move.FUSE_STEPS not in moves(d)


def test_scans_are_no_sweeps() -> None:
    """Forward and backward passes of a recursive filter have equal definitions, but no time tiles."""
    diagnoses = feature_diagnoses(scheduled_app("iir_blur", target="cpu"))
    assert "iir_blur_blur_columns1" in diagnoses
    assert all(not d.traits.is_iterated and Move.FUSE_STEPS not in moves(d) for d in diagnoses.values())


@needs_nvrtc
def test_spatial_stencils_at_the_caches_use_shared_memory() -> None:
    """Derivatives along z: blocks of 32 by 8 points of one plane read five planes, all from L2."""
    s = scheduled_app("rhs4center", {"D": 160, "H": 256, "W": 256})
    d = simulated_diagnoses(s)["rhs4center_dz_u_2"]
    assert not d.traits.is_iterated and d.bottleneck.level is L2
    assert Move.USE_SHARED_MEMORY in moves(d)


def test_spatial_stencils_with_copies_at_dram_use_global_memory() -> None:
    s = scheduled_app("unsharp", {"H": 1536, "W": 2560}, strategy="beam")
    (d,) = feature_diagnoses(s).values()
    assert d.traits.has_copies and d.bottleneck.level is DRAM and not d.traits.is_iterated
    assert Move.USE_GLOBAL_MEMORY in moves(d)
    without = feature_diagnoses(scheduled_app("unsharp", {"H": 1536, "W": 2560}))["unsharp_gray"]
    assert without.bottleneck.level is DRAM and Move.USE_GLOBAL_MEMORY not in moves(without)


def test_kernels_at_shared_memory_use_registers() -> None:
    """A 15 by 15 stencil from a tile, one point a thread: 225 loads of shared memory for 224 additions."""
    image, wide, f = Input("image", float32, 2), Func("wide"), Func("f")
    wide[y, x] = image[y, x] * 2
    f[y, x] = sum((wide[y + j, x + i] for j in range(15) for i in range(15) if i + j), wide[y, x])
    pipeline = Pipeline(f.over(y=(0, 1024), x=(0, 1024)))
    bound = bind(pipeline, {"image": (1038, 1038)})
    tile = member(block("f", 2), "yx", wide="tx=32 sx=2 ty=8 sy=3")
    s = building.schedule(bound, kernel(bound, [root("f", "by=128 bx=32 tx=32 ty=8")], [tile]))
    (d,) = feature_diagnoses(ScheduledPipeline(bound, s, get_target("h200"))).values()
    assert d.bottleneck.level is SHARED and moves(d) == {Move.USE_REGISTERS}
    inline = building.schedule(bound, kernel(bound, [root("f", "by=128 bx=32 tx=32 ty=8")], inlined=["wide"]))
    (d,) = feature_diagnoses(ScheduledPipeline(bound, inline, get_target("h200"))).values()
    assert Move.USE_REGISTERS not in moves(d)


def test_kernels_with_few_threads_hide_latency() -> None:
    s = autosched.schedule(polynomial(20), {"image": (16, 32)}, "h200", strategy="roots")
    (d,) = feature_diagnoses(s).values()
    assert d.bottleneck.kind is BottleneckKind.LATENCY and moves(d) == {Move.HIDE_LATENCY}


def test_spatial_stencils_of_other_kernels_fuse_with_them() -> None:
    kernels = feature_diagnoses(scheduled_app("unsharp", {"H": 1536, "W": 2560}))
    assert Move.FUSE_KERNELS in moves(kernels["unsharp_output"])
    assert kernels["unsharp_gray"].bottleneck.level is DRAM  # it reads the input alone
    assert Move.FUSE_KERNELS not in moves(kernels["unsharp_gray"])


def test_the_page_has_each_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "bottlenecks.md").read_text()
    rows = [line for line in page.partition("## Rules")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(RULES)
    for row, rule in zip(rows, RULES, strict=True):
        assert rule.move.value in row
        assert all(choice.value in row for choice in rule.turned_off)
