// The conversation of one registration of a worker with its server (docs/workers.md of Pawl).

import { ApiError, PawlError } from "./errors.js";
import { fence } from "./step.js";

const MAX_REPORTS = 200;
const MAX_PORTION = 6 << 20; // bytes of reports in one exchange
export const WAIT = 25000; // milliseconds that the server waits for steps
const PATIENCE = 15000; // milliseconds for an answer, beside that

/** The problems that say that a registration is over. */
export const ENDED = ["WORKER_ENDED", "NOT_FOUND"];

/** The registration is over. */
export class WorkerEnded extends PawlError {}

/**
 * Counts turns, and knows the claims that were delivered and are not yet reported. So what an answer had that was lost is
 * found, and what is delivered twice is run once.
 */
export class Talk {
  #turn = 0;
  #held = new Map(); // by fence: the claim, and whether the server says that it is gone
  #doubts = 0; // how often it became unsure
  #underway = new Set(); // the turns of exchanges without an answer
  #over = new Map(); // by fence: the last turn that may still deliver a claim that was reported

  constructor(worker) {
    this.worker = worker;
    this.path = `/api/workers/${worker}`;
    this.unsure = true; // the next exchange has to say what is held
    this.visiting = undefined; // a promise during an exchange with reports
  }

  holding() {
    return [...this.#held.values()].filter((h) => !h.gone).map((h) => h.claim);
  }

  /** Forgets a claim that is gone, and of which nothing is reported. */
  forget(key) {
    this.#held.delete(key);
  }

  /**
   * Sends an exchange, once. After any error but WorkerEnded its reports have to be sent again. The turn is taken before
   * it returns.
   */
  async exchange(server, { reports = [], free = 0, waitMs = 0, signal }) {
    const turn = ++this.#turn;
    this.#underway.add(turn);
    const doubts = this.#doubts;
    const body = { turn, free, wait_ms: waitMs };
    if (reports.length > 0) body.reports = reports.map((r) => r.body);
    if (this.unsure) body.holding = this.holding();
    try {
      const answer = await server.call("POST", `${this.path}/exchange`, { body, timeoutMs: PATIENCE + waitMs, signal });
      return this.#learn(reports, doubts, answer);
    } catch (e) {
      if (this.#failed(turn, reports, e)) return { steps: [], stops: [], gone: [], pauseMs: 0 };
      throw e;
    } finally {
      this.#ended(turn);
    }
  }

  /** Forgets the claims that no exchange under way can deliver any more. */
  #ended(turn) {
    this.#underway.delete(turn);
    const oldest = Math.min(...this.#underway, this.#turn + 1);
    for (const [key, last] of this.#over) if (last < oldest) this.#over.delete(key);
  }

  /** Notes that an answer may be lost. Returns whether this process has overtaken the exchange itself. */
  #failed(turn, reports, e) {
    this.unsure = true;
    this.#doubts++;
    if (!(e instanceof ApiError)) return false;
    if (ENDED.includes(e.code)) throw new WorkerEnded(e.message);
    if (e.code !== "TURN") return false;
    const overtaken = this.#turn > turn;
    this.#turn = Math.max(this.#turn, e.problem.current ?? 0);
    return overtaken && reports.length === 0;
  }

  #learn(reports, doubts, answer) {
    if (this.#doubts === doubts && !answer.more) this.unsure = false;
    for (const r of reports) {
      this.#held.delete(r.fence);
      this.#over.set(r.fence, this.#turn);
    }
    for (const c of answer.gone) {
      const held = this.#held.get(fence(c.step_id, c.claim));
      if (held) held.gone = true;
    }
    const known = (key) => this.#held.has(key) || this.#over.has(key);
    const steps = answer.steps.filter((s) => !known(fence(s.step_id, s.claim)));
    for (const { step_id, claim } of steps) this.#held.set(fence(step_id, claim), { claim: { step_id, claim }, gone: false });
    return { steps, stops: answer.stops, gone: answer.gone, pauseMs: answer.next_ms };
  }
}

/** Returns those of the reports that fit into one exchange. */
export function portion(reports) {
  let size = 0;
  for (const [i, r] of reports.entries()) {
    size += r.size;
    if (i === MAX_REPORTS || (i > 0 && size > MAX_PORTION)) return reports.slice(0, i);
  }
  return [...reports];
}
