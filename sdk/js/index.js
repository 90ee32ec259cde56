export { Client } from "./lib/client.js";
export { ApiError, Cancelled, InvalidInput, PawlError, Permanent, Retry, ServerAway, Snooze, Terminated } from "./lib/errors.js";
export { Worker } from "./lib/worker.js";
