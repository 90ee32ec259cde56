package programs

import (
	"context"
	"os/exec"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// (S12, S14) a manager whose folder is within that of another, or begins with its name,
// has other programs, which only it ends.
func TestNestedFolders(t *testing.T) {
	t.Parallel()
	state := folder(t)
	outer := &Manager{config: Config{State: state}}
	for _, dir := range []string{state + "/inner", state + "2"} {
		inner := &Manager{config: Config{State: dir}}
		c := exec.Command(testProgram("", "").Command[0])
		c.Env = []string{"PROGRAMS_TEST=wait", inner.mark("web")}
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Error(err)
		}
		if n, err := process.Sweep(context.Background(), outer.mark("")); n != 0 || err != nil {
			t.Errorf("%s: %d were killed, %v", dir, n, err)
		}
		if n, err := process.Sweep(context.Background(), inner.mark("")); isProc() && n != 1 || err != nil {
			t.Errorf("%s: %d were killed, %v", dir, n, err)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// (S14) a supervisor that is a service itself hands on what it was given, but not what
// is about itself.
func TestNotInheritedVariables(t *testing.T) {
	k := &Manager{config: Config{State: "/s", Environ: func() []string {
		return []string{"PATH=/bin", "A=a", "PAWL_KEEPER=/other//inner", "PAWL_SERVICE=inner", "NOTIFY_SOCKET=/other", "WATCHDOG_USEC=1", "LISTEN_FDS=1"}
	}}}
	w := &program{id: "web", manager: k}
	for _, c := range []struct{ pass, want []string }{
		{[]string{"*"}, []string{"A=a", "PATH=/bin", "PAWL_SERVICE=web"}},
		{[]string{"NOTIFY_SOCKET"}, []string{"NOTIFY_SOCKET=/other", "PATH=/bin", "PAWL_SERVICE=web"}},
	} {
		p := &spec.Program{ID: "web", Pass: c.pass}
		env, err := w.environment(&run{spec: p})
		got := process.EnvironmentList(env)
		if diff := gocmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("pass %q (-want +got):\n%s%v", c.pass, diff, err)
		}
	}
}
