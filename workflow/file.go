package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
)

// A File is a workflow as it is written: in YAML, or as a Go literal. The two have the
// same keys, meaning, checks and hash. A zero field takes the default that
// docs/workflow.md states.
type File struct {
	Name        string                 `json:"name,omitempty"`
	Description string                 `json:"description,omitempty"`
	Inputs      map[string]InputSchema `json:"inputs,omitempty"`
	Workers     int                    `json:"workers,omitempty"` // 1 to MaxWorkers; default MaxWorkers
	Timeout     time.Duration          `json:"-"`                 // of a whole job; default none
	OnError     OnError                `json:"on_error,omitempty"`
	Env         map[string]string      `json:"env,omitempty"` // values may hold expressions
	Steps       []Step                 `json:"steps"`
	Hooks       Hooks                  `json:"hooks,omitzero"`
	Concurrency Concurrency            `json:"concurrency,omitzero"`
	Output      any                    `json:"output,omitempty"` // any JSON value, with expressions in its strings

	order []string // the ids by the number of their node; see Definition.Ordered
}

// Hooks are steps that run when all others have ended (T7), one after another: those on
// failure, if the job fails or takes longer than its timeout, or those on cancel, if it
// is canceled; then those for always. They have no needs and are not fanned out. The
// outcome of a hook does not change how its job ends.
type Hooks struct {
	Failure []Step `json:"failure,omitempty"`
	Cancel  []Step `json:"cancel,omitempty"`
	Always  []Step `json:"always,omitempty"`
}

// Of returns the hooks of a kind.
func (h *Hooks) Of(kind Hook) []Step {
	return map[Hook][]Step{HookOnFailure: h.Failure, HookOnCancel: h.Cancel, HookAlways: h.Always}[kind]
}

// Concurrency limits how many jobs of one key run at once; the others stay
// PENDING.
type Concurrency struct {
	Key   string `json:"key,omitempty"`   // (e) of inputs; default one key for all
	Limit int    `json:"limit,omitempty"` // default 1
}

// An InputSchema says what an input has to be.
type InputSchema struct {
	Type        InputType `json:"type,omitempty"` // default string
	Description string    `json:"description,omitempty"`
	Required    bool      `json:"required,omitempty"`
	Default     any       `json:"default,omitempty"`
	Pattern     string    `json:"pattern,omitempty"` // RE2; of a string
	Enum        []any     `json:"enum,omitempty"`
}

// A Step is one step as it is written. It has exactly one of Command, Run,
// HTTP, Handler, Crew, Load, Approval, Sleep, Event and Workflow. Strings marked with (e)
// may hold expressions.
type Step struct {
	ID       string            `json:"id,omitempty"`
	Needs    []string          `json:"needs,omitempty"`
	If       string            `json:"if,omitempty"`      // an expression, with or without ${{ }}
	Foreach  any               `json:"foreach,omitempty"` // a list (e), or one expression in ${{ }}
	Matrix   []Axis            `json:"matrix,omitempty"`  // in YAML a mapping of names to lists
	Parallel int               `json:"parallel,omitempty"`
	Env      map[string]string `json:"env,omitempty"` // (e)
	Dir      string            `json:"dir,omitempty"` // (e)
	Output   OutputMode        `json:"output,omitempty"`
	Timeout  time.Duration     `json:"-"` // of one attempt; default DefaultTimeout
	Retry    Retry             `json:"retry,omitzero"`

	Command []string `json:"command,omitempty"` // (e)
	Run     string   `json:"run,omitempty"`
	HTTP    *HTTP    `json:"http,omitempty"`
	Handler string   `json:"handler,omitempty"`
	With    any      `json:"with,omitempty"` // of a Handler: any JSON value (e)

	Crew *CrewStep `json:"crew,omitempty"`
	Load *LoadStep `json:"load,omitempty"`

	Approval *ApprovalStep  `json:"approval,omitempty"`
	Sleep    string         `json:"sleep,omitempty"` // (e) a duration
	Event    *EventStep     `json:"event,omitempty"`
	Workflow *ChildStep     `json:"workflow,omitempty"` // in YAML the name of a registered workflow, or of a file
	Inputs   map[string]any `json:"inputs,omitempty"`   // (e) of a Workflow

	Queue        string        `json:"queue,omitempty"` // default DefaultQueue
	Priority     int           `json:"priority,omitempty"`
	QueueTimeout time.Duration `json:"-"` // default none
	Isolation    Isolation     `json:"isolation,omitempty"`
}

// CrewStep gives a task to a member of a crew.
type CrewStep struct {
	Member      string `json:"member,omitempty"`       // (e)
	Task        string `json:"task,omitempty"`         // (e)
	Prompt      string `json:"prompt,omitempty"`       // (e)
	Target      string `json:"target,omitempty"`       // (e) default the branch of the main worktree
	MaxAttempts int    `json:"max_attempts,omitempty"` // default 3
}

// value returns what is written, for a template.
func (s *CrewStep) value() map[string]any {
	m := map[string]any{"max_attempts": s.MaxAttempts}
	for key, text := range map[string]string{"member": s.Member, "task": s.Task, "prompt": s.Prompt, "target": s.Target} {
		if text != "" {
			m[key] = text
		}
	}
	return m
}

// LoadStep runs a load on agents.
type LoadStep struct {
	File       string           `json:"file,omitempty"`       // (e) relative to the Dir of the step
	Agents     []string         `json:"agents,omitempty"`     // (e) addresses; none: agents that are started for it
	Local      int              `json:"local,omitempty"`      // how many of those; default 1
	Root       string           `json:"root,omitempty"`       // (e) the folder that they work beneath; default a temporary one
	Thresholds []map[string]any `json:"thresholds,omitempty"` // (e) besides those of the file, as there
}

// value returns what is written, for a template.
func (s *LoadStep) value() map[string]any {
	m := map[string]any{"file": s.File}
	if len(s.Agents) > 0 {
		m["agents"] = anyList(s.Agents)
	}
	if s.Local > 0 {
		m["local"] = s.Local
	}
	if s.Root != "" {
		m["root"] = s.Root
	}
	if len(s.Thresholds) > 0 {
		m["thresholds"] = anyList(s.Thresholds)
	}
	return m
}

func anyList[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

// ApprovalStep asks a person.
type ApprovalStep struct {
	Prompt  string                 `json:"prompt,omitempty"` // (e)
	Form    map[string]InputSchema `json:"form,omitempty"`   // the values are the output, as an object
	Expires time.Duration          `json:"-"`                // default never
}

// EventStep waits for a signal. Its data is the output.
type EventStep struct {
	Name    string        `json:"name,omitempty"`
	Timeout time.Duration `json:"-"` // default none
}

// ChildStep names the workflow of a child job: a registered workflow by its Name, and
// its Version unless you want the newest, or a workflow from a file.
type ChildStep struct {
	Name       string          `json:"name,omitempty"`
	Version    int             `json:"version,omitempty"`
	File       string          `json:"file,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"` // canonical; of File
}

// HTTP is a request as it is written.
type HTTP struct {
	Method  string            `json:"method,omitempty"`  // default GET
	URL     string            `json:"url,omitempty"`     // (e)
	Headers map[string]string `json:"headers,omitempty"` // (e)
	Body    any               `json:"body,omitempty"`    // text (e), or any JSON value (e), sent as JSON
	Expect  []int             `json:"expect,omitempty"`  // default any 2xx
}

// Build checks the workflow and returns its definition. The error is of type
// Problems, without lines.
func (f File) Build() (*Definition, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "workflow %q cannot be written as JSON: %v", f.Name, err)
	}
	return fromJSONSource(raw)
}

// Parse reads a workflow file, one YAML document of at most MaxSource bytes. The name
// is the prefix of errors and has no other meaning. The error is of type Problems: all
// faults, in the order of the file. A step that names the file of another workflow is
// an error; see ParseWith.
func Parse(name string, src []byte) (*Definition, error) { return ParseWith(name, src, nil) }

// Open reads the file of a child workflow: path as it is written in the file from. It
// returns the path by which that file is known, in errors and as from for its own
// children.
type Open func(from, path string) (known string, src []byte, err error)

// ParseWith is Parse for files that name the files of other workflows, which
// become part of the definition.
func ParseWith(name string, src []byte, open Open) (*Definition, error) {
	e := newExaminer(name, string(src), open)
	return e.definition(document.Read(e.Examiner, src, hints))
}

// Load reads what Definition.Canonical returned. A definition that this version of Pawl
// does not accept is an error of type Problems.
func Load(canonical []byte) (*Definition, error) { return fromJSONSource(canonical) }

func fromJSONSource(raw []byte) (*Definition, error) {
	if len(raw) > maxCanonical {
		return nil, pawl.Errorf(pawl.Invalid, "definition: it has %d bytes; at most %d are allowed", len(raw), maxCanonical)
	}
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "definition: %v", err)
	}
	e := newExaminer("", "", nil)
	e.Stored = true
	return e.definition(document.ValueOf(v))
}

// maxCanonical bounds the canonical form: a file of MaxSource bytes with its
// defaults written out.
const maxCanonical = 8 << 20

// definition examines the root and compiles the result.
func (e *examiner) definition(root *document.Value) (*Definition, error) {
	if root == nil {
		return nil, e.Problems
	}
	normal, _ := e.Examine("", root, e.family.root)
	w := jsonWriter{limit: maxCanonical}
	if err := w.write(normal, 0); err != nil {
		e.Report(root.Place, "", err.Error(), "")
		return nil, e.Problems
	}
	d, err := e.compile(w.out)
	if err != nil {
		return nil, err
	}
	if len(e.Problems) > 0 || e.refused {
		e.Problems.Sort()
		return nil, append(e.Problems, e.below...)
	}
	return d, nil
}

// durations are the fields that JSON writes as text.
type durations struct {
	Timeout      pawl.Duration `json:"timeout,omitzero"`
	QueueTimeout pawl.Duration `json:"queue_timeout,omitzero"`
	Expires      pawl.Duration `json:"expires,omitzero"`
}

// MarshalJSON writes the file with durations as text.
func (f File) MarshalJSON() ([]byte, error) {
	type plain File
	if f.Steps == nil {
		f.Steps = []Step{}
	}
	return json.Marshal(struct {
		plain
		durations
	}{plain(f), durations{Timeout: pawl.Duration(f.Timeout)}})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *File) UnmarshalJSON(b []byte) error {
	type plain File
	var d durations
	var stored struct {
		Order []string `json:"order"`
	}
	if err := decodeExact(b, (*plain)(f), &d, &stored); err != nil {
		return err
	}
	f.Timeout, f.order = time.Duration(d.Timeout), stored.Order
	return nil
}

// MarshalJSON writes the step with durations as text.
func (s Step) MarshalJSON() ([]byte, error) {
	type plain Step
	return json.Marshal(struct {
		plain
		durations
	}{plain(s), durations{Timeout: pawl.Duration(s.Timeout), QueueTimeout: pawl.Duration(s.QueueTimeout)}})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Step) UnmarshalJSON(b []byte) error {
	type plain Step
	var d durations
	if err := decodeExact(b, (*plain)(s), &d); err != nil {
		return err
	}
	s.Timeout, s.QueueTimeout = time.Duration(d.Timeout), time.Duration(d.QueueTimeout)
	return nil
}

// MarshalJSON writes the approval with durations as text.
func (a ApprovalStep) MarshalJSON() ([]byte, error) {
	type plain ApprovalStep
	return json.Marshal(struct {
		plain
		durations
	}{plain(a), durations{Expires: pawl.Duration(a.Expires)}})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *ApprovalStep) UnmarshalJSON(b []byte) error {
	type plain ApprovalStep
	var d durations
	if err := decodeExact(b, (*plain)(a), &d); err != nil {
		return err
	}
	a.Expires = time.Duration(d.Expires)
	return nil
}

// MarshalJSON writes the event with durations as text.
func (s EventStep) MarshalJSON() ([]byte, error) {
	type plain EventStep
	return json.Marshal(struct {
		plain
		durations
	}{plain(s), durations{Timeout: pawl.Duration(s.Timeout)}})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *EventStep) UnmarshalJSON(b []byte) error {
	type plain EventStep
	var d durations
	if err := decodeExact(b, (*plain)(s), &d); err != nil {
		return err
	}
	s.Timeout = time.Duration(d.Timeout)
	return nil
}

// retryJSON is Retry as JSON has it.
type retryJSON struct {
	MaxAttempts        int           `json:"max_attempts,omitempty"`
	Backoff            Backoff       `json:"backoff,omitempty"`
	Base               pawl.Duration `json:"base,omitzero"`
	Cap                pawl.Duration `json:"cap,omitzero"`
	Jitter             Jitter        `json:"jitter,omitempty"`
	PermanentExitCodes []int         `json:"permanent_exit_codes,omitempty"`
}

// MarshalJSON writes the policy with durations as text, and without what is
// zero.
func (r Retry) MarshalJSON() ([]byte, error) {
	return json.Marshal(retryJSON{r.MaxAttempts, r.Backoff, pawl.Duration(r.Base), pawl.Duration(r.Cap), r.Jitter, r.PermanentExitCodes})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Retry) UnmarshalJSON(b []byte) error {
	var j retryJSON
	err := json.Unmarshal(b, &j)
	*r = Retry{j.MaxAttempts, j.Backoff, time.Duration(j.Base), time.Duration(j.Cap), j.Jitter, j.PermanentExitCodes}
	return err
}

// decodeExact decodes b into each target, numbers in any as json.Number.
func decodeExact(b []byte, targets ...any) error {
	for _, t := range targets {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(t); err != nil {
			return fmt.Errorf("decode the normalised workflow: %w", err)
		}
	}
	return nil
}
