"""The errors that this package raises, and those by which a handler says how its step ends."""

from __future__ import annotations

from typing import Any, Dict, Optional


class Error(Exception):
    """The base of what the client and the worker raise."""


class ServerAway(Error):
    """No answer of the server: it is out of reach, or the connection broke. A command may have been carried out."""


class ApiError(Error):
    """The server refuses a request, with a problem document (RFC 9457).

    status is that of HTTP, code the kind of problem, such as NOT_FOUND, and problem the whole document.
    """

    def __init__(self, status: int, problem: Dict[str, Any], retry_after: float = 0.0) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", ""))
        self.retry_after = retry_after
        text = problem.get("detail") or problem.get("title") or "HTTP status %d" % status
        faults = ["%s: %s" % (f.get("location"), f.get("message")) for f in problem.get("errors") or []]
        hint = problem.get("hint")
        super().__init__("; ".join([str(text)] + faults) + (" (%s)" % hint if hint else ""))

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status >= 500 or self.status == 429

    @property
    def refuses_body(self) -> bool:
        """Whether the server refuses what the request says; a proxy may do so for its size."""
        return self.status == 413 or self.status in (400, 422) and self.code != ""


class Terminated(Error):
    """An operator has terminated the worker."""


class Outcome(Exception):
    """The base of what a handler raises to say how its step ends."""

    def __init__(self, message: str, cls: str = "error", metadata: Any = None) -> None:
        super().__init__(message)
        self.cls = cls
        self.metadata = metadata


class Permanent(Outcome):
    """The step fails for good: it is not tried again, however many attempts it has left."""


class Retry(Outcome):
    """The step fails, and is tried again after some seconds, or after its backoff if after is None."""

    def __init__(self, message: str, after: Optional[float] = None, cls: str = "error", metadata: Any = None) -> None:
        super().__init__(message, cls, metadata)
        if after is not None and not after >= 0:
            raise ValueError("Retry: after %r: want seconds, 0 or more" % after)
        self.after = after


class Snooze(Exception):
    """The step has to wait: it is tried again after so many seconds, and loses no attempt."""

    def __init__(self, seconds: float) -> None:
        super().__init__("snoozed for %s s" % seconds)
        self.seconds = seconds


class InvalidInput(Permanent):
    """The with of the step is not what the handler takes."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "invalid_input")


class Cancelled(Exception):
    """Raised by Step.check and Step.sleep once the step is to end. A handler lets it pass."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
