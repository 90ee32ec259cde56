"""A worker: claims steps, runs their handlers, and reports how they ended."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, TypeVar

from . import outcome
from .clock import Alarm, Clock
from .errors import ApiError, Error, ServerAway, Terminated
from .inputs import Binding
from .logs import Logs
from .step import CANCELED, INTERRUPTED, LOST, TIMEOUT, Claim, Step, current
from .talk import ENDED, WAIT, Answer, Report, Request, Talk, WorkerEnded, claims, messages, portion
from .transport import Backoff, Connection, Server

log = logging.getLogger("pawl")

Handler = TypeVar("Handler", bound=Callable[..., Any])

OVERTAKEN = 0.2     # seconds after a report for the server to end the exchange that waits
BEAT_AGAIN = 0.2    # seconds until a heartbeat that failed is sent again
MARGIN = 1.0        # seconds of the silence that are left when a step that must not overlap has ended
FINISH = 10.0       # seconds to end the record of a worker that has drained
LAST_TRIES = 3       # exchanges that may fail before a worker that has drained leaves without knowing what it holds


class Worker:
    """Runs steps until it is drained.

    server, token and ca: where the server is; by default as PAWL_SERVER and PAWL_TOKEN say.
    capacity: how many steps run at once, each in a thread of its own.
    queues: those that it serves; by default the queue default.
    silence: seconds without a heartbeat after which the server gives its steps to others: 2 to 3600.
    drain_timeout: seconds that running steps have to end once it drains; then they are asked to end, and run again
        elsewhere. Without it they have as long as they need.
    isolation: "stop" treats all steps as those with isolation: stop, which are asked to end before another worker gets
        them when no heartbeat is answered. grace is how many seconds they get for that, at most a third of the silence
        less 1.
    """

    def __init__(self, server: Optional[str] = None, *, token: Optional[str] = None, ca: Optional[str] = None,
                 workspace: Optional[str] = None, name: Optional[str] = None, capacity: int = 10,
                 queues: Optional[Iterable[str]] = None, silence: float = 6.0, drain_timeout: Optional[float] = None,
                 isolation: Optional[str] = None, grace: float = 5.0) -> None:
        if not 1 <= capacity <= 1000:
            raise ValueError("capacity %r: want 1 to 1000" % capacity)
        if not 2 <= silence <= 3600:
            raise ValueError("silence %r: want 2 to 3600 seconds" % silence)
        if isolation not in (None, "run", "stop"):
            raise ValueError("isolation %r: want run or stop" % isolation)
        if isolation == "stop" and silence < 6:
            raise ValueError("silence %r: want 6 or more with isolation stop" % silence)
        self._server = Server(server, token, ca)
        self._workspace, self._capacity, self._silence = workspace, capacity, silence
        self._name = name or "%s/%d" % (socket.gethostname(), os.getpid())
        self._queues = list(queues or [])
        self._drain_timeout, self._isolation = drain_timeout, isolation
        self._grace = max(min(grace, silence / 3 - MARGIN), 0)
        self._handlers: Dict[str, Binding] = {}
        self._polls, self._visits, self._beats, self._orders = (self._server.connection() for _ in range(4))
        self._logs, self._clock = Logs(self._server.connection()), Clock()
        self._rebirth = threading.Lock()          # held while it registers; taken before _changed
        self._changed = threading.Condition(threading.RLock())  # guards what follows
        self._begun = False
        self._draining = False
        self._hurried = False                     # running steps are asked to end, and reports that fail are given up
        self._over = False
        self._fate: Optional[Error] = None
        self._talk: Optional[Talk] = None
        self._running: Dict[Claim, Step] = {}
        self._outbox: List[Report] = []
        self._polling = 0                         # the number of the exchange that waits; 0: none
        self._taken = 0                           # slots that it may fill
        self._polled = 0
        self._overtook = 0                        # the last exchange that waited and was overtaken
        self._cut = 0                             # the last one that was cut off
        self._last_tries = 0                       # that have failed
        self._look = False                        # an exchange is due without a report
        self._lease = 0.0                         # until when it may run what must not overlap
        self._fuse: Alarm = []                    # fires then

    def handler(self, name: str) -> Callable[[Handler], Handler]:
        """Decorate the function that runs the steps of a handler.

        It takes the step's with, checked by the annotation of its first parameter, and perhaps the Step. What it returns
        is the output. After an exception the step is tried again, as its retry policy says.
        """
        def add(f: Handler) -> Handler:
            self.handle(name, f)
            return f
        return add

    def handle(self, name: str, f: Callable[..., Any]) -> None:
        """Run the steps of a handler by a function, as handler does."""
        if self._begun:
            raise RuntimeError("handler %s: the worker has begun" % name)
        if not name or name in self._handlers:
            raise ValueError("handler %r: want a name that has no handler yet" % name)
        self._handlers[name] = Binding(name, f)

    @property
    def id(self) -> Optional[str]:
        """The id under which it is registered now."""
        talk = self._talk
        return talk.worker if talk else None

    def run(self, signals: bool = True) -> None:
        """Work until it is drained: by drain, or in the main thread by SIGTERM and SIGINT; a second one hurries it.

        While the server is out of reach it tries again. Raises ApiError if the server refuses the registration, and
        Terminated if an operator has terminated the worker. A worker runs once.
        """
        self._begin()
        seen = self._catch() if signals and threading.current_thread() is threading.main_thread() else None
        try:
            workers = threading.Thread(target=self._work, name="pawl-worker", daemon=True)
            workers.start()
            obeyed = 0
            while workers.is_alive():
                workers.join(0.1)  # a handler of a signal may do next to nothing, so this looks what it has seen
                if seen is not None and len(seen.numbers) > obeyed:
                    obeyed += 1
                    self.drain() if obeyed == 1 else self.drain(0)
        finally:
            if seen is not None:
                seen.restore()
        if self._fate is not None:
            raise self._fate

    def drain(self, timeout: Optional[float] = None) -> None:
        """Claim nothing more, and return at once: run returns when what runs has ended.

        After so many seconds, by default drain_timeout, running steps are asked to end.
        """
        limit = self._drain_timeout if timeout is None else timeout
        with self._changed:
            self._draining = True
            self._changed.notify_all()
        if limit is not None:
            self._clock.at(time.monotonic() + limit, self._hurry)

    # The life of the worker.

    def _begin(self) -> None:
        with self._changed:
            if self._begun:
                raise RuntimeError("the worker was started before: a worker runs once")
            if not self._handlers:
                raise ValueError("the worker has no handler")
            self._begun = True

    def _catch(self) -> "Signals":
        return Signals((signal.SIGTERM, signal.SIGINT))

    def _work(self) -> None:
        self._clock.start()
        self._logs.start()
        try:
            self._talk = self._register(None)
            if self._talk is not None:
                loops = [threading.Thread(target=self._guarded, args=(f,), name="pawl-" + f.__name__.strip("_"), daemon=True)
                         for f in (self._poll, self._visit, self._beat)]
                for t in loops:
                    t.start()
                for t in loops:
                    t.join()
                with self._changed:  # what was asked to end may take a while
                    self._changed.wait_for(lambda: not self._running)
                self._finish()
        except Exception as e:
            self._fate = e if isinstance(e, Error) else Error("the worker has ended by a fault: %r" % e)
        finally:
            self._logs.stop()
            self._clock.stop()
            for link in (self._polls, self._visits, self._beats, self._orders):
                link.close()

    def _guarded(self, loop: Callable[[], None]) -> None:
        """Run a loop. What it raises ends the worker."""
        try:
            loop()
        except BaseException as e:
            log.exception("the worker ends by a fault")
            self._end(e if isinstance(e, Error) else Error("the worker has ended by a fault: %r" % e))

    def _end(self, fate: Optional[Error]) -> None:
        with self._changed:
            self._over = True
            self._fate = self._fate or fate
            self._changed.notify_all()
        for link in (self._polls, self._visits, self._beats):
            link.cut()

    def _finish(self) -> None:
        """End the record of a worker that has drained. It tries once if the server was away just now."""
        talk, backoff = self._talk, Backoff()
        if talk is None or self._fate is not None:
            return
        away = self._hurried or self._last_tries >= LAST_TRIES
        key, until = {"Idempotency-Key": secrets.token_hex(16)}, time.monotonic() + (0 if away else FINISH)
        while True:
            try:
                self._orders.call("POST", talk.path + "/complete", {"reason": "drained"}, headers=key, timeout=5)
                return
            except Error as e:
                if isinstance(e, ApiError) and not e.passing:
                    return  # it has ended
            if time.monotonic() >= until:
                break
            time.sleep(backoff.pause())
        log.warning("ending the worker failed; servers will find it dead")

    def _register(self, before: Optional[Dict[str, Any]]) -> Optional[Talk]:
        """Register, and try again while the server is out of reach. Returns None if it is to end before."""
        body = {"workspace_id": self._workspace, "name": self._name, "host": socket.gethostname(), "pid": os.getpid(),
                "capacity": self._capacity, "handlers": sorted(self._handlers), "queues": self._queues or None,
                "silence_ms": int(self._silence * 1000), "isolation": self._isolation, "predecessor": before}
        given = {k: v for k, v in body.items() if v is not None}
        backoff, key, warned = Backoff(), secrets.token_hex(16), False
        while not self._ending():
            sent = time.monotonic()
            try:
                done = self._orders.call("POST", "/api/workers", given, headers={"Idempotency-Key": key})
                self._renew(sent)
                log.info("worker %s serves %s", done["id"], ", ".join(sorted(self._handlers)))
                return Talk(done["id"])
            except (ServerAway, ApiError) as e:
                held = isinstance(e, ApiError) and e.code == "REQUEST_IN_PROGRESS"
                if isinstance(e, ApiError) and not e.passing and not held:
                    raise
                if not warned:
                    log.warning("registering failed; it is tried again until it works: %s", e)
                warned = True
                self._rest(max(backoff.pause(), getattr(e, "retry_after", 0.0)), self._ending)
        return None

    def _ending(self) -> bool:
        """Whether a worker without a registration may end: nothing of it is left to be reported."""
        return self._over or self._draining

    def _register_again(self, ended: Talk) -> None:
        """Register anew after the end of a registration, unless that was done or an operator has ended it."""
        with self._rebirth:
            if self._talk is not ended or self._over:
                return
            held = ended.holding()
            with self._changed:
                for step in self._running.values():
                    step.cancel(LOST)
            end = self._who_ended(ended)
            if end.get("operator"):
                self._end(Terminated("worker %s was terminated by %s: %s" % (ended.worker, end.get("actor"), end.get("reason"))))
                return
            log.warning("this worker was declared dead; it drops its steps and registers again: %s", end.get("reason"))
            talk = self._register({"worker_id": ended.worker, "holding": messages(held)[:2000]})
            if talk is None:
                self._end(None)
                return
            with self._changed:
                self._talk = talk
                self._changed.notify_all()
            self._polls.cut()

    def _who_ended(self, talk: Talk) -> Dict[str, Any]:
        backoff = Backoff()
        while not self._ending():
            try:
                return dict(self._orders.call("GET", talk.path + "/end"))
            except (ServerAway, ApiError) as e:
                if isinstance(e, ApiError) and not e.passing:
                    return {"reason": str(e)}
            self._rest(backoff.pause(), self._ending)
        return {}

    def _rest(self, seconds: float, until: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(until, seconds)

    # Heartbeats, and what has to end.

    def _beat(self) -> None:
        failed = False
        while not self._over:
            talk, sent, pause = self._talk, time.monotonic(), BEAT_AGAIN
            assert talk is not None
            try:
                said = self._beats.call("POST", talk.path + "/heartbeat", {"holding": messages(talk.holding())}, self._silence / 3)
                self._renew(sent)
                self._cancel(claims(said.get("stops")), CANCELED)
                self._cancel(claims(said.get("gone")), LOST)
                failed, pause = False, max(said["next_ms"] / 1000, 0.05)
            except Error as e:
                if isinstance(e, ApiError) and e.code in ENDED:
                    self._register_again(talk)
                    continue
                if not failed and not self._over:
                    log.warning("a heartbeat failed; it is tried again until one succeeds: %s", e)
                failed, pause = True, max(BEAT_AGAIN, getattr(e, "retry_after", 0.0))
            self._rest(pause, lambda: self._over)

    def _cancel(self, list_: List[Claim], reason: str) -> None:
        with self._changed:
            for claim in list_:
                if claim in self._running:
                    self._running[claim].cancel(reason)

    def _renew(self, sent: float) -> None:
        """Extend the lease by an answer to what was sent at that time."""
        with self._changed:
            self._lease = sent + self._silence - self._grace - MARGIN
            self._clock.drop(self._fuse)
            self._fuse = self._clock.at(self._lease, self._cut_off)

    def _cut_off(self) -> None:
        """End what must not overlap, unless a heartbeat was answered meanwhile."""
        with self._changed:
            if time.monotonic() < self._lease:
                return
            for step in self._running.values():
                if self._isolated(step) and not step.cancelled:
                    log.warning("step %s ends, since this worker is cut off and the step must not overlap", step.key)
                    step.cancel(INTERRUPTED)

    def _isolated(self, step: Step) -> bool:
        return step.isolated or self._isolation == "stop"

    def _hurry(self) -> None:
        with self._changed:
            self._hurried = True
            for step in self._running.values():
                step.cancel(INTERRUPTED)
            self._changed.notify_all()

    # Exchanges. One waits at the server for steps; another reports, and overtakes it.

    def _free(self) -> int:
        if self._draining or self._over:
            return 0
        return max(self._capacity - len(self._running) - self._taken, 0)

    def _poll(self) -> None:
        backoff = Backoff()
        while self._await(lambda: self._free() > 0 and not self._outbox):  # an exchange with reports claims, too
            talk = self._talk
            assert talk is not None
            with talk.visiting:  # an exchange with reports that is under way is not overtaken
                with self._changed:
                    free = self._free()
                    if free == 0 or self._outbox or self._talk is not talk:
                        continue
                    self._polled += 1
                    self._taken, self._polling = free, self._polled
                request = talk.take_turn([], free, WAIT)
            answer = self._send(self._polls, talk, request, backoff)
            with self._changed:
                self._taken = self._polling = 0
                self._changed.notify_all()
            self._rest(answer.pause, lambda: self._over or self._draining)

    def _await(self, ready: Callable[[], bool]) -> bool:
        """Wait for something to do. Returns False when the worker has drained, or is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or ready() or self._drained())
            if not self._over and self._drained():
                self._over = True
                self._changed.notify_all()
            return not self._over

    def _drained(self) -> bool:
        if not self._draining or self._running or self._polling:
            return False
        assert self._talk is not None
        return not self._outbox and (not self._talk.unsure or self._hurried or self._last_tries >= LAST_TRIES)

    def _visit(self) -> None:
        backoff = Backoff()
        while self._await(self._due):
            talk = self._talk
            assert talk is not None
            with talk.visiting:
                with self._changed:
                    self._look = False
                    reports = portion(self._outbox)
                    free = self._free() if len(reports) == len(self._outbox) else 0
                    self._overtook = overtaken = self._polling
                request = talk.take_turn(reports, free, 0)
                answer = self._send(self._visits, talk, request, backoff)
            if overtaken:
                self._clock.at(time.monotonic() + OVERTAKEN, lambda n=overtaken: self._overtake(n))  # type: ignore[misc]
            self._rest(answer.pause, lambda: self._over)

    def _due(self) -> bool:
        """Whether an exchange is due that does not wait."""
        if self._outbox or self._look:
            return True
        assert self._talk is not None
        waits = self._polling not in (0, self._overtook)
        return self._draining and (waits or not self._running and not self._polling and self._talk.unsure)

    def _overtake(self, polled: int) -> None:
        """Cut off an exchange that waits though a later one was answered: a proxy may have sent it to another server."""
        with self._changed:
            if self._polling != polled:
                return
            self._cut = polled
        self._polls.cut()

    def _send(self, link: Connection, talk: Talk, request: Request, backoff: Backoff) -> Answer:
        """Send an exchange, and act on its answer. After a failure it waits."""
        try:
            answer = talk.send(link, request)
        except WorkerEnded:
            self._register_again(talk)
            return Answer()
        except Error as e:
            self._failed(talk, request, e, backoff)
            return Answer()
        backoff.reset()
        self._reported(request.reports)
        self._cancel(answer.stops, CANCELED)
        self._cancel(answer.gone, LOST)
        for delivered in answer.steps:
            self._start(talk, delivered)
        return answer

    def _failed(self, talk: Talk, request: Request, e: Error, backoff: Backoff) -> None:
        if isinstance(e, ApiError) and e.refuses_body and request.reports:
            self._send_singly(talk, request.reports, str(e))
            return
        turn = isinstance(e, ApiError) and e.code == "TURN"
        if self._hurried and request.reports and not turn:
            log.error("the worker stops while the server is away; %d steps that it could not report will run again", len(request.reports))
            self._reported(request.reports)
            return
        if request.waits and self._cut == self._polled:
            self._cut = 0
            return  # this worker has cut it off
        if self._draining and not self._running and not self._outbox:
            self._last_tries += 1
        if backoff.calm and not turn and not self._over:
            log.warning("an exchange failed; it is tried again until it works: %s", e)
        self._rest(max(backoff.pause(), getattr(e, "retry_after", 0.0)), lambda: self._over or self._hurried or self._draining and request.waits)

    def _send_singly(self, talk: Talk, reports: List[Report], why: str) -> None:
        """Send each report alone, of which the server refuses one as invalid. That one becomes a failure of its step."""
        if len(reports) == 1:
            log.error("the server refuses the report of step %s: %s", reports[0].fence[0], why)
            with self._changed:
                instead = reports[0].refused(why)
                self._outbox = [instead if r is reports[0] else r for r in self._outbox if r is not reports[0] or instead]
            return
        for r in reports:
            self._send(self._visits, talk, talk.take_turn([r], 0, 0), Backoff())

    def _reported(self, reports: List[Report]) -> None:
        with self._changed:
            self._outbox = [r for r in self._outbox if r not in reports]
            self._changed.notify_all()

    # Steps.

    def _start(self, talk: Talk, delivered: Dict[str, Any]) -> None:
        step = Step(delivered, self._logs.write)
        with self._changed:
            if self._draining or self._isolated(step) and time.monotonic() >= self._lease:
                step.cancel(INTERRUPTED)
                self._outbox.append(outcome.stopped(step))
                self._changed.notify_all()
                return
            self._running[step.fence] = step
        threading.Thread(target=self._perform, args=(talk, step), name="pawl-step-" + step.key, daemon=True).start()

    def _perform(self, talk: Talk, step: Step) -> None:
        current.set(step)
        binding = self._handlers.get(step.handler)
        if binding is None:
            report = outcome.fail(step, "no_handler", "this worker has no handler " + step.handler)
        else:
            alarm = self._clock.at(time.monotonic() + step.timeout, lambda: step.cancel(TIMEOUT))
            report = outcome.run(binding, step)
            self._clock.drop(alarm)
        step.over = True
        self._logs.close(step)
        with self._changed:
            del self._running[step.fence]
            if step.reason == LOST:
                talk.forget(step.fence)
                self._look = True  # its slot is free
            else:
                self._outbox.append(report)
            self._changed.notify_all()


class Signals:
    """Notes the signals that arrive, in place of their handlers."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.numbers: List[int] = []
        self._before = [(n, signal.signal(n, lambda n, _: self.numbers.append(n))) for n in numbers]

    def restore(self) -> None:
        for n, handler in self._before:
            signal.signal(n, handler)
