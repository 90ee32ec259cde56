// Carries what steps print to the server.

import { ApiError, ServerAway } from "./errors.js";
import { now, sleep } from "./transport.js";

const EVERY = 200; // milliseconds between two appends
const CHUNK = 256 << 10; // bytes of one append
const KEPT = 1 << 20; // bytes of a stream that the server keeps
const LAST = 5000; // milliseconds that the end of a step waits for its log

/** One stream of one claim: what was not yet stored of it. */
class Stream {
  constructor(step, name) {
    this.path = `/api/steps/${encodeURIComponent(step.id)}/log?claim=${step.claim}&stream=${name}&offset=`;
    this.name = name;
    this.stored = 0; // the offset of the first byte of waiting
    this.waiting = [];
    this.size = 0; // of waiting, in bytes
    this.dropped = 0;
    this.failed = false;
  }

  add(data) {
    const kept = this.failed ? data.subarray(0, 0) : data.subarray(0, Math.max(KEPT - this.stored - this.size, 0));
    if (kept.length > 0) this.waiting.push(kept);
    this.size += kept.length;
    this.dropped += data.length - kept.length;
  }

  /** Takes over that the server has everything before an offset. */
  advance(offset) {
    const rest = Buffer.concat(this.waiting).subarray(offset - this.stored);
    this.waiting = rest.length > 0 ? [rest] : [];
    this.size = rest.length;
    this.stored = offset;
  }

  fail() {
    this.failed = true;
    this.dropped += this.size;
    this.waiting = [];
    this.size = 0;
  }
}

/** The log of one step. It appends what waits, a chunk at a time. */
export class Log {
  #server;
  #step;
  #streams = new Map();
  #sending; // a promise while there is something to send
  #hurry; // ends the pause before the next append
  #until = Infinity;

  constructor(server, step) {
    this.#server = server;
    this.#step = step;
  }

  write(name, data) {
    if (this.#until !== Infinity) return; // the step has ended
    this.#add(name, data);
  }

  #add(name, data) {
    if (!this.#streams.has(name)) this.#streams.set(name, new Stream(this.#step, name));
    this.#streams.get(name).add(data);
    this.#sending ??= this.#send().finally(() => (this.#sending = undefined));
  }

  /** Waits until all is stored, for LAST milliseconds at most. Returns how many bytes are lost. */
  async close() {
    this.#until = now() + LAST;
    for (const s of [...this.#streams.values()]) {
      if (s.dropped > 0) this.#add("pawl", Buffer.from(`${s.name}: ${s.dropped} bytes more were dropped\n`));
    }
    this.#hurry?.();
    await this.#sending;
    return [...this.#streams.values()].reduce((n, s) => n + s.size, 0);
  }

  async #send() {
    await this.#pause();
    for (;;) {
      const full = [...this.#streams.values()].find((s) => s.size > 0);
      if (!full || now() > this.#until) return;
      if (!(await this.#append(full))) await sleep(EVERY);
    }
  }

  #pause() {
    if (this.#until !== Infinity) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, EVERY);
      this.#hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Appends a chunk of a stream. Returns whether the server answers. */
  async #append(stream) {
    const at = stream.stored;
    const raw = Buffer.concat(stream.waiting).subarray(0, CHUNK);
    const timeoutMs = Math.max(Math.min(15000, this.#until - now()), 1);
    try {
      const answer = await this.#server.call("POST", stream.path + at, { raw, timeoutMs });
      if (answer.truncated) stream.fail();
      else stream.advance(at + raw.length);
    } catch (e) {
      if (e instanceof ServerAway || (e instanceof ApiError && e.passing)) return false;
      const current = e.problem?.current;
      if (e.code === "OFFSET" && current > at && current <= at + raw.length) stream.advance(current);
      else stream.fail();
    }
    return true;
  }
}
