// What a handler returns or throws, as the report of its step.

import { InvalidInput, Permanent, Retry, Snooze } from "./errors.js";
import { CANCELED, INTERRUPTED, TIMEOUT } from "./step.js";

const MAX_OUTPUT = 1 << 20;
const MAX_MESSAGE = 60000;
const LONGEST = 366 * 24 * 3600 * 1000; // milliseconds

/** Runs a handler to its end, and returns what is to be reported. */
export async function run({ handler, parse }, step) {
  let value;
  try {
    if (step.cancelled) return stopped(step); // do not begin what is to end at once
    value = await handler(parsed(parse, step), step);
  } catch (e) {
    if (step.cancelled) return stopped(step); // why it was to end decides
    try {
      return e instanceof Snooze ? snoozed(step, e) : failed(step, e);
    } catch {
      // what it throws may not even have a text
      return fail(step, { class: "error", message: "the handler has thrown what cannot be shown", permanent: false });
    }
  }
  return completed(step, value);
}

function parsed(parse, step) {
  if (!parse) return step.work.with;
  try {
    return parse(step.work.with);
  } catch (e) {
    throw new InvalidInput(`handler ${step.handler}: with: ${e?.message ?? e}`, { cause: e });
  }
}

function completed(step, value) {
  let text;
  try {
    text = JSON.stringify(step.outputMode === "none" ? null : value) ?? "null";
  } catch (e) {
    return fail(step, { class: "invalid_output", message: `the result of the handler is not JSON: ${e.message}`, permanent: true });
  }
  const size = Buffer.byteLength(text);
  if (size > MAX_OUTPUT) {
    return fail(step, { class: "output_too_large", message: `the output has ${size} bytes: want at most ${MAX_OUTPUT}`, permanent: true });
  }
  return report(step, { outcome: "complete", output: JSON.parse(text) }, size);
}

function snoozed(step, e) {
  if (!(e.ms >= 1 && e.ms <= LONGEST)) {
    return fail(step, { class: "invalid_snooze", message: `Snooze: ${e.ms} ms: want 1 to ${LONGEST}`, permanent: true });
  }
  return report(step, { outcome: "release", after_ms: Math.floor(e.ms) });
}

function failed(step, e) {
  if (e instanceof Permanent || e instanceof Retry) {
    const error = { class: e.class, message: e.message, permanent: e instanceof Permanent, metadata: e.metadata };
    if (Number.isFinite(e.afterMs)) error.retry_after_ms = Math.floor(Math.min(Math.max(e.afterMs, 0), LONGEST));
    return fail(step, error);
  }
  step.log(e?.stack ?? e, "stderr");
  return fail(step, { class: e?.name || "error", message: String(e?.message ?? e) || "error", permanent: false });
}

/** Returns the report of a step that was to end. Nobody reads that of one that is lost. */
export function stopped(step) {
  const outcome = { [CANCELED]: "cancel", [TIMEOUT]: "timeout" }[step.reason] ?? "release";
  const message = { cancel: "canceled", timeout: `timed out after ${step.timeoutMs} ms`, release: "interrupted: the worker is stopping" }[outcome];
  return report(step, { outcome, error: { class: step.reason ?? INTERRUPTED, message } });
}

export function fail(step, error) {
  const given = { ...error, class: String(error.class).slice(0, 128), message: error.message.slice(0, MAX_MESSAGE) };
  try {
    JSON.stringify(given.metadata);
  } catch {
    given.metadata = String(given.metadata).slice(0, 1000);
  }
  return report(step, { outcome: "fail", error: given });
}

/** Returns the failure of a step whose report the server refuses as invalid, or undefined if it is one already. */
export function refused(r, why) {
  if (r.body.error?.class === "invalid_report") return undefined;
  const error = { class: "invalid_report", message: `the server refuses the report of the step: ${why.slice(0, MAX_MESSAGE)}`, permanent: true };
  return { ...r, body: { step_id: r.body.step_id, claim: r.body.claim, outcome: "fail", error }, size: 0 };
}

function report(step, body, size = 0) {
  return { fence: step.fence, body: { step_id: step.id, claim: step.claim, ...body }, size };
}
