package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestEventsAreTheSame: a stream through a server has the events of one on the database.
func TestEventsAreTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	defer s.work(t)()
	begun := ""
	enough := errors.New("enough")
	must(t, nothing(enough, s.local.Events(t.Context(), pawl.EventFilter{}, func(e *pawl.Event) error {
		begun = e.Token
		return enough
	})))
	id := submit(t, s.local, quick, `{}`)
	_, err := s.local.Wait(t.Context(), id)
	must(t, err)
	q := pawl.EventFilter{Workspace: "default", Job: id.Public(pawl.JobPrefix), Machines: []string{"job", "step"}, After: begun,
		Events: []machine.Event{lifecycle.JobSubmit, lifecycle.StepClaim, lifecycle.JobSuccess}}
	read := func(e link.Engine) (list []pawl.Event) {
		must(t, nothing(enough, e.Events(t.Context(), q, func(v *pawl.Event) error {
			list = append(list, *v)
			if v.To == lifecycle.JobCompleted {
				return enough
			}
			return nil
		})))
		return list
	}
	local, server := read(s.local), read(open(t, s.url))
	if diff := cmp.Diff(local, server); diff != "" || len(local) < 3 {
		t.Errorf("%d events (-database +server):\n%s", len(local), diff)
	}
	for name, q := range map[string]pawl.EventFilter{
		"machine": {Machines: []string{"agent"}}, "event": {Events: []machine.Event{"explode"}},
		"event of another machine": {Machines: []string{"worker"}, Events: []machine.Event{lifecycle.JobSubmit}}, "job": {Job: "x"},
	} {
		for where, e := range map[string]link.Engine{"database": s.local, "server": open(t, s.url)} {
			if err := e.Events(t.Context(), q, func(*pawl.Event) error { return nil }); pawl.KindOf(err) != pawl.Invalid {
				t.Errorf("a bad %s, %s: %v", name, where, err)
			}
		}
	}
}

// nothing returns err unless it is the wanted one.
func nothing(wanted, err error) error {
	if errors.Is(err, wanted) {
		return nil
	}
	return fmt.Errorf("%w, want %w", err, wanted)
}

// TestEventsGoOn: a stream that is cut, without or with a farewell, goes on from its last place.
// What cannot be mended ends it.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	var asked []string
	var streams atomic.Int64
	answers := []string{
		"event: hello\nid: 1\ndata: {}\n\nevent: transition\nid: 2\ndata: {\"entity\":\"j_1\",\"sequence\":1}\n\nevent: transition\ndata: {\"entity\":\"j_1\",\"sequence\":2}\n\n",
		":\n\n:\nid: 3\n\nretry: 1\nevent: bye\ndata: {}\n\n",
		"event: later\nid: 4\ndata: {\"new\":1}\n\nevent: gap\nid: 5\ndata: {\"reason\":\"old\"}\n\nevent: transition\ndata: {\"entity\":\"j_1\",\"sequ",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/version" {
			_, _ = w.Write([]byte(`{"version":"1.0","api":1}`))
			return
		}
		asked = append(asked, r.URL.Query().Get("after"))
		n := int(streams.Add(1)) - 1
		switch {
		case n < len(answers):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(answers[n]))
		case n == len(answers):
			problem(w, 503, `"code":"UNAVAILABLE","detail":"busy"`)
		default:
			problem(w, 403, `"code":"NOT_ALLOWED","detail":"no longer"`)
		}
	}))
	defer server.Close()
	e, err := remote.Open(t.Context(), server.URL, remote.Config{})
	must(t, err)
	defer e.Close()
	var got []string
	err = e.Events(t.Context(), pawl.EventFilter{}, func(v *pawl.Event) error {
		got = append(got, fmt.Sprint(v.Type, v.Gap, " ", v.Entity, " ", v.Sequence, " ", v.Token))
		return nil
	})
	if pawl.KindOf(err) != pawl.Refused {
		t.Errorf("it ends with %v", err)
	}
	if diff := cmp.Diff([]string{"hello  0 1", "transition j_1 1 2", "transition j_1 2 ", "gapold  0 5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "2", "3", "5", "5"}, asked); diff != "" {
		t.Errorf("the places from which it went on (-want +got):\n%s", diff)
	}

	ctx, cancel := context.WithCancel(t.Context())
	streams.Store(0)
	if err := e.Events(ctx, pawl.EventFilter{}, func(*pawl.Event) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("when its context ends: %v", err)
	}
}
