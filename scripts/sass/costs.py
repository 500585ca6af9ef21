"""Instructions per operation: constants for simple operations, else measured on a kernel with only the operation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autosched.codegen.cuda import cuda_prelude
from autosched.codegen.expressions import loaded, local_type, storage_type, value_text
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lang.dtypes import DType, float16
from autosched.lower.ir import ConstValue, Op, Value, VarRef
from autosched.runtime.compile.nvrtc import compile_cubin
from sass.disassembly import disassemble
from sass.launches import PointerArgument, launch_of
from sass.lower_bound import Node
from sass.machine import run_block

ONE = frozenset(
    {"add", "sub", "mul", "min", "max", "and", "or", "xor", "not", "shl", "shr", "select"}
    | {"lt", "le", "gt", "ge", "eq", "ne"}
)
FREE = frozenset({"neg"})
"""Operations without a cost, as the sign is part of the reader's operand."""
LANES = 32


@dataclass
class OperationCosts:
    """Costs of operations on an architecture, each measured once.

    Args:
        nvdisasm: Path of the disassembler.
        arch: Architecture to compile for.
    """

    nvdisasm: str
    arch: str = "sm_90"
    known: dict[Any, int] = field(default_factory=dict)

    def __call__(self, node: Node, operands: tuple[DType, ...]) -> int:
        """Return the instructions of an operation on operands of some types."""
        dtype = node.dtype
        assert dtype is not None
        if node.name in FREE or (node.name == "cast" and self._reinterprets(dtype, operands)):
            return 0
        words = 2 if dtype.bits == 64 and not dtype.is_float else 1
        if node.name in ONE or (node.name in ("floordiv", "mod") and _is_power_of_two(node, dtype)):
            return words
        if not operands:  # conversion of an index to a value
            return 1
        key = (node.name, dtype, operands, node.constants)
        if key not in self.known:
            self.known[key] = max(self._issued(node, dtype, operands) - self._issued(None, dtype, operands), 1)
        return self.known[key]

    @staticmethod
    def _reinterprets(dtype: DType, operands: tuple[DType, ...]) -> bool:
        """Whether a cast leaves the register unchanged: loads extend, and stores truncate."""
        return not dtype.is_float and not any(o.is_float for o in operands) and dtype.bits <= 32

    def _issued(self, node: Node | None, dtype: DType, operands: tuple[DType, ...]) -> int:
        """Return the instructions of a thread that loads the operands, combines them and stores the result."""
        constants = node.constants if node is not None else ()
        refs: list[Value] = []
        parameters, loads = [], []
        for k, o in enumerate(operands):
            value = constants[k] if k < len(constants) else None
            if value is not None:
                refs.append(ConstValue(value, o))
                continue
            refs.append(VarRef(f"x{k}", o))
            parameters.append(f"GLOBAL_IN({storage_type(o)}, in{k}, {LANES})")
            access = f"LOAD({k}, in{k}, threadIdx.x)"
            access = loaded(access, o)
            loads.append(f"const {local_type(o)} x{k} = {access};")
        first = next((r.name for r in refs if isinstance(r, VarRef)), "0")
        result = value_text(Op(node.name, tuple(refs), dtype)) if node is not None else f"({local_type(dtype)}){first}"
        if dtype.is_reduced_float:
            result = f"as_f32_to_f16({result})" if dtype == float16 else f"as_bf16_bits({result})"
        parameters.append(f"GLOBAL_OUT({storage_type(dtype)}, out, {LANES})")
        body = (
            f"KERNEL(operation, {LANES})({', '.join(parameters)}) {{\n"
            + "\n".join(loads)
            + f"\nSTORE({len(operands)}, out, threadIdx.x, {result});\n}}\n"
        )
        source = f"{cuda_prelude()}\n{scalar_prelude(called_scalar_functions(body))}\n{body}"
        cubin = compile_cubin(source, self.arch, name="operation")
        code = disassemble(cubin.code, self.nvdisasm)["operation"]
        launch = launch_of((1, 1, 1), (LANES, 1, 1), [PointerArgument()] * len(parameters), self.arch)
        return int(run_block(code, launch, (0, 0, 0)).issued.sum()) // LANES


def _is_power_of_two(node: Node, dtype: DType) -> bool:
    """Whether an integer is divided by a power of two, which compiles to shifts and masks."""
    divisor = node.constants[1] if len(node.constants) > 1 else None
    return dtype.is_int and divisor is not None and int(divisor) > 0 and int(divisor) & (int(divisor) - 1) == 0
