"""Counts of whole grids from some of their blocks, and the comparison of tiles per block and per warp."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autosched import InputError
from autosched.apps.hand_schedules.fused_kernels import FusedKernel, fused_schedule
from autosched.apps.hand_schedules.image_pipelines import IMAGE_KERNELS, block_tiles
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.measure.simulated.simulate import simulate
from autosched.target import get_target

pytestmark = pytest.mark.usefixtures("nvdisasm")

SMALL = {"W": 77, "H": 53}
H200 = get_target("h200")


def test_grid_counts_are_sums_over_all_blocks(nvdisasm: str) -> None:
    """Of a kernel without boundary code, whose last blocks have partial tiles in both dimensions."""
    from benchmarks.grid_counts import GridCounts, grid_counts, partial_tiles
    from sass.costs import OperationCosts
    from sass.machine import run_block
    from sass.measure import measure_kernel

    bound = Problem.app("harris_gray", {"W": 200, "H": 53}).bind()
    schedule = block_tiles("harris_gray", bound)
    (kernel,) = lower(bound, schedule).kernels
    counts = measure_kernel(kernel, {}, OperationCosts(nvdisasm, H200.arch))
    partial = partial_tiles(bound, schedule, 0)
    total = grid_counts(kernel, counts, partial)
    expected = GridCounts()
    for block in itertools.product(*map(range, counts.launch.grid)):
        expected += GridCounts.of_block(counts.code, run_block(counts.code, counts.launch, block))
    assert partial == [True, True] and counts.blocks == 16
    aligned = {"transactions": 0, "sectors": 0}  # these depend on the alignment of a tile of 62 columns
    assert replace(total, **aligned) == replace(expected, **aligned)
    assert total.transactions == pytest.approx(expected.transactions, rel=0.05)
    assert total.sectors == pytest.approx(expected.sectors, rel=0.05)
    assert total.barriers == counts.blocks * 512 // 32 and total.shuffles == 0


def test_blocks_of_several_warps_with_tiles_are_counted(nvdisasm: str) -> None:
    """Five rows of tiles for blocks of two warps: the last block has one tile, and its other warp ends at once."""
    from benchmarks.grid_counts import GridCounts, grid_counts, partial_tiles, warp_barriers
    from sass.costs import OperationCosts
    from sass.machine import run_block
    from sass.measure import measure_kernel

    bound = Problem.app("harris_gray", {"W": 132, "H": 44}).bind()
    tiled = [k.with_warp_tiles({"x": 32}, {"y": 8, "x": 2}, {"y": 2}) for k in IMAGE_KERNELS["harris_gray"](bound)]
    schedule = fused_schedule(bound, tiled)
    (kernel,) = lower(bound, schedule).kernels
    counts = measure_kernel(kernel, {}, OperationCosts(nvdisasm, H200.arch))
    partial = partial_tiles(bound, schedule, 0)
    total = grid_counts(kernel, counts, partial)
    expected = GridCounts()
    for block in itertools.product(*map(range, counts.launch.grid)):
        expected += GridCounts.of_block(counts.code, run_block(counts.code, counts.launch, block))
    assert partial == [False, False] and counts.launch.grid == (2, 3, 1) and counts.launch.block == (32, 2, 1)
    assert total == expected
    assert total.barriers == 0 and warp_barriers(kernel) == 1


def test_the_fastest_tile_is_chosen(nvdisasm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import warp_tile_choice as choice

    monkeypatch.setattr(choice, "LANES", ({"x": 32}, {"x": 8, "y": 4}))
    monkeypatch.setattr(choice, "POINTS", ({"y": 2, "x": 1}, {"y": 4, "x": 2}))
    monkeypatch.setattr(choice, "WARPS", (1, 4))
    bound = Problem.app("harris_gray", {"W": 516, "H": 260}).bind()
    kernels = IMAGE_KERNELS["harris_gray"](bound)
    (chosen,) = choice.choose_warp_tiles(bound, kernels, H200)

    def seconds(kernel: FusedKernel) -> float:
        simulated = simulate(bound, fused_schedule(bound, [kernel]), H200)
        return simulated.seconds / simulated.noise

    first = min(seconds(k) for k in choice.tiles_of_warps(kernels[0]))
    others = [seconds(k) for part in (choice.warps_of_blocks, choice.points_of_lanes) for k in part(chosen)]
    assert seconds(chosen) == min(others) <= first
    assert chosen.tile.warps and {t.func for t in chosen.shared} == {"ix", "iy"}


def test_few_tiles_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best predicted ones of each step; none after the time limit, when the best predicted shape is taken."""
    from benchmarks import warp_tile_choice as choice

    simulated: list[FusedKernel] = []

    def record(trials: choice.KernelTrials, kernel: FusedKernel) -> float:
        simulated.append(kernel)
        return float(kernel.tile.threads["x"])  # the device prefers few lanes along x

    monkeypatch.setattr(choice.KernelTrials, "simulated", record)
    monkeypatch.setattr(choice, "SIMULATED", 3)
    bound = Problem.app("harris_gray", {"W": 516, "H": 260}).bind()
    kernels = IMAGE_KERNELS["harris_gray"](bound)
    trials = choice.KernelTrials(bound, kernels, 0, H200, float("inf"))
    predicted = trials.best_predicted(choice.tiles_of_warps(kernels[0]), 1 << 30)
    times = [trials.predicted(k) for k in predicted]
    assert times == sorted(times) and len(times) > 10
    (unlimited,) = choice.choose_warp_tiles(bound, kernels, H200)
    assert simulated[:3] == predicted[:3]
    assert len(simulated) <= 3 + 4 + 4
    assert unlimited.tile.threads["x"] == min(k.tile.threads["x"] for k in predicted[:3])
    simulated.clear()
    (limited,) = choice.choose_warp_tiles(bound, kernels, H200, seconds=0)
    assert simulated == [] and limited == predicted[0]


def test_measurement_of_a_schedule(nvdisasm: str) -> None:
    from benchmarks.tile_measurement import measure
    from sass.costs import OperationCosts

    bound = Problem.app("bilateral_grid", SMALL).bind()
    measured = measure(bound, block_tiles("bilateral_grid", bound), H200, OperationCosts(nvdisasm, H200.arch))
    assert measured.kernels == 4 and measured.points == 77 * 53
    assert measured.block_barriers == 2  # after the histogram is zeroed, and after it is filled
    assert measured.shared_bytes == 4 * 2 * 16 * 8 * 8
    assert 0 < measured.occupancy <= 1 and measured.seconds > 0 and measured.search_s is None
    assert measured.counts.transactions >= measured.counts.sectors > 0


def test_tables_of_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A given schedule takes the place of the column's own; unknown columns are refused."""
    from benchmarks.polymage import main

    program = ["harris_gray", "--sizes", "W=77,H=53"]
    main([*program, "--columns", "block", "--save", str(tmp_path)])
    shutil.copy(tmp_path / "harris_gray.block.json", tmp_path / "harris_gray.warp.json")
    (tmp_path / "harris_gray.block.csv").write_text(
        "ID,Kernel Name,Metric Name,Metric Unit,Metric Value\n"
        "0,k(float *),gpu__time_duration.sum,nsecond,100\n"
        "0,k(float *),smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,,2\n"
        "0,k(float *),smsp__average_warp_latency_per_inst_issued.ratio,,8\n"
    )
    capsys.readouterr()
    given = ["--schedules", str(tmp_path), "--counters", str(tmp_path)]
    main([*program, "--columns", "block,warp,roots", *given])
    lines = [line.replace("|", " ").split() for line in capsys.readouterr().out.splitlines()]
    rows = [line for line in lines if line[:1] == ["harris_gray"]]
    counts, barriers, rest = rows[:3], rows[3:6], rows[6:]
    assert counts[0][1] == "block" and counts[0][2:] == counts[1][2:] != counts[2][2:]
    assert [r[2] for r in barriers] == ["1", "1", "0"]
    assert [r[6] for r in barriers] == ["25.0%", "-", "-"]
    (speedups, seconds, times, loads) = rest
    assert speedups[1:3] == ["1.00", "1.00"] and float(speedups[3]) < 1
    assert seconds[1:] == [seconds[1], "0.15"] and float(seconds[1]) >= 0  # roots is the only search
    assert times[1] == times[2] and int(times[3]) > int(times[1])
    assert loads[1:3] == ["-", "-"]
    with pytest.raises(InputError, match="unknown strategy 'fast'"):
        main([*program, "--columns", "fast"])


def test_unknown_programs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.polymage import main

    with pytest.raises(SystemExit):
        main(["blur"])
    assert "unknown program blur: choose from unsharp_polymage, harris_gray" in capsys.readouterr().err
