package doctor

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestUnusable: the work is looked at only if the database can be used.
func TestUnusable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		found  health.Finding
		opened bool
	}{
		{"no database", health.Finding{Check: "database", Severity: health.Problem}, false},
		{"another version", health.Finding{Check: "schema_version", Severity: health.Warning}, false},
		{"all is well", health.Finding{Check: "database", Severity: health.OK}, true},
		{"a warning about something else", health.Finding{Check: "disk", Severity: health.Warning}, true},
	} {
		opened := false
		d := &Doctor{
			Diagnose: func(context.Context) []health.Finding { return []health.Finding{tt.found} },
			Open: func(context.Context) (store.Store, *client.Client, func() error, error) {
				opened = true
				return nil, nil, nil, errors.New("locked")
			},
		}
		found := d.Findings(t.Context())
		if opened != tt.opened {
			t.Errorf("%s: opened %v, want %v", tt.name, opened, tt.opened)
		}
		if want := 1 + map[bool]int{true: 1}[tt.opened]; len(found) != want { // that it cannot be opened is one
			t.Errorf("%s: %d findings, want %d: %v", tt.name, len(found), want, found)
		}
	}
}

// TestWork: an empty database has findings about the work, and no problem.
func TestWork(t *testing.T) {
	t.Parallel()
	closed := false
	d := &Doctor{
		Diagnose: func(context.Context) []health.Finding { return nil },
		Open: func(ctx context.Context) (store.Store, *client.Client, func() error, error) {
			s, err := sqlite.Open(ctx, sqlite.Config{Path: ":memory:"})
			if err != nil {
				return nil, nil, nil, err
			}
			e := engine.New(engine.Config{Store: s, Passive: true})
			return s, client.Over(e, client.Config{Workspace: "default"}, nil), func() error {
				closed = true
				e.Close()
				return s.Close()
			}, nil
		},
	}
	found := d.Findings(t.Context())
	if len(found) == 0 || health.Worst(found) == health.Problem {
		t.Errorf("findings: %v: want some, and no problem", found)
	}
	if !closed {
		t.Error("the database is open still")
	}
}

// TestBlocked: webhooks that are blocked are found with the reason, but for those that are not active.
func TestBlocked(t *testing.T) {
	t.Parallel()
	ctx, ann := t.Context(), pawl.Change{Actor: "ann"}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := engine.New(engine.Config{Store: s, Passive: true})
	defer e.Close()
	for _, name := range []string{"blocked", "paused", "failing", "well"} {
		made, err := e.CreateWebhook(ctx, pawl.WebhookPlan{Name: name, WebhookTarget: pawl.WebhookTarget{URL: "https://example.com/"}}, ann)
		if err != nil {
			t.Fatal(err)
		}
		id, err := pawl.ParseID(pawl.WebhookPrefix, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		p := store.WebhookPlace{FailingSince: 1, Error: "webhook " + name + ": there is no secret"}
		switch name {
		case "paused":
			_, err = e.MoveWebhook(ctx, id, lifecycle.WebhookPause, ann)
		case "failing":
			p.Failures = 1
		case "well":
			p = store.WebhookPlace{}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SaveWebhook(ctx, id.WebhookKey(), &p, nil); err != nil {
			t.Fatal(err)
		}
	}
	d := &Doctor{
		Diagnose: func(context.Context) []health.Finding { return nil },
		Open: func(context.Context) (store.Store, *client.Client, func() error, error) {
			return s, client.Over(e, client.Config{Workspace: "default"}, nil), func() error { return nil }, nil
		},
	}
	var got []string
	for _, f := range d.Findings(ctx) {
		if f.Check == "secrets" && f.Subject != "" {
			got = append(got, string(f.Severity)+" "+f.Subject+": "+f.Measured)
		}
	}
	if want := []string{"warning webhook blocked: nothing is sent to it: there is no secret"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
