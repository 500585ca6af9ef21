"""The C preprocessor on emitted text, for the processor or GPU of labels."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from autosched.errors import CompileError
from autosched.runtime.compile.host_compiler import find_compiler

SEPARATOR = "as_next_text"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\w+|\S')
_LANES = re.compile(r", (\d+) lanes, ")
_CUDA = ("-x", "c++", "-D__CUDACC__", "-D__CUDA_ARCH__=900")
_LEVELS = {16: "x86-64-v4", 8: "x86-64-v3"}
"""Microarchitecture levels of x86-64 by float32 lanes: AVX-512, and AVX2."""


class Preprocessor:
    """The preprocessor as compilers of labels use it.

    Args:
        source: Source of the labels. That of a processor states its vector lanes.
    """

    def __init__(self, source: str) -> None:
        lanes = _LANES.search(source)
        level = _LEVELS.get(int(lanes[1]), "x86-64") if lanes else "native"
        self.options = ("-x", "c", f"-march={level}") if source.startswith("measured:cpu ") else _CUDA

    def tokens(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each text after preprocessing.

        Raises:
            CompileError: If there is no compiler, or it refuses the texts.
        """
        if not texts:
            return []
        command = [*find_compiler("c").command, "-E", "-P", *self.options, "-"]
        joined = f"\n{SEPARATOR}\n".join(texts)
        done = subprocess.run(command, input=joined, capture_output=True, text=True)
        if done.returncode:
            raise CompileError(f"the preprocessor refuses emitted text: {done.stderr[:500]}; use gcc or clang")
        parts: list[list[str]] = [[]]
        for token in _TOKEN.findall(done.stdout):
            if token == SEPARATOR:
                parts.append([])
            else:
                parts[-1].append(token)
        return parts
