"""Calls functions when their time has come, in one thread."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from typing import Any, Callable, List

Alarm = List[Any]  # when, a number, and the function; None once it was dropped


class Clock:
    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._calls: List[Alarm] = []
        self._dropped = 0
        self._number = itertools.count()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="pawl-clock", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def at(self, when: float, f: Callable[[], None]) -> Alarm:
        """Call f, which must not block, at a time of time.monotonic."""
        alarm: Alarm = [when, next(self._number), f]
        with self._changed:
            heapq.heappush(self._calls, alarm)
            if self._calls[0] is alarm:
                self._changed.notify_all()
        return alarm

    def drop(self, alarm: Alarm) -> None:
        """Forget a call that has not begun."""
        with self._changed:
            if not alarm or alarm[2] is None:
                return
            alarm[2] = None
            self._dropped += 1
            if self._dropped > 100 and self._dropped > len(self._calls) // 2:
                self._calls = [a for a in self._calls if a[2] is not None]
                heapq.heapify(self._calls)
                self._dropped = 0

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._over:
                    return
                left = self._calls[0][0] - time.monotonic() if self._calls else None
                if left is None or left > 0:
                    self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
                    continue
                alarm = heapq.heappop(self._calls)
                f, alarm[2] = alarm[2], None
                self._dropped -= f is None
            try:
                if f is not None:
                    f()
            except Exception:
                logging.getLogger("pawl").exception("a timer failed")
