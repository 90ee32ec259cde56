package privatejob

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// TestCommandIsLiteral: what looks like an expression reaches the command as it was typed.
func TestCommandIsLiteral(t *testing.T) {
	t.Parallel()
	c := Command{Argv: []string{"echo", "${{ inputs.x }}", "$${{", "${"}, Env: map[string]string{"A": "${{ b }}"}, Timeout: time.Minute, Retries: 2}
	def, err := c.Definition()
	if err != nil {
		t.Fatal(err)
	}
	if !IsCommand(def) {
		t.Error("it is not recognised")
	}
	n := def.Nodes[0]
	if want := `["echo","$${{ inputs.x }}","$$${{","${"]`; !strings.Contains(string(def.Canonical()), want) {
		t.Errorf("want the command %s in %s", want, def.Canonical())
	}
	if n.Retry.MaxAttempts != 3 || def.Timeout != time.Minute {
		t.Errorf("%d attempts in %s: want 3 in 1m", n.Retry.MaxAttempts, def.Timeout)
	}
}

func TestIsCommand(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"another name":  "name: other\nsteps: [{id: command, command: [ls]}]\n",
		"another step":  "name: exec\nsteps: [{id: list, command: [ls]}]\n",
		"several steps": "name: exec\nsteps: [{id: command, command: [ls]}, {id: list, command: [ls]}]\n",
	} {
		def, err := workflow.Parse("f.yaml", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if IsCommand(def) {
			t.Errorf("%s: taken for a command", name)
		}
	}
}

func TestCommandCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status machine.State
		class  string
		code   int
		ok     bool
	}{
		{lifecycle.JobFailed, "exit_3", 3, true},
		{lifecycle.JobFailed, "signal_9", 137, true},
		{lifecycle.JobFailed, "exit_", 0, false},
		{lifecycle.JobFailed, pawl.ClassTimeout, 0, false},
		{lifecycle.JobCanceled, "exit_3", 0, false},
	} {
		code, ok := CommandCode(&pawl.JobView{Status: tt.status, Error: &pawl.Failure{Class: tt.class}})
		if code != tt.code || ok != tt.ok {
			t.Errorf("%s, %s: %d, %v: want %d, %v", tt.status, tt.class, code, ok, tt.code, tt.ok)
		}
	}
	if _, ok := CommandCode(&pawl.JobView{Status: lifecycle.JobCompleted}); ok {
		t.Error("a completed job has the exit code of a failure")
	}
}

func TestUnserved(t *testing.T) {
	t.Parallel()
	def, err := workflow.Parse("f.yaml", []byte("name: f\nsteps:\n  - {id: a, command: [ls]}\n  - {id: b, sleep: 1s}\n  - {id: c, handler: billing.charge}\n"))
	if err != nil {
		t.Fatal(err)
	}
	step, handler, file := Unserved("f.yaml", def, func(h string) bool { return h == "command" })
	if step != "c" || handler != "billing.charge" || file != "f.yaml" {
		t.Errorf("%s, %s, %s: want c, billing.charge, f.yaml", step, handler, file)
	}
	if step, _, _ := Unserved("f.yaml", def, func(string) bool { return true }); step != "" {
		t.Errorf("step %s is unserved though everything is served", step)
	}
}
