package workflow

import (
	"regexp"
	"slices"
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
	MaxFields      = 100      // of the form of an approval
	MaxHooks       = 10       // of each kind
	MaxConcurrency = 10_000   // jobs of one key at once
	MaxKey         = 1024     // bytes of a concurrency key
	MaxPath        = 1024     // bytes of the path of a child's file
	MaxChildren    = 5        // levels of child workflows below one another
	MaxVersion     = 1 << 30  // of a registered workflow
	MaxTimeout     = 366 * 24 * time.Hour
)

// Limits of a matrix.
const (
	MaxAxes         = 10
	MaxAxisValues   = 100  // of one axis
	MaxAxisText     = 256  // bytes of one value
	MaxCombinations = 1000 // of the values of all axes
)

var (
	idPattern      = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	namePattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	handlerPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*([.-][A-Za-z0-9_]+)*$`)
	envPattern     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerPattern  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	pathPattern    = regexp.MustCompile(`^[^\x00-\x1f\x7f]*\.ya?ml$`)
	plainKey       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// The shapes that several keys share.
var (
	anyShape      = &shape{kind: shapeAny}
	idShape       = &shape{kind: shapeText, min: 1, max: MaxID, pattern: idPattern, patternDoc: "an id: a-z first, then a-z, 0-9 and _"}
	textShape     = &shape{kind: shapeText, min: 1, max: MaxText}
	scalarShape   = &shape{kind: shapeScalar, max: MaxText}
	durationShape = &shape{kind: shapeDuration, least: time.Millisecond, most: MaxTimeout}
	nameShape     = &shape{kind: shapeText, min: 1, max: MaxName, pattern: namePattern, patternDoc: "a name: letters, 0-9, . _ and -, no sign first"}
	envShape      = &shape{
		kind: shapeMap, max: MaxEntries, elem: scalarShape,
		key: &shape{min: 1, max: 4 * MaxID, pattern: envPattern, reserved: "PAWL_", patternDoc: "the name of an environment variable: letters, 0-9 and _, no digit first"},
	}
)

// workflowShape is the whole file.
var workflowShape = &shape{kind: shapeObject, also: alsoWorkflow, fields: []field{
	{name: "name", required: true, shape: nameShape,
		doc: "The name of the workflow."},
	{name: "description", shape: &shape{kind: shapeText, max: MaxDescription},
		doc: "What the workflow is for."},
	{name: "inputs", shape: &shape{kind: shapeMap, max: MaxEntries, key: idShape, elem: inputShape},
		doc: "The values that a job is given, by name; expressions see them as inputs.NAME."},
	{name: "workers", shape: &shape{kind: shapeInteger, min: 1, max: MaxWorkers},
		doc: "How many steps of the job run at once, at most. Without it the ceiling, 10. Steps that wait do not count."},
	{name: "timeout", shape: durationShape,
		doc: "The limit of a whole job. Without it there is none."},
	{name: "on_error", def: string(Halt), shape: &shape{kind: shapeText, words: []string{string(Halt), string(Drain)}},
		doc: "What a failed step does to the others: halt cancels them, drain lets independent branches finish."},
	{name: "env", shape: envShape,
		doc: "Environment variables of every step. Expressions may use inputs and job."},
	{name: "steps", required: true, keep: true, shape: &shape{kind: shapeList, max: pawl.MaxNodes, elem: stepShape},
		doc: "The steps. Their order has no meaning; needs has."},
	{name: "hooks", shape: hooksShape,
		doc: "Steps that run when all others have ended."},
	{name: "concurrency", shape: concurrencyShape,
		doc: "How many jobs of one key run at once."},
	{name: "output", shape: anyShape,
		doc: "The output of the job, usually one expression."},
	{name: "order", stored: true, shape: &shape{kind: shapeList, max: pawl.MaxNodes, elem: idShape}},
}}

var hooksShape = &shape{kind: shapeObject, also: alsoHooks, fields: []field{
	{name: "failure", keep: true, shape: &shape{kind: shapeList, max: MaxHooks, elem: hookShape},
		doc: "Steps that run, one after another, when the job is going to fail."},
	{name: "always", keep: true, shape: &shape{kind: shapeList, max: MaxHooks, elem: hookShape},
		doc: "Steps that run, one after another and after those on failure, however the job ends."},
}}

var concurrencyShape = &shape{kind: shapeObject, fields: []field{
	{name: "key", shape: &shape{kind: shapeText, min: 1, max: MaxKey},
		doc: "Jobs with the same key share the limit. Expressions may use inputs and job.workflow. Without it all jobs of the workflow do."},
	{name: "limit", def: 1, shape: &shape{kind: shapeInteger, min: 1, max: MaxConcurrency},
		doc: "How many of them run at once, at most. The others stay PENDING."},
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
	{name: "matrix", shape: &shape{kind: shapeMatrix, min: 1, max: MaxAxes},
		doc: "Lists of values, by name: the step runs once for each combination. Expressions of the step see matrix.NAME and index; its output is the list of {matrix, output}, the last name varying fastest."},
	{name: "parallel", shape: &shape{kind: shapeInteger, min: 1, max: MaxParallel},
		doc: "Of a foreach or a matrix: how many instances run at once, at most. Without it only workers limits them."},
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
	{name: "approval", keep: true, shape: approvalShape,
		doc: "Waits for a person to approve."},
	{name: "sleep", keep: true, shape: &shape{kind: shapePause, max: MaxText, least: 0, most: MaxTimeout},
		doc: "Waits for a time: a duration, or text with expressions that comes to one."},
	{name: "event", keep: true, shape: eventShape,
		doc: "Waits for a signal to the job. Its data is the output."},
	{name: "workflow", keep: true, shape: childShape,
		doc: "Runs a child job, and waits for it. Its output is the step's."},
	{name: "inputs", shape: &shape{kind: shapeMap, max: MaxEntries, key: idShape, elem: anyShape},
		doc: "The inputs of the child job, by name: any values, with expressions in their strings. One that comes to null is not given."},
	{name: "queue", def: DefaultQueue, shape: idShape,
		doc: "The queue in which the step waits for a worker that serves it."},
	{name: "priority", def: 0, shape: &shape{kind: shapeInteger, min: pawl.MinPriority, max: pawl.MaxPriority},
		doc: "Which steps of a queue go first, on top of the job's priority: each point is worth a minute of waiting."},
	{name: "queue_timeout", shape: durationShape,
		doc: "The limit of the time in the queue; one that passes counts as an attempt. Without it there is none."},
}}

// hookKeys are the keys of a step that a hook has too.
var hookKeys = []string{
	"id", "if", "env", "dir", "output", "timeout", "retry", "command", "run", "http", "handler", "with", "queue", "priority", "queue_timeout",
}

// hookShape is a step that is run when all others have ended: nothing is left
// to wait for, and nobody to gather the outputs of instances.
var hookShape = func() *shape {
	s := *stepShape
	s.fields = slices.Clone(stepShape.fields)
	for i := range s.fields {
		s.fields[i].barred = !slices.Contains(hookKeys, s.fields[i].name)
	}
	return &s
}()

var approvalShape = &shape{kind: shapeObject, also: alsoApproval, fields: []field{
	{name: "prompt", required: true, shape: textShape,
		doc: "What the person is asked."},
	{name: "form", shape: &shape{kind: shapeMap, max: MaxFields, key: idShape, elem: inputShape},
		doc: "What the person fills in, by name: fields are declared as inputs are. The output is the object of them."},
	{name: "expires", shape: durationShape,
		doc: "After this time without an answer the step fails for good. Without it, it waits for ever."},
}}

var eventShape = &shape{kind: shapeObject, fields: []field{
	{name: "name", required: true, shape: idShape,
		doc: "The name of the signal."},
	{name: "timeout", shape: durationShape,
		doc: "After this time without the signal the step fails for good. Without it, it waits for ever."},
}}

var fileShape = &shape{kind: shapeText, min: 1, max: MaxPath, pattern: pathPattern, patternDoc: "the path of a file: one that ends in .yaml or .yml, on one line"}

var childShape = &shape{kind: shapeChild, max: MaxPath, fields: []field{
	{name: "name", shape: nameShape,
		doc: "The name of a registered workflow."},
	{name: "version", shape: &shape{kind: shapeInteger, min: 1, max: MaxVersion},
		doc: "Its version. Without it the newest, when the step starts."},
	{name: "file", shape: fileShape,
		doc: "A file beside this one."},
	{name: "definition", stored: true, shape: &shape{kind: shapeDefinition}},
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
var stepKinds = slices.Concat(workKinds, []string{"approval", "sleep", "event", "workflow"})

// workKinds are those that a worker runs. A hook is one of them.
var workKinds = []string{"command", "run", "http", "handler"}

// reservedHandlers are the names of what Pawl runs itself, now or later.
var reservedHandlers = []string{"command", "run", "http", "handler", "approval", "sleep", "event", "workflow", "crew", "load"}
