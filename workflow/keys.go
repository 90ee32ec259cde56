package workflow

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
)

// Limits of a workflow file. The number of steps is limited by pawl.MaxNodes.
const (
	MaxSource      = document.MaxSource // bytes of the file
	MaxDepth       = document.MaxDepth  // nesting of a value
	MaxWorkers     = 10                 // steps of one job at once
	MaxAttempts    = 1000               // of one step
	MaxParallel    = 1000               // instances of one step at once
	MaxID          = 64                 // bytes of an id
	MaxName        = 128                // bytes of the name of a workflow or a handler
	MaxDescription = 4096               // bytes
	MaxScript      = 64 << 10           // bytes of a run script
	MaxText        = 64 << 10           // bytes of any other text
	MaxEntries     = 1000               // of an environment, headers, arguments, needs, inputs
	MaxFields      = 100                // of the form of an approval
	MaxHooks       = 10                 // of each kind
	MaxConcurrency = 10_000             // jobs of one key at once
	MaxKey         = 1024               // bytes of a concurrency key
	MaxPath        = 1024               // bytes of the path of a child's file
	MaxChildren    = 5                  // levels of child workflows below one another
	MaxVersion     = 1 << 30            // of a registered workflow
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
)

// The shapes that several keys share.
var (
	anyShape      = &document.Shape{Kind: document.ShapeAny}
	idShape       = &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxID, Pattern: idPattern, PatternDoc: "an id: a-z first, then a-z, 0-9 and _"}
	textShape     = &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxText}
	scalarShape   = &document.Shape{Kind: document.ShapeScalar, Max: MaxText}
	durationShape = &document.Shape{Kind: document.ShapeDuration, Least: time.Millisecond, Most: MaxTimeout}
	nameShape     = &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxName, Pattern: namePattern, PatternDoc: "a name: letters, 0-9, . _ and -, no sign first"}
	envShape      = &document.Shape{
		Kind: document.ShapeMap, Max: MaxEntries, Elem: scalarShape,
		Key: &document.Shape{Min: 1, Max: 4 * MaxID, Pattern: envPattern, Reserved: "PAWL_", PatternDoc: "the name of an environment variable: letters, 0-9 and _, no digit first"},
	}
)

// workflowShape is the whole file.
var workflowShape = &document.Shape{Kind: document.ShapeObject, Also: with(alsoWorkflow), Fields: []document.Field{
	{Name: "name", Required: true, Shape: nameShape,
		Doc: "The name of the workflow."},
	{Name: "description", Shape: &document.Shape{Kind: document.ShapeText, Max: MaxDescription},
		Doc: "What the workflow is for."},
	{Name: "inputs", Elsewhere: []string{"params", "parameters"}, Shape: &document.Shape{Kind: document.ShapeMap, Max: MaxEntries, Key: idShape, Elem: inputShape},
		Doc: "The values that a job gets, by name; expressions see them as inputs.NAME."},
	{Name: "workers", Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: MaxWorkers},
		Doc: "How many steps of the job run at once, at most. Default 10, the ceiling. Steps that wait do not count."},
	{Name: "timeout", Shape: durationShape,
		Doc: "The limit of a whole job: one that takes longer is canceled, and runs its failure hooks. Without it there is none."},
	{Name: "on_error", Default: string(Halt), Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(Halt), string(Drain)}},
		Doc: "What a failed step does to the others: halt cancels them, drain lets independent branches finish."},
	{Name: "env", Shape: envShape,
		Doc: "Environment variables of every step. Expressions may use inputs and job."},
	{Name: "steps", Required: true, Keep: true, Elsewhere: []string{"jobs", "tasks", "stages"}, Shape: &document.Shape{Kind: document.ShapeList, Max: pawl.MaxNodes, Elem: stepShape},
		Doc: "The steps. Their order has no meaning; needs orders them."},
	{Name: "schedule", Shape: anyShape, Barred: &document.Judgement{Message: "a workflow file has no schedule",
		Hint: "register the workflow, and add a schedule that runs it"}},
	{Name: "hooks", Elsewhere: []string{"handlers"}, Shape: hooksShape,
		Doc: "Steps that run when all others have ended."},
	{Name: "concurrency", Shape: concurrencyShape,
		Doc: "How many jobs of one key run at once."},
	{Name: "output", Shape: anyShape,
		Doc: "The output of the job, usually one expression."},
	{Name: "order", Stored: true, Shape: &document.Shape{Kind: document.ShapeList, Max: pawl.MaxNodes, Elem: idShape}},
}}

var hooksShape = &document.Shape{Kind: document.ShapeObject, Also: with(alsoHooks), Fields: []document.Field{
	{Name: "failure", Keep: true, Shape: &document.Shape{Kind: document.ShapeList, Max: MaxHooks, Elem: hookShape},
		Doc: "Steps that run, one after another, when the job has failed or taken longer than its `timeout`."},
	{Name: "cancel", Keep: true, Shape: &document.Shape{Kind: document.ShapeList, Max: MaxHooks, Elem: hookShape},
		Doc: "Steps that run, one after another, when the job is canceled."},
	{Name: "always", Keep: true, Shape: &document.Shape{Kind: document.ShapeList, Max: MaxHooks, Elem: hookShape},
		Doc: "Steps that run, one after another and after the others, however the job ends."},
}}

var concurrencyShape = &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
	{Name: "key", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxKey},
		Doc: "Jobs with the same key share the limit. Expressions may use inputs and job.workflow. Without it all jobs of the workflow do."},
	{Name: "limit", Default: 1, Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: MaxConcurrency},
		Doc: "How many of them run at once, at most. The others stay PENDING."},
}}

var inputShape = &document.Shape{Kind: document.ShapeObject, Also: with(alsoInput), Fields: []document.Field{
	{Name: "type", Default: string(TypeString), Shape: &document.Shape{Kind: document.ShapeText, Words: []string{
		string(TypeString), string(TypeNumber), string(TypeInteger), string(TypeBoolean), string(TypeObject), string(TypeArray)}},
		Doc: "The type of the value; array is a list."},
	{Name: "description", Shape: &document.Shape{Kind: document.ShapeText, Max: MaxDescription},
		Doc: "What the value is for."},
	{Name: "required", Default: false, Shape: &document.Shape{Kind: document.ShapeBoolean},
		Doc: "Whether the value has to be given. A value that is not given and has no default is null."},
	{Name: "default", Shape: anyShape,
		Doc: "The value when none is given."},
	{Name: "pattern", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: 1000},
		Doc: "A regular expression (RE2) that a string has to match somewhere; ^ and $ make it the whole string."},
	{Name: "enum", Shape: &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxEntries, Elem: anyShape},
		Doc: "The only values allowed."},
}}

var stepShape = &document.Shape{Kind: document.ShapeObject, OneOf: stepKinds, Apart: []string{"foreach", "matrix"}, Also: with(alsoStep), Fields: []document.Field{
	{Name: "id", Required: true, Keep: true, Shape: idShape,
		Doc: "The name of the step, unique in the file."},
	{Name: "needs", Elsewhere: []string{"depends", "depends_on", "dependsOn", "after"}, Shape: &document.Shape{Kind: document.ShapeList, Max: MaxEntries, Elem: idShape},
		Doc: "The steps that have to be complete first."},
	{Name: "if", Elsewhere: []string{"when", "condition"}, Shape: &document.Shape{Kind: document.ShapeOwn, Own: conditionOwn, Min: 1},
		Doc: "An expression, with or without ${{ }}, whose value is true or false. If it is false the step is skipped."},
	{Name: "foreach", Elsewhere: []string{"for_each", "with_items", "loop"}, Shape: &document.Shape{Kind: document.ShapeOwn, Own: foreachOwn},
		Doc: "A list, or an expression whose value is one: the step runs once for each item. Expressions of the step see item and index; its output is the list of the outputs, in order."},
	{Name: "matrix", Shape: &document.Shape{Kind: document.ShapeOwn, Own: matrixOwn, Min: 1, Max: MaxAxes},
		Doc: "Lists of values, by name: the step runs once for each combination. Expressions of the step see matrix.NAME and index; its output is the list of {matrix, output}, the last name varying fastest."},
	{Name: "parallel", Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: MaxParallel},
		Doc: "Of a foreach or a matrix: how many instances run at once, at most. Without it only workers limits them."},
	{Name: "env", Shape: envShape,
		Doc: "Environment variables of the step, on top of the workflow's. Of command and run only."},
	{Name: "dir", Elsewhere: []string{"working-directory", "working_dir", "workdir", "cwd"}, Shape: textShape,
		Doc: "The working directory of command and run; of crew a folder in its repository; of load the folder of its file. It is relative to the working directory of the job; see What a command gets. Without it, that of the job."},
	{Name: "output", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(OutputNone), string(OutputText), string(OutputLines), string(OutputJSON)}},
		Doc: "How standard output, or the body of a response, becomes the output: none, text (the trailing newline cut), lines, or json. Default text if an expression of the file uses the output, else none. That of a handler, a crew or a load is json or none, by default json."},
	{Name: "timeout", Shape: durationShape,
		Doc: "The limit of one attempt. Without it 24h."},
	{Name: "retry", Fill: true, Shape: retryShape,
		Doc: "How often, and when, the step is tried again."},
	{Name: "command", Shape: &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxEntries, Elem: scalarShape, Hint: ", or use `run` for a shell script"},
		Doc: "A program and its arguments, run without a shell."},
	{Name: "run", Elsewhere: []string{"script", "shell"}, Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxScript},
		Doc: "A script for `sh -e`. Expressions are not allowed inside it: pass values through env."},
	{Name: "http", Shape: httpShape,
		Doc: "An HTTP request."},
	{Name: "handler", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxName, Pattern: handlerPattern, PatternDoc: "the name of a handler: words of letters, 0-9 and _, joined by . or -"},
		Doc: "The name of a handler: a Go function of a worker."},
	{Name: "with", Shape: anyShape,
		Doc: "The input of a handler: any value, with expressions in its strings."},
	{Name: "crew", Shape: crewShape,
		Doc: "Gives a task to a member of a crew, and is done when the work has landed. Its output is {member, task, target, branch, commit, attempt}."},
	{Name: "load", Shape: loadShape,
		Doc: "Runs a load on agents, and fails if a threshold is violated. Its output is the summary of the result, and `folder`, where the result is."},
	{Name: "approval", Keep: true, Shape: approvalShape,
		Doc: "Waits for a person to approve."},
	{Name: "sleep", Keep: true, Shape: &document.Shape{Kind: document.ShapeOwn, Own: pauseOwn, Max: MaxText, Least: 0, Most: MaxTimeout},
		Doc: "Waits for a time: a duration, or text with expressions that gives one."},
	{Name: "event", Keep: true, Shape: eventShape,
		Doc: "Waits for a signal to the job. Its data is the output."},
	{Name: "workflow", Elsewhere: []string{"uses"}, Keep: true, Shape: childShape,
		Doc: "Runs a child job, and waits for it. Its output is the step's."},
	{Name: "inputs", Shape: &document.Shape{Kind: document.ShapeMap, Max: MaxEntries, Key: idShape, Elem: anyShape},
		Doc: "The inputs of the child job, by name: any values, with expressions in their strings. One whose value is null is not given."},
	{Name: "queue", Default: DefaultQueue, Shape: idShape,
		Doc: "The queue in which the step waits for a worker that serves it."},
	{Name: "priority", Default: 0, Shape: &document.Shape{Kind: document.ShapeInteger, Min: pawl.MinPriority, Max: pawl.MaxPriority},
		Doc: "Which steps of a queue go first, on top of the job's priority: each point is worth a minute of waiting."},
	{Name: "queue_timeout", Shape: durationShape,
		Doc: "The longest time in the queue; when it has passed, that counts as an attempt. Without it there is no limit."},
	{Name: "isolation", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(IsolationRun), string(IsolationStop)}},
		Doc: "What happens to the step when its worker is cut off from the database: with run it continues, and another worker may run it meanwhile; with stop it is ended before another worker gets it. Default run, unless the worker was started with stop."},
}}

// hookKeys are the keys of a step that a hook has too.
var hookKeys = []string{
	"id", "if", "env", "dir", "output", "timeout", "retry", "command", "run", "http", "handler", "with", "queue", "priority", "queue_timeout", "isolation",
}

// hookShape is a step that runs when all others have ended: it has nothing to wait for,
// and nothing would gather the outputs of instances.
var hookShape = func() *document.Shape {
	s := *stepShape
	s.OneOf, s.Apart, s.Fields = hookWork, nil, slices.Clone(stepShape.Fields)
	for i := range s.Fields {
		s.Fields[i].Barred = notOfHooks(s.Fields[i].Name)
	}
	return &s
}()

// notOfHooks says why a hook does not have a key of a step, or nil.
func notOfHooks(key string) *document.Judgement {
	if slices.Contains(hookKeys, key) {
		return nil
	}
	j := document.Refused("a hook has no %s", key)
	if slices.Contains(stepKinds, key) {
		j.Hint = "a hook is one of " + strings.Join(hookWork, ", ")
	}
	return j
}

var approvalShape = &document.Shape{Kind: document.ShapeObject, Also: with(alsoApproval), Fields: []document.Field{
	{Name: "prompt", Required: true, Shape: textShape,
		Doc: "What the person is asked."},
	{Name: "form", Shape: &document.Shape{Kind: document.ShapeMap, Max: MaxFields, Key: idShape, Elem: inputShape},
		Doc: "The fields that the person fills in, by name, declared like inputs. The output is the object of their values."},
	{Name: "expires", Shape: durationShape,
		Doc: "After this time without a decision the step fails for good. Without it, it waits for ever."},
}}

var eventShape = &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
	{Name: "name", Required: true, Shape: idShape,
		Doc: "The name of the signal."},
	{Name: "timeout", Shape: durationShape,
		Doc: "After this time without the signal the step fails for good. Without it, it waits for ever."},
}}

var fileShape = &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxPath, Pattern: pathPattern, PatternDoc: "the path of a file: one that ends in .yaml or .yml, on one line"}

var childShape = &document.Shape{Kind: document.ShapeOwn, Own: childOwn, Max: MaxPath, Fields: []document.Field{
	{Name: "name", Shape: nameShape,
		Doc: "The name of a registered workflow."},
	{Name: "version", Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: MaxVersion},
		Doc: "Its version. Without it the newest, when the step starts."},
	{Name: "file", Shape: fileShape,
		Doc: "The file of a workflow: a path relative to the folder of this file, or an absolute one."},
	{Name: "definition", Stored: true, Shape: &document.Shape{Kind: document.ShapeOwn, Own: definitionOwn}},
}}

var retryShape = &document.Shape{Kind: document.ShapeObject, Also: with(alsoRetry), Fields: []document.Field{
	{Name: "max_attempts", Default: 3, Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: MaxAttempts},
		Doc: "How often the step is tried, the first time included."},
	{Name: "backoff", Default: string(Exponential), Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(Exponential), string(Linear), string(Constant)}},
		Doc: "How the delay grows: exponential doubles it, linear adds base each time, constant stays at base."},
	{Name: "base", Default: "1s", Shape: &document.Shape{Kind: document.ShapeDuration, Least: 0, Most: MaxTimeout},
		Doc: "The delay before the second attempt."},
	{Name: "cap", Default: "1m0s", Shape: &document.Shape{Kind: document.ShapeDuration, Least: 0, Most: MaxTimeout},
		Doc: "The longest delay."},
	{Name: "jitter", Default: string(FullJitter), Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(FullJitter), string(NoJitter)}},
		Doc: "full draws the delay evenly between zero and its length; none does not."},
	{Name: "permanent_exit_codes", Default: []any{}, Shape: &document.Shape{Kind: document.ShapeList, Max: 255, Elem: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: 255}},
		Doc: "Exit codes of command and run after which the step is not tried again."},
}}

var httpShape = &document.Shape{Kind: document.ShapeObject, Also: with(alsoHTTP), Fields: []document.Field{
	{Name: "method", Default: "GET", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}},
		Doc: "The method."},
	{Name: "url", Required: true, Shape: textShape,
		Doc: "The address: http:// or https://, and a host. Redirects are followed, up to 10, but not to another origin (scheme, host, port) with a body or headers, and never from https to http: that is a permanent error."},
	{Name: "headers", Shape: &document.Shape{Kind: document.ShapeMap, Max: 100, Elem: scalarShape,
		Key: &document.Shape{Min: 1, Max: 256, Pattern: headerPattern, PatternDoc: "the name of a header"}},
		Doc: "The headers."},
	{Name: "body", Shape: anyShape,
		Doc: "The body: text, or any other value, which is sent as JSON."},
	{Name: "expect", Default: []any{}, Shape: &document.Shape{Kind: document.ShapeList, Max: 100, Elem: &document.Shape{Kind: document.ShapeInteger, Min: 100, Max: 599}},
		Doc: "The statuses that are a success. Default any from 200 to 299."},
}}

var crewShape = &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
	{Name: "member", Required: true, Shape: textShape, Elsewhere: []string{"worker", "agent"},
		Doc: "Who does it. While it does something else, the step waits."},
	{Name: "task", Required: true, Shape: textShape,
		Doc: "The id of the task: letters, digits, '.', '_' and '-'."},
	{Name: "prompt", Shape: textShape,
		Doc: "What is to be done."},
	{Name: "target", Shape: textShape,
		Doc: "The branch on which the work is to land. Without it, the one that is checked out in the main worktree."},
	{Name: "max_attempts", Default: 3, Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: 100},
		Doc: "How many attempts the member has."},
}}

var loadShape = &document.Shape{Kind: document.ShapeObject, Also: with(alsoLoad), Apart: []string{"agents", "local"}, Hint: "write {file: FILE}", Fields: []document.Field{
	{Name: "file", Required: true, Shape: textShape, Elsewhere: []string{"path", "spec", "config"},
		Doc: "The load file, on the machine of the worker. It is relative to the `dir` of the step."},
	{Name: "agents", Shape: &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxEntries, Elem: textShape}, Elsewhere: []string{"hosts", "targets"},
		Doc: "The agents to use: HOST, HOST:PORT or unix:PATH. Without it, agents on the machine of the worker, which live as long as the load."},
	{Name: "local", Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: 64},
		Doc: "How many of those there are. Default 1."},
	{Name: "root", Shape: textShape,
		Doc: "The folder that they work beneath, relative to the `dir` of the step. Default a temporary one, which is removed."},
	{Name: "thresholds", Shape: &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxEntries, Elem: limitsShape},
		Doc: "What the result must not exceed or fall below, besides the thresholds of the file."},
}}

var limitShape = &document.Shape{Kind: document.ShapeOwn, Own: pauseOwn, Max: MaxText, Least: time.Nanosecond, Most: 24 * time.Hour}

var amountShape = &document.Shape{Kind: document.ShapeOwn, Own: atomOwn, Max: MaxText}

var limitsShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {operation: OPERATION, p99: TIME}", Fields: []document.Field{
	{Name: "operation", Shape: textShape, Doc: "The operation. Default all together."},
	{Name: "p50", Shape: limitShape, Doc: "The most that the median of the latencies may be."},
	{Name: "p90", Shape: limitShape, Doc: "The same of the 90th percentile."},
	{Name: "p99", Shape: limitShape, Doc: "The same of the 99th percentile."},
	{Name: "p999", Shape: limitShape, Doc: "The same of the 99.9th percentile."},
	{Name: "max", Shape: limitShape, Doc: "The same of the greatest."},
	{Name: "errors", Shape: amountShape, Doc: "A number: the most operations that may fail."},
	{Name: "throughput", Shape: amountShape, Doc: "A size, such as 100MiB: the least bytes in a second, of all agents."},
	{Name: "operations", Shape: amountShape, Doc: "A number: the least operations in a second, of all agents."},
}}

// stepKinds are the keys of which a step has exactly one.
var stepKinds = slices.Concat(workKinds, []string{"approval", "sleep", "event", "workflow"})

// workKinds are those that a worker runs.
var workKinds = slices.Concat(hookWork, []string{"crew", "load"})

// hookWork are those of them that a hook can be.
var hookWork = []string{"command", "run", "http", "handler"}

// reservedHandlers are names of what Pawl runs itself, now or later.
var reservedHandlers = []string{"command", "run", "http", "handler", "approval", "sleep", "event", "workflow", "crew", "load"}
