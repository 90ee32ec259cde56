"""The worker of the tests: --help lists its options. testdata/worker.mjs is the same for Node.js."""

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import pawl


def note(given: Dict[str, Any], step: pawl.Step, what: str) -> None:
    """Append a line to a file that outlives this process."""
    line = "%s %d %s\n" % (step.id, step.claim, what)
    fd = os.open(given["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


@dataclass
class Order:
    item: str
    count: int = 1
    notes: Optional[List[str]] = None


def echo(given: Any, step: pawl.Step) -> Any:
    return {"by": "python", "with": given, "inputs": step.inputs, "needs": step.needs, "item": step.item}


def flaky(_: Any, step: pawl.Step) -> int:
    if step.attempt < 3:
        raise pawl.Retry("not yet", after=0.01, cls="early", metadata={"attempt": step.attempt})
    return step.attempt


def broken() -> None:
    raise pawl.Permanent("it is broken", cls="broken", metadata={"part": 7})


def boom(_: Any) -> None:
    raise ZeroDivisionError("a fault of the handler")


def typed(order: Order) -> str:
    return "%d x %s" % (order.count, order.item)


def snoozed(_: Any, step: pawl.Step) -> List[int]:
    if step.claim == 1:
        raise pawl.Snooze(0.02)
    return [step.claim, step.attempt]


def unprintable(_: Any) -> Any:
    return object()


def huge(_: Any) -> str:
    return "x" * (1 << 20)


def talk(_: Any, step: pawl.Step) -> None:
    step.log("to stdout")
    step.log("to stderr, \u00fc", "stderr")
    logging.getLogger("handler").warning("by logging")


def flood(_: Any, step: pawl.Step) -> None:
    for _i in range(1200):
        step.log("y" * 1023)


def slow(given: Dict[str, Any], step: pawl.Step) -> str:
    note(given, step, "begin")
    try:
        step.sleep(given["seconds"])
    except pawl.Cancelled as e:
        note(given, step, e.reason)
        raise
    note(given, step, "end")
    return "slept"


async def gentle(given: Dict[str, Any], step: pawl.Step) -> str:
    import asyncio
    note(given, step, "begin")
    try:
        await asyncio.sleep(given["seconds"])
    except asyncio.CancelledError:
        note(given, step, str(step.reason))
        raise
    return "slept"


def block(given: Dict[str, Any]) -> str:
    until = time.monotonic() + given["seconds"]
    while time.monotonic() < until:
        pass
    return "blocked"


def run(_: Any, step: pawl.Step) -> Any:
    """Run a script as pawl worker does, as far as the load of the chaos needs it."""
    ids = {"PAWL_JOB_ID": step.job_id, "PAWL_STEP_ID": step.id, "PAWL_ATTEMPT": str(step.attempt), "PAWL_CLAIM": str(step.claim)}
    p = subprocess.Popen(["sh", "-e", "-c", step.work["run"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env={**os.environ, **step.work.get("env", {}), **ids}, start_new_session=True)
    step.on_cancel(lambda: os.killpg(p.pid, signal.SIGKILL) if p.poll() is None else None)
    out, err = p.communicate()
    step.write(out)
    step.write(err, "stderr")
    step.check()
    if p.returncode:
        cls = "exit_%d" % p.returncode
        if p.returncode in step.permanent_exit_codes:
            raise pawl.Permanent("the script has failed", cls=cls)
        raise pawl.Retry("the script has failed", cls=cls)
    text = out.decode()
    if step.output_mode == "json":
        return json.loads(text)
    return text[:-1] if text.endswith("\n") else text


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--name", default="python")
    p.add_argument("--capacity", type=int, default=4)
    p.add_argument("--queue", action="append")
    p.add_argument("--silence", type=float, default=6)
    p.add_argument("--drain-timeout", type=float)
    p.add_argument("--ca")
    p.add_argument("--prefix", default="")
    p.add_argument("--scripts", action="store_true", help="serve run steps, and nothing else")
    o = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    shown = pawl.StepLogHandler()
    logging.getLogger("handler").addHandler(shown)
    w = pawl.Worker(name=o.name, capacity=o.capacity, queues=o.queue, silence=o.silence, drain_timeout=o.drain_timeout, ca=o.ca)
    if o.scripts:
        w.handle("run", run)
    else:
        for f in (echo, flaky, broken, boom, typed, snoozed, unprintable, huge, talk, flood, slow, gentle, block):
            w.handle(o.prefix + f.__name__, f)
    try:
        w.run()
    except pawl.Error as e:
        print("%s: %s" % (type(e).__name__, e), file=sys.stderr)
        sys.exit(1)


main()
