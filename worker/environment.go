package worker

import (
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/process"
)

// environment returns the environment of a command: what is passed on of parent, then
// the step's variables, then Pawl's own, which nothing overrides.
func environment(parent, pass []string, t *Task, f *folder) map[string]string {
	env := process.Environment(parent, pass)
	if t.Traceparent != "" {
		env["TRACEPARENT"] = t.Traceparent
	}
	for name, value := range t.Work.Env {
		env[name] = value
	}
	env["PAWL_JOB_ID"] = t.JobID
	env["PAWL_STEP_ID"] = t.StepID
	env["PAWL_ATTEMPT"] = strconv.Itoa(t.Attempt)
	env["PAWL_CLAIM"] = strconv.Itoa(t.Claim)
	env["PAWL_INPUT"] = f.input
	env["PAWL_OUTPUT"] = f.out
	return env
}

// checkWork refuses arguments and variables that no process can have.
func checkWork(argv []string, env map[string]string) *pawl.Failure {
	if len(argv) == 0 || argv[0] == "" {
		return permanent("invalid_work", "command: no program is named")
	}
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return permanent("invalid_work", "command: argument %d has a NUL byte", i)
		}
	}
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return permanent("invalid_work", "env: %q is not the name of a variable", name)
		}
		if strings.ContainsRune(value, 0) {
			return permanent("invalid_work", "env: the value of %s has a NUL byte", name)
		}
	}
	return nil
}
