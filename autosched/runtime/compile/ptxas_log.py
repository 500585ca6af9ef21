"""Read the resources of kernels from the log that ptxas writes with ``-v``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_CUMULATIVE_STACK = re.compile(r"(\d+) bytes cumulative stack size")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")


@dataclass(frozen=True, slots=True)
class KernelResources:
    """Resources of one kernel, as ptxas allocated them.

    Attributes:
        registers: 32-bit registers per thread.
        stack_bytes: Local memory per thread, called functions included.
        spill_store_bytes: Register bytes that a thread's code spills to local memory.
        spill_load_bytes: Register bytes that a thread's code reads back.
        static_shared_bytes: Shared memory per block that is declared with a size.
        constant_bytes: Constant memory; 0 where ptxas does not report it (sm_80 and later).
    """

    registers: int
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    static_shared_bytes: int = 0
    constant_bytes: int = 0

    @property
    def spill_bytes(self) -> int:
        """Register bytes that a thread's code spills to local memory and reads back."""
        return self.spill_store_bytes + self.spill_load_bytes

    @property
    def spills(self) -> bool:
        """Whether registers are spilled to local memory."""
        return self.spill_bytes > 0


def parse_ptxas_log(log: str) -> dict[str, KernelResources]:
    """Return the resources of every kernel in a log of ptxas, by the kernel's name.

    Lines about device functions that are not inlined (such as the slow path of ``sin``) are not
    attributed to any kernel; their stack is in the kernel's cumulative size.
    """
    kernels: dict[str, KernelResources] = {}
    entry = ""
    in_entry = False
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, in_entry = match[1], True
            kernels[entry] = KernelResources(registers=0)
        elif match := _PROPERTIES.search(line):
            in_entry = match[1] == entry
        elif in_entry and (match := _STACK.search(line)):
            stack, stores, loads = (int(number) for number in match.groups())
            kernels[entry] = replace(
                kernels[entry], stack_bytes=stack, spill_store_bytes=stores, spill_load_bytes=loads
            )
        elif in_entry and (match := _REGISTERS.search(line)):
            kernels[entry] = _with_usage(kernels[entry], int(match[1]), line)
    return kernels


def log_of_kernel(log: str, name: str) -> str:
    """Return the lines of a log about one kernel and about its device functions."""
    lines: list[str] = []
    entry = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match[1]
        if entry == name:
            lines.append(line)
    return "\n".join(lines)


def _with_usage(kernel: KernelResources, registers: int, line: str) -> KernelResources:
    cumulative = _CUMULATIVE_STACK.search(line)
    shared = _SHARED.search(line)
    return replace(
        kernel,
        registers=registers,
        stack_bytes=max(kernel.stack_bytes, int(cumulative[1]) if cumulative else 0),
        static_shared_bytes=int(shared[1]) if shared else 0,
        constant_bytes=sum(int(size) for size in _CONSTANT.findall(line)),
    )
