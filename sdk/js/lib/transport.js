// HTTP to a server: one URL, one token, and connections that stay open.

import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { isIP } from "node:net";

import { ApiError, PawlError, ServerAway } from "./errors.js";

const DEFAULT_SERVER = "http://127.0.0.1:7295";
const MAX_ANSWER = 64 << 20;
const UNTRUSTED = /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT)/;

/** Where a server is, how requests are signed, and the connections to it. */
export class Server {
  constructor({ server, token, ca } = {}) {
    this.url = parse(server || process.env.PAWL_SERVER || DEFAULT_SERVER);
    this.token = token ?? process.env.PAWL_TOKEN ?? "";
    if (/[^!-~]/.test(this.token)) {
      throw new TypeError('the token: want visible ASCII characters, as "pawl token create" prints them');
    }
    this.ca = ca;
    this.secure = this.url.startsWith("https:");
    const trust = ca ? { ca: readFileSync(ca), minVersion: "TLSv1.2" } : { minVersion: "TLSv1.2" };
    this.agent = this.secure ? new https.Agent({ keepAlive: true, ...trust }) : new http.Agent({ keepAlive: true });
  }

  /**
   * Sends a request, once, and returns the JSON of its answer. It throws ApiError for a status that is not 2xx, and
   * ServerAway if there is no answer within timeoutMs, or when signal is aborted.
   */
  call(method, path, { body, raw, headers, timeoutMs = 15000, signal } = {}) {
    const data = raw ?? (body === undefined ? undefined : Buffer.from(JSON.stringify(body)));
    const sent = { "User-Agent": "pawl-js", Accept: "application/json", ...headers };
    if (this.token) sent.Authorization = `Bearer ${this.token}`;
    if (data) {
      sent["Content-Type"] = raw ? "application/octet-stream" : "application/json";
      sent["Content-Length"] = data.length;
    } else if (method !== "GET") {
      sent["Content-Length"] = 0;
    }
    return this.#send(method, path, data, sent, timeoutMs, signal);
  }

  #send(method, path, data, headers, timeoutMs, signal) {
    return new Promise((resolve, reject) => {
      const request = (this.secure ? https : http).request(this.url + path, { method, headers, agent: this.agent, signal });
      const timer = setTimeout(() => request.destroy(new Error(`no answer for ${timeoutMs} ms`)), timeoutMs);
      const fail = (e) => {
        clearTimeout(timer);
        reject(this.#away(e));
      };
      request.on("error", fail);
      request.on("response", (answer) => {
        const chunks = [];
        let size = 0;
        answer.on("data", (chunk) => {
          chunks.push(chunk);
          if ((size += chunk.length) > MAX_ANSWER) request.destroy(new Error("the answer is too large"));
        });
        answer.on("error", fail);
        answer.on("end", () => {
          clearTimeout(timer);
          try {
            resolve(result(answer, Buffer.concat(chunks).toString()));
          } catch (e) {
            reject(e);
          }
        });
      });
      request.end(data);
    });
  }

  #away(e) {
    if (UNTRUSTED.test(e.code ?? "")) {
      return new PawlError(`the certificate of ${this.url} is not trusted: ${e.message}`, { cause: e });
    }
    return new ServerAway(`the server at ${this.url} is out of reach: ${e.message}`, { cause: e });
  }

  /** Closes the connections that are not in use. */
  close() {
    this.agent.destroy();
  }
}

/** Returns scheme and host of a URL of a server. http is for the loopback interface only. */
export function parse(text) {
  const bad = (what) => new TypeError(`server ${JSON.stringify(text)}: ${what}`);
  let url;
  try {
    url = new URL(text);
  } catch {
    throw bad("want https://HOST, or http://ADDRESS of the loopback interface");
  }
  if (!["http:", "https:"].includes(url.protocol) || !url.hostname) {
    throw bad("want https://HOST, or http://ADDRESS of the loopback interface");
  }
  if (url.username || url.password || url.search || url.hash || url.pathname !== "/") {
    throw bad("want it without user, path and query");
  }
  if (url.protocol === "http:" && !loopback(url.hostname)) {
    throw bad(`http is for the loopback interface only: want https://${url.host}`);
  }
  return url.origin;
}

function loopback(host) {
  return host === "localhost" || host === "[::1]" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Returns the JSON of an answer, or throws its problem. */
function result(answer, text) {
  const status = answer.statusCode;
  const good = status >= 200 && status < 300;
  let value;
  try {
    value = text === "" ? null : JSON.parse(text);
  } catch {
    if (good) throw new ApiError(502, { detail: "the answer is not JSON: is it a Pawl server?" });
  }
  if (good) return value;
  const media = (answer.headers["content-type"] ?? "").split(";")[0];
  if (media !== "application/problem+json" || value === null || typeof value !== "object") {
    value = { detail: `HTTP status ${status}, and not as a Pawl server answers` };
  }
  const after = answer.headers["retry-after"] ?? "";
  throw new ApiError(status, value, /^\d+$/.test(after) ? Number(after) * 1000 : 0);
}

/** Pauses that grow from first to most milliseconds, each a random one of the upper half. */
export class Backoff {
  constructor(first = 200, most = 5000) {
    this.first = this.next = first;
    this.most = most;
  }

  /** Whether there was no pause since the last reset. */
  get calm() {
    return this.next === this.first;
  }

  reset() {
    this.next = this.first;
  }

  pause() {
    const now = this.next;
    this.next = Math.min(2 * now, this.most);
    return now * (0.5 + Math.random() / 2);
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The monotonic clock, in milliseconds. It is the same in all threads. */
export const now = () => Number(process.hrtime.bigint() / 1000n) / 1000;
