"""What a handler sees of the step that it runs."""

from __future__ import annotations

import contextvars
import logging
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from .errors import Cancelled

Claim = Tuple[str, int]

CANCELED = "canceled"        # its job was canceled
TIMEOUT = "timeout"          # it has run for too long
INTERRUPTED = "interrupted"  # the worker is stopping, or is cut off and the step must not overlap
LOST = "lost"                # another worker has the step, or will have it: no result is reported


class Step:
    """One attempt of one step.

    A thread cannot be ended from outside: a handler that runs for long asks cancelled, calls check, or waits by sleep.
    An async handler is cancelled as asyncio tasks are.
    """

    def __init__(self, delivered: Dict[str, Any], write: Callable[["Step", str, bytes], None]) -> None:
        self.id: str = delivered["step_id"]
        self.claim: int = delivered["claim"]
        self.job_id: str = delivered["job_id"]
        self.key: str = delivered["key"]
        self.workflow: str = delivered["workflow"]
        self.attempt: int = delivered["attempt"]
        self.queue: str = delivered["queue"]
        self.handler: str = delivered["handler"]
        self.timeout: float = delivered["timeout_ms"] / 1000
        self.work: Dict[str, Any] = delivered["work"]
        self.output_mode: Optional[str] = delivered.get("output_mode")
        self.permanent_exit_codes: List[int] = delivered.get("permanent_exit_codes") or []
        self.isolated: bool = delivered.get("isolation") == "stop"
        given = delivered.get("input") or {}
        self.inputs: Dict[str, Any] = given.get("inputs") or {}
        self.needs: Dict[str, Any] = given.get("needs") or {}
        self.item: Any = given.get("item")
        self.index: Optional[int] = given.get("index")
        self.matrix: Dict[str, Any] = given.get("matrix") or {}
        self.over = False  # what is written from now on is dropped
        self._write = write
        self._ended = threading.Event()
        self._lock = threading.Lock()  # guards what follows
        self._reason: Optional[str] = None
        self._listeners: List[Callable[[], None]] = []

    @property
    def fence(self) -> Claim:
        """The claim, by the id of its step."""
        return self.id, self.claim

    @property
    def cancelled(self) -> bool:
        """Whether the step is to end."""
        return self._ended.is_set()

    @property
    def reason(self) -> Optional[str]:
        """Why the step is to end: canceled, timeout, interrupted, lost, or None."""
        return self._reason

    def check(self) -> None:
        """Raise Cancelled if the step is to end."""
        if self._ended.is_set():
            raise Cancelled(self._reason or CANCELED)

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Wait until the step is to end, or for so many seconds. Returns whether it is to end."""
        return self._ended.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """Sleep, and raise Cancelled as soon as the step is to end."""
        if self._ended.wait(seconds):
            self.check()

    def on_cancel(self, f: Callable[[], None]) -> None:
        """Call f, in another thread, when the step is to end: at once if it is already."""
        with self._lock:
            if self._reason is None:
                self._listeners.append(f)
                return
        f()

    def log(self, text: Any, stream: str = "stdout") -> None:
        """Append a line to the log of the step, as stdout or stderr."""
        self.write(str(text) + "\n", stream)

    def write(self, text: Any, stream: str = "stdout") -> None:
        """Append text or bytes to the log of the step, as they are."""
        if stream not in ("stdout", "stderr"):
            raise ValueError("stream %r: want stdout or stderr" % stream)
        if not self.over:
            self._write(self, stream, text if isinstance(text, bytes) else str(text).encode("utf-8", "replace"))

    def cancel(self, reason: str) -> None:
        """Ask the handler to end. The first reason counts, but for LOST."""
        with self._lock:
            if self._reason is not None:
                if reason == LOST:
                    self._reason = LOST
                return
            self._reason = reason
            listeners, self._listeners = self._listeners, []
        self._ended.set()
        for f in listeners:
            try:
                f()
            except Exception:
                logging.getLogger("pawl").exception("a listener of on_cancel failed")


current: "contextvars.ContextVar[Optional[Step]]" = contextvars.ContextVar("pawl_step", default=None)


def current_step() -> Step:
    """Return the step that the handler of this thread or task runs."""
    step = current.get()
    if step is None:
        raise LookupError("current_step: no handler runs here")
    return step


class StepLogHandler(logging.Handler):
    """Writes records of the logging package to the log of the step whose handler made them, and drops others."""

    def emit(self, record: logging.LogRecord) -> None:
        step = current.get()
        if step is not None:
            try:
                step.log(self.format(record), "stderr")
            except Exception:
                self.handleError(record)
