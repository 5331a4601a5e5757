"""Whether a training is still running, or was broken off by an exception that ended its frames."""

from __future__ import annotations

import sys
import threading
from types import FrameType

from transformers import Trainer

__all__ = ["RunningTraining"]


class RunningTraining:
    """The ``Trainer.train`` that the calling code runs in; `over` once it has returned or raised.

    Trainers tell their callbacks nothing of an exception, so the frame of ``train`` is looked for
    on its thread's stack. Outside of a trainer of transformers nothing is ever `over`.
    """

    def __init__(self) -> None:
        """Find the outermost training on this thread's stack."""
        self._thread = threading.get_ident()
        self._frame: FrameType | None = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "train" and isinstance(frame.f_locals.get("self"), Trainer):
                self._frame = frame
            frame = frame.f_back

    @property
    def over(self) -> bool:
        """Whether the training has ended, however; callable from any thread."""
        if self._frame is None:
            return False
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is None
