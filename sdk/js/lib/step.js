// What a handler sees of the step that it runs.

import { Cancelled } from "./errors.js";

export const CANCELED = "canceled"; // its job was canceled
export const TIMEOUT = "timeout"; // it has run for too long
export const INTERRUPTED = "interrupted"; // the worker is stopping, or is cut off and the step must not overlap
export const LOST = "lost"; // another worker has the step, or will have it: no result is reported

/** One attempt of one step. */
export class Step {
  #write;
  #abort = new AbortController();

  constructor(delivered, write) {
    this.id = delivered.step_id;
    this.claim = delivered.claim;
    this.jobId = delivered.job_id;
    this.key = delivered.key;
    this.workflow = delivered.workflow;
    this.attempt = delivered.attempt;
    this.queue = delivered.queue;
    this.handler = delivered.handler;
    this.timeoutMs = delivered.timeout_ms;
    this.work = delivered.work;
    this.outputMode = delivered.output_mode;
    this.permanentExitCodes = delivered.permanent_exit_codes ?? [];
    this.isolated = delivered.isolation === "stop";
    this.inputs = delivered.input?.inputs ?? {};
    this.needs = delivered.input?.needs ?? {};
    this.item = delivered.input?.item;
    this.index = delivered.input?.index;
    this.matrix = delivered.input?.matrix ?? {};
    this.lost = false;
    this.#write = write;
  }

  /** Identifies the claim among all. */
  get fence() {
    return fence(this.id, this.claim);
  }

  get signal() {
    return this.#abort.signal;
  }

  get cancelled() {
    return this.#abort.signal.aborted;
  }

  get reason() {
    return this.lost ? LOST : this.#abort.signal.reason?.reason;
  }

  check() {
    this.#abort.signal.throwIfAborted();
  }

  sleep(ms) {
    return new Promise((resolve, reject) => {
      const signal = this.#abort.signal;
      if (signal.aborted) return reject(signal.reason);
      const stop = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", stop);
        resolve();
      }, ms);
      signal.addEventListener("abort", stop, { once: true });
    });
  }

  log(text, stream = "stdout") {
    this.write(`${text}\n`, stream);
  }

  write(data, stream = "stdout") {
    if (stream !== "stdout" && stream !== "stderr") throw new TypeError(`stream ${stream}: want stdout or stderr`);
    this.#write(this, stream, typeof data === "string" ? Buffer.from(data) : Buffer.from(data));
  }

  /** Asks the handler to end. The first reason counts, but for LOST. */
  cancel(reason) {
    if (reason === LOST) this.lost = true;
    this.#abort.abort(new Cancelled(reason));
  }
}

export const fence = (step, claim) => `${step} ${claim}`;

const LONGEST = 2 ** 31 - 1; // milliseconds that a timer can have

/** Calls f after any time, unless the function that it returns is called before. */
export function after(ms, f) {
  let timer;
  const arm = (left) => {
    timer = setTimeout(() => (left > LONGEST ? arm(left - LONGEST) : f()), Math.max(Math.min(left, LONGEST), 0));
  };
  arm(ms);
  return () => clearTimeout(timer);
}
