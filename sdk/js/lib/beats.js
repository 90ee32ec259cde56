// The thread of the heartbeats: a handler that keeps the event loop busy does not stop them.

import { parentPort, workerData } from "node:worker_threads";

import { ENDED } from "./talk.js";
import { Backoff, Server, now, sleep } from "./transport.js";

const AGAIN = 200; // milliseconds until a heartbeat that failed is sent again
const ASKING = 100; // milliseconds that the main thread has to say what it holds

const server = new Server(workerData);
const silence = workerData.silenceMs;
let { path, holding } = { path: workerData.path, holding: [] };
let resolve; // called when the main thread has said what it holds

parentPort.on("message", (m) => {
  ({ path, holding } = m);
  resolve?.();
});

async function ask() {
  const answered = new Promise((done) => (resolve = done));
  parentPort.postMessage({ ask: true });
  await Promise.race([answered, sleep(ASKING)]);
}

async function beat(backoff) {
  await ask();
  const [to, sent] = [path, now()];
  try {
    const said = await server.call("POST", `${to}/heartbeat`, { body: { holding }, timeoutMs: silence / 3 });
    backoff.reset();
    parentPort.postMessage({ path: to, sent, said });
    return Math.max(said.next_ms - ASKING, 50);
  } catch (e) {
    parentPort.postMessage({ path: to, ended: ENDED.includes(e.code), failed: backoff.calm && e.message });
    backoff.pause();
    return Math.max(AGAIN, e.retryAfterMs ?? 0);
  }
}

for (const backoff = new Backoff(); ; ) await sleep(await beat(backoff));
