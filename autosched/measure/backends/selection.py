"""Selection of the measurement backend of a target: the device itself, or a simulation of it."""

from __future__ import annotations

from typing import Literal

from autosched.errors import InputError
from autosched.measure.backend import Backend
from autosched.target import Target

Where = Literal["device", "simulated"]


def backend_for(target: Target, where: Where | str = "device", *, fast_math: bool = False) -> Backend:
    """Return the backend that measures schedules for a target.

    Args:
        target: Target of the schedules.
        where: ``device`` for the GPU or the processor of this machine, which must be the target; ``simulated`` for
            the simulated device.
        fast_math: Whether the CUDA compiler may approximate.

    Raises:
        InputError: If this machine has no such device, or a processor is to be simulated.
    """
    if where == "simulated":
        if target.kind != "cuda":
            raise InputError("only GPUs can be simulated; this machine's processor can be measured")
        from autosched.measure.backends.simulated import SimulatedBackend

        return SimulatedBackend(target)
    if where != "device":
        raise InputError(f"cannot measure on {where!r}: choose device or simulated")
    if target.kind == "cpu":
        from autosched.measure.backends.cpu import CpuBackend

        return CpuBackend()
    return _gpu(target, fast_math)


def _gpu(target: Target, fast_math: bool) -> Backend:
    from autosched.measure.backends.cuda import CudaBackend

    way_out = (
        f'measure on the simulated device (measure="simulated", --simulated), or schedule for {target.name} without '
        "measuring"
    )
    try:
        installed = Target.detect()
    except InputError as error:
        raise InputError(f"schedules for {target.name} cannot be measured here: {error}; or {way_out}") from error
    if not is_same_device(target, installed):
        raise InputError(
            f"schedules for {target.name} cannot be measured on this machine's {installed.name}: choose the target "
            f"'cuda', or {way_out}"
        )
    return CudaBackend(installed.name, (0,), fast_math=fast_math)


def is_same_device(target: Target, installed: Target) -> bool:
    """Return whether a target is an installed GPU; drivers use longer names than built-in targets."""
    return _plain(target.name) in _plain(installed.name) and target.multiprocessors == installed.multiprocessors


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
