"""Limits and rates of devices, the only hardware table of the library."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any, Literal

from autosched.errors import InputError
from autosched.host import Host, read_host

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Target:
    """Limits and rates of a device.

    The terms are CUDA's. On a CPU: multiprocessor = core, warp = the lanes of a vector register,
    block = one iteration of the parallel outer loop, shared memory = a scratch array that should
    stay in a core's L2 cache.

    Attributes:
        name: Name in messages and labels.
        kind: ``cuda`` or ``cpu``, the printer and runtime.
        compute_capability: CUDA compute capability, (0, 0) on the CPU.
        multiprocessors: Streaming multiprocessors, or cores.
        max_warps_per_sm: Warps resident on a multiprocessor at once.
        max_blocks_per_sm: Blocks resident on a multiprocessor at once.
        max_threads_per_sm: Threads resident on a multiprocessor at once.
        max_threads_per_block: Threads in one block.
        registers_per_sm: 32-bit registers of a multiprocessor.
        max_registers_per_thread: 32-bit registers one thread can address.
        shared_per_sm: Shared memory of a multiprocessor, bytes.
        shared_per_block: Shared memory of a block without an opt-in, bytes.
        shared_per_block_optin: Most shared memory of a block, bytes; dynamic, with an opt-in per kernel.
        l2_bytes: Capacity of the cache before DRAM, bytes.
        memory_bytes: Capacity of global memory, bytes.
        dram_bytes_per_s: Peak bandwidth of global memory.
        peak_fp32_flops: Peak float32 rate; a fused multiply-add counts as two.
        peak_fp64_flops: Peak float64 rate.
        warp_size: Threads of a warp.
        max_grid: Blocks in x, y, z.
        max_block_dim: Threads of a block in x, y, z.
        reserved_shared_per_block: Shared memory that the system reserves for each block, bytes.
        register_allocation_unit: Granularity of a warp's register allocation.
        processor: Vendor and family of a CPU, which select the rates of its timing model
            (`autosched.search.cost.cpu.coefficients`). It is not in the repr, which versions of simulated labels
            hash.
    """

    name: str
    kind: Literal["cuda", "cpu"]
    compute_capability: tuple[int, int]
    multiprocessors: int
    max_warps_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_sm: int
    max_threads_per_block: int
    registers_per_sm: int
    max_registers_per_thread: int
    shared_per_sm: int
    shared_per_block: int
    shared_per_block_optin: int
    l2_bytes: int
    memory_bytes: int
    dram_bytes_per_s: float
    peak_fp32_flops: float
    peak_fp64_flops: float
    warp_size: int = 32
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    max_block_dim: tuple[int, int, int] = (1024, 1024, 64)
    reserved_shared_per_block: int = 0
    register_allocation_unit: int = 256
    processor: str = field(default="", repr=False)

    @property
    def arch(self) -> str:
        """Name of the architecture for NVRTC, such as `sm_90`.

        Raises:
            InputError: The target is not a CUDA device.
        """
        if self.kind != "cuda":
            raise InputError(f"target {self.name!r} has no CUDA architecture; choose one of {_listing()}")
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"

    @property
    def min_blocks(self) -> int:
        """Least number of blocks of a kernel that keeps every multiprocessor busy: two for each."""
        return 2 * self.multiprocessors

    @classmethod
    def detect(cls, device: int | None = None) -> Target:
        """Describe an installed GPU.

        Args:
            device: CUDA device number; the current device by default.

        Returns:
            The target, with the driver's name of the device.

        Raises:
            InputError: CuPy is missing, or there is no driver or no such device.
        """
        try:
            from cupy.cuda import runtime
        except ImportError as error:
            raise InputError(
                f"no GPU can be used because CuPy cannot be imported ({error}); "
                "install autosched[cuda13], or autosched[cuda12] for an older driver"
            ) from error
        try:
            count = runtime.getDeviceCount()
            chosen = runtime.getDevice() if device is None else device
        except runtime.CUDARuntimeError as error:
            raise InputError(
                f"no GPU can be used: {error}; without one, choose the target 'cpu' or name the GPU to schedule for"
            ) from error
        if not 0 <= chosen < count:
            raise InputError(f"there is no CUDA device {chosen}; this machine has devices 0 to {count - 1}")
        return _from_runtime(runtime, chosen)


@dataclass(frozen=True, slots=True)
class _Generation:
    """Properties of a compute capability; shared memory in KiB, units per multiprocessor."""

    warps: int
    blocks: int
    shared: int
    shared_optin: int
    fp32_units: int
    fp64_units: int


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (resident warps and blocks,
# shared memory) and "Arithmetic Instructions" (results per clock cycle and multiprocessor).
_GENERATIONS = {
    (6, 0): _Generation(warps=64, blocks=32, shared=64, shared_optin=48, fp32_units=64, fp64_units=32),
    (6, 1): _Generation(warps=64, blocks=32, shared=96, shared_optin=48, fp32_units=128, fp64_units=4),
    (7, 0): _Generation(warps=64, blocks=32, shared=96, shared_optin=96, fp32_units=64, fp64_units=32),
    (7, 2): _Generation(warps=64, blocks=32, shared=96, shared_optin=96, fp32_units=64, fp64_units=32),
    (7, 5): _Generation(warps=32, blocks=16, shared=64, shared_optin=64, fp32_units=64, fp64_units=2),
    (8, 0): _Generation(warps=64, blocks=32, shared=164, shared_optin=163, fp32_units=64, fp64_units=32),
    (8, 9): _Generation(warps=48, blocks=24, shared=100, shared_optin=99, fp32_units=128, fp64_units=2),
    (9, 0): _Generation(warps=64, blocks=32, shared=228, shared_optin=227, fp32_units=128, fp64_units=64),
}

_FP32_UNITS_OF_NEWER_DEVICES = 128  # every generation since 8.6


def _gpu(
    name: str,
    compute_capability: tuple[int, int],
    *,
    sms: int,
    boost_mhz: int,
    l2_kib: int,
    memory_gb: float,
    dram_gb_per_s: float,
) -> Target:
    """Build a table entry; peak rates are units x 2 (a multiply-add) x boost clock, as in data sheets.

    Memory is counted in decimal gigabytes, a little less than the driver reports, so that the capacity check
    errs on the safe side.
    """
    generation = _GENERATIONS[compute_capability]
    cycles = sms * 2 * boost_mhz * 1e6
    return Target(
        name=name,
        kind="cuda",
        compute_capability=compute_capability,
        multiprocessors=sms,
        max_warps_per_sm=generation.warps,
        max_blocks_per_sm=generation.blocks,
        max_threads_per_sm=generation.warps * 32,
        max_threads_per_block=1024,
        registers_per_sm=64 * _KIB,
        max_registers_per_thread=255,
        shared_per_sm=generation.shared * _KIB,
        shared_per_block=48 * _KIB,
        shared_per_block_optin=generation.shared_optin * _KIB,
        l2_bytes=l2_kib * _KIB,
        memory_bytes=int(memory_gb * 1e9),
        dram_bytes_per_s=dram_gb_per_s * 1e9,
        peak_fp32_flops=generation.fp32_units * cycles,
        peak_fp64_flops=generation.fp64_units * cycles,
        reserved_shared_per_block=_KIB if compute_capability >= (8, 0) else 0,
    )


_BUILT_IN = (
    # Hopper: H100 Tensor Core GPU Architecture white paper (SXM5) and the H200 (SXM) data sheet.
    _gpu("H200", (9, 0), sms=132, boost_mhz=1980, l2_kib=50 * 1024, memory_gb=141, dram_gb_per_s=4800),
    _gpu("H100", (9, 0), sms=132, boost_mhz=1980, l2_kib=50 * 1024, memory_gb=80, dram_gb_per_s=3350),
    # Ampere: A100 Tensor Core GPU Architecture white paper; memory of the 80 GB SXM data sheet.
    _gpu("A100", (8, 0), sms=108, boost_mhz=1410, l2_kib=40 * 1024, memory_gb=80, dram_gb_per_s=2039),
    # Volta: Tesla V100 GPU Architecture white paper (SXM2, 16 GB).
    _gpu("V100", (7, 0), sms=80, boost_mhz=1530, l2_kib=6 * 1024, memory_gb=16, dram_gb_per_s=900),
    # Pascal: Tesla P100 white paper (SXM2, 16 GB) and the GTX 1080 Ti product page.
    _gpu("P100", (6, 0), sms=56, boost_mhz=1480, l2_kib=4 * 1024, memory_gb=16, dram_gb_per_s=732),
    _gpu("GTX 1080 Ti", (6, 1), sms=28, boost_mhz=1582, l2_kib=2816, memory_gb=11, dram_gb_per_s=484),
    # Turing: Turing GPU Architecture white paper (reference clocks); a T4 with ECC on has less than its 16 GB.
    _gpu("RTX 2080 Ti", (7, 5), sms=68, boost_mhz=1545, l2_kib=5632, memory_gb=11, dram_gb_per_s=616),
    _gpu("T4", (7, 5), sms=40, boost_mhz=1590, l2_kib=4 * 1024, memory_gb=15.8, dram_gb_per_s=320),
    # Xavier: Jetson AGX Xavier module data sheet (32 GB, shared with the CPU).
    _gpu("AGX Xavier", (7, 2), sms=8, boost_mhz=1377, l2_kib=512, memory_gb=32, dram_gb_per_s=136.5),
    # Ada: Ada GPU Architecture white paper, appendix on the RTX 4090.
    _gpu("RTX 4090", (8, 9), sms=128, boost_mhz=2520, l2_kib=72 * 1024, memory_gb=24, dram_gb_per_s=1008),
)


def target_names() -> tuple[str, ...]:
    """Return the names for `get_target`: the built-in GPUs, `cpu` and `cuda`."""
    return (*(target.name for target in _BUILT_IN), "cpu", "cuda")


def get_target(name: str) -> Target:
    """Return the target of that name; case, spaces, hyphens and underscores do not matter.

    Args:
        name: A built-in GPU such as `h200` or `rtx-2080-ti`; `cpu` for this machine's processor; `cuda` for
            its current GPU.

    Returns:
        The target.

    Raises:
        InputError: The name is unknown, or it is `cuda` and there is no GPU.
    """
    key = _normalized(name)
    if key == "cpu":
        return cpu_target(read_host())
    if key == "cuda":
        return Target.detect()
    for target in _BUILT_IN:
        if _normalized(target.name) == key:
            return target
    by_key = {_normalized(target_name): target_name for target_name in target_names()}
    close = difflib.get_close_matches(key, by_key, n=1)
    suggestion = f"did you mean {by_key[close[0]]!r}? " if close else ""
    raise InputError(f"unknown target {name!r}; {suggestion}Known targets: {_listing()}")


def built_in_target(target: Target) -> Target:
    """Return the built-in target of a GPU's chip, such as ``H100`` for ``NVIDIA H100 80GB HBM3``; else the GPU itself.

    The name, or its first word, must be that of a built-in target with as many multiprocessors.

    Args:
        target: A GPU, as `Target.detect` describes it.
    """
    name = target.name.removeprefix(_VENDOR)
    for candidate in _BUILT_IN:
        same = (candidate.kind, candidate.compute_capability, candidate.multiprocessors) == (
            target.kind, target.compute_capability, target.multiprocessors,
        )  # fmt: skip
        if same and _normalized(candidate.name) in (_normalized(name), _normalized(name.partition(" ")[0])):
            return candidate
    return target


def cpu_target(host: Host) -> Target:
    """Describe a processor in a GPU's terms.

    One block runs on a core at a time; its threads become the lanes and iterations of inner loops. Per-thread
    arrays are ordinary memory, so registers are no limit and have CUDA's values. Rates are estimates from
    the clock (two vector multiply-adds per cycle) and a typical memory bandwidth of 10 GB/s per core.

    Args:
        host: The machine.

    Returns:
        The target named `cpu`.
    """
    threads = 1024
    scratch = host.l2_bytes_per_core // 2
    fp32 = host.cores * host.simd_lanes * 4 * host.clock_hz
    return Target(
        name="cpu",
        kind="cpu",
        compute_capability=(0, 0),
        multiprocessors=host.cores,
        max_warps_per_sm=threads // host.simd_lanes,
        max_blocks_per_sm=1,
        max_threads_per_sm=threads,
        max_threads_per_block=threads,
        registers_per_sm=255 * threads,
        max_registers_per_thread=255,
        shared_per_sm=scratch,
        shared_per_block=scratch,
        shared_per_block_optin=scratch,
        l2_bytes=host.last_level_bytes,
        memory_bytes=host.memory_bytes,
        dram_bytes_per_s=host.cores * 10e9,
        peak_fp32_flops=fp32,
        peak_fp64_flops=fp32 / 2,
        warp_size=host.simd_lanes,
        max_block_dim=(512, 512, 64),
        register_allocation_unit=1,
        processor=host.processor,
    )


_VENDOR = "NVIDIA "


def _normalized(name: str) -> str:
    return "".join(name.split()).replace("-", "").replace("_", "").lower()


def _listing() -> str:
    return ", ".join(target_names())


def _from_runtime(runtime: Any, device: int) -> Target:
    """Read a device's attributes; its rates follow from clocks, bus width and units."""

    def attribute(name: str) -> int:
        return int(runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{name}"), device))

    properties = runtime.getDeviceProperties(device)
    capability = (int(properties["major"]), int(properties["minor"]))
    sms = attribute("MultiProcessorCount")
    warp_size = attribute("WarpSize")
    generation = _GENERATIONS.get(capability)
    fp32_units = generation.fp32_units if generation else _FP32_UNITS_OF_NEWER_DEVICES
    fp32 = sms * fp32_units * 2 * attribute("ClockRate") * 1e3  # the attribute is in kHz
    return Target(
        name=properties["name"].decode(),
        kind="cuda",
        compute_capability=capability,
        multiprocessors=sms,
        max_warps_per_sm=attribute("MaxThreadsPerMultiProcessor") // warp_size,
        max_blocks_per_sm=attribute("MaxBlocksPerMultiprocessor"),
        max_threads_per_sm=attribute("MaxThreadsPerMultiProcessor"),
        max_threads_per_block=attribute("MaxThreadsPerBlock"),
        registers_per_sm=attribute("MaxRegistersPerMultiprocessor"),
        max_registers_per_thread=255,
        shared_per_sm=attribute("MaxSharedMemoryPerMultiprocessor"),
        shared_per_block=attribute("MaxSharedMemoryPerBlock"),
        shared_per_block_optin=attribute("MaxSharedMemoryPerBlockOptin"),
        l2_bytes=attribute("L2CacheSize"),
        memory_bytes=int(properties["totalGlobalMem"]),
        # Two transfers a clock on every kind of memory these devices use; the clock is in kHz, the bus in bits.
        dram_bytes_per_s=2 * attribute("MemoryClockRate") * 1e3 * attribute("GlobalMemoryBusWidth") / 8,
        peak_fp32_flops=fp32,
        peak_fp64_flops=fp32 / attribute("SingleToDoublePrecisionPerfRatio"),
        warp_size=warp_size,
        max_grid=(attribute("MaxGridDimX"), attribute("MaxGridDimY"), attribute("MaxGridDimZ")),
        max_block_dim=(attribute("MaxBlockDimX"), attribute("MaxBlockDimY"), attribute("MaxBlockDimZ")),
        reserved_shared_per_block=attribute("ReservedSharedMemoryPerBlock"),
    )
