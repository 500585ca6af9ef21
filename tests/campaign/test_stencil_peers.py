"""The program that times pystencils' kernels of stencils, and the kernels themselves, on this processor."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign.competitors import PEERS
from peers import pystencils_kernels, stencil_peers
from peers.stencil_peers import KERNELS, Block, Launch, Peer, main, reference

from autosched.apps import get_app
from autosched.runtime.compile.host_compiler import compile_shared_library
from autosched.runtime.compile.nvrtc import compile_cubin

SIZE = 20
HARNESS = """
double sqrt(double); double pow(double, double);
static struct {{ unsigned x, y, z; }} blockIdx, threadIdx, blockDim;
#define __global__
{source}
void run(const unsigned *grid, const unsigned *block, double **arrays) {{
    blockDim.x = block[0]; blockDim.y = block[1]; blockDim.z = block[2];
    for (unsigned n = 0; n < grid[0] * grid[1] * grid[2]; n++)
        for (unsigned t = 0; t < block[0] * block[1] * block[2]; t++) {{
            blockIdx.x = n % grid[0]; blockIdx.y = n / grid[0] % grid[1]; blockIdx.z = n / grid[0] / grid[1];
            threadIdx.x = t % block[0]; threadIdx.y = t / block[0] % block[1]; threadIdx.z = t / block[0] / block[1];
            {name}({arguments});
        }}
}}
"""
KERNEL = """typedef long long int64_t;
#define RESTRICT __restrict__
extern "C" __global__ void sweep(double * RESTRICT const after, const double * RESTRICT const u)
{
    const int64_t z = 1 + blockIdx.z * blockDim.z + threadIdx.z;
    const int64_t y = 1 + blockIdx.y * blockDim.y + threadIdx.y;
    const int64_t x = 1 + blockIdx.x * blockDim.x + threadIdx.x;
    if (z < 19 && y < 19 && x < 19) {
        const int64_t at = (z * 20 + y) * 20 + x;
        const double around = u[at - 1] + u[at + 1] + u[at - 20] + u[at + 20] + u[at - 400] + u[at + 400];
        after[at] = 1.137 * u[at] - 0.163 * 0.625 * (around - 6 * u[at]);
    }
}
"""


class HostDevice:
    """A processor in place of the GPU: kernels are compiled as C, a thread after another."""

    xp = np

    def function(self, source: str, name: str) -> Callable[[Block, Block, tuple[Any, ...]], None]:
        number = source[: source.index(")")].count("double *")
        arguments = ", ".join(f"arrays[{k}]" for k in range(number))
        text = HARNESS.format(source=source.replace('extern "C" ', ""), name=name, arguments=arguments)
        library = ctypes.CDLL(str(compile_shared_library(text)))

        def launch(grid: Block, block: Block, arrays: tuple[Any, ...]) -> None:
            assert len(arrays) == number
            sizes = [(ctypes.c_uint * 3)(*size) for size in (grid, block)]
            library.run(*sizes, (ctypes.c_void_p * number)(*(a.ctypes.data for a in arrays)))

        return launch

    def seconds(self, call: Launch, calls: int) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def graph(self, call: Launch) -> Launch:
        return call


def document(steps: int = 3, source: str = KERNEL) -> dict[str, Any]:
    kernel = {"name": "sweep", "source": source, "arrays": ["after", "u"], "points": [18] * 3, "block": [8, 8, 4]}
    return {"size": SIZE, "steps": steps, "kernels": [kernel]}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stencil_peers, "WARM_S", 0.0)
    monkeypatch.setattr(stencil_peers, "SAMPLES", 2)
    monkeypatch.setattr(stencil_peers, "BLOCKS", ((32, 4, 1), (4, 2, 2)))


@pytest.mark.parametrize("app", stencil_peers.references())
def test_formulas_are_those_of_the_apps(app: str) -> None:
    chosen = get_app(app)
    inputs = chosen.make_inputs({"W": 11, "H": 10, "D": 9}, 0)
    u, f = [*inputs.values(), None][:2]
    (expected,) = chosen.reference(inputs, {"T": 3}).values()
    np.testing.assert_allclose(reference(np, app, u, f, 3), expected, rtol=1e-10)


def test_the_campaign_has_the_apps() -> None:
    (stencils,) = [peer for peer in PEERS if peer.name == "stencils"]
    assert set(stencils.apps) == set(stencil_peers.references()) == set(pystencils_kernels.STEPS)
    assert stencils.script == Path(stencil_peers.__file__).name


@pytest.mark.usefixtures("quick")
def test_rows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "stencil_peers.py"
    monkeypatch.setattr(stencil_peers, "__file__", str(program))
    (tmp_path / KERNELS).write_text(json.dumps({"smoother7pt": document()}))
    main(["built", "--apps", "smoother7pt", "--json", str(tmp_path / "rows.json")], HostDevice())
    default, best = json.loads((tmp_path / "rows.json").read_text())
    assert (default["scheduler"], best["scheduler"]) == ("pystencils", "pystencils_best")
    assert default["ok"] and best["ok"] and default["ms"] > 0 and best["graph_ms"] > 0
    assert best["block"] in ([32, 4, 1], [4, 2, 2])
    assert sorted(p.name for p in tmp_path.glob("*.json")) == ["rows.json", KERNELS]
    with pytest.raises(SystemExit):
        main(["built", "--apps", "helmholtz"], HostDevice())


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "change", [("6 * u[at]", "5 * u[at]"), ("z < 19", "z < 18"), ("x < 19", "x < 20")], ids=["value", "few", "rim"]
)
def test_wrong_kernels_are_reported(change: tuple[str, str]) -> None:
    peer = Peer(HostDevice(), "smoother7pt", document(source=KERNEL.replace(*change)))
    assert not peer.row("pystencils", None)["ok"]


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, Mapping[str, Any]]:
    pytest.importorskip("pystencils")
    return {app: pystencils_kernels.kernels_of(app, SIZE) for app in pystencils_kernels.STEPS}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("app", pystencils_kernels.STEPS)
def test_kernels_of_pystencils_are_right(app: str, kernels: Mapping[str, Mapping[str, Any]]) -> None:
    peer = Peer(HostDevice(), app, kernels[app])
    assert peer.row("pystencils", None)["ok"]
    assert peer.row("pystencils_best", (32, 2, 2))["ok"]
    for kernel in kernels[app]["kernels"]:
        compiled = compile_cubin(kernel["source"], "sm_90")
        assert [k.spill_store_bytes for k in compiled.kernels.values()] == [0]


def test_a_directory_of_peers_gets_kernels_and_program(tmp_path: Path) -> None:
    pytest.importorskip("pystencils")
    pystencils_kernels.main([str(tmp_path / "peers"), "--size", str(SIZE)])
    assert set(json.loads((tmp_path / "peers" / KERNELS).read_text())) == set(pystencils_kernels.STEPS)
    assert (tmp_path / "peers" / "stencil_peers.py").read_text() == Path(stencil_peers.__file__).read_text()


def test_without_pystencils_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "pystencils", None)
    with pytest.raises(SystemExit):
        pystencils_kernels.main([str(tmp_path / "peers")])
    assert "pip install pystencils" in capsys.readouterr().err
    assert not (tmp_path / "peers").exists()
