package programs

import (
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/process"
)

// markName is the environment variable that marks a program's processes, so that those
// that have left its process group are found, and those that a killed manager has left.
const markName = "PAWL_KEEPER"

// notInherited are variables that describe one process: a supervisor that is a service
// itself does not pass its own on, unless pass names them.
var notInherited = []string{markName, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}

// processSpec returns the process.Spec of a run. It opens the notify socket and the log.
func (prog *program) processSpec(r *run) (process.Spec, error) {
	if err := prog.listen(r); err != nil {
		return process.Spec{}, err
	}
	ps, err := prog.commandSpec(r, r.spec.Command)
	if err != nil {
		return ps, err
	}
	ps.Mark = prog.manager.mark(prog.id)
	ps.Limits = process.Limits(r.spec.Limits)
	log := prog.log(r.spec)
	r.output = []*lineWriter{prog.writer(r, "stdout", log), prog.writer(r, "stderr", log)}
	ps.Stdout, ps.Stderr = r.output[0], r.output[1]
	return ps, nil
}

// commandSpec returns the process.Spec of a command in the environment of a run: the
// program or a probe. The caller sets Mark: a probe needs its own, since all processes
// with the mark are killed after it.
func (prog *program) commandSpec(r *run, command []string) (process.Spec, error) {
	env, err := prog.environment(r)
	if err != nil {
		return process.Spec{}, err
	}
	path, err := process.Find(command[0], r.spec.Dir, env["PATH"])
	if err != nil {
		return process.Spec{}, err
	}
	return process.Spec{
		Path: path, Args: command, Dir: r.spec.Dir, Env: process.EnvironmentList(env),
		User: r.spec.User, Group: r.spec.Group, Cgroup: prog.manager.cgroup,
	}, nil
}

// mark returns the mark of a program. It has two slashes, which a clean path never has, so
// that it is no prefix of the marks of a manager whose state folder is inside this one.
func (m *Manager) mark(id string) string { return markName + "=" + m.config.State + "//" + id }

// environment returns the variables of a program: the clean environment, those of the
// file, and Pawl's own, which override both.
func (prog *program) environment(r *run) (map[string]string, error) {
	p := r.spec
	env := process.Environment(prog.manager.config.Environ(), p.Pass)
	for _, name := range notInherited {
		if !slices.Contains(p.Pass, name) {
			delete(env, name)
		}
	}
	if p.User != "" {
		a, err := process.Lookup(p.User, p.Group)
		if err != nil {
			return nil, err
		}
		setAccount(env, a)
	}
	maps.Copy(env, p.Env)
	env["PAWL_SERVICE"] = p.ID
	if r.notify != nil {
		env["NOTIFY_SOCKET"] = prog.manager.socket(prog.id)
	}
	if silence := p.Watchdog(); silence > 0 {
		env["WATCHDOG_USEC"] = strconv.FormatInt(silence.Microseconds(), 10)
	}
	return env, nil
}

// setAccount sets the variables that describe the user to those of an account.
func setAccount(env map[string]string, a *process.Account) {
	delete(env, "SHELL")
	for name, value := range map[string]string{"HOME": a.Home, "USER": a.Name, "LOGNAME": a.Name} {
		if env[name] = value; value == "" {
			delete(env, name)
		}
	}
}
