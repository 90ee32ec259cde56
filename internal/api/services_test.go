package api_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A shop is a host of services with the service web.
type shop struct{ log string }

func (shop) Services() []control.Service {
	return []control.Service{{ID: "web", Host: "shop", State: "running", Phase: lifecycle.ServiceRunning, Since: time.Unix(1, 0).UTC(), Wanted: "running"}}
}

func (s shop) Service(id string) (control.Service, error) {
	if id != "web" {
		return control.Service{}, pawl.Errorf(pawl.NotFound, "there is no service %.40q", id)
	}
	return s.Services()[0], nil
}

func (shop) History(context.Context, string) ([]pawl.Transition, error) {
	return []pawl.Transition{{Entity: "sv_web", Sequence: 1, To: lifecycle.ServiceStopped, Event: lifecycle.ServiceAdd, Actor: "supervisor", At: 1}}, nil
}

func (shop) Order(_ context.Context, _ string, o control.Order) error {
	if o.Verb == control.Stop && o.Reason == "" {
		return pawl.Errorf(pawl.Conflict, "service web was told by %s to stop", o.Actor)
	}
	return nil
}

func (shop) Check(_ string, v control.Verb) error {
	if v == control.Start {
		return pawl.Errorf(pawl.Conflict, "service web runs already, or is about to")
	}
	return nil
}

func (s shop) Logs(_ context.Context, _ string, _ control.LogQuery, w io.Writer) error {
	_, err := io.WriteString(w, s.log)
	return err
}

func (shop) Reload(context.Context, pawl.Change) ([]control.Difference, error) {
	return []control.Difference{{ID: "web", What: "changed", Keys: []string{"env"}}}, nil
}

// openShop serves a shop on a socket, and returns the folder of that.
func openShop(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-shop") // short, for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := control.Listen(dir, control.About{Name: "shop", Role: "supervisor"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- l.Serve(ctx, shop{log: "printed"}, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir) // it is for temporary files
	})
	return dir
}

// TestServicesOverHTTP: who orders is the principal, and a socket that nobody listens on is not
// found (J4).
func TestServicesOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if detail := s.want(409, "POST", "/api/hosts/shop/services/web/stop", "", "Pawl-Actor", "ada").field(t, "detail"); detail != "service web was told by ada to stop" {
		t.Errorf("%v", detail)
	}
	if hint := s.want(404, "GET", "/api/hosts/gone/services", "").field(t, "hint"); hint != "list what runs with: GET /api/hosts" {
		t.Errorf("a host that is not there: %v", hint)
	}
	s.want(404, "GET", "/api/hosts/..%2Fgone/services", "")
	if why := s.want(200, "GET", "/api/hosts/shop/services/web", "").field(t, "why"); len(why.([]any)) != 0 {
		t.Errorf("why is %v, want an empty list", why)
	}
}

// TestServiceActions: what a caller can do with a service is what its host says, for those with
// the role; and the actor of an order is the token (J4).
func TestServiceActions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	operator, _ := g.token("ops", nil, pawl.RoleOperator)
	viewer, _ := g.token("viewer", nil, pawl.RoleViewer)
	some, _ := g.token("some", []string{"builds"}, pawl.RoleAdmin)
	const web = "/api/hosts/shop/services/web"
	for secret, want := range map[string]string{
		operator: `[{"verb":"start","ok":false,"why_not":"service web runs already, or is about to"},{"verb":"stop","ok":true},{"verb":"restart","ok":true}]`,
		viewer:   `[{"verb":"start","ok":false,"why_not":"it needs the role operator"},{"verb":"stop","ok":false,"why_not":"it needs the role operator"},{"verb":"restart","ok":false,"why_not":"it needs the role operator"}]`,
	} {
		if a := g.as(secret, "GET", web+"/actions", ""); a.status != 200 || !strings.Contains(string(a.body), want) {
			t.Errorf("%d %s; want %s", a.status, a.body, want)
		}
	}
	for _, path := range []string{"/api/hosts/shop/services/none/actions", "/api/hosts/gone/services/web/actions"} {
		if a := g.as(operator, "GET", path, ""); a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := g.as(some, "GET", web+"/actions", ""); a.status != 403 {
		t.Errorf("to a token of a workspace: %d %s", a.status, a.body)
	}
	if a := g.as(viewer, "POST", web+"/restart", ""); a.status != 403 {
		t.Errorf("a viewer restarts: %d %s", a.status, a.body)
	}
	if a := g.as(operator, "POST", web+"/stop", ""); a.status != 409 || a.field(t, "detail") != "service web was told by token:ops to stop" {
		t.Errorf("%d %s; want the token as the actor", a.status, a.body)
	}
}
