package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// OnError says what a failed step does to the rest of its job.
type OnError string

// What a failed step does.
const (
	Halt  OnError = "halt"  // the other steps are cancelled
	Drain OnError = "drain" // independent branches finish
)

// Kind is how a step is run.
type Kind string

// The kinds of steps.
const (
	KindCommand Kind = "command" // argv, without a shell
	KindRun     Kind = "run"     // a script for sh -e
	KindHTTP    Kind = "http"    // one request
	KindHandler Kind = "handler" // a Go handler, or a worker in any language

	KindCrew Kind = "crew" // a task of a member of a crew, until it has landed
	KindLoad Kind = "load" // a load on agents, until it is over

	KindApproval Kind = "approval" // waits for a person
	KindSleep    Kind = "sleep"    // waits for a time
	KindEvent    Kind = "event"    // waits for a signal
	KindWorkflow Kind = "workflow" // runs a child job, and waits for it
)

// Waits reports whether steps of the kind wait without a worker: the engine
// owns them (T1).
func (k Kind) Waits() bool {
	return k == KindApproval || k == KindSleep || k == KindEvent || k == KindWorkflow
}

// Encodes reports whether what runs a step of the kind gives its output as JSON, and has its input in
// Work.With.
func (k Kind) Encodes() bool { return k == KindHandler || k == KindCrew || k == KindLoad }

// Hook says when a hook runs.
type Hook string

// The kinds of hooks. They run when all other steps have ended, one after
// another: those on failure first, then those on a cancel.
const (
	NoHook        Hook = ""
	HookOnFailure Hook = "failure" // the job failed, or took longer than its timeout
	HookOnCancel  Hook = "cancel"  // it was canceled
	HookAlways    Hook = "always"
)

// hookKinds are the kinds of hooks in the order in which they run.
var hookKinds = []Hook{HookOnFailure, HookOnCancel, HookAlways}

// OutputMode says how the standard output of a step, or the body of a response, becomes
// its output.
type OutputMode string

// The output modes.
const (
	OutputNone  OutputMode = "none"  // null
	OutputText  OutputMode = "text"  // a string, the trailing newline cut
	OutputLines OutputMode = "lines" // a list of strings
	OutputJSON  OutputMode = "json"  // the JSON value that was written
)

// Isolation says what happens to a step whose worker is cut off from the database.
type Isolation string

// The kinds of isolation.
const (
	IsolationRun  Isolation = "run"  // it continues, though another worker may get it
	IsolationStop Isolation = "stop" // it has ended before another worker gets it
)

// DefaultQueue is the queue of every step that names none.
const DefaultQueue = "default"

// A Definition is a workflow that has passed every check. It never changes and
// is safe for concurrent use.
type Definition struct {
	Name        string
	Description string
	Inputs      []Input       // by name
	Workers     int           // at most this many steps at once, 1 to MaxWorkers
	AnyWorkers  bool          // the file sets no limit: Workers is the ceiling, which a quota may lower
	Timeout     time.Duration // of a job; 0 is none
	OnError     OnError
	Concurrency int    // how many jobs of one key run at once, at most; 0: no limit
	Nodes       []Node // node n is Nodes[n-1]; hooks are among them
	Hooks       []int  // the nodes that are hooks, in the order in which they run
	Events      bool   // there is a node that waits for a signal

	key       *template       // of the concurrency key
	env       []namedTemplate // by name
	output    *template       // nil without an output
	canonical []byte
	hash      [sha256.Size]byte
	byID      map[string]int
	inputs    map[string]*Input
	roots     []int // see Roots; nil: not computed yet
	height    int   // levels of children below
	programs  int   // different expressions, the children's included
}

// A Node is one step of a definition.
type Node struct {
	ID         string
	Needs      []int // node numbers, ascending
	Dependents []int // the nodes that need this one, ascending
	Kind       Kind
	Handler    string // what a worker must serve: command, run, http, or the handler's name
	Queue      string
	Hook       Hook
	HasIf      bool
	HasForeach bool
	Matrix     []Axis        // of a matrix, in the order of the file
	Parallel   int           // of a fan-out: how many instances run at once, at most; 0: no limit of its own
	Timeout    time.Duration // of one attempt; 0: DefaultTimeout
	Retry      Retry
	Output     OutputMode
	Gathers    bool // of a fan-out: its output is the list of its instances' outputs, and not null

	Priority     int           // on top of the job's
	QueueTimeout time.Duration // the limit of the time in the queue; 0 is none
	Isolation    Isolation     // empty is IsolationRun

	Approval *Approval     // of an approval
	Event    string        // of an event: its name
	Expires  time.Duration // of an approval or an event: how long it waits; 0 is for ever
	Child    *Child        // of a workflow

	path      string // its place in the file
	used      bool   // an expression names its output
	condition *program
	foreach   *template
	work      nodeWork
	wait      nodeWait
}

// An Axis is one dimension of a matrix.
type Axis struct {
	Name   string `json:"name"`
	Values []any  `json:"values"` // strings, numbers and booleans
}

// Approval is what a person is asked.
type Approval struct {
	Form []Input // the fields to fill in, by name
}

// A Child is the workflow of a child job: a registered name, or the definition itself,
// read from another file.
type Child struct {
	Name       string // of a registered workflow
	Version    int    // of it; 0 is the newest when the step starts
	File       string // as it is written
	Definition *Definition
}

// Fans reports whether the node stands for many instances.
func (n *Node) Fans() bool { return n.HasForeach || len(n.Matrix) > 0 }

// Combinations returns how many instances a matrix has, or 0 without one.
func (n *Node) Combinations() int {
	if len(n.Matrix) == 0 {
		return 0
	}
	count := 1
	for _, a := range n.Matrix {
		count *= len(a.Values)
	}
	return count
}

// DefaultTimeout is the limit of an attempt of a step that sets none.
const DefaultTimeout = 24 * time.Hour

// Canonical returns the canonical JSON of the definition: its whole meaning, with
// defaults written out and keys sorted, without comments and layout. The caller must
// not change it.
func (d *Definition) Canonical() []byte { return d.canonical }

// Hash returns the SHA-256 of Canonical.
func (d *Definition) Hash() [sha256.Size]byte { return d.hash }

// HashString returns the hash for people: "sha256:" and 64 digits.
func (d *Definition) HashString() string { return "sha256:" + hex.EncodeToString(d.hash[:]) }

// Ordered returns the same workflow with its nodes numbered in the order of ids: those
// of all steps and hooks. A job that moves to another version of its workflow keeps the
// numbers of its nodes that way. The order is part of the canonical form and of the
// hash; a file cannot state it. The error is of type Problems.
func (d *Definition) Ordered(ids []string) (*Definition, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(d.canonical, &parts); err != nil {
		return nil, &pawl.Error{Kind: pawl.Internal, Message: "workflow", Err: err}
	}
	order := make([]any, len(ids))
	for i, id := range ids {
		order[i] = id
	}
	form := map[string]any{"order": order}
	for key, raw := range parts {
		if key != "order" {
			form[key] = raw
		}
	}
	w := jsonWriter{limit: maxCanonical}
	if err := w.write(form, 0); err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "definition: %v", err)
	}
	return Load(w.out)
}

// NodeByID returns the number of the node with that id, or 0.
func (d *Definition) NodeByID(id string) int { return d.byID[id] }

// Node returns node n, from 1.
func (d *Definition) Node(n int) *Node { return &d.Nodes[n-1] }

// Roots returns the nodes without needs, ascending. Hooks are not among them. The
// caller must not change it.
func (d *Definition) Roots() []int {
	if d.roots != nil {
		return d.roots
	}
	var roots []int
	for i := range d.Nodes {
		if n := &d.Nodes[i]; len(n.Needs) == 0 && n.Hook == NoHook {
			roots = append(roots, i+1)
		}
	}
	return roots
}

// Descendants returns the nodes that need any of the given ones, directly or
// through others: ascending, without the given ones.
func (d *Definition) Descendants(nodes ...int) []int {
	return d.reach(nodes, func(n *Node) []int { return n.Dependents })
}

// Ancestors returns the nodes that any of the given ones needs, directly or
// through others: ascending, without the given ones.
func (d *Definition) Ancestors(nodes ...int) []int {
	return d.reach(nodes, func(n *Node) []int { return n.Needs })
}

func (d *Definition) reach(from []int, next func(*Node) []int) []int {
	seen := make([]bool, len(d.Nodes)+1)
	for _, n := range from {
		seen[n] = true
	}
	var found []int
	queue := slices.Clone(from)
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, m := range next(&d.Nodes[n-1]) {
			if !seen[m] {
				seen[m] = true
				found = append(found, m)
				queue = append(queue, m)
			}
		}
	}
	slices.Sort(found)
	return found
}

// InputType is the type of an input.
type InputType string

// The types of inputs.
const (
	TypeString  InputType = "string"
	TypeNumber  InputType = "number"
	TypeInteger InputType = "integer"
	TypeBoolean InputType = "boolean"
	TypeObject  InputType = "object"
	TypeArray   InputType = "array"
)

// An Input is a value that a job is given.
type Input struct {
	Name        string
	Type        InputType
	Description string
	Required    bool
	Default     json.RawMessage // nil without one
	Pattern     string          // of a string: what it has to match; empty allows all
	Enum        []json.RawMessage

	pattern matcher
}
