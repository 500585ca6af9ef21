"""The device table, lookup by name, and reading the processor and the GPU."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from autosched.errors import InputError
from autosched.host import Host, available_memory_bytes, has_fast_gathers, memory_bytes, read_host
from autosched.target import Target, built_in_target, cpu_target, get_target, target_names

# name, compute capability, SMs, threads per SM, opt-in shared KiB, L2 KiB, GB/s, FP32 and FP64 TFLOPS,
# as the vendor's data sheets print the rates (rounded there).
PUBLISHED = [
    ("H200", (9, 0), 132, 2048, 227, 51200, 4800, 67.0, 33.5),
    ("H100", (9, 0), 132, 2048, 227, 51200, 3350, 67.0, 33.5),
    ("A100", (8, 0), 108, 2048, 163, 40960, 2039, 19.5, 9.7),
    ("V100", (7, 0), 80, 2048, 96, 6144, 900, 15.7, 7.8),
    ("P100", (6, 0), 56, 2048, 48, 4096, 732, 10.6, 5.3),
    ("RTX 2080 Ti", (7, 5), 68, 1024, 64, 5632, 616, 13.45, 0.42),
    ("GTX 1080 Ti", (6, 1), 28, 2048, 48, 2816, 484, 11.34, 0.354),
    ("AGX Xavier", (7, 2), 8, 2048, 96, 512, 136.5, 1.41, 0.705),
    ("T4", (7, 5), 40, 1024, 64, 4096, 320, 8.1, 0.254),
    ("RTX 4090", (8, 9), 128, 1536, 99, 73728, 1008, 82.6, 1.29),
]

BUILT_IN = [row[0] for row in PUBLISHED]


@pytest.mark.parametrize(("name", "capability", "sms", "threads", "shared", "l2", "dram", "fp32", "fp64"), PUBLISHED)
def test_table_holds_the_published_figures(
    name: str,
    capability: tuple[int, int],
    sms: int,
    threads: int,
    shared: int,
    l2: int,
    dram: float,
    fp32: float,
    fp64: float,
) -> None:
    target = get_target(name)
    assert (target.name, target.kind, target.compute_capability) == (name, "cuda", capability)
    assert (target.multiprocessors, target.max_threads_per_sm) == (sms, threads)
    assert (target.shared_per_block_optin, target.l2_bytes) == (shared * 1024, l2 * 1024)
    assert target.dram_bytes_per_s == dram * 1e9
    assert target.peak_fp32_flops == pytest.approx(fp32 * 1e12, rel=0.01)
    assert target.peak_fp64_flops == pytest.approx(fp64 * 1e12, rel=0.02)


def test_every_built_in_gpu_is_tested() -> None:
    assert set(target_names()) == {*BUILT_IN, "cpu", "cuda"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_limits_are_consistent(name: str) -> None:
    target = get_target(name)
    assert target.max_threads_per_sm == target.max_warps_per_sm * target.warp_size
    assert target.shared_per_block == 48 * 1024 <= target.shared_per_block_optin <= target.shared_per_sm
    if target.compute_capability >= (8, 0):  # shared memory beyond a block's limit is the system's reserve
        assert target.shared_per_block_optin + target.reserved_shared_per_block == target.shared_per_sm
    assert target.registers_per_sm == 65536
    assert target.max_block_dim == (1024, 1024, 64)


@pytest.mark.parametrize("spelling", ["rtx2080ti", "RTX 2080 Ti", "rtx-2080-ti", "Rtx_2080_TI", " rtx 2080ti "])
def test_spelling_does_not_matter(spelling: str) -> None:
    assert get_target(spelling).name == "RTX 2080 Ti"


def test_unknown_name_suggests_and_lists() -> None:
    with pytest.raises(InputError, match=r"unknown target 'h20'; did you mean 'H200'\?.*RTX 4090.*cpu"):
        get_target("h20")


def test_far_off_name_lists_without_suggesting() -> None:
    with pytest.raises(InputError) as caught:
        get_target("quantum")
    assert "did you mean" not in str(caught.value)
    assert "AGX Xavier" in str(caught.value)


def test_arch_is_what_nvrtc_expects() -> None:
    assert get_target("h200").arch == "sm_90"
    assert get_target("agx xavier").arch == "sm_72"
    with pytest.raises(InputError, match="'cpu' has no CUDA architecture"):
        _ = get_target("cpu").arch


def test_targets_are_values() -> None:
    assert get_target("h200") == get_target("H-200")
    assert len({get_target(name) for name in BUILT_IN}) == len(BUILT_IN)
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_target("h200").multiprocessors = 1  # type: ignore[misc]


def test_min_blocks_is_two_for_each_multiprocessor() -> None:
    assert get_target("h200").min_blocks == 264


def test_cpu_speaks_of_cores_lanes_and_half_of_l2() -> None:
    host = Host(
        cores=6, simd_lanes=8, l2_bytes_per_core=2**20, last_level_bytes=2**25, memory_bytes=2**34, clock_hz=3e9
    )
    target = cpu_target(host)
    assert (target.name, target.kind, target.compute_capability) == ("cpu", "cpu", (0, 0))
    assert (target.multiprocessors, target.min_blocks, target.warp_size) == (6, 12, 8)
    assert target.shared_per_block == target.shared_per_block_optin == target.shared_per_sm == 2**19
    assert target.max_block_dim[0] == 512
    assert target.max_warps_per_sm * target.warp_size == target.max_threads_per_block
    assert target.peak_fp32_flops == 6 * 8 * 4 * 3e9


def test_this_machine_gives_a_usable_cpu_target() -> None:
    target = get_target("CPU")
    assert target.multiprocessors >= 1
    assert target.warp_size in (4, 8, 16)
    assert target.shared_per_block >= 32 * 1024
    assert target.memory_bytes > target.l2_bytes >= 2 * target.shared_per_block


def _write_cache(sysfs: Path, index: int, *, level: int, kind: str, size: str, sharing: str) -> None:
    folder = sysfs / "cpu0" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in {"level": str(level), "type": kind, "size": size, "shared_cpu_list": sharing}.items():
        (folder / name).write_text(text + "\n")


def test_host_reads_caches_lanes_and_clock(tmp_path: Path) -> None:
    _write_cache(tmp_path, 0, level=1, kind="Data", size="48K", sharing="0-1")
    _write_cache(tmp_path, 1, level=1, kind="Instruction", size="64K", sharing="0-1")
    _write_cache(tmp_path, 2, level=2, kind="Unified", size="2048K", sharing="0-1")
    _write_cache(tmp_path, 3, level=3, kind="Unified", size="32M", sharing="0-3,8-11")
    (tmp_path / "cpu0" / "cpufreq").mkdir()
    (tmp_path / "cpu0" / "cpufreq" / "cpuinfo_max_freq").write_text("3700000\n")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel name : x\nflags : sse2 avx avx2 fma\n")
    host = read_host(sysfs=tmp_path, cpuinfo=cpuinfo, cores=16)
    assert host.cores == 16
    assert host.simd_lanes == 8
    assert host.l2_bytes_per_core == 2**20  # two hardware threads share 2 MiB
    assert host.last_level_bytes == 2 * 32 * 2**20  # eight processors share one of two
    assert host.clock_hz == 3.7e9
    assert host.processor == "AuthenticAMD 26"


@pytest.mark.parametrize(
    ("family", "flags", "processor"),
    [
        ("GenuineIntel 6", "avx avx2 avx512f amx_tile", "GenuineIntel 6 amx"),
        ("GenuineIntel 6", "avx avx2 avx512f", "GenuineIntel 6 avx512"),
        ("GenuineIntel 6", "avx avx2", "GenuineIntel 6 avx2"),
        ("GenuineIntel 6", "sse2", "GenuineIntel 6 sse"),
        ("AuthenticAMD 25", "avx avx2 avx512f", "AuthenticAMD 25 avx512"),
        ("AuthenticAMD 25", "avx avx2", "AuthenticAMD 25 avx2"),
        ("AuthenticAMD 26", "avx avx2 avx512f", "AuthenticAMD 26"),
    ],
)
def test_generations_of_one_family_are_told_by_their_units(
    tmp_path: Path, family: str, flags: str, processor: str
) -> None:
    vendor, number = family.split()
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"vendor_id\t: {vendor}\ncpu family\t: {number}\nmodel\t\t: 167\nflags\t\t: {flags}\n")
    assert read_host(sysfs=tmp_path, cpuinfo=cpuinfo).processor == processor


@pytest.mark.parametrize(
    ("vendor", "unit", "told", "fast"),
    [
        ("GenuineIntel", "amx_tile", "Not affected", True),
        ("GenuineIntel", "amx_tile", "Mitigation: Microcode", False),
        ("GenuineIntel", "amx_tile", None, False),
        ("GenuineIntel", "avx2", "Not affected", False),
        ("AuthenticAMD", "amx_tile", "Not affected", False),
    ],
)
def test_fast_gathers_are_those_that_microcode_leaves_alone(
    vendor: str, unit: str, told: str | None, fast: bool, tmp_path: Path
) -> None:
    if told is not None:
        (tmp_path / "vulnerabilities").mkdir()
        (tmp_path / "vulnerabilities" / "gather_data_sampling").write_text(f"{told}\n")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"vendor_id\t: {vendor}\ncpu family\t: 6\nflags\t\t: {unit}\n")
    assert has_fast_gathers(sysfs=tmp_path, cpuinfo=cpuinfo) == fast


@pytest.mark.parametrize(("flags", "lanes"), [("sse2 avx avx512f", 16), ("sse2 avx", 8), ("fp asimd", 4)])
def test_host_knows_vector_units(tmp_path: Path, flags: str, lanes: int) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags : {flags}\n")
    assert read_host(sysfs=tmp_path, cpuinfo=cpuinfo).simd_lanes == lanes


def test_host_falls_back_where_the_system_is_silent(tmp_path: Path) -> None:
    host = read_host(sysfs=tmp_path / "absent", cpuinfo=tmp_path / "absent")
    assert host.processor == ""
    assert all(value > 0 for value in dataclasses.astuple(host) if value != "")
    assert host.last_level_bytes >= host.l2_bytes_per_core


class FakeRuntime:
    """CuPy's runtime module as it answers on one H200."""

    class CUDARuntimeError(RuntimeError):
        pass

    ATTRIBUTES = {  # noqa: RUF012
        "MultiProcessorCount": 132,
        "WarpSize": 32,
        "ClockRate": 1980000,
        "MaxThreadsPerMultiProcessor": 2048,
        "MaxBlocksPerMultiprocessor": 32,
        "MaxThreadsPerBlock": 1024,
        "MaxRegistersPerMultiprocessor": 65536,
        "MaxSharedMemoryPerMultiprocessor": 233472,
        "MaxSharedMemoryPerBlock": 49152,
        "MaxSharedMemoryPerBlockOptin": 232448,
        "ReservedSharedMemoryPerBlock": 1024,
        "L2CacheSize": 62914560,
        "MemoryClockRate": 3201000,
        "GlobalMemoryBusWidth": 6144,
        "SingleToDoublePrecisionPerfRatio": 2,
        "MaxGridDimX": 2**31 - 1,
        "MaxGridDimY": 65535,
        "MaxGridDimZ": 65535,
        "MaxBlockDimX": 1024,
        "MaxBlockDimY": 1024,
        "MaxBlockDimZ": 64,
    }

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def __getattr__(self, name: str) -> str:
        if name.startswith("cudaDevAttr"):
            return name.removeprefix("cudaDevAttr")
        raise AttributeError(name)

    def getDeviceCount(self) -> int:
        if self.count == 0:
            raise self.CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return self.count

    def getDevice(self) -> int:
        return 0

    def deviceGetAttribute(self, attribute: str, device: int) -> int:
        return self.ATTRIBUTES[attribute]

    def getDeviceProperties(self, device: int) -> dict[str, Any]:
        return {"name": b"NVIDIA H200", "major": 9, "minor": 0, "totalGlobalMem": 150_100_000_000}


def _install_cupy(monkeypatch: pytest.MonkeyPatch, runtime: FakeRuntime) -> None:
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(runtime=runtime))


def test_detect_agrees_with_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    _install_cupy(monkeypatch, FakeRuntime())
    found, table = Target.detect(), get_target("h200")
    assert found.name == "NVIDIA H200"
    assert found.dram_bytes_per_s == pytest.approx(table.dram_bytes_per_s, rel=0.03)
    assert found.memory_bytes >= table.memory_bytes
    own = ("name", "dram_bytes_per_s", "memory_bytes", "l2_bytes")
    assert dataclasses.replace(found, **{field: getattr(table, field) for field in own}) == table


def test_cuda_names_the_installed_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    _install_cupy(monkeypatch, FakeRuntime())
    assert get_target("cuda") == Target.detect(0)


def test_detect_without_cupy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(InputError, match=r"CuPy cannot be imported.*autosched\[cuda13\]"):
        Target.detect()


def test_detect_without_a_gpu_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    _install_cupy(monkeypatch, FakeRuntime(count=0))
    with pytest.raises(InputError, match=r"no CUDA-capable device is detected.*target 'cpu'"):
        Target.detect()


def test_detect_refuses_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    _install_cupy(monkeypatch, FakeRuntime(count=2))
    with pytest.raises(InputError, match="no CUDA device 2; this machine has devices 0 to 1"):
        Target.detect(2)


@pytest.mark.gpu
def test_detect_on_this_machine() -> None:
    target = Target.detect()
    assert target.kind == "cuda"
    assert target.arch.startswith("sm_")
    assert target.max_threads_per_sm == target.max_warps_per_sm * target.warp_size


def test_available_memory_is_limited_by_the_container(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       2000 kB\nMemAvailable:   1000 kB\n")
    assert available_memory_bytes(meminfo=meminfo, cgroup=tmp_path) == 1000 << 10
    (tmp_path / "memory.current").write_text("500000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory_bytes(meminfo=meminfo, cgroup=tmp_path) == 1000 << 10
    (tmp_path / "memory.max").write_text("600000\n")
    assert available_memory_bytes(meminfo=meminfo, cgroup=tmp_path) == 100000
    (tmp_path / "memory.stat").write_text("anon 400000\ninactive_file 50000\n")
    assert available_memory_bytes(meminfo=meminfo, cgroup=tmp_path) == 150000
    assert available_memory_bytes(meminfo=tmp_path / "absent", cgroup=tmp_path / "absent") == memory_bytes()


@pytest.mark.parametrize(
    ("name", "multiprocessors", "found"),
    [
        ("NVIDIA H200", 132, "H200"), ("NVIDIA H100 80GB HBM3", 132, "H100"), ("NVIDIA H100 PCIe", 114, None),
        ("NVIDIA Nothing 5", 132, None),
    ],
)  # fmt: skip
def test_gpus_have_the_built_in_target_of_their_chip(name: str, multiprocessors: int, found: str | None) -> None:
    detected = dataclasses.replace(get_target("h200"), name=name, multiprocessors=multiprocessors)
    assert built_in_target(detected).name == (found or name)
    assert built_in_target(get_target("cpu")) == get_target("cpu")
