package exchange

import (
	"encoding/json"
	"time"
)

// Limits of the messages.
const (
	MaxReports = 200
	MaxFree    = 1000
	MaxOutput  = 1 << 20  // bytes of the output of a step
	MaxMessage = 64 << 10 // characters of the message of an error
	MaxWait    = 25 * time.Second

	// maxDelivered is how many bytes of input an answer has before it leaves steps to the
	// next one.
	maxDelivered = 16 << 20
)

// A Claim is a claim of a step.
type Claim struct {
	StepID string `json:"step_id" doc:"The id of the step."`
	Claim  int    `json:"claim" minimum:"1" doc:"The number of the claim. It only rises."`
}

// A Request is an exchange: what a worker has finished, and how much it can take.
type Request struct {
	Turn    int64    `json:"turn" minimum:"1" doc:"One more than in the last exchange. To repeat an exchange whose response was lost, send the same turn, and holding."`
	Reports []Report `json:"reports,omitempty" maxItems:"200" doc:"Outcomes of steps."`
	Free    int      `json:"free,omitempty" minimum:"0" maximum:"1000" doc:"How many steps the worker can take, including the places of those that it reports."`
	WaitMS  *int64   `json:"wait_ms,omitempty" minimum:"0" maximum:"25000" doc:"How long to wait for steps if there is nothing else to return. Default 25000."`
	Holding []Claim  `json:"holding,omitzero" required:"false" maxItems:"2000" doc:"All claims that the worker knows it has, with those whose reports were not acknowledged. Send it in the first exchange and after each one that failed: what the worker holds beside them is delivered again."`
}

// A Report is the outcome of a claim.
type Report struct {
	Claim
	Outcome string          `json:"outcome" enum:"complete,fail,timeout,cancel,release" doc:"release gives the step back, without the loss of an attempt."`
	Output  json.RawMessage `json:"output,omitempty" doc:"Of complete: any JSON, at most 1 MiB. Default null."`
	Error   *Error          `json:"error,omitempty" doc:"Why, unless the outcome is complete."`
	AfterMS int64           `json:"after_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"Of release: how long the step waits at least before it is tried again."`
}

// An Error is why a claim did not complete its step.
type Error struct {
	Class        string          `json:"class,omitempty" maxLength:"128" doc:"A word for programs, such as timeout. Default error."`
	Message      string          `json:"message,omitempty" maxLength:"65536" doc:"For people."`
	Permanent    bool            `json:"permanent,omitempty" doc:"The step is not tried again."`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"How long until it is tried again. Default: as its retry policy says."`
	Metadata     json.RawMessage `json:"metadata,omitempty" doc:"Any JSON."`
}

// An Answer is the answer to an exchange.
type Answer struct {
	State   string   `json:"state" doc:"The state of the worker. One that is PAUSED gets no steps."`
	Steps   []Step   `json:"steps" doc:"Steps for the worker to run."`
	Results []string `json:"results" enum:"accepted,duplicate,stale" doc:"One for each report. duplicate: it was reported before. stale: the claim was over before; the report is kept as a refused fact."`
	Stops   []Claim  `json:"stops" doc:"Of holding, the claims that are asked to stop. Those of other exchanges are in the response to heartbeat."`
	Gone    []Claim  `json:"gone" doc:"Of holding, the claims that the worker no longer has. Stop them and report nothing."`
	More    bool     `json:"more,omitempty" doc:"The worker has claimed more than the response holds: send holding with the next exchange."`
	NextMS  int64    `json:"next_ms" doc:"How long to wait before the next exchange."`
}

// A Step is a step to run.
type Step struct {
	Claim
	JobID       string          `json:"job_id"`
	Key         string          `json:"key" doc:"The name of the step in its job, such as load[3]."`
	Workflow    string          `json:"workflow"`
	Attempt     int             `json:"attempt"`
	Queue       string          `json:"queue"`
	Handler     string          `json:"handler" doc:"What runs it: command, run, http, or the name of a handler."`
	Work        Work            `json:"work"`
	Input       json.RawMessage `json:"input" doc:"The inputs of the job, the outputs of the steps that it needs, and item or matrix."`
	OutputMode  string          `json:"output_mode,omitempty" doc:"What the output of a command is made from: none, text, lines or json."`
	TimeoutMS   int64           `json:"timeout_ms" doc:"How long it may run. The worker enforces that, and reports timeout."`
	Permanent   []int           `json:"permanent_exit_codes,omitempty" doc:"Exit codes after which it is not tried again."`
	Isolation   string          `json:"isolation,omitempty" doc:"stop: it must not overlap with another claim. A worker without contact ends it before its silence is over."`
	Dir         string          `json:"dir,omitempty" doc:"The folder in which commands start."`
	Traceparent string          `json:"traceparent,omitempty" doc:"The place of this attempt in a trace, as W3C Trace Context has it."`
	Redelivered bool            `json:"redelivered,omitempty" doc:"It was delivered, or should have been, by an earlier exchange. Ignore it if you have it."`
}

// Work is what a step does.
type Work struct {
	Kind    string            `json:"kind" enum:"command,run,http,handler"`
	Command []string          `json:"command,omitempty" doc:"Of command: the program and its arguments."`
	Run     string            `json:"run,omitempty" doc:"Of run: a script for sh -e."`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty" doc:"Relative to the folder in which commands start."`
	HTTP    *HTTP             `json:"http,omitempty" doc:"Of http."`
	With    json.RawMessage   `json:"with,omitempty" doc:"Of handler: its input."`
}

// HTTP is a request that a step sends.
type HTTP struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Expect  []int             `json:"expect,omitempty" doc:"The statuses that are a success. Default: any 2xx."`
}

// A Heartbeat says that a worker lives.
type Heartbeat struct {
	Holding []Claim `json:"holding,omitzero" required:"false" maxItems:"2000" doc:"The claims that the worker runs, be it none. Without it the server has to look for stops among those of all workers."`
}

// A Said is the answer to a heartbeat.
type Said struct {
	State  string  `json:"state" doc:"The state of the worker."`
	Stops  []Claim `json:"stops" doc:"Claims that are asked to stop. End them, and report cancel."`
	Gone   []Claim `json:"gone" doc:"Of holding, the claims that the worker no longer has. Stop them and report nothing."`
	NextMS int64   `json:"next_ms" doc:"How long to wait before the next heartbeat: a third of the worker's silence."`
}

// A Registration is a new worker.
type Registration struct {
	Workspace   string       `json:"workspace_id,omitempty" maxLength:"128" doc:"Default: default."`
	Name        string       `json:"name,omitempty" maxLength:"256" doc:"For people. Default remote."`
	Host        string       `json:"host,omitempty" maxLength:"256" doc:"The machine, for people."`
	PID         int          `json:"pid,omitempty" minimum:"0" doc:"The process, for people."`
	Capacity    int          `json:"capacity,omitempty" minimum:"0" maximum:"100000" doc:"How many steps it runs at once, for people. Default 1."`
	Handlers    []string     `json:"handlers,omitempty" maxItems:"1000" doc:"What it runs: command, run, http, and names of handlers. Default command and run."`
	Queues      []string     `json:"queues,omitempty" maxItems:"100" doc:"The queues that it serves. Default the queue default."`
	SilenceMS   int64        `json:"silence_ms,omitempty" minimum:"0" maximum:"3600000" doc:"After so long without a heartbeat it counts as dead, and its steps go to others. 2000 or more; default 6000, and never less than the servers' own."`
	Isolation   string       `json:"isolation,omitempty" enum:"run,stop" doc:"stop: what it runs must not overlap with another claim."`
	Predecessor *Predecessor `json:"predecessor,omitempty" doc:"The same worker under an earlier registration, which has ended though it lived."`
}

// A Predecessor is an earlier registration of a worker.
type Predecessor struct {
	WorkerID string  `json:"worker_id"`
	Holding  []Claim `json:"holding,omitempty" maxItems:"2000" doc:"What it ran when it learned of its end. Losses that were counted for these claims are taken back."`
}
