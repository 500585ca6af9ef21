"""Training curves for TensorBoard (extra ``train``)."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from autosched.errors import InputError
from autosched.model.train.training import EpochReport


class TensorboardLog:
    """Writes the terms of the loss after each pass.

    Args:
        directory: Directory of the event files, for ``tensorboard --logdir``.

    Raises:
        InputError: TensorBoard is missing.
    """

    def __init__(self, directory: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as e:
            raise InputError(f"training curves need TensorBoard ({e}); install autosched[train]") from e
        self._writer = SummaryWriter(str(directory))

    def __enter__(self) -> TensorboardLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()

    def write(self, report: EpochReport) -> None:
        """Write the report of one pass."""
        for part, terms in (("training", report.training), ("validation", report.validation)):
            for name, value in terms.items():
                self._writer.add_scalar(f"{part}/{name}", value, report.epoch)
        self._writer.add_scalar("validation/error", report.error, report.epoch)
        self._writer.add_scalar("learning_rate", report.learning_rate, report.epoch)
