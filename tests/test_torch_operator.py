"""Pipelines as operators of PyTorch: eager, compiled, described without computing, and refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import autosched
from autosched import Func, Input, InputError, Param, Pipeline, Var, bool_, float32, int32, uint8
from autosched import kernel_cache as kernel_cache_module
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.compile.host_compiler import have_compiler

needs_c = pytest.mark.skipif(not have_compiler("c"), reason="there is no C compiler")
y, x = Var("y"), Var("x")
_numbers = itertools.count()


def fresh() -> str:
    """Return a name that no operator has."""
    return f"autosched_test::op{next(_numbers)}"


def register(pipeline: Any, name: str | None = None, backend: str = "interpreter", **options: Any) -> Any:
    if isinstance(pipeline, Pipeline):
        options = {"strategy": "roots", "backend": backend, **options}
    return autosched.torch_operator(pipeline, name or fresh(), **options)


def scaled() -> Pipeline:
    image, offset = Input("image", float32, 2), Param("offset", float32)
    gain = Param("gain", float32, 2.0)
    f = Func("f")
    f[y, x] = image.clamped()[y, x + 1] * gain + offset
    return Pipeline(f.over(y=(0, image.shape[0]), x=(0, image.shape[1])), name="scaled")


def scaled_in_torch(image: torch.Tensor, offset: float, gain: float = 2.0) -> torch.Tensor:
    return torch.cat([image[:, 1:], image[:, -1:]], 1) * gain + offset


def two_outputs() -> Pipeline:
    a, b = Input("a", float32, 1), Input("b", uint8, 1)
    total, larger = Func("total"), Func("larger")
    total[x] = a[x] + b[x]
    larger[x] = a[x] > b[x]
    return Pipeline([total, larger], name="two")


def shifted() -> Pipeline:
    """The output's length is a parameter, whose value is built into the kernel."""
    line, count, on = Input("line", float32, 1), Param("count", int32, 3), Param("on", bool_, True)
    f = Func("f")
    f[x] = autosched.select(on, line.clamped()[x], 0.0)
    return Pipeline(f.over(x=(0, count)), name="shifted")


@autosched.jit(strategy="roots", backend="interpreter")
def box(image: Any, gain: float = 1.0, *, radius: int = 1, mode: str = "clamped", options: Any = None) -> Any:
    bounded = getattr(image, mode)()
    out = Func("out")
    out[y, x] = sum((bounded[y, x + d] for d in range(-radius, radius + 1)), 0) * gain
    return out


def picture(height: int = 4, width: int = 6) -> torch.Tensor:
    return torch.arange(height * width, dtype=torch.float32).reshape(height, width)


class TestEager:
    def test_tensors_of_bfloat16(self) -> None:
        """Of an output's type there is a tensor in eager code and in tracing, and a gain is rounded to it."""
        image, gain, f = Input("image", torch.bfloat16, 1), Param("gain", torch.bfloat16), Func("f")
        f[x] = image[x] * gain + image[x]
        op = register(Pipeline(f, name="of_bfloat16"))
        tensor = torch.linspace(-3, 5, 1000).bfloat16()
        expected = tensor * torch.tensor(0.1, dtype=torch.bfloat16) + tensor
        found = op(tensor, 0.1)
        assert found.dtype == torch.bfloat16 and torch.equal(found, expected)
        described = torch.library.opcheck(op, (tensor, 0.1), test_utils="test_faketensor")
        assert described == {"test_faketensor": "SUCCESS"}

    def test_schema_and_result(self) -> None:
        op = register(scaled(), name := fresh())
        assert str(op._schema) == "(Tensor image, float offset, float gain=2.0) -> Tensor"
        torch.testing.assert_close(op(picture(), 1.0), scaled_in_torch(picture(), 1.0))
        torch.testing.assert_close(op(picture(), offset=1, gain=3.0), scaled_in_torch(picture(), 1.0, 3.0))
        by_name = getattr(torch.ops.autosched_test, name.partition("::")[2])
        torch.testing.assert_close(by_name(picture(3, 5), 0.5), scaled_in_torch(picture(3, 5), 0.5))

    def test_several_outputs_are_a_tuple(self) -> None:
        op = register(two_outputs())
        assert str(op._schema) == "(Tensor a, Tensor b) -> (Tensor, Tensor)"
        total, larger = op(torch.tensor([1.0, 2.5]), torch.tensor([3, 2], dtype=torch.uint8))
        assert total.tolist() == [4.0, 4.5] and larger.tolist() == [False, True]
        assert larger.dtype == torch.bool

    def test_numbers_of_all_types(self) -> None:
        op = register(shifted())
        assert str(op._schema) == "(Tensor line, bool on=True, SymInt count=3) -> Tensor"
        line = torch.tensor([5.0, 6.0])
        assert op(line).tolist() == [5, 6, 6]
        assert op(line, count=4).tolist() == [5, 6, 6, 6]
        assert op(line, False, 2).tolist() == [0, 0]

    def test_a_jit_function(self) -> None:
        op = register(box)
        schema = '(Tensor image, float gain=1.0, *, SymInt radius=1, str mode="clamped") -> Tensor'
        assert str(op._schema) == schema
        torch.testing.assert_close(op(picture(), 2.0), box(picture(), 2.0))
        wrapped = op(picture().double(), radius=2, mode="wrapped")
        assert wrapped.dtype == torch.float64
        torch.testing.assert_close(wrapped, box(picture().double(), radius=2, mode="wrapped"))

    def test_a_jit_function_of_several_outputs(self) -> None:
        @autosched.jit(strategy="roots", backend="interpreter")
        def both(a: Any) -> Any:
            f, g = Func("f"), Func("g")
            f[x], g[x] = a[x] + 1, a[x] * 2
            return f, g

        with pytest.raises(InputError, match="pass outputs=2 to torch_operator"):
            register(both)(torch.ones(3))
        found = register(both, outputs=2)(torch.ones(3))
        assert [t.tolist() for t in found] == [[2, 2, 2], [2, 2, 2]]

    def test_kernels_are_kept_for_shapes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        searches = []
        schedule = kernel_cache_module.schedule

        def counted(pipeline: Any, shapes: Any, *args: Any, **options: Any) -> Any:
            searches.append(tuple(shapes["image"]))
            return schedule(pipeline, shapes, *args, **options)

        monkeypatch.setattr(kernel_cache_module, "schedule", counted)
        op = register(scaled())
        for image in (picture(), picture(3, 5), picture(), picture(3, 5)):
            op(image, 1.0)
        op(picture(), 2.0, 4.0)
        assert searches == [(4, 6), (3, 5)]

    def test_strided_tensors_are_made_contiguous(self) -> None:
        op = register(scaled())
        torch.testing.assert_close(op(picture().T, 1.0), scaled_in_torch(picture().T, 1.0))
        torch.testing.assert_close(op(picture()[:, ::2], 1.0), scaled_in_torch(picture()[:, ::2], 1.0))
        flipped = torch._neg_view(picture())
        torch.testing.assert_close(op(flipped, 1.0), scaled_in_torch(-picture(), 1.0))


@needs_c
def test_contiguous_tensors_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[tuple[int, int]] = []
    run = CpuExecutable.run

    def spy(self: Any, inputs: Any, outputs: Any, scalars: Any) -> None:
        places.append((inputs["image"].ctypes.data, outputs["f"].ctypes.data))
        run(self, inputs, outputs, scalars)

    monkeypatch.setattr(CpuExecutable, "run", spy)
    op = register(scaled(), backend="cpu")
    image = picture()
    result = op(image, 1.0)
    assert places == [(image.data_ptr(), result.data_ptr())]
    part = picture(8, 6)[2:6]
    result = op(part, 1.0)
    assert places[1] == (part.data_ptr(), result.data_ptr())
    torch.testing.assert_close(result, scaled_in_torch(part, 1.0))
    strided = picture().T
    assert op(strided, 1.0).shape == (6, 4)
    assert places[2][0] != strided.data_ptr()


class TestCompiled:
    @pytest.fixture(autouse=True)
    def from_scratch(self) -> None:
        torch.compiler.reset()

    @needs_c
    @pytest.mark.slow  # Inductor's C++ takes long to compile
    def test_within_a_graph_of_inductor(self) -> None:
        op = register(scaled(), backend="cpu")

        @torch.compile(fullgraph=True)
        def f(image: torch.Tensor) -> torch.Tensor:
            return op(op(image.sin(), 1.0, gain=0.5), 3.0)

        for image in (picture(), picture() - 10):
            torch.testing.assert_close(f(image), scaled_in_torch(scaled_in_torch(image.sin(), 1.0, 0.5), 3.0))

    @pytest.mark.parametrize("dynamic", [False, True, None])
    def test_shapes_and_numbers_that_change(self, dynamic: bool | None) -> None:
        op = register(box)

        @torch.compile(fullgraph=True, backend="aot_eager", dynamic=dynamic)
        def f(image: torch.Tensor, gain: float, radius: int) -> torch.Tensor:
            return op(image + 1, gain, radius=radius)

        for image, gain, radius in (
            (picture(), 1.0, 1), (picture(), 2.5, 1), (picture(), 2.5, 2), (picture(5, 7), -1.0, 1),
        ):  # fmt: skip
            torch.testing.assert_close(f(image, gain, radius), box(image + 1, gain, radius=radius))

    def test_several_outputs_and_a_number_that_gives_the_shape(self) -> None:
        two, cut = register(two_outputs()), register(shifted())

        @torch.compile(fullgraph=True, backend="aot_eager")
        def f(a: torch.Tensor, b: torch.Tensor, count: int) -> torch.Tensor:
            total, larger = two(a, b)
            return cut(total, count=count) + larger.sum()

        a, b = torch.tensor([1.0, 2.5]), torch.tensor([3, 2], dtype=torch.uint8)
        assert f(a, b, 3).tolist() == [5.0, 5.5, 5.5]
        assert f(a, b, 4).tolist() == [5.0, 5.5, 5.5, 5.5]


class TestDescribed:
    def test_shapes_are_known_without_a_schedule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernel_cache_module, "schedule", None)
        one, two, cut, function = (register(p) for p in (scaled(), two_outputs(), shifted(), box))
        image, line = (torch.empty(s, device="meta") for s in ((4, 6), (5,)))
        found = one(image, 1.0)
        assert (found.shape, found.dtype, found.is_meta) == ((4, 6), torch.float32, True)
        total, larger = two(line, line.to(torch.uint8))
        assert (total.dtype, larger.dtype, larger.shape) == (torch.float32, torch.bool, (5,))
        assert cut(line, count=9).shape == (9,)
        assert function(image.double()).dtype == torch.float64
        assert function(image.T).is_contiguous()

    @pytest.mark.parametrize(
        ("pipeline", "arguments"),
        [
            (scaled, (picture(), 1.0)),
            (scaled, (picture().T, 1.0, 0.5)),
            (two_outputs, (torch.ones(5), torch.ones(5, dtype=torch.uint8))),
            (shifted, (torch.ones(5), True, 4)),
            (lambda: box, (picture(), 2.0)),
        ],
        ids=["one", "strided", "two", "numbers", "function"],
    )
    def test_opcheck(self, pipeline: Callable[[], Any], arguments: tuple[Any, ...]) -> None:
        found = torch.library.opcheck(register(pipeline()), arguments)
        assert set(found.values()) == {"SUCCESS"} and len(found) == 4


class TestGradients:
    def test_forward_works_and_backward_says_why_not(self) -> None:
        op = register(scaled())
        image = picture().requires_grad_()
        result = op(image, 1.0)
        torch.testing.assert_close(result.detach(), scaled_in_torch(picture(), 1.0))
        with pytest.raises(RuntimeError, match="no autograd formula was registered"):
            result.sum().backward()

    @pytest.mark.filterwarnings("ignore:Error detected in")
    def test_compiled_it_needs_no_grad(self) -> None:
        torch.compiler.reset()
        op = register(scaled())
        compiled = torch.compile(lambda image: op(image, 1.0), fullgraph=True, backend="aot_eager")
        image = picture().requires_grad_()
        with pytest.raises(Exception, match="no autograd formula was registered"):
            compiled(image)
        with torch.no_grad():
            torch.testing.assert_close(compiled(image), scaled_in_torch(picture(), 1.0))

    def test_a_formula_of_the_users(self) -> None:
        a, gain = Input("a", float32, 1), Param("gain", float32)
        f = Func("f")
        f[x] = a[x] * gain
        op = register(Pipeline(f, name="gained"))

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.gain = inputs[1]

        op.register_autograd(lambda ctx, grad: (op(grad.contiguous(), ctx.gain), None), setup_context=setup)
        a_tensor = torch.ones(3, requires_grad=True)
        op(a_tensor, 3.0).sum().backward()
        assert a_tensor.grad is not None and a_tensor.grad.tolist() == [3, 3, 3]


class TestRefused:
    def test_a_name_that_is_taken(self) -> None:
        op = register(scaled(), name := fresh())
        with pytest.raises(InputError, match=rf"an operator '{name}' already: choose another name, .*replace=True"):
            register(two_outputs(), name)
        torch.testing.assert_close(op(picture(), 1.0), scaled_in_torch(picture(), 1.0))
        other = register(shifted(), name, replace=True)
        assert other(torch.ones(2)).tolist() == [1, 1, 1]
        assert getattr(torch.ops.autosched_test, name.partition("::")[2])(torch.ones(2), count=1).tolist() == [1]

    def test_a_name_of_another_library(self) -> None:
        with pytest.raises(InputError, match=r"call the one there is as torch\.ops\.aten\.add$"):
            register(scaled(), "aten::add", replace=True)

    @pytest.mark.parametrize("name", ["blur", "a::b::c", "a.b::c", "::b", "a::", "a b::c", ""])
    def test_what_is_no_name(self, name: str) -> None:
        with pytest.raises(InputError, match="give a namespace and a name, such as 'mylib::blur'"):
            register(scaled(), name) if name else autosched.torch_operator(scaled(), "")

    def test_what_is_no_pipeline(self) -> None:
        with pytest.raises(InputError, match="a function cannot become an operator"):
            autosched.torch_operator(lambda image: image, fresh())  # type: ignore[arg-type]

    def test_options(self) -> None:
        with pytest.raises(InputError, match="there is no option 'stratgy'"):
            autosched.torch_operator(scaled(), fresh(), stratgy="roots")
        with pytest.raises(InputError, match="'box' has its own options"):
            autosched.torch_operator(box, fresh(), strategy="roots")

    def test_a_keyword_as_a_name(self) -> None:
        f = Func("f")
        f[x] = Input("in", float32, 1)[x]
        with pytest.raises(InputError, match="'in' is a keyword of Python"):
            register(Pipeline(f))

    def test_parameters_of_functions(self) -> None:
        def defaulted(a: Any = None) -> Any: ...
        def lettered(a: str) -> Any: ...
        def untyped(a: Any, *, kind: Any) -> Any: ...
        def quoted(a: Any, *, kind: str = 'say "no"') -> Any: ...

        for function, problem in (
            (defaulted, "a positional one is a tensor, which has no default"),
            (lettered, "has a Python number as annotation or default"),
            (untyped, "'kind' has neither a default nor one of the types float, int, bool, str"),
            (quoted, "'kind' has quotes"),
        ):
            with pytest.raises(InputError, match=problem):
                register(autosched.jit(function))

    def test_tensors_that_do_not_fit(self) -> None:
        op = register(two_outputs())
        a, b = torch.ones(3), torch.ones(3, dtype=torch.uint8)
        with pytest.raises(InputError, match=r"input 'b' .*got float32\[3\], expected a tensor of uint8 with 1"):
            op(a, a)
        with pytest.raises(InputError, match=r"input 'a' .*got float32\[1, 3\]"):
            op(a[None], b)
        with pytest.raises(InputError, match="several devices: 'a' on the CPU, 'b' on meta:0"):
            op(a, b.to("meta"))
        with pytest.raises(InputError, match="reads no tensor"):
            register(constant())(torch.ones(3))


def constant() -> autosched.JitFunction:
    @autosched.jit(strategy="roots", backend="interpreter")
    def made(image: Any) -> Any:
        f = Func("f")
        f[x] = 1.0
        return f.over(x=(0, 3))

    return made


def test_torch_is_imported_when_an_operator_is_made(tmp_path: Any) -> None:
    import subprocess
    import sys

    program = "import sys, autosched; autosched.jit; autosched.torch_operator; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "False"


@pytest.mark.gpu
class TestOnTheGpu:
    @pytest.fixture(autouse=True)
    def needs_torch_with_cuda(self) -> None:
        if not torch.cuda.is_available():
            pytest.skip("this PyTorch has no CUDA")

    def test_eager_and_compiled(self) -> None:
        op = autosched.torch_operator(scaled(), fresh(), strategy="roots")
        image = picture(64, 96).cuda()
        result = op(image, 1.0)
        assert result.is_cuda
        torch.testing.assert_close(result, scaled_in_torch(image, 1.0))
        compiled = torch.compile(lambda image: op(image.sin(), 1.0) * 2, fullgraph=True)
        torch.testing.assert_close(compiled(image), scaled_in_torch(image.sin(), 1.0) * 2)
        torch.testing.assert_close(op(image.cpu(), 1.0).cuda(), result)

    def test_no_copies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from autosched.runtime.call.launcher import LaunchSequence

        places: list[dict[str, int]] = []
        run = LaunchSequence.run

        def spy(self: Any, pointers: Any, *args: Any, **kwargs: Any) -> None:
            places.append(dict(pointers))
            run(self, pointers, *args, **kwargs)

        monkeypatch.setattr(LaunchSequence, "run", spy)
        op = autosched.torch_operator(scaled(), fresh(), strategy="roots")
        image = picture(64, 96).cuda()
        result = op(image, 1.0)
        assert places == [{"image": image.data_ptr(), "f": result.data_ptr()}]

    def test_on_the_current_stream(self) -> None:
        op = autosched.torch_operator(scaled(), fresh(), strategy="roots")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            image = picture(64, 96).cuda(non_blocking=True)
            result = op(image, np.float32(1.0).item())
        stream.synchronize()
        torch.testing.assert_close(result, scaled_in_torch(image, 1.0))
