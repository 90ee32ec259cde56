import json
import os
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Tuple

import pawl
from pawl.clock import Clock
from pawl.outcome import MAX_OUTPUT, run
from pawl.inputs import Binding
from pawl.step import LOST, TIMEOUT, Step
from pawl.talk import MAX_REPORTS, Report, Talk, WorkerEnded, portion
from pawl.transport import Backoff, Server, parse


class Script(ThreadingHTTPServer):
    """A server that answers as it is told, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, answers: Callable[[str, str, Any], Tuple[int, Any]]) -> None:
        asked: List[Tuple[str, str, Any, Dict[str, str]]] = []

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(text) if text else None
                asked.append((self.command, self.path, body, dict(self.headers)))
                status, value = answers(self.command, self.path, body)
                if status == 0:  # the answer is lost
                    self.close_connection = True
                    return
                out = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json" if status < 300 else "application/problem+json")
                self.send_header("Content-Length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Answer)
        unittest.addModuleCleanup(self.server_close)
        unittest.addModuleCleanup(self.shutdown)
        self.asked = asked
        self.url = "http://127.0.0.1:%d" % self.server_port
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


def delivered(**more: Any) -> Dict[str, Any]:
    return {"step_id": "st_1", "claim": 1, "job_id": "j_1", "key": "a", "workflow": "w", "attempt": 1, "queue": "default", "handler": "h",
            "work": {"kind": "handler", "with": 7}, "input": {"inputs": {"n": 1}, "needs": {"b": 2}, "item": 3}, "timeout_ms": 1000, **more}


def client(test: unittest.TestCase, url: str, **more: Any) -> pawl.Client:
    made = pawl.Client(url, **more)
    test.addCleanup(made.close)
    return made


class TransportTest(unittest.TestCase):
    def test_urls(self) -> None:
        for good, want in [("https://a.example", "https://a.example"), ("http://127.0.0.1:7295/", "http://127.0.0.1:7295"),
                           ("http://localhost:1", "http://localhost:1"), ("http://[::1]:1", "http://[::1]:1")]:
            self.assertEqual(parse(good), want)
        for bad in ["", "a.example", "ftp://a", "http://a.example", "https://u:p@a", "https://a/b", "https://a?b", "https://", "http://127.0.0.1:x"]:
            with self.subTest(bad), self.assertRaisesRegex(ValueError, "^server "):
                parse(bad)
        with self.assertRaisesRegex(ValueError, "visible ASCII"):
            Server("http://127.0.0.1:1", token="a\nb")

    def test_problems(self) -> None:
        s = Script(lambda *_: (422, {"code": "INVALID", "detail": "no", "hint": "do", "errors": [{"location": "body.a", "message": "bad"}]}))
        with self.assertRaises(pawl.ApiError) as caught:
            client(self, s.url).get("j_1")
        self.assertEqual((str(caught.exception), caught.exception.code, caught.exception.passing), ("no; body.a: bad (do)", "INVALID", False))

    def test_backoff(self) -> None:
        b = Backoff(1, 4)
        for most in (1, 2, 4, 4):
            self.assertTrue(most / 2 <= b.pause() <= most)
        self.assertFalse(b.calm)
        b.reset()
        self.assertTrue(b.calm)


class ClientTest(unittest.TestCase):
    def test_a_lost_answer(self) -> None:
        """A command whose answer is lost is sent again, under the same key, with the token."""
        answers = [(0, None), (503, {}), (201, {"id": "j_1"})]
        s = Script(lambda *_: answers.pop(0))
        self.assertEqual(client(self, s.url, token="secret", workspace="w").submit("nightly@2", {"n": 1}), "j_1")
        keys = {headers["Idempotency-Key"] for _, _, _, headers in s.asked}
        self.assertEqual((len(s.asked), len(keys)), (3, 1))
        self.assertEqual(s.asked[0][2], {"workflow": "nightly@2", "inputs": {"n": 1}, "workspace_id": "w"})
        self.assertEqual(s.asked[0][3]["Authorization"], "Bearer secret")

    def test_calls(self) -> None:
        """What has no key is not sent again, unless it is a GET."""
        answers = [(0, None), (0, None), (200, {"n": 1}), (0, None), (200, {"n": 2})]
        s = Script(lambda *_: answers.pop(0))
        c = client(self, s.url)
        with self.assertRaises(pawl.ServerAway):
            c.call("POST", "/api/jobs/batch", {})
        self.assertNotIn("Idempotency-Key", s.asked[0][3])
        self.assertEqual([c.call("GET", "/api/version"), c.call("POST", "/api/jobs", {}, request_id="k")], [{"n": 1}, {"n": 2}])

    def test_commands(self) -> None:
        s = Script(lambda method, path, body: (200, {"id": "j_1", "status": "COMPLETED", "output": [1]}))
        c = client(self, s.url)
        c.cancel("j_1", "enough", request_id="k")
        c.signal("j_1", "paid", {"n": 1}, request_id="l")
        job = c.wait("j_1")
        self.assertEqual((job.id, job.status, job.output, job.ended), ("j_1", "COMPLETED", [1], True))
        self.assertEqual([(p, b) for _, p, b, _ in s.asked], [
            ("/api/jobs/j_1/cancel", {"reason": "enough"}), ("/api/jobs/j_1/signals", {"name": "paid", "data": {"n": 1}}),
            ("/api/jobs/j_1?wait=ended", None)])
        self.assertEqual(s.asked[0][3]["Idempotency-Key"], "k")
        with self.assertRaisesRegex(ValueError, "want workflow or source"):
            c.submit()

    def test_wait(self) -> None:
        s = Script(lambda *_: (200, {"id": "j_1", "status": "RUNNING"}))
        with self.assertRaises(TimeoutError):
            client(self, s.url).wait("j_1", 0.05)

    def test_no_server(self) -> None:
        with self.assertRaises(pawl.ServerAway):
            client(self, "http://127.0.0.1:1").get("j_1")


class TalkTest(unittest.TestCase):
    """The rules of docs/workers.md, against answers that are told."""

    def send(self, answers: List[Tuple[int, Any]], talk: Talk, **of: Any) -> Any:
        s = Script(lambda *_: answers.pop(0))
        self.asked = s.asked
        link = Server(s.url).connection()
        self.addCleanup(link.close)
        return talk.send(link, talk.take_turn(of.get("reports", []), of.get("free", 1), 0))

    def test_turns_and_holding(self) -> None:
        t = Talk("w_1")
        step = delivered()
        got = self.send([(200, {"steps": [step], "next_ms": 250})], t)
        self.assertEqual((got.steps, got.pause, self.asked[0][2]), ([step], 0.25, {"turn": 1, "free": 1, "wait_ms": 0, "holding": []}))
        got = self.send([(200, {"steps": [dict(step, redelivered=True)]})], t)
        self.assertEqual((got.steps, self.asked[0][2]), ([], {"turn": 2, "free": 1, "wait_ms": 0}))
        with self.assertRaises(pawl.ServerAway):
            self.send([(0, None)], t)
        report = Report(("st_1", 1), {"outcome": "complete", "output": 1})
        self.send([(200, {"results": ["duplicate"]})], t, reports=[report], free=0)
        self.assertEqual(self.asked[0][2], {"turn": 4, "free": 0, "wait_ms": 0, "holding": [{"step_id": "st_1", "claim": 1}],
                                            "reports": [{"step_id": "st_1", "claim": 1, "outcome": "complete", "output": 1}]})
        self.send([(200, {"more": True})], t)
        self.assertNotIn("holding", self.asked[0][2])
        with self.assertRaises(pawl.ApiError):
            self.send([(409, {"code": "TURN", "current": 9})], t)
        self.send([(200, {})], t)
        self.assertEqual(self.asked[0][2], {"turn": 10, "free": 1, "wait_ms": 0, "holding": []})

    def test_a_late_answer_delivers_nothing_again(self) -> None:
        """The answer of an exchange that waited comes after its step was delivered again, and reported."""
        t, step = Talk("w_1"), delivered()
        answers = [(200, {"steps": [dict(step, redelivered=True)]}), (200, {"results": ["accepted"]}), (200, {"steps": [step]})]
        link = Server(Script(lambda *_: answers.pop(0)).url).connection()
        self.addCleanup(link.close)
        waited = t.take_turn([], 1, 0)
        self.assertEqual(len(t.send(link, t.take_turn([], 1, 0)).steps), 1)
        t.send(link, t.take_turn([Report(("st_1", 1), {"outcome": "complete", "output": 1})], 0, 0))
        self.assertEqual(t.send(link, waited).steps, [])
        self.assertEqual(t._over, {})

    def test_more(self) -> None:
        t = Talk("w_1")
        self.send([(200, {"steps": [delivered()], "more": True})], t)
        self.send([(200, {"gone": [{"step_id": "st_1", "claim": 1}]})], t)
        self.assertEqual(self.asked[0][2]["holding"], [{"step_id": "st_1", "claim": 1}])
        self.assertEqual((t.holding(), t.unsure), ([], False))

    def test_the_end(self) -> None:
        for status, code in [(410, "WORKER_ENDED"), (404, "NOT_FOUND")]:
            with self.assertRaises(WorkerEnded):
                self.send([(status, {"code": code})], Talk("w_1"))
        with self.assertRaises(pawl.ApiError):  # of a proxy
            self.send([(404, {})], Talk("w_1"))

    def test_portions(self) -> None:
        reports = [Report(("st_1", n), {}, 1 << 20) for n in range(300)]
        self.assertEqual(len(portion(reports)), 6)
        self.assertEqual(len(portion([Report(("st_1", 1), {}, 100 << 20)] + reports)), 1)
        self.assertEqual(len(portion([Report(("st_1", n), {}) for n in range(300)])), MAX_REPORTS)


class OutcomeTest(unittest.TestCase):
    def report(self, f: Any, cancel: str = "", **more: Any) -> Dict[str, Any]:
        step = Step(delivered(**more), lambda *_: None)
        if cancel:
            step.cancel(cancel)
        body = run(Binding("h", f), step).body
        return {k: v for k, v in body.items() if k not in ("step_id", "claim")}

    def test_outcomes(self) -> None:
        def fails(e: BaseException) -> Any:
            def f() -> None:
                raise e
            return f

        async def asynchronous(n: int) -> int:
            return n + 1

        def class_of(f: Any, **more: Any) -> Tuple[str, bool]:
            error = self.report(f, **more)["error"]
            return error["class"], error["permanent"]

        self.assertEqual(self.report(lambda n, s: [n, s.inputs, s.needs, s.item]), {"outcome": "complete", "output": [7, {"n": 1}, {"b": 2}, 3]})
        self.assertEqual(self.report(asynchronous), {"outcome": "complete", "output": 8})
        self.assertEqual(self.report(lambda: 1, output_mode="none"), {"outcome": "complete", "output": None})
        self.assertEqual(self.report(fails(pawl.Snooze(1.5))), {"outcome": "release", "after_ms": 1500})
        self.assertEqual(self.report(fails(pawl.Retry("a", after=2, metadata={1, 2})))["error"],
                         {"class": "error", "message": "a", "permanent": False, "retry_after_ms": 2000, "metadata": "{1, 2}"})
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        for f, want in [(fails(Mute()), ("error", False)), (lambda: pawl.Retry("a", after=float("nan")), ("ValueError", False)),
                        (fails(pawl.Permanent("a", cls="c")), ("c", True)), (fails(SystemExit(3)), ("SystemExit", False)),
                        (fails(ValueError("v")), ("ValueError", False)), (fails(pawl.Snooze(0)), ("invalid_snooze", True)),
                        (lambda: float("nan"), ("invalid_output", True)), (lambda: "x" * MAX_OUTPUT, ("output_too_large", True))]:
            self.assertEqual(class_of(f), want)

    def test_steps_that_are_to_end(self) -> None:
        self.assertEqual(self.report(lambda: 1, cancel=TIMEOUT)["outcome"], "timeout")

        def at_work(step: Step, f: Callable[[], Any]) -> Any:
            step.cancel("interrupted")
            return f()

        def swallows(_: Any, step: Step) -> Any:
            return at_work(step, lambda: "done")

        def passes(_: Any, step: Step) -> Any:
            return at_work(step, step.check)

        self.assertEqual(self.report(swallows), {"outcome": "complete", "output": "done"})
        self.assertEqual(self.report(passes)["outcome"], "release")

    def test_reasons(self) -> None:
        step = Step(delivered(), lambda *_: None)
        heard: List[int] = []
        step.on_cancel(lambda: heard.append(1))
        step.cancel(TIMEOUT)
        step.cancel("canceled")
        step.on_cancel(lambda: heard.append(2))
        self.assertEqual((step.reason, heard, step.wait(0)), (TIMEOUT, [1, 2], True))
        step.cancel(LOST)
        self.assertEqual(step.reason, LOST)
        with self.assertRaises(pawl.Cancelled):
            step.sleep(60)


class ClockTest(unittest.TestCase):
    def test_order(self) -> None:
        c, heard, done = Clock(), [], threading.Event()
        c.start()
        now = time.monotonic()
        c.at(now + 0.02, done.set)
        c.at(now + 0.01, lambda: heard.append(2))
        c.at(now, lambda: heard.append(1))
        c.drop(c.at(now, lambda: heard.append(3)))
        for _ in range(1000):
            c.drop(c.at(now + 3600, done.set))
        self.assertTrue(done.wait(10))
        c.stop()
        self.assertEqual(heard, [1, 2])
        self.assertLess(len(c._calls), 300)


class WorkerTest(unittest.TestCase):
    def test_settings(self) -> None:
        for given in [{"capacity": 0}, {"capacity": 1001}, {"silence": 1}, {"silence": 3601}, {"isolation": "never"}, {"isolation": "stop", "silence": 3}]:
            with self.subTest(given), self.assertRaisesRegex(ValueError, "want "):
                pawl.Worker(**given)  # type: ignore[arg-type]
        w = pawl.Worker("http://127.0.0.1:1")
        with self.assertRaisesRegex(ValueError, "no handler"):
            w.run()
        w.handle("a", lambda: None)
        with self.assertRaisesRegex(ValueError, "no handler yet"):
            w.handle("a", lambda: None)
        w.drain()
        w.run(signals=False)  # it ends before it has begun
        with self.assertRaisesRegex(RuntimeError, "runs once"):
            w.run()

    def test_refused(self) -> None:
        s = Script(lambda *_: (403, {"code": "NOT_ALLOWED", "detail": "no"}))
        w = pawl.Worker(s.url)
        w.handle("a", lambda: None)
        with self.assertRaisesRegex(pawl.ApiError, "no"):
            w.run(signals=False)

    def test_reports_go_first(self) -> None:
        """However fast steps end and new ones come: no more are delivered and not reported than there are slots."""
        held, most, left = set(), 0, list(range(400))

        def answer(method: str, path: str, body: Any) -> Tuple[int, Any]:
            nonlocal most
            if "exchange" not in path:
                return 200, {"id": "w_1", "stops": [], "gone": [], "next_ms": 1000}
            held.difference_update(r["step_id"] for r in body.get("reports", []))
            given = [delivered(step_id="st_%d" % left.pop()) for _ in range(min(body["free"], len(left)))]
            held.update(s["step_id"] for s in given)
            most = max(most, len(held))
            if not left and not held:
                w.drain()
            return 200, {"steps": given, "next_ms": 0 if given or body.get("reports") else 20}

        w = pawl.Worker(Script(answer).url, capacity=4)
        w.handle("h", lambda: None)
        w.run(signals=False)
        self.assertEqual((held, left), (set(), []))
        self.assertLessEqual(most, 4)

    def test_a_report_that_is_refused(self) -> None:
        """Of several reports of which the server refuses one, that one becomes a failure, and the others arrive."""
        ended: Dict[str, Any] = {}
        given = [delivered(step_id="st_%d" % n, work={"kind": "handler", "with": n}) for n in range(3)]
        ready = threading.Barrier(3)

        def answer(method: str, path: str, body: Any) -> Tuple[int, Any]:
            if path == "/api/workers":
                return 201, {"id": "w_1"}
            if path.endswith("/heartbeat"):
                return 200, {"stops": [], "gone": [], "next_ms": 1000}
            if path.endswith("/complete"):
                return 200, {}
            if any(r.get("output") == "bad" for r in body.get("reports", [])):
                return 422, {"code": "INVALID", "detail": "bad"}
            ended.update({r["step_id"]: r for r in body.get("reports", [])})
            steps, given[:] = (given[:], []) if body["free"] else ([], given)
            if len(ended) == 3:
                w.drain()
            return 200, {"steps": steps, "next_ms": 20}

        s = Script(answer)
        w = pawl.Worker(s.url, capacity=3)

        def handler(n: int) -> str:
            ready.wait(10)
            return "bad" if n == 1 else "good"

        w.handle("h", handler)
        w.run(signals=False)
        self.assertEqual([ended["st_0"]["output"], ended["st_1"]["error"]["class"], ended["st_2"]["output"]], ["good", "invalid_report", "good"])


if __name__ == "__main__":
    os.environ.pop("PAWL_TOKEN", None)
    unittest.main()
