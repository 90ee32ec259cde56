package runner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
)

// passed are the variables of this process's environment that commands get. A
// name that ends in * stands for all that begin so.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR"}

// defaultPath is the PATH of a command where nobody sets one.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// environment answers the environment of a command: what is passed on of parent,
// then the step's, then Pawl's own, which nobody overrides.
func environment(parent, pass []string, t *Task, f *folder) map[string]string {
	env := map[string]string{"PATH": defaultPath}
	for _, entry := range parent {
		name, value, ok := strings.Cut(entry, "=")
		if ok && (passes(passed, name) || passes(pass, name)) {
			env[name] = value
		}
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

func passes(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return name == pattern || wild && strings.HasPrefix(name, prefix)
	})
}

// environList writes env as a process gets it, by name.
func environList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// checkWork refuses what no process can be given.
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
