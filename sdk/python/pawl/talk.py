"""The conversation of one registration of a worker with its server (docs/workers.md of Pawl)."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Set

from .errors import ApiError, Error
from .step import Claim
from .transport import Connection

MAX_REPORTS = 200
MAX_PORTION = 6 << 20   # bytes of reports in one exchange
WAIT = 25.0             # seconds that the server waits for steps
PATIENCE = 15.0         # seconds for an answer, beside that

ENDED = ("WORKER_ENDED", "NOT_FOUND")  # the problems that say that a registration is over


class WorkerEnded(Error):
    """The registration is over."""


class Report:
    """The outcome of a claim, and how large it is."""

    def __init__(self, fence: Claim, body: Dict[str, Any], size: int = 0) -> None:
        self.fence = fence
        self.body = dict(body, step_id=fence[0], claim=fence[1])
        self.size = size

    def refused(self, why: str) -> "Optional[Report]":
        """Return the failure of a step whose report the server refuses as invalid: None if it is one already."""
        if self.body.get("error", {}).get("class") == "invalid_report":
            return None
        error = {"class": "invalid_report", "message": "the server refuses the report of the step: " + why[:60000], "permanent": True}
        return Report(self.fence, {"outcome": "fail", "error": error})


class Answer:
    """What an exchange has brought: steps that are new here, and claims that are over or have to end."""

    def __init__(self) -> None:
        self.steps: List[Dict[str, Any]] = []
        self.stops: List[Claim] = []
        self.gone: List[Claim] = []
        self.pause = 0.0


class Request:
    """An exchange that has its turn."""

    def __init__(self, body: Dict[str, Any], reports: List[Report], doubts: int) -> None:
        self.body, self.reports, self.doubts = body, reports, doubts

    @property
    def waits(self) -> bool:
        """Whether the server waits for steps before it answers."""
        return bool(self.body["wait_ms"])


class Talk:
    """Counts turns, and knows the claims that were delivered and are not yet reported.

    So what an answer had that was lost is found, and what is delivered twice is run once.
    """

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.path = "/api/workers/" + worker
        self.visiting = threading.Lock()  # held during an exchange with reports
        self._lock = threading.Lock()     # guards what follows
        self._turn = 0
        self._held: Dict[Claim, bool] = {}  # whether the server says that it is gone
        self._unsure = True  # the next exchange has to say what is held
        self._doubts = 0     # how often it became unsure
        self._underway: Set[int] = set()    # the turns of exchanges without an answer
        self._over: Dict[Claim, int] = {}   # claims that were reported, and the last turn that may still deliver them

    @property
    def unsure(self) -> bool:
        with self._lock:
            return self._unsure

    def holding(self) -> List[Claim]:
        with self._lock:
            return [c for c, gone in self._held.items() if not gone]

    def forget(self, claim: Claim) -> None:
        """Forget a claim that is gone, and of which nothing is reported."""
        with self._lock:
            self._held.pop(claim, None)

    def take_turn(self, reports: List[Report], free: int, wait: float) -> Request:
        with self._lock:
            self._turn += 1
            self._underway.add(self._turn)
            body: Dict[str, Any] = {"turn": self._turn, "free": free, "wait_ms": int(wait * 1000)}
            if reports:
                body["reports"] = [r.body for r in reports]
            if self._unsure:
                body["holding"] = messages([c for c, gone in self._held.items() if not gone])
            return Request(body, reports, self._doubts)

    def send(self, link: Connection, request: Request) -> Answer:
        """Send an exchange, once. After any error but WorkerEnded its reports have to be sent again."""
        limit = PATIENCE + request.body["wait_ms"] / 1000
        try:
            answer = link.call("POST", self.path + "/exchange", request.body, limit)
            return self._learn(request, answer)
        except Error as e:
            if self._failed(request, e):
                return Answer()
            raise
        finally:
            self._ended(request)

    def _ended(self, request: Request) -> None:
        """Forget the claims that no exchange under way can deliver any more."""
        with self._lock:
            self._underway.discard(request.body["turn"])
            oldest = min(self._underway, default=self._turn + 1)
            self._over = {c: last for c, last in self._over.items() if last >= oldest}

    def _failed(self, request: Request, e: Error) -> bool:
        """Note that an answer may be lost. Returns whether this process has overtaken the exchange itself."""
        with self._lock:
            self._unsure = True
            self._doubts += 1
            if not isinstance(e, ApiError):
                return False
            if e.code in ENDED:
                raise WorkerEnded(str(e))
            if e.code != "TURN":
                return False
            overtaken = self._turn > request.body["turn"]
            self._turn = max(self._turn, int(e.problem.get("current") or 0))
            return overtaken and not request.reports

    def _learn(self, request: Request, answer: Dict[str, Any]) -> Answer:
        learned = Answer()
        learned.pause = (answer.get("next_ms") or 0) / 1000
        learned.stops, learned.gone = claims(answer.get("stops")), claims(answer.get("gone"))
        with self._lock:
            if self._doubts == request.doubts and not answer.get("more"):
                self._unsure = False
            for r in request.reports:
                self._held.pop(r.fence, None)
                self._over[r.fence] = self._turn
            for c in learned.gone:
                if c in self._held:
                    self._held[c] = True
            for s in answer.get("steps") or []:
                claim = (s["step_id"], s["claim"])
                if claim not in self._held and claim not in self._over:
                    self._held[claim] = False
                    learned.steps.append(s)
        return learned


def claims(list_: Optional[List[Dict[str, Any]]]) -> List[Claim]:
    return [(c["step_id"], c["claim"]) for c in list_ or []]


def messages(list_: List[Claim]) -> List[Dict[str, Any]]:
    return [{"step_id": step, "claim": claim} for step, claim in list_]


def portion(reports: List[Report]) -> List[Report]:
    """Return those of the reports that fit into one exchange."""
    size = 0
    for i, r in enumerate(reports):
        size += r.size
        if i == MAX_REPORTS or (i > 0 and size > MAX_PORTION):
            return reports[:i]
    return list(reports)
