/** Where a server is. By default it is as PAWL_SERVER and PAWL_TOKEN say, or on this machine. */
export interface ServerOptions {
  /** https://HOST, or http://ADDRESS of the loopback interface. */
  server?: string;
  /** The secret of a token. */
  token?: string;
  /** A file with the certificates, in PEM, that the server's is signed by. By default those of the system count. */
  ca?: string;
  /** The workspace of workers and jobs. */
  workspace?: string;
}

export interface WorkerOptions extends ServerOptions {
  /** For people. Default: host/pid. */
  name?: string;
  /** How many steps run at once, 1 to 1000. Default 10. */
  capacity?: number;
  /** The queues that it serves. Default: the queue default. */
  queues?: string[];
  /** Milliseconds without a heartbeat after which the server gives its steps to others, 2000 to 3600000. Default 6000. */
  silenceMs?: number;
  /** How long running steps have to end once it drains; then they are asked to end, and run again elsewhere. Default: no limit. */
  drainTimeoutMs?: number;
  /** "stop" treats all steps as those with isolation: stop, which end before another worker gets them. */
  isolation?: "run" | "stop";
  /** How long such a step has to end, at most a third of silenceMs less 1000. Default 5000. */
  graceMs?: number;
  /** Gets a line when something is wrong, and one when it has registered. Default: stderr. */
  log?: (line: string) => void;
}

/** Why a step is to end. */
export type Reason = "canceled" | "timeout" | "interrupted" | "lost";

/** One attempt of one step. */
export interface Step {
  readonly id: string;
  /** The number of the claim, which only rises: a fence for effects elsewhere. */
  readonly claim: number;
  readonly jobId: string;
  /** The name of the step in its job, such as load[3]. */
  readonly key: string;
  readonly workflow: string;
  /** From 1. */
  readonly attempt: number;
  readonly queue: string;
  readonly handler: string;
  readonly timeoutMs: number;
  /** What the step does, as the server has delivered it. */
  readonly work: { kind: string; with?: unknown; [name: string]: unknown };
  readonly outputMode?: string;
  readonly permanentExitCodes: readonly number[];
  /** Whether it must not overlap with another claim. */
  readonly isolated: boolean;
  /** The inputs of the job. */
  readonly inputs: Record<string, any>;
  /** The outputs of the steps that it needs. */
  readonly needs: Record<string, any>;
  readonly item?: any;
  readonly index?: number;
  readonly matrix: Record<string, any>;
  /** Aborted when the step is to end. Give it to fetch, timers and so on. */
  readonly signal: AbortSignal;
  readonly cancelled: boolean;
  readonly reason?: Reason;
  /** Throws Cancelled if the step is to end. */
  check(): void;
  /** Sleeps, and rejects with Cancelled as soon as the step is to end. */
  sleep(ms: number): Promise<void>;
  /** Appends a line to the log of the step. */
  log(text: unknown, stream?: "stdout" | "stderr"): void;
  /** Appends text or bytes to the log of the step, as they are. */
  write(data: string | Uint8Array, stream?: "stdout" | "stderr"): void;
}

export type Handler<In, Out> = (input: In, step: Step) => Out | Promise<Out>;

/** Runs steps until it is drained. */
export class Worker {
  constructor(options?: WorkerOptions);
  /** The id under which it is registered now. */
  readonly id?: string;
  /**
   * Runs the steps of a handler by a function. Its input is the step's with, what it returns is the output. parse checks
   * the input: what it throws fails the step for good, as invalid_input. Without it In is not checked.
   */
  handle<In = unknown, Out = unknown>(name: string, handler: Handler<In, Out>, options?: { parse?: (value: unknown) => In }): this;
  /**
   * Works until it is drained: by drain, or by SIGTERM and SIGINT, of which a second one hurries it. Rejects with ApiError
   * if the server refuses the registration, and with Terminated if an operator has terminated the worker.
   */
  run(options?: { signals?: boolean }): Promise<void>;
  /** Claims nothing more: run resolves when what runs has ended. After timeoutMs running steps are asked to end. */
  drain(timeoutMs?: number): void;
}

export interface Failure {
  class: string;
  message: string;
  permanent: boolean;
  step?: string;
  reason?: string;
  metadata?: unknown;
  [name: string]: unknown;
}

/** A job as the server describes it. */
export interface Job<Out = any> {
  id: string;
  status: "PENDING" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELED" | (string & {});
  output?: Out;
  error?: Failure | null;
  [name: string]: unknown;
}

/** What a command did. */
export interface Receipt {
  id: string;
  status: string;
  from_state: string | null;
  to_state: string;
  sequence: number;
  timestamp: string;
  actor: string;
}

/** One part of a log, of one stream of one claim. */
export interface LogLine {
  step: string;
  claim: number;
  stream: string;
  at: string;
  offset: number;
  text: string;
}

interface Command {
  /** For the audit trail. */
  reason?: string;
  /** A key under which the request has one effect. Default: a random one. */
  requestId?: string;
}

/** A client of a server. */
export class Client {
  constructor(options?: ServerOptions);
  /** Submits a job of a registered workflow (NAME or NAME@VERSION), or of the text of a file, and resolves with its id. */
  submit(job: {
    workflow?: string;
    source?: string;
    inputs?: Record<string, unknown>;
    description?: string;
    priority?: number;
    requestId?: string;
  }): Promise<string>;
  /** Resolves with a job as it is now. */
  get<Out = any>(job: string): Promise<Job<Out>>;
  /** Resolves with a job when it has ended. Rejects after timeoutMs. */
  wait<Out = any>(job: string, options?: { timeoutMs?: number }): Promise<Job<Out>>;
  cancel(job: string, command?: Command): Promise<Receipt>;
  signal(job: string, name: string, data?: unknown, command?: Command): Promise<Receipt>;
  /** Resolves with what the steps of a job have printed. */
  logs(job: string): Promise<LogLine[]>;
  /** Calls any operation of the API. It is sent again after a lost answer only if it is a GET, or has a requestId. */
  call<T = any>(method: string, path: string, body?: unknown, options?: { requestId?: string }): Promise<T>;
  /** Closes the connections. */
  close(): void;
}

export class PawlError extends Error {}

/** No answer of the server. A command may have been carried out. */
export class ServerAway extends PawlError {}

/** The server refuses a request. */
export class ApiError extends PawlError {
  readonly status: number;
  /** The kind of problem, such as NOT_FOUND. */
  readonly code: string;
  readonly problem: Record<string, any>;
  readonly retryAfterMs: number;
  readonly passing: boolean;
  /** The server refuses what the request says; a proxy may do so for its size. */
  readonly refusesBody: boolean;
}

/** An operator has terminated the worker. */
export class Terminated extends PawlError {}

interface Details {
  /** A word for programs. Default error. */
  class?: string;
  /** Any JSON. */
  metadata?: unknown;
  cause?: unknown;
}

/** The step fails for good. */
export class Permanent extends Error {
  constructor(message: string, details?: Details);
}

/** The step fails, and is tried again: after its backoff, or after afterMs. */
export class Retry extends Error {
  constructor(message: string, details?: Details & { afterMs?: number });
}

/** The step is tried again after so many milliseconds, and loses no attempt. */
export class Snooze extends Error {
  constructor(ms: number);
}

/** The with of the step is not what the handler takes. */
export class InvalidInput extends Permanent {
  constructor(message: string, details?: Details);
}

/** The reason of step.signal. A handler lets it pass. */
export class Cancelled extends Error {
  readonly reason: Reason;
}
