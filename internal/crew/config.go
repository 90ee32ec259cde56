package crew

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
)

// ConfigFile is the file, at the root of a target's tree, that says how work comes to the target.
// It counts as the target has it, and not as a member has changed it (C12).
const ConfigFile = "crew.yaml"

// A Config is the contents of a ConfigFile. Without the file, all is as by default.
type Config struct {
	Setup    *Command // run in a new worktree; nil for none
	Gates    []Gate   // in their order
	Approval Approval
	Strategy Strategy
	Forge    Forge
	Limits   Limits
}

// A Command is run with /bin/sh -c.
type Command struct {
	Run     string
	Timeout time.Duration
}

// A Gate is a command that a tree has to pass before it lands.
type Gate struct {
	Name string
	Command
	Advisory bool // its result is shown to reviewers, and refuses nothing
}

// An Approval says who approves what has passed the gates.
type Approval string

// The approvals.
const (
	ByPerson Approval = "person"
	ByGates  Approval = "gates" // nobody has to look
)

// A Forge is where pull requests are made.
type Forge string

// The forges.
const (
	NoForge Forge = "none"
	GitHub  Forge = "github" // by its command gh
)

const (
	maxGates        = 50
	maxCommand      = 16 << 10 // bytes
	commandTimeout  = 10 * time.Minute
	shortestTimeout = time.Second
	longestTimeout  = 24 * time.Hour
)

func limitShape() *document.Shape {
	return &document.Shape{Kind: document.ShapeDuration, Least: shortestTimeout, Most: longestTimeout}
}

var (
	runField     = document.Field{Name: "run", Required: true, Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: maxCommand}, Doc: "the command, for /bin/sh -c"}
	timeoutField = document.Field{Name: "timeout", Shape: limitShape(), Default: commandTimeout.String(), Doc: "how long it may take"}
)

var gateShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {name: NAME, run: COMMAND}", Fields: []document.Field{
	{Name: "name", Required: true, Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: maxID, Pattern: idPattern, PatternDoc: "a name: a-z, 0-9 and single hyphens between them"}},
	runField, timeoutField,
	{Name: "advisory", Shape: &document.Shape{Kind: document.ShapeBoolean}, Default: false, Doc: "the result is shown to reviewers and refuses nothing"},
}}

var configShape = &document.Shape{Kind: document.ShapeObject, Hint: "write {gates: [{name: NAME, run: COMMAND}]}", Also: distinctGates, Fields: []document.Field{
	{Name: "setup", Shape: &document.Shape{Kind: document.ShapeObject, Hint: "write {run: COMMAND}", Fields: []document.Field{runField, timeoutField}}, Doc: "prepares a new worktree"},
	{Name: "gates", Shape: &document.Shape{Kind: document.ShapeList, Max: maxGates, Elem: gateShape}, Doc: "commands that a tree has to pass", Elsewhere: []string{"checks", "tests"}},
	{Name: "approval", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(ByPerson), string(ByGates)}}, Default: string(ByPerson), Doc: "who approves what has passed the gates", Elsewhere: []string{"review", "reviewers"}},
	{Name: "merge", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(Squash), string(Merge)}}, Default: string(Squash), Doc: "how commits come to the target", Elsewhere: []string{"strategy"}},
	{Name: "forge", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{string(NoForge), string(GitHub)}}, Default: string(NoForge), Doc: "where pull requests are made"},
	{Name: "timeouts", Shape: &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
		{Name: "stale", Shape: limitShape(), Doc: "of silence, until a member needs attention"},
		{Name: "dead", Shape: limitShape(), Doc: "of silence, until a member is stale; and, stale, until it has failed"},
		{Name: "review", Shape: limitShape(), Doc: "of a review, until it needs attention"},
	}}, Doc: "when patrol acts"},
}}

func distinctGates(e *document.Examiner, path string, _ *document.Value, m map[string]any) {
	list, _ := m["gates"].([]any)
	seen := map[string]bool{}
	for i, one := range list {
		g, _ := one.(map[string]any)
		if name := textOf(g, "name"); name != "" && seen[name] {
			e.ReportAt(fmt.Sprintf("gates[%d].name", i), fmt.Sprintf("another gate is named %q", name), "")
		} else {
			seen[name] = true
		}
	}
}

// ParseConfig parses the source of a ConfigFile; name is for errors, which are of type
// document.Problems.
func ParseConfig(name string, src []byte) (*Config, error) {
	e := document.NewExaminer(name)
	root := document.Read(e, src, document.Hints{Empty: "write gates: [{name: NAME, run: COMMAND}], or remove the file", Several: "keep one document", Tag: "quote the text if it begins with !"})
	var normal any
	if root != nil {
		normal, _ = e.Examine("", root, configShape)
	}
	if len(e.Problems) > 0 {
		e.Problems.Sort()
		return nil, e.Problems
	}
	m, _ := normal.(map[string]any)
	c := &Config{Approval: Approval(textOf(m, "approval")), Strategy: Strategy(textOf(m, "merge")), Forge: Forge(textOf(m, "forge"))}
	if setup, ok := m["setup"].(map[string]any); ok {
		command := commandOf(setup)
		c.Setup = &command
	}
	list, _ := m["gates"].([]any)
	for _, one := range list {
		g := one.(map[string]any)
		c.Gates = append(c.Gates, Gate{Name: textOf(g, "name"), Command: commandOf(g), Advisory: g["advisory"] == true})
	}
	if t, ok := m["timeouts"].(map[string]any); ok {
		c.Limits = Limits{Stale: durationOf(t, "stale"), Dead: durationOf(t, "dead"), Review: durationOf(t, "review")}
	}
	return c, nil
}

func commandOf(m map[string]any) Command { return Command{textOf(m, "run"), durationOf(m, "timeout")} }

func textOf(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func durationOf(m map[string]any, key string) time.Duration {
	d, _ := time.ParseDuration(textOf(m, key)) // the examiner has read it
	return d
}

// Config returns the configuration that a commit has.
func (r *Repo) Config(ctx context.Context, commit string) (*Config, error) {
	there, err := r.git(ctx, "ls-tree", "-z", "--format=%(objecttype) %(objectsize)", commit, "--", ConfigFile)
	if err != nil {
		return nil, err
	}
	if !blobPattern.MatchString(there) {
		return &Config{Approval: ByPerson, Strategy: Squash, Forge: NoForge}, nil
	}
	text, err := r.git(ctx, "cat-file", "blob", commit+":"+ConfigFile)
	if err != nil {
		return nil, err
	}
	return ParseConfig(ConfigFile+" of "+short(commit), []byte(text))
}

// target returns the head of a target, and the configuration that it has.
func (r *Repo) target(ctx context.Context, branch string) (head string, config *Config, err error) {
	there, head, err := r.branch(ctx, branch)
	if err != nil {
		return "", nil, err
	}
	if !there {
		return "", nil, pawl.Errorf(pawl.NotFound, "there is no branch %s in %s", branch, r.Root)
	}
	config, err = r.Config(ctx, head)
	return head, config, err
}

var blobPattern = regexp.MustCompile(`^blob `)
