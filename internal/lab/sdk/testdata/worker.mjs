// The worker of the tests, with the options of testdata/worker.py.

import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { once } from "node:events";

import { Cancelled, PawlError, Permanent, Retry, Snooze, Worker } from "../../../../sdk/js/index.js";

/** Appends a line to a file that outlives this process. */
const note = (given, step, what) => appendFileSync(given.file, `${step.id} ${step.claim} ${what}\n`);

function order(value) {
  if (typeof value?.item !== "string") throw new TypeError("item: want a string");
  const unknown = Object.keys(value).find((k) => !["item", "count", "notes"].includes(k));
  if (unknown) throw new TypeError(`${unknown}: unknown field`);
  return { count: 1, ...value };
}

async function sleeping(given, step) {
  note(given, step, "begin");
  try {
    await step.sleep(given.seconds * 1000);
  } catch (e) {
    note(given, step, e instanceof Cancelled ? step.reason : `${e}`);
    throw e;
  }
  note(given, step, "end");
  return "slept";
}

/** Runs a script as pawl worker does, as far as the load of the chaos needs it. */
async function run(_, step) {
  const env = { ...process.env, ...step.work.env, PAWL_JOB_ID: step.jobId, PAWL_STEP_ID: step.id, PAWL_ATTEMPT: `${step.attempt}`, PAWL_CLAIM: `${step.claim}` };
  const p = spawn("sh", ["-e", "-c", step.work.run], { stdio: ["ignore", "pipe", "pipe"], env, detached: true });
  const kill = () => {
    try {
      process.kill(-p.pid, "SIGKILL");
    } catch {
      // it has ended
    }
  };
  step.signal.addEventListener("abort", kill);
  let text = "";
  p.stdout.setEncoding("utf8").on("data", (part) => {
    text += part;
    step.write(part);
  });
  p.stderr.on("data", (part) => step.write(part, "stderr"));
  const exited = once(p, "exit").then((ended) => {
    step.signal.removeEventListener("abort", kill);
    return ended;
  });
  await once(p, "close");
  const [code] = await exited;
  step.check();
  if (code !== 0) {
    const details = { class: `exit_${code}` };
    if (step.permanentExitCodes.includes(code)) throw new Permanent("the script has failed", details);
    throw new Retry("the script has failed", details);
  }
  return step.outputMode === "json" ? JSON.parse(text) : text.replace(/\n$/, "");
}

const handlers = {
  echo: (given, step) => ({ by: "node", with: given, inputs: step.inputs, needs: step.needs, item: step.item ?? null }),
  flaky: (_, step) => {
    if (step.attempt < 3) throw new Retry("not yet", { afterMs: 10, class: "early", metadata: { attempt: step.attempt } });
    return step.attempt;
  },
  broken: () => {
    throw new Permanent("it is broken", { class: "broken", metadata: { part: 7 } });
  },
  boom: () => {
    throw new RangeError("a fault of the handler");
  },
  typed: ({ item, count }) => `${count} x ${item}`,
  snoozed: (_, step) => {
    if (step.claim === 1) throw new Snooze(20);
    return [step.claim, step.attempt];
  },
  unprintable: () => 1n,
  huge: () => "x".repeat(1 << 20),
  talk: (_, step) => {
    step.log("to stdout");
    step.log("to stderr, \u00fc", "stderr");
    step.log("by logging", "stderr");
  },
  flood: (_, step) => {
    for (let i = 0; i < 1200; i++) step.log("y".repeat(1023));
  },
  slow: sleeping,
  gentle: sleeping,
  block: (given) => {
    const until = performance.now() + given.seconds * 1000;
    while (performance.now() < until);
    return "blocked";
  },
};

const text = { type: "string" };
const { values: o } = parseArgs({ options: { name: text, capacity: text, queue: { ...text, multiple: true }, silence: text, "drain-timeout": text, ca: text, prefix: text, scripts: { type: "boolean" } } });
const worker = new Worker({
  name: o.name ?? "node",
  capacity: Number(o.capacity ?? 4),
  queues: o.queue,
  silenceMs: Number(o.silence ?? 6) * 1000,
  drainTimeoutMs: o["drain-timeout"] && Number(o["drain-timeout"]) * 1000,
  ca: o.ca,
  log: (line) => console.error(line),
});
if (o.scripts) worker.handle("run", run);
else for (const [name, f] of Object.entries(handlers)) worker.handle((o.prefix ?? "") + name, f, name === "typed" ? { parse: order } : {});
try {
  await worker.run();
} catch (e) {
  if (!(e instanceof PawlError)) throw e;
  console.error(`${e.name}: ${e.message}`);
  process.exitCode = 1;
}
