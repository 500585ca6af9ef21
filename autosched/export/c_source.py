"""The exported C file: the C backend's text of the pipeline, and the function that calls it."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.codegen.c import ENTRY, print_c
from autosched.codegen.cuda import scalar_type
from autosched.export.arguments import INDENT, argument_checks, checking_functions, rounded_text
from autosched.export.interface import Interface
from autosched.export.names import undefine
from autosched.export.templates import fill
from autosched.lower.program import Program


def c_source(interface: Interface, program: Program) -> str:
    """Return the C file of an export.

    Args:
        interface: The function.
        program: The pipeline.
    """
    printed = print_c(program)
    return fill(
        "source.c",
        name=interface.name,
        prefix=interface.prefix,
        entry=ENTRY,
        undefine=undefine(printed.text, printed.text),
        pipeline=printed.text,
        checks=checking_functions(interface),
        function=_function(interface, program, printed.arrays, [name for name, _ in printed.scalars]),
    )


def _function(interface: Interface, program: Program, arrays: tuple[str, ...], scalars: list[str]) -> str:
    """Return the exported function; `arrays` and `scalars` are the arguments of the pipeline's entry in order."""
    addresses = _addresses(interface, program)
    identifiers = interface.identifiers
    public = {program.names[s.name]: s for s in interface.scalars}
    lines = [f"{interface.prototype} {{", *argument_checks(interface, f"{interface.prefix}_INVALID_ARGUMENT")]
    for k, scalar in enumerate(scalars):
        parameter = public[scalar]
        value = identifiers[parameter.name]
        value = rounded_text(value, parameter.dtype)
        lines.append(f"{INDENT}const {scalar_type(parameter.dtype)} as_scalar_{k} = {value};")
    lines += [
        f"{INDENT}void *const as_arrays[] = {{",
        *(f"{INDENT * 2}(void *){addresses[buffer]}," for buffer in arrays),
        f"{INDENT}}};",
        f"{INDENT}void *const as_scalars[] = {{",
        *(f"{INDENT * 2}(void *)&as_scalar_{k}," for k in range(len(scalars))),
        f"{INDENT * 2}(void *)0,",
        f"{INDENT}}};",
        f"{INDENT}{ENTRY}(as_arrays, as_scalars);",
    ]
    unused = [s.identifier for s in interface.scalars if program.names[s.name] not in scalars]
    lines += [f"{INDENT}(void){identifier};" for identifier in unused]
    return "\n".join([*lines, f"{INDENT}return {interface.prefix}_SUCCESS;", "}", ""])


def _addresses(interface: Interface, program: Program) -> Mapping[str, str]:
    """Return the address of each buffer as C text."""
    identifiers = interface.identifiers
    addresses = {a.buffer.name: identifiers[name] for name, a in (*program.inputs.items(), *program.outputs.items())}
    return addresses | {slot.buffer.name: f"((unsigned char *)workspace + {slot.offset})" for slot in program.workspace}
