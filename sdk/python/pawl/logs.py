"""Carries what steps print to the server."""

from __future__ import annotations

import logging
import threading
import time
from typing import Dict, Optional, Tuple
from urllib.parse import quote

from .errors import ApiError, Error, ServerAway
from .step import Step
from .transport import Connection

log = logging.getLogger("pawl")

EVERY = 0.2            # seconds between two appends
CHUNK = 256 << 10      # bytes of one append
KEPT = 1 << 20         # bytes of a stream that the server keeps
LAST = 5.0             # seconds that the end of a step waits for its log


class Stream:
    """One stream of one claim: what was not yet stored of it."""

    def __init__(self, step: Step, name: str) -> None:
        self.path = "/api/steps/%s/log?claim=%d&stream=%s&offset=" % (quote(step.id, ""), step.claim, name)
        self.name = name
        self.stored = 0         # the offset of the first byte of waiting
        self.waiting = bytearray()
        self.dropped = 0
        self.failed = False

    def add(self, data: bytes) -> None:
        room = KEPT - self.stored - len(self.waiting)
        kept = data[:max(room, 0)] if not self.failed else b""
        self.waiting += kept
        self.dropped += len(data) - len(kept)


class Logs:
    """A thread that appends what waits, a chunk at a time, over a connection of its own."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._changed = threading.Condition()  # guards what follows
        self._streams: Dict[Tuple[str, int, str], Stream] = {}
        self._urgent = False
        self._over = False
        self._thread = threading.Thread(target=self._run, name="pawl-logs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def write(self, step: Step, name: str, data: bytes) -> None:
        with self._changed:
            key = (step.id, step.claim, name)
            if key not in self._streams:
                self._streams[key] = Stream(step, name)
            self._streams[key].add(data)
            self._changed.notify_all()

    def close(self, step: Step) -> None:
        """Wait until the log of a step is stored, for LAST seconds at most, and forget it."""
        with self._changed:
            mine = [k for k in self._streams if k[:2] == (step.id, step.claim)]
            if not mine:
                return
            for k in mine:
                dropped = self._streams[k].dropped
                if dropped:
                    note = Stream(step, "pawl")
                    note.add(b"%s: %d bytes more were dropped\n" % (self._streams[k].name.encode(), dropped))
                    self._streams.setdefault(k[:2] + ("pawl",), note)
            mine = [k for k in self._streams if k[:2] == (step.id, step.claim)]
            self._urgent = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not any(self._streams[k].waiting for k in mine), LAST)
            lost = sum(len(self._streams.pop(k).waiting) for k in mine)
        if lost:
            log.warning("%d bytes of the log of step %s were lost", lost, step.key)

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._link.cut()
        self._thread.join()
        self._link.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or any(s.waiting for s in self._streams.values()))
                self._changed.wait_for(lambda: self._over or self._urgent, EVERY)
                self._urgent = False
                if self._over:
                    return
                full = [s for s in self._streams.values() if s.waiting]
            for stream in full:
                if not self._append(stream):
                    time.sleep(EVERY)
                    break

    def _append(self, stream: Stream) -> bool:
        """Append a chunk of a stream. Returns whether the server answers."""
        with self._changed:
            data, at = bytes(stream.waiting[:CHUNK]), stream.stored
        stored: Optional[int] = None
        try:
            answer = self._link.call("POST", stream.path + str(at), raw=data)
            stored = at + len(data) if not answer.get("truncated") else None
        except ServerAway:
            return False
        except ApiError as e:
            if e.passing:
                return False
            current = e.problem.get("current")
            if e.code == "OFFSET" and isinstance(current, int) and at < current <= at + len(data):
                stored = current
        except Error:
            pass  # it is of no use to try again
        with self._changed:
            if stored is None:
                stream.failed = True
                stream.dropped += len(stream.waiting)
                stream.waiting.clear()
            else:
                del stream.waiting[:stored - at]
                stream.stored = stored
            self._changed.notify_all()
        return True


