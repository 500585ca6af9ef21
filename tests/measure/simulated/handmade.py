"""Kernels and counts written by hand, for tests of the simulated device."""

from __future__ import annotations

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType, float32
from autosched.lower.ir import Buffer, For, KernelIR, LoopRole, Memory, Stmt, VarRef
from autosched.measure.simulated.device import Device
from autosched.measure.simulated.residency import resident_blocks
from autosched.measure.simulated.timing import KernelTime, kernel_time
from autosched.measure.simulated.traffic import L2State, traffic_of
from autosched.measure.simulated.work import BufferWork, KernelWork, Phase
from autosched.runtime.compile.ptxas_log import KernelResources
from autosched.target import get_target

H200 = get_target("h200")
DEVICE = Device.of(H200)
MIB = 1 << 20


def buffer(name: str, count: int = 1 << 20, dtype: DType = float32, memory: Memory = Memory.GLOBAL) -> Buffer:
    """Return a buffer."""
    return Buffer(name, dtype, count, memory)


def loop(name: str, extent: int, role: LoopRole, *body: Stmt, axis: int = 0, depth: int = 0) -> For:
    """Return a loop."""
    return For(name, extent, role, tuple(body), axis=axis, depth=depth)


def var(name: str, extent: int) -> ix.Index:
    """Return a loop variable."""
    return ix.var(name, 0, extent - 1)


def ref(name: str, dtype: DType = float32) -> VarRef:
    """Return a reference to a binding."""
    return VarRef(name, dtype)


def kernel(
    *body: Stmt, reads: tuple[Buffer, ...] = (), writes: tuple[Buffer, ...] = (), sites: int = 16,
    block: tuple[int, int, int] = (32, 1, 1), grid: tuple[tuple[str, int], ...] = (("b", 1000),),
) -> KernelIR:  # fmt: skip
    """Return a kernel."""
    return KernelIR(
        name="k", title="", reads=reads, writes=writes, scalars=(), grid_loops=grid, block=block, shared=(),
        shared_bytes=0, body=tuple(body), site_depths=(0,) * sites,
    )  # fmt: skip


def streaming(
    *,
    blocks: int = 20000,
    threads: int = 256,
    requests: float = 8.0,
    sectors_each: float = 4.0,
    chain_global: float = 1.0,
) -> KernelWork:
    """Return a kernel whose blocks each read fresh memory, with ``requests`` loads, and write a little."""
    sectors = requests * sectors_each
    phase = Phase(
        instructions=20.0 * requests, fp32=requests, integer=2 * requests, load_requests=requests,
        load_registers=requests, store_requests=1.0, load_sectors=sectors, store_sectors=4.0, passes=sectors / 4 + 1,
        warp_load_registers=requests * 32 / threads, chain_cycles=100.0, chain_global=chain_global,
    )  # fmt: skip
    read = BufferWork(
        name="in", bytes=blocks * int(sectors) * 32, load_sectors=sectors, load_bytes=sectors * 32,
        window_bytes=sectors * 32, store_bytes=0.0, span_bytes=blocks * sectors * 32.0, fresh=(1.0,),
    )  # fmt: skip
    written = BufferWork(
        name="out", bytes=blocks * 128, load_sectors=0.0, load_bytes=0.0, window_bytes=0.0, store_bytes=128.0,
        span_bytes=blocks * 128.0, fresh=(1.0,),
    )  # fmt: skip
    return KernelWork("k", (blocks,), threads, 0, (phase,), (read, written), repeats=1.0)


def cold_l2(run_bytes: float = 1e12) -> L2State:
    """Return a second-level cache that holds nothing."""
    return L2State(DEVICE.l2_capacity, frozenset({"scratch"}), run_bytes)


def timed(work: KernelWork, *, device: Device = DEVICE, l2: L2State | None = None, **resources: int) -> KernelTime:
    """Return the time of a kernel that ptxas gave some resources."""
    found = KernelResources(**{"registers": 32, **resources})
    resident = resident_blocks(device.target, work.name, work.threads, found.registers, work.shared_bytes)
    traffic = traffic_of(work, found, resident, device, l2 or cold_l2())
    return kernel_time(work, found, resident, traffic, device)
