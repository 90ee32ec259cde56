package process

import (
	"slices"
	"strings"
)

// defaultPass are the variables of this process's environment that every program gets.
// NAME* means all that begin with NAME.
var defaultPass = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR"}

// DefaultPath is the PATH of a program if nothing sets one.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin"

// Environment returns the variables that a program inherits from parent, which has the
// form of os.Environ: a default set, and those that match pass. PATH is always set.
func Environment(parent, pass []string) map[string]string {
	env := map[string]string{"PATH": DefaultPath}
	for _, entry := range parent {
		name, value, ok := strings.Cut(entry, "=")
		if ok && (matchesAny(defaultPass, name) || matchesAny(pass, name)) {
			env[name] = value
		}
	}
	return env
}

func matchesAny(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return name == pattern || wild && strings.HasPrefix(name, prefix)
	})
}

// EnvironmentList returns env in the form of os.Environ, sorted by name.
func EnvironmentList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
