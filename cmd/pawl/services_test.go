package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A standIn is a host whose services do as they are told, at once.
type standIn struct{ services []control.Service }

func (h *standIn) Services() []control.Service { return h.services }

func (h *standIn) find(id string) (*control.Service, error) {
	for i := range h.services {
		if h.services[i].ID == id {
			return &h.services[i], nil
		}
	}
	return nil, pawl.Errorf(pawl.NotFound, "there is no service %s", id)
}

func (h *standIn) Service(id string) (control.Service, error) {
	s, err := h.find(id)
	if err != nil {
		return control.Service{}, err
	}
	return *s, nil
}

func (h *standIn) History(context.Context, string) ([]pawl.Transition, error) {
	return nil, pawl.Errorf(pawl.Refused, "there is no history")
}

func (h *standIn) Order(_ context.Context, id string, o control.Order) error {
	s, err := h.find(id)
	switch {
	case err != nil:
		return err
	case id == "fixed":
		return &pawl.Error{Kind: pawl.Conflict, Message: "service fixed is part of the server", Hint: "stop the server"}
	}
	s.Wanted, s.State, s.Phase, s.Since = "stopped", "stopped", lifecycle.ServiceStopped, s.Since.Add(time.Second)
	if o.Verb != control.Stop {
		s.Wanted, s.State, s.Phase, s.Starts = "running", control.Running, lifecycle.ServiceRunning, s.Starts+1
	}
	return nil
}

func (h *standIn) Check(string, control.Verb) error { return nil }

func (h *standIn) Logs(_ context.Context, id string, q control.LogQuery, w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s %d %t\n", id, q.Tail, q.Follow)
	return err
}

func (h *standIn) Reload(context.Context, pawl.Change) ([]control.Difference, error) {
	return []control.Difference{{ID: "web", What: "changed", Keys: []string{"env", "stop"}, Restarts: true}, {ID: "db", What: "removed"}}, nil
}

// stand has hosts with these services answer until the test ends, and returns the
// environment that finds them.
func stand(t *testing.T, hosts map[string][]string) map[string]string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pc") // that of the test may have too long a name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env := map[string]string{"PAWL_RUNTIME_DIR": filepath.Join(dir, "run"), "USER": "ada"}
	for name, ids := range hosts {
		h := &standIn{}
		for _, id := range ids {
			h.services = append(h.services, control.Service{ID: id, Host: name, State: control.Running, Phase: lifecycle.ServiceRunning, Since: time.Unix(1, 0).UTC(), Wanted: "running", PID: 7, Starts: 1})
		}
		l, err := control.Listen(env["PAWL_RUNTIME_DIR"], control.About{Name: name, Role: roleSupervisor})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- l.Serve(ctx, h, slog.New(slog.DiscardHandler)) }()
		t.Cleanup(func() {
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
	return env
}

// A service is named by its id as long as that tells which (S14).
func TestServicesOfSeveralHosts(t *testing.T) {
	t.Parallel()
	env := stand(t, map[string][]string{"shop": {"db", "web"}, "blog": {"fixed", "web"}})
	for _, tt := range []struct {
		args string
		code int
		want string // of stdout and stderr, all of these
	}{
		{"service list", 0, "blog  fixed    running|blog  web|shop  db|shop  web      running  1970-01-01 00:00:01Z  7    1"},
		{"service list --host shop", 0, "shop  web"},
		{"service list --host shpo", 6, `error: no supervisor "shpo" runs`},
		{"service show web", 2, "error: service web: 2 supervisors have a service of that id|hint: say which: blog/web or shop/web"},
		{"service show shop/web", 0, "host       shop (supervisor"},
		{"service show web --host blog", 0, "host       blog (supervisor"},
		{"service show db -o json", 0, `"host": "shop"`},
		{"service show nothing", 3, `error: there is no service "nothing"|hint: list the services with: pawl service list`},
		{"service show wxb", 3, "hint: did you mean: web"},
		{"service why db", 0, "db  running: it is in the wanted state: running"},
		{"service history db", 4, "error: there is no history"},
		{"service logs db -n 5", 0, "db 5 false"},
		{"service logs db -f", 0, "db 100 true|supervisor shop has ended"},
		{"service stop db --no-wait", 0, "service db was told to stop"},
		{"service restart db shop/db blog/web", 0, "service db is running|service web is running"},
		{"service stop fixed db nothing", 5, "service db is stopped|error: service fixed is part of the server|hint: stop the server|there is no service"},
		{"service reload", 2, "error: 2 supervisors run|hint: say which: blog or shop"},
		{"service reload shop", 0, "web changed (env, stop): it is started again|db removed"},
		{"service reload shop -o json", 0, `"what": "removed"`},
		{"__complete service show ", 0, "blog/web\trunning|shop/web\trunning|db\tstopped|:4"},
		{"__complete service stop --host shop d", 0, "db\t"},
		{"__complete service stop db d", 0, ":4"},
		{"__complete service reload s", 0, "shop\tsupervisor"},
		{"__complete service list --host ", 0, "blog\tsupervisor|shop\tsupervisor"},
	} {
		code, out, errs := here(env, strings.Split(tt.args, " ")...)
		if code != tt.code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", tt.args, code, tt.code, out, errs)
		}
		for want := range strings.SplitSeq(tt.want, "|") {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s: no %q in\n%s%s", tt.args, want, out, errs)
			}
		}
	}
	if _, out, _ := here(env, "__complete", "service", "stop", "db", "d"); strings.Contains(out, "db") {
		t.Errorf("a service that is named already is offered again: %s", out)
	}
}
