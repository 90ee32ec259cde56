// Submit jobs, wait for them, and cancel them.

import { randomUUID } from "node:crypto";

import { ApiError, ServerAway } from "./errors.js";
import { Backoff, Server, now, sleep } from "./transport.js";

const TRIES = 4;
const WAITING = 40000; // milliseconds: the server answers a wait after 25 s
const ENDED = ["COMPLETED", "FAILED", "CANCELED"];

/**
 * A client of a server. Each command has a request id, a random one unless requestId gives it: a request whose answer is
 * lost is sent again and has one effect.
 */
export class Client {
  #server;
  #workspace;

  constructor(options = {}) {
    this.#server = new Server(options);
    this.#workspace = options.workspace;
  }

  async submit({ workflow, source, inputs, description, priority, requestId }) {
    if ((workflow === undefined) === (source === undefined)) {
      throw new TypeError("submit: want workflow or source, and not both");
    }
    const body = { workflow, source, inputs, task_description: description, priority, workspace_id: this.#workspace };
    return (await this.#command("/api/jobs", body, requestId)).id;
  }

  get(job) {
    return this.call("GET", path(job));
  }

  async wait(job, { timeoutMs = Infinity } = {}) {
    const until = now() + timeoutMs;
    const backoff = new Backoff();
    for (let left = timeoutMs; left > 0; left = until - now()) {
      try {
        const found = await this.#server.call("GET", `${path(job)}?wait=ended`, { timeoutMs: Math.min(WAITING, left) });
        if (ENDED.includes(found.status)) return found;
        backoff.reset();
      } catch (e) {
        if (!(e instanceof ServerAway) && !(e instanceof ApiError && e.passing)) throw e;
        await sleep(Math.max(0, Math.min(Math.max(backoff.pause(), e.retryAfterMs ?? 0), until - now())));
      }
    }
    throw new Error(`job ${job} has not ended after ${timeoutMs} ms`);
  }

  cancel(job, { reason, requestId } = {}) {
    return this.#command(`${path(job)}/cancel`, { reason }, requestId);
  }

  signal(job, name, data, { reason, requestId } = {}) {
    return this.#command(`${path(job)}/signals`, { name, data, reason }, requestId);
  }

  async logs(job) {
    const lines = [];
    for (let cursor = ""; ; ) {
      const page = await this.call("GET", `${path(job)}/logs?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      lines.push(...page.items);
      if (!(cursor = page.next ?? "")) return lines;
    }
  }

  #command(where, body, requestId = randomUUID()) {
    return this.call("POST", where, body, { requestId });
  }

  /** Calls any operation. It is sent again after a lost answer only if it is a GET, or has a requestId. */
  async call(method, where, body, { requestId } = {}) {
    const headers = requestId ? { "Idempotency-Key": requestId } : {};
    const backoff = new Backoff(100);
    for (let tries = requestId || method === "GET" ? TRIES : 1; ; tries--) {
      try {
        return await this.#server.call(method, where, { body, headers, timeoutMs: 30000 });
      } catch (e) {
        const held = e.code === "REQUEST_IN_PROGRESS"; // by an earlier copy of this request
        const again = e instanceof ServerAway || held || (e instanceof ApiError && e.passing && e.status !== 500);
        if (!again || tries === 1) throw e;
        await sleep(Math.max(backoff.pause(), Math.min(e.retryAfterMs ?? 0, 10000)));
      }
    }
  }

  close() {
    this.#server.close();
  }
}

const path = (job) => `/api/jobs/${encodeURIComponent(job)}`;
