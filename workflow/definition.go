package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
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
)

// OutputMode is what becomes of what a step wrote to its standard output, or
// of the body of a response.
type OutputMode string

// The output modes.
const (
	OutputNone  OutputMode = "none"  // null
	OutputText  OutputMode = "text"  // a string, the trailing newline cut
	OutputLines OutputMode = "lines" // a list of strings
	OutputJSON  OutputMode = "json"  // the JSON value that was written
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
	Timeout     time.Duration // of a job; 0 is none
	OnError     OnError
	Nodes       []Node // node n is Nodes[n-1]

	env       []namedTemplate // by name
	output    *template       // nil without an output
	canonical []byte
	hash      [sha256.Size]byte
	byID      map[string]int
	inputs    map[string]*Input
}

// A Node is one step of a definition.
type Node struct {
	ID         string
	Needs      []int // node numbers, ascending
	Dependents []int // the nodes that need this one, ascending
	Kind       Kind
	Handler    string // what a worker must serve: command, run, http, or the handler's name
	Queue      string
	HasIf      bool
	HasForeach bool
	Parallel   int           // of a foreach: at most so many instances at once; 0 is no limit of its own
	Timeout    time.Duration // of one attempt; 0 is none set: DefaultTimeout
	Retry      Retry
	Output     OutputMode

	condition *program
	foreach   *template
	work      nodeWork
}

// DefaultTimeout is the limit of an attempt of a step that sets none.
const DefaultTimeout = 24 * time.Hour

// Canonical answers the canonical JSON of the definition: its whole meaning,
// defaults written out, keys sorted, comments and layout left out. The caller
// must not change it.
func (d *Definition) Canonical() []byte { return d.canonical }

// Hash answers the SHA-256 of Canonical.
func (d *Definition) Hash() [sha256.Size]byte { return d.hash }

// HashString answers the hash for people: "sha256:" and 64 digits.
func (d *Definition) HashString() string { return "sha256:" + hex.EncodeToString(d.hash[:]) }

// NodeByID answers the number of the node with that id, or 0.
func (d *Definition) NodeByID(id string) int { return d.byID[id] }

// Node answers node n, from 1.
func (d *Definition) Node(n int) *Node { return &d.Nodes[n-1] }

// Roots answers the nodes without needs, ascending.
func (d *Definition) Roots() []int {
	var roots []int
	for i := range d.Nodes {
		if len(d.Nodes[i].Needs) == 0 {
			roots = append(roots, i+1)
		}
	}
	return roots
}

// Descendants answers the nodes that need any of the given ones, directly or
// through others: ascending, without the given ones.
func (d *Definition) Descendants(nodes ...int) []int {
	return d.reach(nodes, func(n *Node) []int { return n.Dependents })
}

// Ancestors answers the nodes that any of the given ones needs, directly or
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
