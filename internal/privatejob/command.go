package privatejob

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// The name of the workflow of a command, and of its step.
const (
	commandWorkflow = "exec"
	commandStep     = "command"
)

// A Command is one command that runs as a job, such as that of "pawl exec".
type Command struct {
	Argv    []string
	Env     map[string]string
	Timeout time.Duration // of all attempts together; 0: none
	Retries int           // after the first attempt
}

// Definition returns the workflow of one step that runs the command. Nothing in it is
// evaluated as an expression. Mistakes are workflow.Problems.
func (c *Command) Definition() (*workflow.Definition, error) {
	step := workflow.Step{ID: commandStep, Env: map[string]string{}, Output: workflow.OutputNone, Retry: workflow.Retry{MaxAttempts: c.Retries + 1}}
	for _, arg := range c.Argv {
		step.Command = append(step.Command, literal(arg))
	}
	for name, value := range c.Env {
		step.Env[name] = literal(value)
	}
	return workflow.File{Name: commandWorkflow, Timeout: c.Timeout, Steps: []workflow.Step{step}}.Build()
}

// literal escapes a text so that it contains no expression.
func literal(s string) string { return strings.ReplaceAll(s, "${{", "$${{") }

// IsCommand reports whether a workflow was made from a [Command] and so has no file.
func IsCommand(def *workflow.Definition) bool {
	return def.Name == commandWorkflow && len(def.Nodes) == 1 && def.Nodes[0].ID == commandStep
}

// CommandCode returns the exit code of a failed command in the convention of a shell: 128 plus
// the number of the signal that ended it. It returns false if the command has neither.
func CommandCode(v *pawl.JobView) (int, bool) {
	if v.Error == nil || v.Status != lifecycle.JobFailed {
		return 0, false
	}
	for prefix, base := range map[string]int{"exit_": 0, "signal_": 128} {
		if text, ok := strings.CutPrefix(v.Error.Class, prefix); ok {
			if n, err := strconv.Atoi(text); err == nil {
				return base + n, true
			}
		}
	}
	return 0, false
}

// Unserved returns the first step of a workflow, or of its child workflows, that would wait
// forever because the worker does not serve its handler: its key, its handler, and its file.
// All are empty if there is none.
func Unserved(path string, def *workflow.Definition, serves func(handler string) bool) (step, handler, file string) {
	for _, n := range def.Nodes {
		switch {
		case !n.Kind.Waits() && !serves(n.Handler):
			return n.ID, n.Handler, path
		case n.Kind.Waits() && n.Child != nil && n.Child.Definition != nil:
			if step, handler, file = Unserved(n.Child.File, n.Child.Definition, serves); step != "" {
				return step, handler, file
			}
		}
	}
	return "", "", ""
}
