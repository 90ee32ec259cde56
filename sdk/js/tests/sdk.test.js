import assert from "node:assert/strict";
import http from "node:http";
import { after, test } from "node:test";

import { ApiError, Cancelled, Client, InvalidInput, Permanent, Retry, ServerAway, Snooze, Worker } from "../index.js";
import { run } from "../lib/outcome.js";
import { LOST, Step, TIMEOUT } from "../lib/step.js";
import { Talk, WorkerEnded, portion } from "../lib/talk.js";
import { Backoff, Server, parse } from "../lib/transport.js";

delete process.env.PAWL_TOKEN;

/** A server that answers as it is told, and keeps what it was asked. */
async function script(answers) {
  const asked = [];
  const server = http.createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const body = text ? JSON.parse(text) : undefined;
    asked.push({ path: request.url, body, headers: request.headers });
    const [status, value] = await answers(request.url, body);
    if (status === 0) return request.socket.destroy(); // the answer is lost
    response.writeHead(status, { "Content-Type": status < 300 ? "application/json" : "application/problem+json" });
    return response.end(JSON.stringify(value));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, asked };
}

const delivered = (more) => ({
  step_id: "st_1", claim: 1, job_id: "j_1", key: "a", workflow: "w", attempt: 1, queue: "default", handler: "h",
  work: { kind: "handler", with: 7 }, input: { inputs: { n: 1 }, needs: { b: 2 }, item: 3 }, timeout_ms: 1000, ...more,
});

test("URLs and tokens", () => {
  for (const [good, want] of [["https://a.example", "https://a.example"], ["http://127.0.0.1:7295/", "http://127.0.0.1:7295"], ["http://localhost:1", "http://localhost:1"], ["http://[::1]:1", "http://[::1]:1"]]) {
    assert.equal(parse(good), want);
  }
  for (const bad of ["", "a.example", "ftp://a", "http://a.example", "https://u:p@a", "https://a/b", "https://a?b", "https://", "http://127.0.0.1:x"]) {
    assert.throws(() => parse(bad), /^TypeError: server /, bad);
  }
  assert.throws(() => new Server({ server: "http://127.0.0.1:1", token: "a\nb" }), /visible ASCII/);
});

test("pauses grow, and are random", () => {
  const b = new Backoff(1, 4);
  for (const most of [1, 2, 4, 4]) {
    const pause = b.pause();
    assert.ok(most / 2 <= pause && pause <= most);
  }
  assert.equal(b.calm, false);
  b.reset();
  assert.equal(b.calm, true);
});

test("a command whose answer is lost is sent again, under the same key, with the token", async () => {
  const answers = [[0], [503, {}], [201, { id: "j_1" }]];
  const s = await script(() => answers.shift());
  const c = new Client({ server: s.url, token: "secret", workspace: "w" });
  assert.equal(await c.submit({ workflow: "nightly@2", inputs: { n: 1 } }), "j_1");
  assert.equal(s.asked.length, 3);
  assert.equal(new Set(s.asked.map((a) => a.headers["idempotency-key"])).size, 1);
  assert.deepEqual(s.asked[0].body, { workflow: "nightly@2", inputs: { n: 1 }, workspace_id: "w" });
  assert.equal(s.asked[0].headers.authorization, "Bearer secret");
  c.close();
});

test("a call without a key is not sent again, unless it is a GET", async () => {
  const answers = [[0], [0], [200, { n: 1 }], [0], [200, { n: 2 }]];
  const s = await script(() => answers.shift());
  const c = new Client({ server: s.url });
  await assert.rejects(c.call("POST", "/api/jobs/batch", {}), ServerAway);
  assert.equal(s.asked[0].headers["idempotency-key"], undefined);
  assert.deepEqual([await c.call("GET", "/api/version"), await c.call("POST", "/api/jobs", {}, { requestId: "k" })], [{ n: 1 }, { n: 2 }]);
  c.close();
});

test("the client's commands", async () => {
  const s = await script(() => [200, { id: "j_1", status: "COMPLETED", output: [1] }]);
  const c = new Client({ server: s.url });
  await c.cancel("j_1", { reason: "enough", requestId: "k" });
  await c.signal("j_1", "paid", { n: 1 });
  assert.deepEqual((await c.wait("j_1")).output, [1]);
  assert.deepEqual(s.asked.map((a) => [a.path, a.body]), [
    ["/api/jobs/j_1/cancel", { reason: "enough" }], ["/api/jobs/j_1/signals", { name: "paid", data: { n: 1 } }], ["/api/jobs/j_1?wait=ended", undefined]]);
  assert.equal(s.asked[0].headers["idempotency-key"], "k");
  await assert.rejects(c.submit({}), /want workflow or source/);
  c.close();
});

test("the client's errors", async () => {
  const s = await script((path) => (path.endsWith("ended") ? [200, { id: "j_1", status: "RUNNING" }]
    : [422, { code: "INVALID", detail: "no", hint: "do", errors: [{ location: "body.a", message: "bad" }] }]));
  const c = new Client({ server: s.url });
  await assert.rejects(c.get("j_1"), (e) => e instanceof ApiError && e.message === "no; body.a: bad (do)" && e.code === "INVALID" && !e.passing);
  await assert.rejects(c.wait("j_1", { timeoutMs: 50 }), /has not ended/);
  await assert.rejects(new Client({ server: "http://127.0.0.1:1" }).get("j_1"), ServerAway);
  c.close();
});

test("turns and holding, as docs/workers.md has them", async () => {
  const answers = [];
  const s = await script(() => answers.shift());
  const server = new Server({ server: s.url });
  const talk = new Talk("w_1");
  const empty = { steps: [], stops: [], gone: [], results: [], next_ms: 0 };
  const send = (answer, of = { free: 1 }) => {
    answers.push(answer);
    return talk.exchange(server, of);
  };
  const last = () => s.asked.at(-1).body;
  const held = [{ step_id: "st_1", claim: 1 }];

  assert.deepEqual(await send([200, { ...empty, steps: [delivered()], next_ms: 250 }]), { steps: [delivered()], stops: [], gone: [], pauseMs: 250 });
  assert.deepEqual(last(), { turn: 1, free: 1, wait_ms: 0, holding: [] });
  assert.deepEqual((await send([200, { ...empty, steps: [delivered({ redelivered: true })] }])).steps, []);
  assert.deepEqual(last(), { turn: 2, free: 1, wait_ms: 0 });
  await assert.rejects(send([0]), ServerAway);
  const report = { fence: "st_1 1", size: 1, body: { ...held[0], outcome: "complete", output: 1 } };
  await send([200, { ...empty, results: ["duplicate"] }], { reports: [report] });
  assert.deepEqual(last(), { turn: 4, free: 0, wait_ms: 0, holding: held, reports: [report.body] });
  await send([200, { ...empty, steps: [delivered()], more: true }]);
  assert.equal(last().holding, undefined);
  await assert.rejects(send([409, { code: "TURN", current: 9 }]), ApiError);
  await send([200, { ...empty, gone: held }]);
  assert.deepEqual(last(), { turn: 10, free: 1, wait_ms: 0, holding: held });
  assert.deepEqual([talk.holding(), talk.unsure], [[], false]);
  await assert.rejects(send([404, {}]), ApiError); // of a proxy
  for (const end of [[410, { code: "WORKER_ENDED" }], [404, { code: "NOT_FOUND" }]]) await assert.rejects(send(end), WorkerEnded);
  server.close();
});

test("a late answer delivers nothing again", async () => {
  let release;
  const late = new Promise((resolve) => (release = resolve));
  const empty = { steps: [], stops: [], gone: [], results: [], next_ms: 0 };
  const answers = [late, [200, { ...empty, steps: [delivered({ redelivered: true })] }], [200, { ...empty, results: ["accepted"] }]];
  const s = await script((_, body) => answers[body.turn - 1]);
  const server = new Server({ server: s.url });
  const talk = new Talk("w_1");
  const waits = talk.exchange(server, { free: 1, waitMs: 1000 });
  assert.equal((await talk.exchange(server, { free: 1 })).steps.length, 1);
  await talk.exchange(server, { reports: [{ fence: "st_1 1", size: 1, body: { step_id: "st_1", claim: 1, outcome: "complete", output: 1 } }] });
  release([200, { ...empty, steps: [delivered()] }]);
  assert.deepEqual((await waits).steps, []);
  server.close();
});

test("reports are sent in portions", () => {
  const of = (n, size) => Array.from({ length: n }, () => ({ size }));
  assert.equal(portion(of(300, 1 << 20)).length, 6);
  assert.equal(portion([{ size: 100 << 20 }, ...of(3, 1)]).length, 1);
  assert.equal(portion(of(300, 0)).length, 200);
});

test("what a handler returns or throws", async () => {
  const report = async (handler, { parse, ...more } = {}) => {
    const { body } = await run({ handler, parse }, new Step(delivered(more), () => {}));
    return { ...body, step_id: undefined, claim: undefined };
  };
  const fails = (e) => report(() => { throw e; });
  const complete = (output) => ({ outcome: "complete", output, step_id: undefined, claim: undefined });
  assert.deepEqual(await report((n, s) => [n, s.inputs, s.needs, s.item]), complete([7, { n: 1 }, { b: 2 }, 3]));
  assert.deepEqual(await report(async (n) => n + 1, { parse: (n) => n + 1 }), complete(9));
  assert.deepEqual(await report(() => undefined), complete(null));
  assert.deepEqual(await report(() => 1, { output_mode: "none" }), complete(null));
  assert.equal((await fails(new Snooze(1500))).after_ms, 1500);
  const circle = {};
  circle.circle = circle;
  for (const [got, cls, permanent, more] of [
    [await fails(new Retry("a", { afterMs: 20, metadata: { n: 1 } })), "error", false, { retry_after_ms: 20, metadata: { n: 1 } }],
    [await fails(new Permanent("a", { class: "c", metadata: circle })), "c", true, { metadata: "[object Object]" }],
    [await fails(new RangeError("a")), "RangeError", false, {}],
    [await fails(Object.create(null)), "error", false, {}],
    [await fails(undefined), "error", false, { message: "undefined" }],
    [await fails("a text"), "error", false, { message: "a text" }],
    [await fails(new Snooze(0)), "invalid_snooze", true, {}],
    [await report(() => circle), "invalid_output", true, {}],
    [await report(() => "x".repeat(1 << 20)), "output_too_large", true, {}],
    [await report(() => 1, { parse: () => { throw new TypeError("a: want b"); } }), "invalid_input", true, { message: "handler h: with: a: want b" }],
  ]) {
    assert.equal(got.outcome, "fail");
    assert.deepEqual({ ...got.error, ...more }, got.error);
    assert.deepEqual([got.error.class, got.error.permanent], [cls, permanent]);
  }
  assert.ok(new InvalidInput("a") instanceof Permanent);
});

test("a step that is to end", async () => {
  const step = new Step(delivered(), () => {});
  const slept = step.sleep(60000);
  step.cancel(TIMEOUT);
  step.cancel("canceled");
  await assert.rejects(slept, Cancelled);
  await assert.rejects(step.sleep(1), Cancelled);
  assert.throws(() => step.check(), Cancelled);
  assert.deepEqual([step.cancelled, step.reason, step.signal.aborted], [true, TIMEOUT, true]);
  assert.equal((await run({ handler: () => 1 }, step)).body.outcome, "timeout");
  step.cancel(LOST);
  assert.equal(step.reason, LOST);
  const interrupted = (f) => {
    const one = new Step(delivered(), () => {});
    return run({ handler: () => (one.cancel("interrupted"), f(one)) }, one);
  };
  assert.deepEqual((await interrupted(() => "done")).body.output, "done");
  assert.equal((await interrupted((one) => one.check())).body.outcome, "release");
});

test("settings", async () => {
  for (const bad of [{ capacity: 0 }, { capacity: 1.5 }, { capacity: 1001 }, { silenceMs: 1 }, { silenceMs: NaN }, { isolation: "never" }, { isolation: "stop", silenceMs: 3000 }]) {
    assert.throws(() => new Worker(bad), /want /);
  }
  const w = new Worker({ server: "http://127.0.0.1:1" });
  await assert.rejects(w.run(), /no handler/);
  w.handle("a", () => {});
  assert.throws(() => w.handle("a", () => {}), /no handler yet/);
  assert.throws(() => w.handle("b", 7), /want a function/);
  w.drain();
  await w.run(); // it ends before it has begun
  await assert.rejects(w.run(), /runs once/);
});

test("a registration that is refused ends the worker", async () => {
  const s = await script(() => [403, { code: "NOT_ALLOWED", detail: "no" }]);
  await assert.rejects(new Worker({ server: s.url }).handle("a", () => {}).run(), ApiError);
});

test("reports go first: no more steps are delivered and not reported than there are slots", async () => {
  const held = new Set();
  let [most, left] = [0, 400];
  const s = await script((path, body) => {
    if (!path.includes("exchange")) return [200, { id: "w_1", stops: [], gone: [], next_ms: 1000 }];
    for (const r of body.reports ?? []) held.delete(r.step_id);
    const steps = Array.from({ length: Math.min(body.free, left) }, () => delivered({ step_id: `st_${left--}` }));
    for (const step of steps) held.add(step.step_id);
    most = Math.max(most, held.size);
    if (left === 0 && held.size === 0) w.drain();
    return [200, { steps, stops: [], gone: [], next_ms: steps.length > 0 || body.reports ? 0 : 20 }];
  });
  const w = new Worker({ server: s.url, capacity: 4, log: () => {} }).handle("h", () => undefined);
  await w.run({ signals: false });
  assert.deepEqual([held.size, left], [0, 0]);
  assert.ok(most <= 4, `${most} are held`);
});

test("of several reports of which the server refuses one, that one becomes a failure, and the others arrive", async () => {
  const ended = {};
  const given = [0, 1, 2].map((n) => delivered({ step_id: `st_${n}`, work: { kind: "handler", with: n } }));
  const empty = { stops: [], gone: [], next_ms: 20 };
  const s = await script((path, body) => {
    if (path === "/api/workers") return [201, { id: "w_1" }];
    if (path.endsWith("/heartbeat")) return [200, { ...empty, next_ms: 1000 }];
    if (path.endsWith("/complete")) return [200, {}];
    if (body.reports?.some((r) => r.output === "bad")) return [422, { code: "INVALID", detail: "bad" }];
    for (const r of body.reports ?? []) ended[r.step_id] = r;
    if (Object.keys(ended).length === 3) w.drain();
    return [200, { ...empty, steps: body.free > 0 ? given.splice(0) : [] }];
  });
  const w = new Worker({ server: s.url, capacity: 3, log: () => {} });
  let all;
  const ready = new Promise((resolve) => (all = resolve));
  let begun = 0;
  w.handle("h", async (n) => {
    if (++begun === 3) all();
    await ready;
    return n === 1 ? "bad" : "good";
  });
  await w.run({ signals: false });
  assert.deepEqual([ended.st_0.output, ended.st_1.error.class, ended.st_2.output], ["good", "invalid_report", "good"]);
});
