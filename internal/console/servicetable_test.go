package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The table of services has one line each, cut to the terminal; what is well goes
// first where there is no room.
func TestServiceTable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	service := func(id, state string, phase string, change func(*control.Service)) control.Service {
		s := control.Service{ID: id, State: state, Since: now.Add(-90 * time.Second)}
		for _, p := range lifecycle.Service.States {
			if string(p) == phase {
				s.Phase = p
			}
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	b := &ServiceTable{Name: "shop", Services: func() []control.Service {
		return []control.Service{
			service("api", control.Running, "running", func(s *control.Service) { s.PID, s.Starts = 70, 3 }),
			service("bad", "failed", "failed", func(s *control.Service) { s.Why = []string{"exit code 1\nand more"} }),
			service("once", control.Completed, "stopped", func(s *control.Service) { s.Reason = "exit code 0" }),
			service("web", "waiting", "trying_to_start", func(s *control.Service) { s.Why = []string{"needs api ready: api is starting, and will be for long"} }),
		}
	}}
	for name, tt := range map[string]struct {
		f    Frame
		want string
	}{
		"whole": {Frame{width: 60, height: 24, Now: now}, `
shop  1 of 4 run
✓ api   running      1m30s  pid 70  3 starts
✗ bad   failed       1m30s  exit code 1 and more
✓ once  completed    1m30s  exit code 0
▸ web   waiting      1m30s  needs api ready: api is startin…`},
		"low": {Frame{width: 60, height: 5, Now: now}, `
shop  1 of 4 run
✗ bad   failed       1m30s  exit code 1 and more
▸ web   waiting      1m30s  needs api ready: api is startin…
   2 more`},
	} {
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), strings.Join(b.Draw(tt.f), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	b.Busy = func() bool { return true }
	if b.Draw(Frame{}) != nil {
		t.Error("it is drawn though nobody sees it")
	}
}
