"""What a handler returns or raises, as the report of its step."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any, Dict, Optional

from .errors import Cancelled, Outcome, Permanent, Retry, Snooze
from .inputs import Binding
from .step import CANCELED, INTERRUPTED, TIMEOUT, Step
from .talk import Report
from .transport import encode

MAX_OUTPUT = 1 << 20
MAX_MESSAGE = 60000
LONGEST = 366 * 24 * 3600.0  # seconds


def run(binding: Binding, step: Step) -> Report:
    """Run a handler to its end, and return what is to be reported."""
    try:
        if step.cancelled:  # do not begin what is to end at once
            return stopped(step)
        arguments = binding.arguments(step.work.get("with"), step)
        if binding.is_async:
            value = asyncio.run(cancellable(binding.handler(*arguments), step))
        else:
            value = binding.handler(*arguments)
    except Snooze as e:
        return stopped(step) if step.cancelled else snoozed(step, e)
    except BaseException as e:  # a handler may raise anything, SystemExit included
        try:
            return failed(step, e)
        except Exception:  # what it raises may not even have a text
            return fail(step, "error", "the handler has raised %s, which cannot be shown" % type(e).__name__)
    return completed(step, value)


async def cancellable(coroutine: Any, step: Step) -> Any:
    """Await a handler, and cancel it when its step is to end."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(coroutine)

    def cancel() -> None:
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            pass  # the loop has ended

    step.on_cancel(cancel)
    return await task


def completed(step: Step, value: Any) -> Report:
    if step.output_mode == "none":
        value = None
    try:
        size = len(encode(value))
    except (TypeError, ValueError, RecursionError) as e:
        return fail(step, "invalid_output", "the result of the handler is not JSON: %s" % e, permanent=True)
    if size > MAX_OUTPUT:
        return fail(step, "output_too_large", "the output has %d bytes: want at most %d" % (size, MAX_OUTPUT), permanent=True)
    return Report(step.fence, {"outcome": "complete", "output": value}, size)


def snoozed(step: Step, e: Snooze) -> Report:
    if not 0.001 <= e.seconds <= LONGEST:
        return fail(step, "invalid_snooze", "Snooze: %s s: want 0.001 to %d" % (e.seconds, LONGEST), permanent=True)
    return Report(step.fence, {"outcome": "release", "after_ms": int(e.seconds * 1000)})


def failed(step: Step, e: BaseException) -> Report:
    if step.cancelled:  # why it was to end decides
        return stopped(step)
    if isinstance(e, Outcome):
        after = e.after if isinstance(e, Retry) else None
        return fail(step, e.cls, str(e), permanent=isinstance(e, Permanent), after=after, metadata=e.metadata)
    step.write("".join(traceback.format_exception(type(e), e, e.__traceback__)), "stderr")
    cls = CANCELED if isinstance(e, (Cancelled, asyncio.CancelledError)) else type(e).__name__
    return fail(step, cls, str(e) or type(e).__name__)


def stopped(step: Step) -> Report:
    """Return the report of a step that was to end. Nobody reads that of one that is LOST."""
    outcome = {CANCELED: "cancel", TIMEOUT: "timeout", INTERRUPTED: "release"}.get(step.reason or "", "release")
    message = {"cancel": "canceled", "timeout": "timed out after %g s" % step.timeout, "release": "interrupted: the worker is stopping"}[outcome]
    return Report(step.fence, {"outcome": outcome, "error": {"class": step.reason or INTERRUPTED, "message": message}})


def fail(step: Step, cls: str, message: str, permanent: bool = False, after: Optional[float] = None, metadata: Any = None) -> Report:
    error: Dict[str, Any] = {"class": cls[:128], "message": message[:MAX_MESSAGE], "permanent": permanent}
    if after is not None:
        error["retry_after_ms"] = int(min(max(after, 0), LONGEST) * 1000)
    if metadata is not None:
        try:
            encode(metadata)
            error["metadata"] = metadata
        except (TypeError, ValueError, RecursionError):
            error["metadata"] = repr(metadata)[:1000]
    return Report(step.fence, {"outcome": "fail", "error": error})
