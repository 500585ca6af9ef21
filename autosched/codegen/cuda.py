"""Kernel IR as CUDA C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from math import prod

from autosched.codegen.expressions import counter_type, local_type, storage_type
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.codegen.statements import Writer, condition_text, partition_note, simple_statement
from autosched.codegen.warp_reduce import WARP, print_shuffle
from autosched.lang.dtypes import DType, int32
from autosched.lower.ir import Barrier, For, If, KernelIR, LoopRole, Partitioning, Stmt, WarpReduce, walk
from autosched.lower.ir_queries import thread_loops
from autosched.lower.passes.coalesce_accesses import vector_bytes
from autosched.lower.pipelines import CUDA_PASSES, run_passes

MAX_GRID_YZ = 65535
"""Largest extent of the launch grid in y and z."""
INDENT = "    "


@dataclass(frozen=True, slots=True)
class KernelParam:
    """A parameter of a generated kernel: kind ``in``, ``out`` (also read and written), ``scalar`` or ``step``.

    ``aligned`` is the required alignment of an array in bytes, where it is more than that of an element.
    """

    kind: str
    name: str
    dtype: DType
    count: int
    aligned: int = 1


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel's text and its launch configuration.

    Attributes:
        name: Name of the function.
        body: Text that uses only the macros of the prelude.
        params: Parameters in order.
        grid: Blocks in x, y and z.
        block: Threads per block in x, y and z.
        shared_bytes: Shared memory of a block.
        site_depths: Number of serial loops around each access site.
        launches: Number of consecutive launches; the parameter of kind ``step`` is the number of the launch.
        is_ordered: Whether barriers order accesses of different threads to the same global memory.
    """

    name: str
    body: str
    params: tuple[KernelParam, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    site_depths: tuple[int, ...]
    launches: int = 1
    is_ordered: bool = False

    @property
    def source(self) -> str:
        """The complete text for NVRTC."""
        return _with_preludes(self.body)


@lru_cache(maxsize=256)
def _with_preludes(body: str) -> str:
    return f"{cuda_prelude(body)}\n{scalar_prelude(called_scalar_functions(body))}\n{body}"


def cuda_prelude(body: str | None = None) -> str:
    """Return the macros of generated code for NVRTC.

    Args:
        body: The code; macros of shuffles and of warps are left out if it has none. All macros if None.
    """
    parts = (("SHUFFLE(", "shuffles.h"), ("SHUFFLE_LANE(", "lane_shuffles.h"), ("WARP_", "warps.h"))
    return _prelude("cuda.h") + "".join(_prelude(file) for macro, file in parts if body is None or macro in body)


@cache
def _prelude(name: str) -> str:
    return files("autosched.codegen.prelude").joinpath(name).read_text(encoding="utf-8")


def print_cuda(kernel: KernelIR) -> CudaKernel:
    """Run `CUDA_PASSES` on a kernel and return it as CUDA C."""
    return print_passed_cuda(run_passes(kernel, CUDA_PASSES))


def print_passed_cuda(kernel: KernelIR) -> CudaKernel:
    """Return a kernel as CUDA C, after `CUDA_PASSES`."""
    w = Writer()
    w.line(f"// {kernel.title}")
    bounds = f", {kernel.resident_blocks}" if kernel.resident_blocks else ""
    w.line(f"KERNEL({kernel.name}, {prod(kernel.launch_block)}{bounds})(")
    params = kernel_params(kernel)
    for k, p in enumerate(params):
        end = ")" if k == len(params) - 1 else ","
        t = storage_type(p.dtype)
        if p.kind in ("scalar", "step"):
            w.line(f"{INDENT}SCALAR({scalar_type(p.dtype)}, {p.name}){end}")
        else:
            w.line(f"{INDENT}GLOBAL_{p.kind.upper()}({t}, {p.name}, {p.count}){end}")
    w.open("{")
    for slot in kernel.shared:
        b = slot.buffer
        what = f"{storage_type(b.dtype)}, {b.name}, {b.count}, {slot.offset}"
        w.line(f"WARP_SHARED({what}, {kernel.shared_bytes});" if kernel.warps else f"SHARED({what});")
    for line in grid_lines(kernel):
        w.line(line)
    for line in step_lines(kernel):
        w.line(line)
    _Printer(kernel, w).statements(kernel.body)
    w.close()
    return CudaKernel(
        kernel.name, w.text(), params, launch_grid(kernel), kernel.launch_block,
        kernel.shared_bytes * kernel.warp_tiles, kernel.site_depths, kernel.launches, kernel.is_ordered,
    )  # fmt: skip


def kernel_params(kernel: KernelIR) -> tuple[KernelParam, ...]:
    """Return a kernel's parameters in order: arrays read, arrays written, scalars, number of the launch."""
    aligned = vector_bytes(kernel.body)
    return (
        *(KernelParam("in", b.name, b.dtype, b.count, aligned.get(b.name, 1)) for b in kernel.reads),
        *(KernelParam("out", b.name, b.dtype, b.count, aligned.get(b.name, 1)) for b in kernel.writes),
        *(KernelParam("scalar", s.name, s.dtype, 1) for s in kernel.scalars),
        *((KernelParam("step", kernel.step, int32, 1),) if kernel.step_loops else ()),
    )


def step_lines(kernel: KernelIR) -> list[str]:
    """Return the lines that compute the variables of step loops from the number of the launch."""
    lines: list[str] = []
    inner = 1
    for name, n in reversed([loop for loop in kernel.step_loops if loop[1] > 1]):
        quotient = f"{kernel.step} / {inner}" if inner > 1 else kernel.step
        inner *= n
        value = f"{quotient} % {n}" if inner < kernel.launches else quotient
        lines.insert(0, f"const int {name} = {value};  // {n} launches")
    return lines


def scalar_type(d: DType) -> str:
    """Return the C type of a scalar parameter (float for float16 and bfloat16)."""
    return local_type(d)


def launch_grid(kernel: KernelIR) -> tuple[int, int, int]:
    """Return the blocks of a kernel in x, y and z."""
    return _block_indices(_block_loops(kernel))[0]


def grid_lines(kernel: KernelIR) -> list[str]:
    """Return the lines that compute the variable of each loop over blocks, or over the tiles of warps."""
    if not kernel.warps:
        return grid_mapping(kernel.grid_loops)[1]
    _, indices = _block_indices(_block_loops(kernel))
    index_of = {name: (index, n) for name, index, n in indices}
    lines: list[str] = []
    guards: list[str] = []
    inner = 1
    for (name, tiles), w in reversed(list(zip(kernel.grid_loops, kernel.warps, strict=True))):
        index, blocks = index_of.get(name, ("", 1))
        terms = [index] if w == 1 and index else [f"{index} * {w}"] if index else []
        if w > 1:
            quotient = f"threadIdx.y / {inner}" if inner > 1 else "threadIdx.y"
            inner *= w
            terms.append(f"{quotient} % {w}" if inner < kernel.warp_tiles else quotient)
        if terms:
            lines.insert(0, f"const int {name} = {' + '.join(terms)};  // {tiles} tiles of warps, {w} a block")
        guards += [f"{name} >= {tiles}"] if tiles < blocks * w else []
    return lines + ([f"if ({' || '.join(reversed(guards))}) return;  // a warp without a tile"] if guards else [])


def _block_loops(kernel: KernelIR) -> tuple[tuple[str, int], ...]:
    """Return the loops over the blocks of a kernel, from outer to inner as ``(name, extent)``."""
    if not kernel.warps:
        return kernel.grid_loops
    return tuple((name, -(-n // w)) for (name, n), w in zip(kernel.grid_loops, kernel.warps, strict=True))


def grid_mapping(loops: tuple[tuple[str, int], ...]) -> tuple[tuple[int, int, int], list[str]]:
    """Return the launch grid and the lines that compute the variable of each block loop from blockIdx.

    Up to three loops map to x (innermost), y and z. More loops, or loops beyond `MAX_GRID_YZ`, are flattened into x.
    """
    grid, indices = _block_indices(loops)
    return grid, [f"const int {name} = {index};  // {n} blocks" for name, index, n in indices]


def _block_indices(loops: tuple[tuple[str, int], ...]) -> tuple[tuple[int, int, int], list[tuple[str, str, int]]]:
    """Return the launch grid, and name, index in terms of blockIdx and extent of each loop of several blocks."""
    real = [(name, n) for name, n in loops if n > 1]
    sizes = [n for _, n in reversed(real)] + [1] * (3 - len(real))
    if len(real) <= 3 and all(n <= MAX_GRID_YZ for n in sizes[1:]):
        axes = zip(reversed(real), "xyz", strict=False)
        indices = [(name, f"blockIdx.{axis}", n) for (name, n), axis in reversed(list(axes))]
        return (sizes[0], sizes[1], sizes[2]), indices
    indices, inner = [], 1
    for name, n in reversed(real):
        quotient = f"(int)blockIdx.x / {inner}" if inner > 1 else "(int)blockIdx.x"
        inner *= n
        value = f"({quotient}) % {n}" if (name, n) != real[0] else quotient
        indices.insert(0, (name, value, n))
    return (inner, 1, 1), indices


class _Printer:
    def __init__(self, kernel: KernelIR, writer: Writer) -> None:
        self.kernel = kernel
        self.w = writer
        self.has_all_threads = True  # whether all threads of the block execute the current nest
        self.is_boundary = False  # whether only boundary blocks execute the current statements
        self.is_boundary_step = False  # whether only boundary steps of a sliding window execute them
        self.is_unrolled = False  # whether these are inside an unrolled loop

    def statements(self, body: tuple[Stmt, ...]) -> None:
        for s in body:
            match s:
                case For(role=LoopRole.THREAD):
                    self._threads(s)
                case For():
                    self._serial(s)
                case If():
                    self._if(s)
                case Barrier():
                    self._barrier(s)
                case WarpReduce():
                    print_shuffle(s, self.w, whole_warps=self.has_all_threads and self.kernel.threads % WARP == 0)
                case _:
                    line = simple_statement(s)
                    assert line is not None, s
                    self.w.line(line)

    def _barrier(self, s: Barrier) -> None:
        """Print a barrier of the block, which is one of its warp if it has no other."""
        if s.waits_for_copies:
            self.w.line("WAIT_FOR_COPIES();")
        threads = self.kernel.threads
        self.w.line("BARRIER();" if threads > WARP else f"WARP_BARRIER({(1 << threads) - 1:#x}u);")

    def _threads(self, s: For) -> None:
        """Print the thread loops of a nest; a guard excludes threads beyond an extent."""
        self.w.open("{")
        loops = thread_loops(s)
        guards = self._linear_guards(loops) if self.kernel.linear_threads else self._index_by_axis(loops)
        self.has_all_threads = not guards
        if guards:
            self.w.open(f"if ({' && '.join(guards)}) {{")
        if self.kernel.linear_threads:
            self._linear_index(loops)
        self.statements(loops[-1].body)
        if guards:
            self.w.close()
        self.w.close()

    def _index_by_axis(self, loops: Sequence[For]) -> list[str]:
        """Print the variables of thread loops, and return the guards of idle threads."""
        guards: list[str] = []
        for loop in loops:
            axis = "xyz"[loop.axis]
            if loop.extent > 1:
                self.w.line(f"const int {loop.name} = threadIdx.{axis};  // {loop.comment}")
                if loop.extent < self.kernel.block[loop.axis]:
                    guards.append(f"{loop.name} < {loop.extent}")
            else:
                guards.append(f"threadIdx.{axis} == 0")
        return guards

    def _linear_guards(self, loops: Sequence[For]) -> list[str]:
        """Return the guard of the idle threads of loops that divide a linear index."""
        count = prod(loop.extent for loop in loops)
        return [f"threadIdx.x < {count}"] if count < self.kernel.threads else []

    def _linear_index(self, loops: Sequence[For]) -> None:
        """Print the variables of thread loops that divide a linear index, in threads that are not idle."""
        inside = prod(loop.extent for loop in loops)
        for k, loop in enumerate(loops):
            inside //= loop.extent
            if loop.extent > 1:
                index = "threadIdx.x" if inside == 1 else f"threadIdx.x / {inside}"
                index = index if k == 0 else f"{index} % {loop.extent}"
                self.w.line(f"const int {loop.name} = {index};  // {loop.comment}")

    def _serial(self, s: For) -> None:
        outer = self.is_unrolled
        if s.role is LoopRole.UNROLLED:
            self.w.line("UNROLL")
            self.is_unrolled = True
        elif self.is_boundary and outer and any(isinstance(inner, If) for inner in walk(s.body)):
            # In unrolled code, guards prevent the scheduling of loads. Boundary blocks would then determine the
            # registers of all blocks, and NVRTC would take very long.
            self.w.line("ROLLED")
        elif self.is_boundary_step:  # for the same reasons
            self.w.line("ROLLED")
        elif s.unroll > 1:
            self.w.line(f'_Pragma("unroll {s.unroll}")')
        kind = counter_type(s.extent)
        self.w.open(f"for ({kind} {s.name} = 0; {s.name} < {s.extent}; {s.name}++) {{  // {s.comment}")
        self.w.line(f"ITER({s.depth}, {s.name});")
        self.statements(s.body)
        self.is_unrolled = outer
        self.w.close()

    def _if(self, s: If) -> None:
        is_partitioned = s.partition is not None
        self.w.open(f"if ({condition_text(s)}) {{{partition_note(s)}")
        self.statements(s.then)
        if s.orelse:
            self.w.between("} else {")
            outer = self.is_boundary, self.is_boundary_step
            self.is_boundary |= is_partitioned
            self.is_boundary_step |= s.partition is Partitioning.STEPS
            self.statements(s.orelse)
            self.is_boundary, self.is_boundary_step = outer
        self.w.close()
