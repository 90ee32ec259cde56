"""Submit jobs, wait for them, and cancel them."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any, Dict, List, Optional
from urllib.parse import quote

from .errors import ApiError, ServerAway
from .transport import Backoff, Server

TRIES = 4
WAITING = 40.0  # seconds: the server answers a wait after 25
ENDED = ("COMPLETED", "FAILED", "CANCELED")


class Job:
    """A job as the server has described it.

    id, status, output and error are attributes; everything else is in record.
    """

    def __init__(self, record: Dict[str, Any]) -> None:
        self.record = record
        self.id: str = record["id"]
        self.status: str = record["status"]
        self.output: Any = record.get("output")
        self.error: Optional[Dict[str, Any]] = record.get("error")

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def __repr__(self) -> str:
        return "Job(%s, %s)" % (self.id, self.status)


class Client:
    """A client of a server. Threads may share it.

    server, token and ca are as PAWL_SERVER, PAWL_TOKEN and --ca of the command line. Each command has a request id, a
    random one unless request_id gives it: a request whose answer is lost is sent again and has one effect.
    """

    def __init__(self, server: Optional[str] = None, *, token: Optional[str] = None, ca: Optional[str] = None,
                 workspace: Optional[str] = None) -> None:
        self._server = Server(server, token, ca)
        self._workspace = workspace
        self._links = threading.local()  # each thread has a connection of its own

    def submit(self, workflow: Optional[str] = None, inputs: Optional[Dict[str, Any]] = None, *,
               source: Optional[str] = None, description: Optional[str] = None, priority: Optional[int] = None,
               request_id: Optional[str] = None) -> str:
        """Submit a job of a registered workflow (NAME or NAME@VERSION), or of the text of a file, and return its id."""
        if (workflow is None) == (source is None):
            raise ValueError("submit: want workflow or source, and not both")
        body = {"workflow": workflow, "source": source, "inputs": inputs, "task_description": description,
                "priority": priority, "workspace_id": self._workspace}
        answer = self._command("/api/jobs", body, request_id)
        return str(answer["id"])

    def get(self, job: str) -> Job:
        """Return a job as it is now."""
        return Job(self._call("GET", job_path(job)))

    def wait(self, job: str, timeout: Optional[float] = None) -> Job:
        """Return a job when it has ended. Raises TimeoutError after so many seconds, and waits for ever without."""
        until = None if timeout is None else time.monotonic() + timeout
        backoff = Backoff()
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("job %s has not ended after %s s" % (job, timeout))
            try:
                limit = WAITING if left is None else min(WAITING, left)
                found = Job(self._once("GET", job_path(job) + "?wait=ended", None, None, limit))
                if found.ended:
                    return found
                backoff.reset()
            except (ServerAway, ApiError) as e:
                if isinstance(e, ApiError) and not e.passing:
                    raise
                pause = max(backoff.pause(), getattr(e, "retry_after", 0.0))
                time.sleep(pause if left is None else max(min(pause, left), 0))

    def cancel(self, job: str, reason: Optional[str] = None, *, request_id: Optional[str] = None) -> Dict[str, Any]:
        """Cancel a job, and return the receipt."""
        return dict(self._command(job_path(job) + "/cancel", {"reason": reason}, request_id))

    def signal(self, job: str, name: str, data: Any = None, *, reason: Optional[str] = None,
               request_id: Optional[str] = None) -> Dict[str, Any]:
        """Send a signal to a job, and return the receipt."""
        return dict(self._command(job_path(job) + "/signals", {"name": name, "data": data, "reason": reason}, request_id))

    def logs(self, job: str) -> List[Dict[str, Any]]:
        """Return the lines that the steps of a job have printed."""
        lines: List[Dict[str, Any]] = []
        cursor = ""
        while True:
            page = self._call("GET", job_path(job) + "/logs?limit=100" + ("&cursor=" + quote(cursor, "") if cursor else ""))
            lines += page["items"]
            cursor = page.get("next") or ""
            if not cursor:
                return lines

    def call(self, method: str, path: str, body: Any = None, *, request_id: Optional[str] = None) -> Any:
        """Call any operation of the API, and return the JSON of its answer.

        It is sent again after a lost answer only if it is a GET, or has a request_id.
        """
        return self._call(method, path, body, request_id)

    def close(self) -> None:
        """Close the connection of this thread. The client can be used again."""
        link = getattr(self._links, "link", None)
        if link is not None:
            link.close()

    def _command(self, path: str, body: Dict[str, Any], request_id: Optional[str]) -> Any:
        given = {name: value for name, value in body.items() if value is not None}
        return self._call("POST", path, given, request_id or secrets.token_hex(16))

    def _call(self, method: str, path: str, body: Any = None, key: Optional[str] = None) -> Any:
        backoff = Backoff(0.1)
        for tries in range(TRIES if key or method == "GET" else 1, 0, -1):
            try:
                return self._once(method, path, body, key)
            except ServerAway:
                if tries == 1:
                    raise
                pause = backoff.pause()
            except ApiError as e:
                held = e.code == "REQUEST_IN_PROGRESS"  # by an earlier copy of this request
                if tries == 1 or not (e.passing and e.status != 500 or held):
                    raise
                pause = max(backoff.pause(), min(e.retry_after, 10.0))
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, body: Any, key: Optional[str], timeout: float = 30.0) -> Any:
        link = getattr(self._links, "link", None)
        if link is None:
            link = self._links.link = self._server.connection()
        return link.call(method, path, body, timeout, headers={"Idempotency-Key": key} if key else None)


def job_path(job: str) -> str:
    return "/api/jobs/" + quote(job, "")
