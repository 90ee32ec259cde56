// A worker: claims steps, runs their handlers, and reports how they ended.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";

import { ApiError, PawlError, ServerAway, Terminated } from "./errors.js";
import { Log } from "./logs.js";
import { fail, refused, run, stopped } from "./outcome.js";
import { CANCELED, INTERRUPTED, LOST, Step, TIMEOUT, after, fence } from "./step.js";
import { Talk, WAIT, WorkerEnded, portion } from "./talk.js";
import { Backoff, Server, now, sleep } from "./transport.js";

const OVERTAKEN = 200; // milliseconds after a report for the server to end the exchange that waits
const MARGIN = 1000; // milliseconds of the silence that are left when a step that must not overlap has ended
const FINISH = 10000; // milliseconds to end the record of a worker that has drained

const LAST_TRIES = 3; // exchanges that may fail before a worker that has drained leaves without knowing what it holds

const passes = (e) => e instanceof ServerAway || (e instanceof ApiError && e.passing);

export class Worker {
  #options;
  #server;
  #log;
  #grace;
  #handlers = new Map();
  #begun = false;
  #draining = false;
  #hurried = false; // running steps are asked to end, and reports that fail are given up
  #over = false;
  #fate; // the error by which the worker ends
  #talk;
  #rebirth; // a promise while it registers anew
  #running = new Map(); // by fence: the step
  #outbox = [];
  #poll; // the exchange that waits: {free, abort, overtaken}
  #lastTries = 0; // that have failed
  #look = false; // an exchange is due without a report
  #lease = 0; // until when it may run what must not overlap
  #fuse; // drops the timer that fires then
  #beats; // the thread of the heartbeats
  #waiting = new Set(); // what is called after each change
  #clearHurry;

  constructor(options = {}) {
    const { capacity = 10, silenceMs = 6000, isolation, graceMs = 5000 } = options;
    if (!Number.isInteger(capacity) || capacity < 1 || capacity > 1000) throw new RangeError(`capacity ${capacity}: want 1 to 1000`);
    if (!(silenceMs >= 2000 && silenceMs <= 3600000)) throw new RangeError(`silenceMs ${silenceMs}: want 2000 to 3600000`);
    if (![undefined, "run", "stop"].includes(isolation)) throw new RangeError(`isolation ${isolation}: want run or stop`);
    if (isolation === "stop" && silenceMs < 6000) throw new RangeError(`silenceMs ${silenceMs}: want 6000 or more with isolation stop`);
    this.#options = { ...options, capacity, silenceMs };
    this.#grace = Math.max(Math.min(graceMs, silenceMs / 3 - MARGIN), 0);
    this.#server = new Server(options);
    this.#log = options.log ?? ((text) => console.error(`pawl: ${text}`));
  }

  get id() {
    return this.#talk?.worker;
  }

  handle(name, handler, { parse } = {}) {
    if (this.#begun) throw new Error(`handler ${name}: the worker has begun`);
    if (!name || this.#handlers.has(name)) throw new TypeError(`handler ${JSON.stringify(name)}: want a name that has no handler yet`);
    if (typeof handler !== "function") throw new TypeError(`handler ${name}: want a function`);
    this.#handlers.set(name, { handler, parse });
    return this;
  }

  async run({ signals = true } = {}) {
    if (this.#begun) throw new Error("the worker was started before: a worker runs once");
    if (this.#handlers.size === 0) throw new Error("the worker has no handler");
    this.#begun = true;
    const obey = () => (this.#draining ? this.drain(0) : this.drain());
    if (signals) for (const s of ["SIGTERM", "SIGINT"]) process.on(s, obey);
    try {
      await this.#work();
    } finally {
      for (const s of ["SIGTERM", "SIGINT"]) process.off(s, obey);
      this.#clearHurry?.();
      this.#fuse?.();
      await this.#beats?.terminate();
      this.#server.close();
    }
    if (this.#fate) throw this.#fate;
  }

  drain(timeoutMs = this.#options.drainTimeoutMs) {
    this.#draining = true;
    if (timeoutMs !== undefined) {
      this.#clearHurry?.();
      this.#clearHurry = after(timeoutMs, () => this.#hurry());
    }
    this.#changed();
  }

  // The life of the worker.

  async #work() {
    this.#talk = await this.#register();
    if (!this.#talk) return;
    this.#beat();
    await Promise.all([this.#guarded(() => this.#polls()), this.#guarded(() => this.#visits())]);
    await this.#until(() => this.#running.size === 0); // what was asked to end may take a while
    if (!this.#fate) await this.#finish();
  }

  /** Runs a loop. What it throws ends the worker. */
  async #guarded(loop) {
    try {
      await loop();
    } catch (e) {
      this.#end(e instanceof PawlError ? e : new PawlError(`the worker has ended by a fault: ${e?.stack ?? e}`, { cause: e }));
    }
  }

  #end(fate) {
    this.#over = true;
    this.#fate ??= fate;
    this.#poll?.abort.abort();
    this.#changed();
  }

  /** Ends the record of a worker that has drained. It tries once if the server was away just now. */
  async #finish() {
    const headers = { "Idempotency-Key": randomUUID() };
    const backoff = new Backoff();
    const away = this.#hurried || this.#lastTries >= LAST_TRIES;
    for (const until = now() + (away ? 0 : FINISH); ; await sleep(backoff.pause())) {
      try {
        await this.#server.call("POST", `${this.#talk.path}/complete`, { body: { reason: "drained" }, headers, timeoutMs: 5000 });
        return;
      } catch (e) {
        if (!passes(e)) return; // it has ended
        if (now() >= until) break;
      }
    }
    this.#log("ending the worker failed; servers will find it dead");
  }

  /** Registers, and tries again while the server is out of reach. Returns undefined if it is to end before. */
  async #register(predecessor) {
    const { workspace, name = `${hostname()}/${process.pid}`, capacity, queues, silenceMs, isolation } = this.#options;
    const body = { workspace_id: workspace, name, host: hostname(), pid: process.pid, capacity, queues, isolation, predecessor,
      handlers: [...this.#handlers.keys()].sort(), silence_ms: Math.floor(silenceMs) };
    const headers = { "Idempotency-Key": randomUUID() };
    for (const backoff = new Backoff(); !this.#ending(); ) {
      const sent = now();
      try {
        const done = await this.#server.call("POST", "/api/workers", { body, headers });
        this.#renew(sent);
        this.#log(`worker ${done.id} serves ${body.handlers.join(", ")}`);
        return new Talk(done.id);
      } catch (e) {
        if (!passes(e) && e.code !== "REQUEST_IN_PROGRESS") throw e;
        if (backoff.calm) this.#log(`registering failed; it is tried again until it works: ${e.message}`);
        await this.#until(() => this.#ending(), Math.max(backoff.pause(), e.retryAfterMs ?? 0));
      }
    }
    return undefined;
  }

  #ending() {
    return this.#over || this.#draining;
  }

  /** Registers anew after the end of a registration, unless that was done or an operator has ended it. */
  async #registerAgain(ended) {
    if (this.#talk !== ended || this.#over) return;
    this.#rebirth ??= this.#replace(ended).finally(() => (this.#rebirth = undefined));
    await this.#rebirth;
  }

  async #replace(ended) {
    const held = ended.holding();
    for (const step of this.#running.values()) step.cancel(LOST);
    const end = await this.#whoEnded(ended);
    if (end.operator) {
      this.#end(new Terminated(`worker ${ended.worker} was terminated by ${end.actor}: ${end.reason}`));
      return;
    }
    this.#log(`this worker was declared dead; it drops its steps and registers again: ${end.reason}`);
    const talk = await this.#register({ worker_id: ended.worker, holding: held.slice(0, 2000) });
    if (!talk) {
      this.#end();
      return;
    }
    this.#talk = talk;
    this.#postHolding();
    this.#cutPoll(this.#poll);
    this.#changed();
  }

  async #whoEnded(talk) {
    for (const backoff = new Backoff(); !this.#ending(); ) {
      try {
        return await this.#server.call("GET", `${talk.path}/end`);
      } catch (e) {
        if (!passes(e)) return { reason: e.message };
      }
      await this.#until(() => this.#ending(), backoff.pause());
    }
    return {};
  }

  #changed() {
    for (const f of [...this.#waiting]) f();
  }

  /** Waits until ready returns true, at most for a time. */
  #until(ready, ms) {
    if (ready() || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const look = () => {
        if (ready()) done();
      };
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve();
      };
      const timer = ms === undefined ? undefined : setTimeout(done, ms);
      this.#waiting.add(look);
    });
  }

  // Heartbeats, and what has to end.

  #beat() {
    const { server, token, ca, silenceMs } = this.#options;
    this.#beats = new Thread(new URL("./beats.js", import.meta.url), { workerData: { server, token, ca, silenceMs, path: this.#talk.path } });
    this.#beats.on("message", (m) => this.#guarded(() => this.#onBeat(m)));
    this.#beats.on("error", (e) => this.#end(new PawlError(`the thread of the heartbeats has ended: ${e.message}`, { cause: e })));
  }

  #postHolding() {
    this.#beats?.postMessage({ path: this.#talk.path, holding: this.#talk.holding() });
  }

  async #onBeat({ ask, path, sent, said, ended, failed }) {
    if (ask) return this.#postHolding();
    if (failed && !this.#over && !ended) this.#log(`a heartbeat failed; it is tried again until one succeeds: ${failed}`);
    if (path !== this.#talk.path) return undefined; // of an earlier registration
    if (ended) return this.#registerAgain(this.#talk);
    if (!said) return undefined;
    this.#renew(sent);
    this.#cancel(said.stops, CANCELED);
    this.#cancel(said.gone, LOST);
    return undefined;
  }

  #cancel(claims, reason) {
    for (const c of claims) this.#running.get(fence(c.step_id, c.claim))?.cancel(reason);
  }

  /** Extends the lease by an answer to what was sent at that time. */
  #renew(sent) {
    this.#lease = sent + this.#options.silenceMs - this.#grace - MARGIN;
    this.#fuse?.();
    this.#fuse = after(this.#lease - now(), () => this.#cutOff());
  }

  /** Ends what must not overlap, since no heartbeat was answered in time. */
  #cutOff() {
    for (const step of this.#running.values()) {
      if (!this.#isolated(step) || step.cancelled) continue;
      this.#log(`step ${step.key} ends, since this worker is cut off and the step must not overlap`);
      step.cancel(INTERRUPTED);
    }
  }

  #isolated(step) {
    return step.isolated || this.#options.isolation === "stop";
  }

  #hurry() {
    this.#hurried = true;
    for (const step of this.#running.values()) step.cancel(INTERRUPTED);
    this.#changed();
  }

  // Exchanges. One waits at the server for steps; another reports, and overtakes it.

  #free() {
    if (this.#draining || this.#over) return 0;
    return Math.max(this.#options.capacity - this.#running.size - (this.#poll?.free ?? 0), 0);
  }

  async #polls() {
    const backoff = new Backoff();
    while (await this.#due(() => this.#free() > 0 && this.#outbox.length === 0)) { // an exchange with reports claims, too
      while (this.#talk.visiting) await this.#talk.visiting; // an exchange with reports that is under way is not overtaken
      const free = this.#free();
      if (free === 0 || this.#outbox.length > 0) continue;
      const poll = (this.#poll = { free, abort: new AbortController(), overtaken: false, cut: false });
      const pauseMs = await this.#send(this.#talk, { free, waitMs: WAIT, signal: poll.abort.signal }, backoff, poll);
      this.#poll = undefined;
      this.#changed();
      await this.#until(() => this.#ending(), pauseMs);
    }
  }

  /** Waits for something to do. Returns false when the worker has drained, or is over. */
  async #due(ready) {
    await this.#until(() => this.#over || ready() || this.#drained());
    if (!this.#over && this.#drained()) {
      this.#over = true;
      this.#changed();
    }
    return !this.#over;
  }

  #drained() {
    if (!this.#draining || this.#running.size > 0 || this.#poll) return false;
    return this.#outbox.length === 0 && (!this.#talk.unsure || this.#hurried || this.#lastTries >= LAST_TRIES);
  }

  async #visits() {
    const backoff = new Backoff();
    while (await this.#due(() => this.#toVisit())) {
      this.#look = false;
      const reports = portion(this.#outbox);
      const free = reports.length === this.#outbox.length ? this.#free() : 0;
      const poll = this.#poll;
      if (poll) poll.overtaken = true;
      const talk = this.#talk;
      const visit = this.#send(talk, { reports, free }, backoff);
      talk.visiting = visit.catch(() => {}).then(() => (talk.visiting = undefined));
      const pauseMs = await visit;
      if (poll) setTimeout(() => this.#cutPoll(poll), OVERTAKEN).unref();
      await this.#until(() => this.#over, pauseMs);
    }
  }

  /** Whether an exchange is due that does not wait. */
  #toVisit() {
    if (this.#outbox.length > 0 || this.#look) return true;
    if (!this.#draining) return false;
    return this.#poll ? !this.#poll.overtaken : this.#running.size === 0 && this.#talk.unsure;
  }

  /** Cuts off an exchange that waits though a later one was answered: a proxy may have sent it to another server. */
  #cutPoll(poll) {
    if (!poll || this.#poll !== poll) return;
    poll.cut = true;
    poll.abort.abort();
  }

  /** Sends an exchange, and acts on its answer. Returns the pause before the next; after a failure it waits. */
  async #send(talk, request, backoff, poll) {
    let answer;
    try {
      answer = await talk.exchange(this.#server, request);
    } catch (e) {
      if (e instanceof WorkerEnded) await this.#registerAgain(talk);
      else if (e instanceof PawlError) await this.#failed(talk, request.reports ?? [], e, backoff, poll);
      else throw e;
      return 0;
    }
    backoff.reset();
    this.#reported(request.reports ?? []);
    this.#cancel(answer.stops, CANCELED);
    this.#cancel(answer.gone, LOST);
    for (const delivered of answer.steps) this.#start(talk, delivered);
    return answer.pauseMs;
  }

  async #failed(talk, reports, e, backoff, poll) {
    if (reports.length > 0 && e.refusesBody) {
      await this.#sendSingly(talk, reports, e.message);
      return;
    }
    const turn = e.code === "TURN";
    if (this.#hurried && reports.length > 0 && !turn) {
      this.#log(`the worker stops while the server is away; ${reports.length} steps that it could not report will run again`);
      this.#reported(reports);
      return;
    }
    if (poll?.cut) return; // by this worker
    if (this.#draining && this.#running.size === 0 && this.#outbox.length === 0) this.#lastTries++;
    if (backoff.calm && !turn && !this.#over) this.#log(`an exchange failed; it is tried again until it works: ${e.message}`);
    await this.#until(() => this.#over || this.#hurried || (this.#draining && poll !== undefined), Math.max(backoff.pause(), e.retryAfterMs ?? 0));
  }

  /** Sends each report alone, of which the server refuses one as invalid. That one becomes a failure of its step. */
  async #sendSingly(talk, reports, why) {
    if (reports.length > 1) {
      for (const r of reports) await this.#send(talk, { reports: [r] }, new Backoff());
      return;
    }
    const [bad] = reports;
    this.#log(`the server refuses the report of step ${bad.body.step_id}: ${why}`);
    const instead = refused(bad, why);
    this.#outbox = this.#outbox.flatMap((r) => (r !== bad ? [r] : instead ? [instead] : []));
  }

  #reported(reports) {
    this.#outbox = this.#outbox.filter((r) => !reports.includes(r));
    this.#changed();
  }

  // Steps.

  #start(talk, delivered) {
    const step = new Step(delivered, (_, stream, data) => log.write(stream, data));
    const log = new Log(this.#server, step);
    if (this.#draining || (this.#isolated(step) && now() >= this.#lease)) {
      step.cancel(INTERRUPTED);
      this.#outbox.push(stopped(step));
      this.#changed();
      return;
    }
    this.#running.set(step.fence, step);
    void this.#guarded(() => this.#perform(talk, step, log));
  }

  async #perform(talk, step, log) {
    const found = this.#handlers.get(step.handler);
    const disarm = after(step.timeoutMs, () => step.cancel(TIMEOUT));
    const report = found ? await run(found, step) : fail(step, { class: "no_handler", message: `this worker has no handler ${step.handler}` });
    disarm();
    const lost = await log.close();
    if (lost > 0) this.#log(`${lost} bytes of the log of step ${step.key} were lost`);
    this.#running.delete(step.fence);
    if (step.lost) {
      talk.forget(step.fence);
      this.#look = true; // its slot is free
    } else {
      this.#outbox.push(report);
    }
    this.#changed();
  }
}
