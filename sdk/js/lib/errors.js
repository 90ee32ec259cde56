// The errors that this package throws, and those by which a handler says how its step ends.

/** The base of what the client and the worker throw. */
export class PawlError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer of the server: it is out of reach, or the connection broke. A command may have been carried out. */
export class ServerAway extends PawlError {}

/** The server refuses a request, with a problem document (RFC 9457). */
export class ApiError extends PawlError {
  constructor(status, problem, retryAfterMs = 0) {
    const faults = (problem.errors ?? []).map((f) => `${f.location}: ${f.message}`);
    const text = problem.detail || problem.title || `HTTP status ${status}`;
    super([text, ...faults].join("; ") + (problem.hint ? ` (${problem.hint})` : ""));
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? "";
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether the same request may succeed later. */
  get passing() {
    return this.status >= 500 || this.status === 429;
  }

  /** Whether the server refuses what the request says; a proxy may do so for its size. */
  get refusesBody() {
    return this.status === 413 || ([400, 422].includes(this.status) && this.code !== "");
  }
}

/** An operator has terminated the worker. */
export class Terminated extends PawlError {}

/** The step fails for good: it is not tried again, however many attempts it has left. */
export class Permanent extends Error {
  constructor(message, { class: cls = "error", metadata, cause } = {}) {
    super(message, { cause });
    this.name = new.target.name;
    this.class = cls;
    this.metadata = metadata;
  }
}

/** The step fails, and is tried again: after its backoff, or after afterMs. */
export class Retry extends Error {
  constructor(message, { afterMs, class: cls = "error", metadata, cause } = {}) {
    super(message, { cause });
    this.name = "Retry";
    this.class = cls;
    this.afterMs = afterMs;
    this.metadata = metadata;
  }
}

/** The step has to wait: it is tried again after so many milliseconds, and loses no attempt. */
export class Snooze extends Error {
  constructor(ms) {
    super(`snoozed for ${ms} ms`);
    this.name = "Snooze";
    this.ms = ms;
  }
}

/** The with of the step is not what the handler takes. */
export class InvalidInput extends Permanent {
  constructor(message, options = {}) {
    super(message, { ...options, class: "invalid_input" });
  }
}

/** The reason of step.signal, thrown by step.check and step.sleep once the step is to end. A handler lets it pass. */
export class Cancelled extends Error {
  constructor(reason) {
    super(reason);
    this.name = "Cancelled";
    this.reason = reason;
  }
}
