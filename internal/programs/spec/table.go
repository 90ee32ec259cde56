package spec

import (
	"regexp"
	"time"

	"github.com/pawl-dev/pawl/internal/document"
)

// Limits of a file.
const (
	MaxServices    = 10_000
	MaxID          = 64       // bytes of the id of a service
	MaxName        = 128      // bytes of the name of the supervisor
	MaxDescription = 4096     // bytes
	MaxArguments   = 1000     // of a command
	MaxText        = 64 << 10 // bytes of an argument, or of a value of a variable
	MaxScript      = 64 << 10 // bytes of a run script
	MaxEnv         = 1000     // variables of one service or of the file, and names in pass
	MaxPath        = 4096     // bytes
	MaxPattern     = 1000     // bytes of the pattern of a line
	MaxURL         = 2048     // bytes
	MaxBurst       = 1000
	MaxInARow      = 1000 // successes or failures of a probe
	MaxLogFiles    = 1000
	MaxCount       = 1 << 30 // open files, processes
	MaxSize        = 1 << 60 // bytes
	MinLogSize     = 1 << 10
	MaxLogSize     = 1 << 40
	MaxDuration    = 366 * 24 * time.Hour
	MinInterval    = 10 * time.Millisecond // of a probe
)

var (
	idPattern   = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	passPattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)?\*?$`)
	userPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._@-]*\$?$`)
	pathPattern = regexp.MustCompile(`^[^\x00-\x1f\x7f]*$`)
	filePattern = regexp.MustCompile(`^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f/]$`)
)

// The shapes that several keys share.
var (
	idShape      = &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxID, Pattern: idPattern, PatternDoc: "an id: a-z first, then a-z, 0-9, _ and -"}
	nameShape    = &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxName, Pattern: namePattern, PatternDoc: "a name: letters, 0-9, . _ and -, no sign first"}
	userShape    = &document.Shape{Kind: document.ShapeScalar, Min: 1, Max: MaxName, Pattern: userPattern, PatternDoc: "a name or a number"}
	boolShape    = &document.Shape{Kind: document.ShapeBoolean}
	timeShape    = &document.Shape{Kind: document.ShapeDuration, Least: time.Millisecond, Most: MaxDuration}
	delayShape   = &document.Shape{Kind: document.ShapeDuration, Most: MaxDuration}
	countShape   = &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: MaxInARow}
	manyShape    = &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: MaxCount}
	commandShape = &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxArguments, Elem: &document.Shape{Kind: document.ShapeScalar, Max: MaxText}}
	envShape     = &document.Shape{
		Kind: document.ShapeMap, Max: MaxEnv, Hint: "write {NAME: VALUE}", Elem: &document.Shape{Kind: document.ShapeScalar, Max: MaxText},
		Key: &document.Shape{Min: 1, Max: 4 * MaxID, Pattern: envPattern, Reserved: "PAWL_", PatternDoc: "the name of an environment variable: letters, 0-9 and _, no digit first"},
	}
)

// fileShape is the whole file.
var fileShape = &document.Shape{Kind: document.ShapeObject, Also: alsoFile, Fields: []document.Field{
	{Name: "name", Shape: nameShape,
		Doc: "The name of the supervisor. Default the file's own, without its ending."},
	{Name: "env", Shape: envShape, Elsewhere: []string{"environment"},
		Doc: "Environment variables of every service."},
	{Name: "services", Required: true, Shape: &document.Shape{Kind: document.ShapeMap, Min: 1, Max: MaxServices, Key: idShape, Elem: serviceShape, Hint: "write {ID: {command: [PROGRAM]}}"},
		Elsewhere: []string{"programs", "processes"},
		Doc:       "The programs, by id."},
}}

var serviceShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {command: [PROGRAM]}", Also: alsoService, OneOf: workKeys, Fields: []document.Field{
	{Name: "description", Shape: &document.Shape{Kind: document.ShapeText, Max: MaxDescription},
		Doc: "What the service is for."},
	{Name: "command", Shape: withHint(commandShape, ", or use `run` for a shell script"), Elsewhere: []string{"entrypoint"},
		Doc: "A program and its arguments, run without a shell. A program without a slash is looked for in PATH."},
	{Name: "run", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxScript}, Elsewhere: []string{"script", "shell"},
		Doc: "A script for `/bin/sh -e`. End it with `exec PROGRAM`, so that the program gets the signals itself."},
	{Name: "dir", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxPath, Pattern: pathPattern, PatternDoc: "the path of a folder, on one line"},
		Elsewhere: []string{"working_dir", "workdir", "cwd", "directory"},
		Doc:       "The working directory, relative to the folder of the file. Default that folder."},
	{Name: "env", Shape: envShape, Elsewhere: []string{"environment"},
		Doc: "Environment variables, on top of those of the file."},
	{Name: "pass", Shape: &document.Shape{Kind: document.ShapeList, Max: MaxEnv, Elem: passShape},
		Doc: "Names of the supervisor's own variables that the program gets besides the usual ones. `NAME*` stands for all that begin with NAME, `*` for all."},
	{Name: "user", Shape: userShape,
		Doc: "The user that the program runs as, by name or number. Default that of the supervisor; another one needs root."},
	{Name: "group", Shape: userShape,
		Doc: "The group, likewise. Default the user's."},
	{Name: "autostart", Default: true, Shape: boolShape,
		Doc: "Whether the service is started with the supervisor. If not, it waits for an order."},
	{Name: "needs", Shape: &document.Shape{Kind: document.ShapeOwn, Own: needsOwn}, Elsewhere: []string{"depends_on", "requires", "after"},
		Doc: "The services that have to be ready first; or, by id, the condition of each: started, ready or completed."},
	{Name: "ready", Shape: readyShape, Elsewhere: []string{"readiness_probe", "readiness"},
		Doc: "How to find out whether the service is ready. Without it, the service is ready when it has started."},
	{Name: "alive", Shape: aliveShape, Elsewhere: []string{"liveness_probe", "liveness", "healthcheck", "health_check"},
		Doc: "How to find out whether the service still works. Without it, the service is alive while it runs."},
	{Name: "start", Fill: true, Shape: startShape,
		Doc: "How long it may take to become ready."},
	{Name: "restart", Fill: true, Shape: restartShape, Elsewhere: []string{"availability"},
		Doc: "When, and how often, it is restarted."},
	{Name: "stop", Fill: true, Shape: stopShape, Elsewhere: []string{"shutdown"},
		Doc: "How it is stopped."},
	{Name: "log", Fill: true, Shape: logShape, Elsewhere: []string{"logs", "logging", "stdout", "log_location"},
		Doc: "Where its output is kept."},
	{Name: "limits", Shape: limitsShape, Elsewhere: []string{"ulimits", "resources"},
		Doc: "Limits of each of its processes."},
}}

// workKeys are the keys of which a service has exactly one.
var workKeys = []string{"command", "run"}

var passShape = &document.Shape{Kind: document.ShapeText, Min: 1, Max: 4 * MaxID, Pattern: passPattern, PatternDoc: "the name of an environment variable, or the beginning of some and *"}

var startShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {timeout: TIME}", Fields: []document.Field{
	{Name: "timeout", Default: "0s", Shape: delayShape,
		Doc: "The longest time; then it is stopped, which counts as a failure. 0s: no limit."},
}}

var restartShape = &document.Shape{Kind: document.ShapeObject, Also: alsoRestart, Hint: "write {policy: POLICY}", Fields: []document.Field{
	{Name: "policy", Default: string(Always), Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(Always), string(OnFailure), string(Never)}},
		Doc: "When it is restarted: always; on_failure, unless it ended with exit code 0; or never."},
	{Name: "base", Default: "1s", Shape: delayShape,
		Doc: "The delay before the first restart. It doubles with each further one."},
	{Name: "cap", Default: "1m0s", Shape: delayShape,
		Doc: "The longest delay."},
	{Name: "jitter", Default: "full", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{"full", "none"}},
		Doc: "full draws the delay evenly between zero and its length; none does not."},
	{Name: "burst", Default: 5, Shape: &document.Shape{Kind: document.ShapeInteger, Max: MaxBurst},
		Elsewhere: []string{"max_restarts", "start_limit_burst"},
		Doc:       "How many restarts there may be within `window`; with one more the service has failed. 0: no limit."},
	{Name: "window", Default: "5m0s", Shape: timeShape,
		Doc: "See `burst`."},
	{Name: "reset", Default: "1m0s", Shape: timeShape,
		Doc: "After it has been ready for this time, the delay starts at `base` again, and earlier restarts no longer count."},
	{Name: "permanent_exit_codes", Default: []any{}, Shape: &document.Shape{Kind: document.ShapeList, Max: 255, Elem: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: 255}},
		Doc: "Exit codes after which it has failed at once."},
}}

var stopShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {signal: SIGNAL, grace: TIME}", Fields: []document.Field{
	{Name: "signal", Default: "SIGTERM", Shape: &document.Shape{Kind: document.ShapeOwn, Own: signalOwn},
		Doc: "The signal that its processes get first."},
	{Name: "grace", Default: "10s", Shape: delayShape, Elsewhere: []string{"timeout"},
		Doc: "What still runs after this time is killed."},
}}

var logShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {file: PATH}", Fields: []document.Field{
	{Name: "file", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxPath, Pattern: filePattern, PatternDoc: "the path of a file, on one line"},
		Doc: "The file, relative to the folder of this one. Default `ID.log` in the supervisor's own folder."},
	{Name: "max_size", Default: "10MB", Shape: sizeShape(MinLogSize, MaxLogSize),
		Doc: "The size at which the file is rotated."},
	{Name: "max_files", Default: 5, Shape: &document.Shape{Kind: document.ShapeInteger, Max: MaxLogFiles},
		Doc: "How many rotated files are kept."},
}}

var limitsShape = &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
	{Name: "open_files", Shape: manyShape, Elsewhere: []string{"nofile"},
		Doc: "Open files and connections."},
	{Name: "processes", Shape: manyShape, Elsewhere: []string{"nproc"},
		Doc: "Processes and threads, of all that the user runs."},
	{Name: "address_space", Shape: sizeShape(1<<20, MaxSize), Elsewhere: []string{"memory", "mem_limit"},
		Doc: "Address space."},
	{Name: "file_size", Shape: sizeShape(0, MaxSize),
		Doc: "Size of a file that it writes, its log not included."},
	{Name: "core_size", Shape: sizeShape(0, MaxSize),
		Doc: "Size of a core dump."},
	{Name: "cpu_time", Shape: &document.Shape{Kind: document.ShapeDuration, Least: time.Second, Most: MaxDuration},
		Doc: "Time on a processor. Fractions of a second are not counted."},
	{Name: "nice", Shape: &document.Shape{Kind: document.ShapeInteger, Min: -20, Max: 19},
		Doc: "Its priority, 19 being the lowest. A priority higher than the supervisor's needs root."},
}}

// withHint returns a shape like s, with a hint for a lone value in its place.
func withHint(s *document.Shape, hint string) *document.Shape {
	c := *s
	c.Hint = hint
	return &c
}
