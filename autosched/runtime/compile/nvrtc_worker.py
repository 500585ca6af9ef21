"""Compiler process: reads requests from a connection, compiles each, stores cubins in the disk cache.

Started by :mod:`autosched.runtime.compile.nvrtc_pool` as ``python -m autosched.runtime.compile.nvrtc_worker FD``. It is
a program of its own, not a ``multiprocessing`` child, so that the user's main module is never run again.
"""

from __future__ import annotations

import json
import sys
from multiprocessing.connection import Connection
from typing import Any

from autosched.errors import CacheError, CompileError
from autosched.runtime.compile.nvrtc import NvrtcOptions, compile_cubin, load_nvrtc


def serve(connection: Connection) -> None:
    """Report that the compiler is loaded, then answer requests until the connection is closed."""
    load_nvrtc()
    connection.send_bytes(b"ready")
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        connection.send_bytes(json.dumps(answer(json.loads(request))).encode())


def answer(request: dict[str, Any]) -> dict[str, str]:
    """Compile one request; return kind and text of the error, or None."""
    options = NvrtcOptions(**request["options"])
    try:
        compile_cubin(request["source"], request["arch"], options, name=request["name"])
    except CompileError as error:
        return {"kind": "compile", "message": str(error).removesuffix(f"\n{error.log}"), "log": error.log}
    except CacheError as error:
        return {"kind": "cache", "message": str(error)}
    return {}


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
