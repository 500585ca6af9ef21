"""Guided searches: each choice in the emitted kernel, what is refused, and agreement of the backends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from autosched import (
    Func,
    Guide,
    Input,
    InputError,
    KernelGuide,
    Pipeline,
    ScheduleError,
    Var,
    autotune,
    float32,
    interpret,
    load_schedule,
    schedule,
)
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.cli import main
from autosched.runtime.backends.factory import launch_info
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.types import Level, LoopKind
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.guidance.conformance import meets_guide, theoretical_occupancy
from autosched.search.settings import SearchSettings
from autosched.search.strategies.forma.forma_strategy import Forma
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

H200 = get_target("h200")
N = 128
x, y = Var("x"), Var("y")


def blur(rows_of_output: int = N) -> Pipeline:
    """Return a blur of rows, then of columns."""
    source = Input("image", float32, 2).clamped()
    rows, out = Func("rows"), Func("out")
    rows[y, x] = source[y, x - 1] + source[y, x] + source[y, x + 1]
    out[y, x] = rows[y - 1, x] + rows[y, x] + rows[y + 1, x]
    return Pipeline(out.over(y=(0, rows_of_output), x=(0, N)), name="blur3")


def guided(guide: Guide, target: str = "h200", **options: Any) -> ScheduledPipeline:
    arguments = {"cost": "analytical", "effort": "fast", "reuse": False, **options}
    return schedule(blur(), {"image": (N, N)}, target, guide=guide, **arguments)


def block_of(scheduled: ScheduledPipeline, name: str = "out") -> tuple[int, ...]:
    """Return the threads of the block of the kernel whose name has a text."""
    (info,) = [k for k in launch_info(scheduled.program) if name in k.name]
    return tuple(info.block)


def kernel_text(scheduled: ScheduledPipeline) -> str:
    """Return the emitted kernels without the helper functions before them."""
    source = scheduled.source()
    return source[source.index("\nKERNEL(") :]


def test_threads_and_points() -> None:
    scheduled = guided(Guide(KernelGuide(threads={"x": 64, "y": 2}, points={"y": 4, "x": 1})))
    text = kernel_text(scheduled)
    assert block_of(scheduled) == (64, 2, 1)
    assert "= threadIdx.x;  // x: 64 threads" in text and "= threadIdx.y;  // y: 2 threads" in text
    assert "// y: 4 points" in text and not re.search(r"// x: \d+ points", text)


def test_unrolled_points() -> None:
    text = kernel_text(guided(Guide(KernelGuide(unroll={"y": 2, "x": 1}), memory={"rows": "inline"})))
    assert re.search(r"UNROLL\n +for .*// y: 2 points", text) and not re.search(r"// x: \d+ points", text)


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_memory_of_a_func(effort: str) -> None:
    texts = {m: kernel_text(guided(Guide(memory={"rows": m}), effort=effort)) for m in _MEMORIES}
    assert "SHARED(" in texts["shared"] and "SHARED(" not in texts["registers"] + texts["inline"]
    assert texts["global"].count("\nKERNEL(") == 2 and texts["shared"].count("\nKERNEL(") == 1
    assert "REGISTER(float, rows, " in texts["registers"] and "rows," not in texts["inline"]


_MEMORIES = ("shared", "registers", "global", "inline")


def test_copy_of_an_input() -> None:
    inline = {"rows": "inline"}
    copied = guided(Guide(memory={**inline, "image": "shared"}), effort="default")  # type: ignore[dict-item]
    direct = guided(Guide(memory={**inline, "image": "global"}), effort="default")  # type: ignore[dict-item]
    assert copied.schedule.kernels[0].cache_reads == {"image"} and "SHARED(" in kernel_text(copied)
    assert not direct.schedule.kernels[0].fused and "SHARED(" not in kernel_text(direct)


def test_fused_funcs_share_a_kernel() -> None:
    assert len(guided(Guide(fuse=(("rows", "out"),))).schedule.kernels) == 1
    apart = guided(Guide(kernels={"rows": KernelGuide(threads={"x": 32, "y": 4})}))
    assert len(apart.schedule.kernels) == 2 and block_of(apart, "rows") == (32, 4, 1)


def test_threads_of_a_producer() -> None:
    guide = Guide(kernels={"rows": KernelGuide(threads={"x": 16, "y": 4})}, memory={"rows": "shared"})
    member = guided(guide).schedule.kernels[0].member("rows")
    assert member is not None and sorted(p.extent for p in member.tilings[0].loops if p.kind is LoopKind.THREAD) == [
        4,
        16,
    ]


def test_occupancy_gives_up_copies() -> None:
    """A floor of the occupancy is met; the copies of large tiles are given up for it, and the provenance says so."""
    pipeline = _sums()
    memory = {f"in_{k}": "shared" for k in range(4)}
    tile = KernelGuide(threads={"x": 32, "y": 32}, points={"x": 1, "y": 8})
    shapes = {f"in_{k}": (512, 512) for k in range(4)}
    arguments = {"cost": "analytical", "effort": "default", "reuse": False}
    free = schedule(pipeline, shapes, "h200", guide=Guide(tile, memory=memory), **arguments)  # type: ignore[arg-type]
    floored = Guide(KernelGuide(threads=tile.threads, points=tile.points, occupancy=1.0), memory=memory)  # type: ignore[arg-type]
    held = schedule(pipeline, shapes, "h200", guide=floored, **arguments)  # type: ignore[arg-type]
    (before,), (after,) = free.schedule.kernels, held.schedule.kernels
    bound = bind(pipeline, shapes)
    assert len(before.cache_reads) == 4 > len(after.cache_reads) > 0
    assert theoretical_occupancy(bound, before, H200) == 0.5 and theoretical_occupancy(bound, after, H200) == 1.0
    assert "in_3" in after.cache_reads and "in_0" not in after.cache_reads, "in_0 is used least"
    assert held.provenance is not None and "for the occupancy, in_0 is not copied" in held.provenance.note


def _sums() -> Pipeline:
    """Return the sum of four inputs at growing numbers of points."""
    out = Func("out")
    total: Any = 0.0
    for k in range(4):
        source = Input(f"in_{k}", float32, 2)
        total = sum((source[y, x + i] for i in range(2 + k)), total)
    out[y, x] = total
    return Pipeline(out.over(y=(0, 512), x=(0, 500)), name="sums")


@pytest.mark.parametrize("registers", [32, pytest.param(64, marks=pytest.mark.fuzz)])
def test_registers_are_limited_by_launch_bounds(registers: int) -> None:
    pipeline = get_app("rhs4sgcurv").build()
    shapes = {name: (32,) * len(e) for name, e in get_app("rhs4sgcurv").extents.items()}
    guide = Guide(KernelGuide(threads={"x": 32, "y": 8}, registers=registers))
    scheduled = schedule(pipeline, shapes, "h200", strategy=Beam(FAST), cost="analytical", guide=guide)
    blocks = {32: 7, 64: 4}[registers]  # the least with no more than 32 or 64 of 64 K registers for 256 threads each
    heads = re.findall(r"^KERNEL\(\w+, (\d+)(?:, (\d+))?\)\(", scheduled.source(), re.MULTILINE)
    assert heads and all((int(threads), int(least)) == (256, blocks) for threads, least in heads if threads == "256")
    if have_nvrtc():
        found = compile_cubin(scheduled.source(), H200.arch).kernels.values()
        assert max(k.registers for k in found) <= registers


def test_streaming_dimension_block_and_unrolling_of_listing_1() -> None:
    """Section II-A: the streaming dimension, the block size and the unrolling factors of a 7-point Jacobi stencil."""
    kernel = KernelGuide("z", {"x": 32, "y": 4}, {"z": 64}, {"y": 2, "z": 1})
    pipeline = get_app("smoother7pt").build(T=1)
    scheduled = schedule(
        pipeline, {"in": (N, 64, 64)}, "h200", cost="analytical", effort="fast", reuse=False,
        guide=Guide(kernels={"output": kernel}),
    )  # fmt: skip
    (found,) = scheduled.schedule.kernels
    assert found.is_sliding_window and found.mainloops[0].dim == "z" and found.mainloops[0].extent == 64
    assert block_of(scheduled, "output") == (32, 4, 1) and launch_info(scheduled.program)[0].grid == (2, 8, 2)
    assert "SHARED(" in kernel_text(scheduled) and "// z: 64 steps" in kernel_text(scheduled)
    assert re.search(r"UNROLL\n +for .*// y: 2 points", kernel_text(scheduled))
    if have_nvrtc():
        assert compile_cubin(scheduled.source(), H200.arch).spill_bytes == 0


@pytest.mark.parametrize(
    ("sweeps", "kernel", "memory"),
    [
        (2, KernelGuide("z", {"x": 32, "y": 16}), {"sweep_1": "registers"}),
        (3, KernelGuide("z", {"x": 32, "y": 8}), {"sweep_1": "registers", "sweep_2": "registers"}),
        (3, KernelGuide("z", {"x": 32, "y": 16}, {"z": 20}), {"sweep_1": "shared", "sweep_2": "registers"}),
    ],
)
def test_windows_in_registers_of_listing_2(sweeps: int, kernel: KernelGuide, memory: dict[str, Any]) -> None:
    """Section III: planes that a thread reads at its own points are in registers of a kernel that streams."""
    pipeline, shape = get_app("smoother7pt").build(T=sweeps), (40, 36, 40)
    guide = Guide(kernel, memory=memory)
    scheduled = schedule(pipeline, {"in": shape}, "h200", cost="analytical", effort="fast", reuse=False, guide=guide)
    (found,) = scheduled.schedule.kernels
    assert found.is_sliding_window and found.mainloops[0].dim == "z"
    private = {m.func: m.private for m in found.fused if m.func in memory}
    assert private == {name: place == "registers" for name, place in memory.items()}
    (launched,) = launch_info(scheduled.program)
    assert launched.block == (*kernel.threads.values(), 1), "the threads of the block, not those of the last sweep"
    if kernel.points:
        assert found.mainloops[0].extent == 20
    assert meets_guide(scheduled.bound, scheduled.schedule, guide, H200)
    grid = np.random.default_rng(0).random(shape)
    np.testing.assert_array_equal(
        scheduled.compile("emulator")({"in": grid}), interpret(pipeline, {"in": grid})[pipeline.output_names[0]]
    )
    if have_nvrtc():
        assert compile_cubin(scheduled.source(), H200.arch).spill_bytes == 0


def test_points_of_windows_in_registers() -> None:
    guide = Guide(KernelGuide("y", {"x": 64}, {"x": 2, "y": 32}), memory={"rows": "registers", "image": "global"})
    scheduled = guided(guide)
    (kernel,) = scheduled.schedule.kernels
    assert [m.func for m in kernel.fused if m.private] == ["rows"] and not kernel.cache_reads
    assert kernel.mainloops[0].extent == 32 and kernel.roots[0].tiling.extent("x", LoopKind.SERIAL) == 2
    assert block_of(scheduled) == (64, 1, 1)
    assert_backends_agree(scheduled.bound, scheduled.program)


def test_assignment_of_rhs4center() -> None:
    """Section II-B1: ``#assign shmem (u0,u1,u2), gmem (mu,la)``, with a 16 x 16 block."""
    app = get_app("rhs4center")
    memory = {"u_0": "shared", "u_1": "shared", "u_2": "shared", "mu": "global", "la": "global"}
    shapes = {name: (64,) * len(extents) for name, extents in app.extents.items()}
    guide = Guide(KernelGuide("z", {"x": 16, "y": 16}), memory=memory)  # type: ignore[arg-type]
    scheduled = schedule(app.build(), shapes, "h200", strategy=Beam(FAST), cost="analytical", guide=guide)
    text = kernel_text(scheduled)
    shared = set(re.findall(r"SHARED\(double, (\w+),", text))
    for kernel, info in zip(scheduled.schedule.kernels, launch_info(scheduled.program), strict=True):
        inside = {m.func.partition(".")[0].removesuffix("_clamped") for m in kernel.fused}
        assert inside >= {"u_0", "u_1", "u_2"} and not inside & {"mu", "la"} and info.block == (16, 16, 1)
        assert kernel.mainloops[0].dim == "z"
    assert {"u_0", "u_1", "u_2"} <= {name[:3] for name in shared} and not {"mu", "la"} & {name[:2] for name in shared}


FAST = SearchSettings(beam_size=1, passes=1, freeze=False, refine=0)


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (
            Guide(KernelGuide("y", unroll={"y": 2}), memory={"rows": "registers"}),
            "memory of 'rows' is 'registers', and unroll along 'y' is 2: rows enter registers one a step; give 1",
        ),
        (Guide(memory={"row": "shared"}), "memory names 'row', which is no Func or input: did you mean 'rows'"),
        (Guide(kernels={"image": KernelGuide()}), "kernels names 'image', which is no Func"),
        (Guide(fuse=(("rows", "gone"),)), "fuse names 'gone'"),
        (Guide(KernelGuide(threads={"q": 2})), "every names the dimension 'q', which no Func has: there is x, y"),
        (Guide(kernels={"out": KernelGuide("z")}), "kernel 'out' names the dimension 'z': out has y, x"),
        (Guide(KernelGuide(threads={"x": 64, "y": 32})), "every has 2048 threads in a block; H200 allows 1024"),
        (Guide(kernels={"out": KernelGuide(threads={"x": 256})}), "256 threads along 'x', which has 128 points"),
        (
            Guide(KernelGuide(threads={"x": 128, "y": 6}, registers=32)),
            "the kernel of out has up to 40 registers a thread, not 32: blocks of 768 threads allow no launch bounds",
        ),
        (Guide(KernelGuide(unroll={"x": 8, "y": 4})), "every unrolls 32 points of a thread; at most 16"),
        (Guide(kernels={"out": KernelGuide("x")}), "the dimension of threadIdx.x; stream along another"),
        (Guide(KernelGuide("x")), "kernel of out cannot stream: x is the dimension of threadIdx.x"),
        (Guide(memory={"out": "shared"}), "'out' is 'shared', but outputs are in global memory"),
        (Guide(memory={"image": "registers"}), "a copy is in shared memory or not made"),
        (
            Guide(memory={"rows": "global"}, fuse=(("rows", "out"),)),
            "'rows' must be the result of a kernel, and inside",
        ),
        (
            Guide(memory={"rows": "shared"}, kernels={"rows": KernelGuide(points={"x": 2})}),
            "memory puts 'rows' inside the kernel of its consumers: give threads alone",
        ),
        (
            Guide(KernelGuide(threads={"x": 32, "y": 16}, points={"x": 4, "y": 8}), memory={"rows": "registers"}),
            "no schedule of 'blur3' for H200 meets the guide",
        ),
    ],
)
def test_refused_with_the_reason(guide: Guide, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        guided(guide)


@pytest.mark.parametrize("guide", [Guide(KernelGuide("y")), Guide(KernelGuide("y"), memory={"rows": "registers"})])
def test_too_few_points_to_stream(guide: Guide) -> None:
    with pytest.raises(InputError, match="kernel of out cannot stream: y has 24 points, less than 32"):
        schedule(blur(24), {"image": (24, N)}, "h200", guide=guide, effort="fast", reuse=False)


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (Guide(KernelGuide("y")), "C kernels have no sliding windows; leave out stream"),
        (Guide(KernelGuide(unroll={"y": 2})), "give points instead"),
        (Guide(KernelGuide(occupancy=0.5)), "occupancy, which a CPU has no limit of"),
        (Guide(KernelGuide(registers=64)), "registers, which a CPU has no limit of"),
        (Guide(memory={"image": "shared"}), "a CPU reads it through caches"),
    ],
)
def test_refused_on_cpus(guide: Guide, message: str) -> None:
    with pytest.raises(InputError, match=message):
        guided(guide, "cpu")


def test_choices_on_cpus() -> None:
    """Threads are the lanes and rows of a tile; a Func in shared memory is a tile of its consumer's block."""
    guide = Guide(KernelGuide(threads={"x": 64, "y": 4}), memory={"rows": "shared"})
    scheduled = guided(guide, "cpu")
    (kernel,) = scheduled.schedule.kernels
    tiling = kernel.roots[0].tiling
    assert [tiling.extent(d, LoopKind.THREAD) for d in ("x", "y")] == [64, 4] and kernel.member("rows") is not None
    text = scheduled.source("cpu")
    assert "SHARED(float, rows" in text and re.search(r"x_t < 64; x_t\+\+\) \{  // x: 64 threads", text)


def test_no_strategy_with_rules_of_its_own_takes_a_guide() -> None:
    guide = Guide(memory={"rows": "shared"})
    for strategy in ("roots", "forma", "polymage", "sioutas"):
        with pytest.raises(InputError, match="takes no guide: leave the strategy out, or choose beam or dp"):
            guided(guide, strategy=strategy)
    with pytest.raises(InputError, match="a Forma takes no guide: pass a Beam or a DynamicProgramming"):
        guided(guide, strategy=Forma())
    (kernel,) = guided(guide, strategy="beam").schedule.kernels
    assert kernel.member("rows") is not None


@pytest.mark.parametrize(
    ("guide", "level"),
    [
        (Guide(memory={"rows": "shared"}), Level.BLOCK),
        (Guide(memory={"rows": "global"}), None),
        (Guide(memory={"rows": "inline"}), Level.INLINE),
        (Guide(KernelGuide(threads={"x": 64, "y": 2}), memory={"rows": "registers"}), Level.THREAD),
    ],
    ids=["shared", "global", "inline", "registers"],
)
def test_dynamic_programming_meets_a_guide(guide: Guide, level: Level | None) -> None:
    scheduled = guided(guide, strategy="dp")
    bound = bind(blur(), {"image": (N, N)})
    assert meets_guide(bound, scheduled.schedule, guide, H200)
    kernel = scheduled.schedule.kernels[-1]
    if level is None:
        assert len(scheduled.schedule.kernels) == 2
    elif level is Level.INLINE:
        assert "rows" in [i.func for i in kernel.inlined]
    else:
        member = kernel.member("rows")
        assert member is not None and member.at.level is level
    assert_backends_agree(bound, scheduled.program)


def test_backends_agree() -> None:
    guide = Guide(KernelGuide("y", {"x": 32}, {"y": 32}), memory={"image": "shared"})
    scheduled = guided(guide)
    assert_backends_agree(bind(blur(), {"image": (N, N)}), scheduled.program)


def test_every_mode_takes_a_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Top-k, tuning and the commands measure schedules that meet the guide; provenance and saved files note it."""
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    guide = Guide(KernelGuide(threads={"x": 32, "y": 4}), memory={"rows": "shared"})
    shapes = {"image": (N, N)}
    best = guided(guide, top_k=2, measure="simulated", samples=2)
    tuned = autotune(
        blur(), shapes, "h200", iterations=2, samples=3, measure="simulated", weights="random", guide=guide,
        database=tmp_path / "tuning.sqlite",
    )  # fmt: skip
    for found in (best, tuned):
        assert found.provenance is not None and json.loads(found.provenance.guide) == guide.to_data()
        assert meets_guide(bind(blur(), shapes), found.schedule, guide, H200)
    assert tuned.tuned is not None and tuned.tuned.measured >= 2


def test_saved_schedules_note_the_guide(tmp_path: Path) -> None:
    guide = Guide(KernelGuide(threads={"x": 32, "y": 4}), memory={"rows": "inline"})
    scheduled, path = guided(guide), tmp_path / "s.json"
    scheduled.save(path)
    document = json.loads(path.read_text())
    assert document["provenance"] == {"guide": guide.to_data()}
    assert load_schedule(path, blur(), {"image": (N, N)}, "h200").schedule == scheduled.schedule
    path.write_text(json.dumps({**document, "provenance": 1}))
    with pytest.raises(ScheduleError, match="provenance is 1: give an object"):
        load_schedule(path, blur(), {"image": (N, N)}, "h200")


def test_command_takes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "guide.yaml").write_text("every: {threads: {x: 32, y: 4}}\nmemory: {blur_x: inline}\n")
    command = ("schedule", "blur", "--size", "H=64", "--size", "W=96", "--effort", "fast", "--json")
    result = CliRunner().invoke(main, [*command, "--guide", str(tmp_path / "guide.yaml")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["kernels"][-1]["block"] == [32, 4, 1] and json.loads(found["origin"]["guide"])["every"]
    (tmp_path / "guide.yaml").write_text("memory: {blurx: inline}\n")
    result = CliRunner().invoke(main, [*command, "--guide", str(tmp_path / "guide.yaml")])
    assert result.exit_code != 0 and "did you mean 'blur_x'" in result.output
