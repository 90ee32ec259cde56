package workflow

import (
	"regexp"
	"time"

	"github.com/pawl-dev/pawl"
)

// Limits of a workflow file. The number of steps is limited by pawl.MaxNodes.
const (
	MaxWorkers     = 10       // steps of one job at once
	MaxAttempts    = 1000     // of one step
	MaxParallel    = 1000     // instances of one step at once
	MaxID          = 64       // bytes of an id
	MaxName        = 128      // bytes of the name of a workflow or a handler
	MaxDescription = 4096     // bytes
	MaxScript      = 64 << 10 // bytes of a run script
	MaxText        = 64 << 10 // bytes of any other text
	MaxEntries     = 1000     // of an environment, headers, arguments, needs, inputs
	MaxTimeout     = 366 * 24 * time.Hour
)

var (
	idPattern      = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	namePattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	handlerPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*([.-][A-Za-z0-9_]+)*$`)
	envPattern     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerPattern  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	plainKey       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// The shapes that several keys share.
var (
	anyShape      = &shape{kind: shapeAny}
	idShape       = &shape{kind: shapeText, min: 1, max: MaxID, pattern: idPattern, patternDoc: "an id: a-z first, then a-z, 0-9 and _"}
	textShape     = &shape{kind: shapeText, min: 1, max: MaxText}
	scalarShape   = &shape{kind: shapeScalar, max: MaxText}
	durationShape = &shape{kind: shapeDuration, least: time.Millisecond, most: MaxTimeout}
	envShape      = &shape{
		kind: shapeMap, max: MaxEntries, elem: scalarShape,
		key: &shape{min: 1, max: 4 * MaxID, pattern: envPattern, reserved: "PAWL_", patternDoc: "the name of an environment variable: letters, 0-9 and _, no digit first"},
	}
)

// workflowShape is the whole file.
var workflowShape = &shape{kind: shapeObject, fields: []field{
	{name: "name", required: true, shape: &shape{kind: shapeText, min: 1, max: MaxName, pattern: namePattern, patternDoc: "a name: letters, 0-9, . _ and -, no sign first"},
		doc: "The name of the workflow."},
	{name: "description", shape: &shape{kind: shapeText, max: MaxDescription},
		doc: "What the workflow is for."},
	{name: "inputs", shape: &shape{kind: shapeMap, max: MaxEntries, key: idShape, elem: inputShape},
		doc: "The values that a job is given, by name; expressions see them as inputs.NAME."},
	{name: "workers", def: MaxWorkers, shape: &shape{kind: shapeInteger, min: 1, max: MaxWorkers},
		doc: "How many steps of the job run at once, at most."},
	{name: "timeout", shape: durationShape,
		doc: "The limit of a whole job. Without it there is none."},
	{name: "on_error", def: string(Halt), shape: &shape{kind: shapeText, words: []string{string(Halt), string(Drain)}},
		doc: "What a failed step does to the others: halt cancels them, drain lets independent branches finish."},
	{name: "env", shape: envShape,
		doc: "Environment variables of every step. Expressions may use inputs and job."},
	{name: "steps", required: true, keep: true, shape: &shape{kind: shapeList, max: pawl.MaxNodes, elem: stepShape},
		doc: "The steps. Their order has no meaning; needs has."},
	{name: "hooks", later: true, doc: "Steps that run when the job ends."},
	{name: "output", shape: anyShape,
		doc: "The output of the job, usually one expression."},
}}

var inputShape = &shape{kind: shapeObject, also: alsoInput, fields: []field{
	{name: "type", def: string(TypeString), shape: &shape{kind: shapeText, words: []string{
		string(TypeString), string(TypeNumber), string(TypeInteger), string(TypeBoolean), string(TypeObject), string(TypeArray)}},
		doc: "The type of the value; array is a list."},
	{name: "description", shape: &shape{kind: shapeText, max: MaxDescription},
		doc: "What the value is for."},
	{name: "required", def: false, shape: &shape{kind: shapeBoolean},
		doc: "Whether a job has to be given the value. One that is neither given nor has a default is null."},
	{name: "default", shape: anyShape,
		doc: "The value when none is given."},
	{name: "pattern", shape: &shape{kind: shapeText, min: 1, max: 1000},
		doc: "A regular expression (RE2) that a string has to match somewhere; ^ and $ make it the whole string."},
	{name: "enum", shape: &shape{kind: shapeList, min: 1, max: MaxEntries, elem: anyShape},
		doc: "The only values allowed."},
}}

var stepShape = &shape{kind: shapeObject, also: alsoStep, fields: []field{
	{name: "id", required: true, keep: true, shape: idShape,
		doc: "The name of the step, unique in the file."},
	{name: "needs", shape: &shape{kind: shapeList, max: MaxEntries, elem: idShape},
		doc: "The steps that have to be complete first."},
	{name: "if", shape: &shape{kind: shapeCondition, min: 1},
		doc: "An expression, with or without ${{ }}, that comes to true or false. When it is false the step is skipped."},
	{name: "foreach", shape: &shape{kind: shapeItems},
		doc: "A list, or an expression that comes to one: the step runs once for each item. Expressions of the step see item and index; its output is the list of the outputs, in order."},
	{name: "parallel", shape: &shape{kind: shapeInteger, min: 1, max: MaxParallel},
		doc: "Of a foreach: how many instances run at once, at most. Without it only workers limits them."},
	{name: "env", shape: envShape,
		doc: "Environment variables of the step, on top of the workflow's. Of command and run only."},
	{name: "dir", shape: textShape,
		doc: "The working directory of command and run. Without it, the folder of the workflow file."},
	{name: "output", shape: &shape{kind: shapeText, words: []string{string(OutputNone), string(OutputText), string(OutputLines), string(OutputJSON)}},
		doc: "How standard output, or the body of a response, becomes the output: none, text (the trailing newline cut), lines, or json. Default text; of a handler json."},
	{name: "timeout", shape: durationShape,
		doc: "The limit of one attempt. Without it 24h."},
	{name: "retry", fill: true, shape: retryShape,
		doc: "How often, and when, the step is tried again."},
	{name: "command", shape: &shape{kind: shapeList, min: 1, max: MaxEntries, elem: scalarShape, hint: ", or use `run` for a shell script"},
		doc: "A program and its arguments, run without a shell."},
	{name: "run", shape: &shape{kind: shapeText, min: 1, max: MaxScript},
		doc: "A script for `sh -e`. Expressions are not allowed inside it: pass values through env."},
	{name: "http", shape: httpShape,
		doc: "An HTTP request."},
	{name: "handler", shape: &shape{kind: shapeText, min: 1, max: MaxName, pattern: handlerPattern, patternDoc: "the name of a handler: words of letters, 0-9 and _, joined by . or -"},
		doc: "The name of a handler: a Go function, or a worker in any language."},
	{name: "with", shape: anyShape,
		doc: "The input of a handler: any value, with expressions in its strings."},
	{name: "matrix", later: true, doc: "Runs the step once for each combination of values."},
	{name: "approval", later: true, doc: "Waits for a person."},
	{name: "sleep", later: true, doc: "Waits for a time."},
	{name: "event", later: true, doc: "Waits for a signal."},
	{name: "workflow", later: true, doc: "Runs a child job."},
	{name: "inputs", later: true, doc: "The inputs of a child job."},
	{name: "queue", later: true, doc: "The queue in which the step waits for a worker."},
	{name: "priority", later: true, doc: "Which steps of a queue go first."},
	{name: "queue_timeout", later: true, doc: "The limit of the time in the queue."},
}}

var retryShape = &shape{kind: shapeObject, also: alsoRetry, fields: []field{
	{name: "max_attempts", def: 3, shape: &shape{kind: shapeInteger, min: 1, max: MaxAttempts},
		doc: "How often the step is tried, the first time included."},
	{name: "backoff", def: string(Exponential), shape: &shape{kind: shapeText, words: []string{string(Exponential), string(Linear), string(Constant)}},
		doc: "How the delay grows: exponential doubles it, linear adds base each time, constant stays at base."},
	{name: "base", def: "1s", shape: &shape{kind: shapeDuration, least: 0, most: MaxTimeout},
		doc: "The delay before the second attempt."},
	{name: "cap", def: "1m0s", shape: &shape{kind: shapeDuration, least: 0, most: MaxTimeout},
		doc: "The longest delay."},
	{name: "jitter", def: string(FullJitter), shape: &shape{kind: shapeText, words: []string{string(FullJitter), string(NoJitter)}},
		doc: "full spreads the delay evenly between nothing and its length; none does not."},
	{name: "permanent_exit_codes", def: []any{}, shape: &shape{kind: shapeList, max: 255, elem: &shape{kind: shapeInteger, min: 1, max: 255}},
		doc: "Exit codes of command and run after which the step is not tried again."},
}}

var httpShape = &shape{kind: shapeObject, also: alsoHTTP, fields: []field{
	{name: "method", def: "GET", shape: &shape{kind: shapeText, words: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}},
		doc: "The method."},
	{name: "url", required: true, shape: textShape,
		doc: "The address: http:// or https://, and a host."},
	{name: "headers", shape: &shape{kind: shapeMap, max: 100, elem: scalarShape,
		key: &shape{min: 1, max: 256, pattern: headerPattern, patternDoc: "the name of a header"}},
		doc: "The headers."},
	{name: "body", shape: anyShape,
		doc: "The body: text, or any other value, which is sent as JSON."},
	{name: "expect", def: []any{}, shape: &shape{kind: shapeList, max: 100, elem: &shape{kind: shapeInteger, min: 100, max: 599}},
		doc: "The statuses that are a success. Default any from 200 to 299."},
}}

// stepKinds are the keys of which a step has exactly one.
var stepKinds = []string{"command", "run", "http", "handler", "approval", "sleep", "event", "workflow"}

// reservedHandlers are the names of what Pawl runs itself, now or later.
var reservedHandlers = []string{"command", "run", "http", "handler", "approval", "sleep", "event", "workflow", "crew", "load"}
