package process

import (
	"slices"
	"strings"
)

// passed are the variables of this process's environment that programs get. A
// name that ends in * stands for all that begin so.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR"}

// DefaultPath is the PATH of a program where nobody sets one.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin"

// Environment answers the environment that programs begin with: what is passed on
// of parent, as os.Environ has it: the usual variables, and those that pass names.
func Environment(parent, pass []string) map[string]string {
	env := map[string]string{"PATH": DefaultPath}
	for _, entry := range parent {
		name, value, ok := strings.Cut(entry, "=")
		if ok && (passes(passed, name) || passes(pass, name)) {
			env[name] = value
		}
	}
	return env
}

func passes(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return name == pattern || wild && strings.HasPrefix(name, prefix)
	})
}

// EnvironmentList writes env as a process gets it, by name.
func EnvironmentList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
