package programs

import (
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/process"
)

// markName is the variable by which processes are found that have left the group of
// their program, and those that a killed keeper has left.
const markName = "PAWL_KEEPER"

// personal are variables that are about who has them: a supervisor that is a service
// itself does not hand them on, unless they are passed by name.
var personal = []string{markName, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}

// spec answers what the program of a run is started from.
func (w *ward) spec(r *run) (process.Spec, error) {
	if err := w.listen(r); err != nil {
		return process.Spec{}, err
	}
	spec, err := w.commandSpec(r, r.program.Command)
	if err != nil {
		return spec, err
	}
	spec.Mark = w.keeper.mark(w.id)
	spec.Limits = process.Limits(r.program.Limits)
	log := w.log(r.program)
	r.output = []*lines{w.writer(r, "stdout", log), w.writer(r, "stderr", log)}
	spec.Stdout, spec.Stderr = r.output[0], r.output[1]
	return spec, nil
}

// commandSpec answers how a command is run as the program is run: one of its probes,
// say, whose mark is another, since what has the mark of a command is killed after
// it.
func (w *ward) commandSpec(r *run, command []string) (process.Spec, error) {
	env, err := w.environment(r)
	if err != nil {
		return process.Spec{}, err
	}
	path, err := process.Find(command[0], r.program.Dir, env["PATH"])
	if err != nil {
		return process.Spec{}, err
	}
	return process.Spec{
		Path: path, Args: command, Dir: r.program.Dir, Env: process.EnvironmentList(env),
		User: r.program.User, Group: r.program.Group, Cgroup: w.keeper.cgroup,
	}, nil
}

// mark has two slashes, which no path has: a keeper with a folder within the folder of
// this one has other marks.
func (k *Keeper) mark(id string) string { return markName + "=" + k.config.State + "//" + id }

// environment answers the variables of a program: a clean environment, what it is
// given, and Pawl's own, which nobody overrides.
func (w *ward) environment(r *run) (map[string]string, error) {
	p := r.program
	env := process.Environment(w.keeper.config.Environ(), p.Pass)
	for _, name := range personal {
		if !slices.Contains(p.Pass, name) {
			delete(env, name)
		}
	}
	if p.User != "" {
		a, err := process.Lookup(p.User, p.Group)
		if err != nil {
			return nil, err
		}
		become(env, a)
	}
	maps.Copy(env, p.Env)
	env["PAWL_SERVICE"] = p.ID
	if r.notify != nil {
		env["NOTIFY_SOCKET"] = w.keeper.socket(w.id)
	}
	if silence := p.Watchdog(); silence > 0 {
		env["WATCHDOG_USEC"] = strconv.FormatInt(silence.Microseconds(), 10)
	}
	return env, nil
}

// become makes the variables those of another account.
func become(env map[string]string, a *process.Account) {
	delete(env, "SHELL")
	for name, value := range map[string]string{"HOME": a.Home, "USER": a.Name, "LOGNAME": a.Name} {
		if env[name] = value; value == "" {
			delete(env, name)
		}
	}
}
