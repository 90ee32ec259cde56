package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
)

// TestAServerThatStops: an exchange that waits is answered at once, says when to come again, and
// has claimed nothing for a client that has left (J9).
func TestAServerThatStops(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.register(`{"handlers":["far"]}`)
	var a *exchange.Answer
	ctx, turn := t.Context(), int64(0)
	for limit := 10 * time.Millisecond; a == nil; limit *= 2 { // until it waits before the server stops
		turn++
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(t.Context(), limit)
		a, _ = exchange.Serve(ctx, s.engine, id, &exchange.Request{Turn: turn, Free: 1}, true)
		cancel()
	}
	if a.NextMS < 200 || a.NextMS > 1000 || len(a.Steps) > 0 {
		t.Errorf("it was answered with %+v, want nothing, and to come again in 200 to 1000 ms", a)
	}
	s.want(201, "POST", "/api/jobs", text(map[string]any{"source": "name: far\nsteps: [{id: a, handler: far}]\n"}))
	if _, err := exchange.Serve(ctx, s.engine, id, &exchange.Request{Turn: turn + 1, Free: 1}, true); err == nil {
		t.Error("a client that had left before was answered")
	}
	if a := s.want(200, "POST", s.of(id, "exchange"), fmt.Sprintf(`{"turn":%d,"free":1}`, turn+2)); !strings.Contains(string(a.body), "step_id") {
		t.Errorf("the step is not there for the next exchange: %s", a.body)
	}
}

// TestNoRoomToWait: once the limit of waiting exchanges is reached, the server does not let
// another one wait: it returns an empty response, with the time until the next exchange.
func TestNoRoomToWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.register(`{"handlers":["far"]}`)
	a, err := exchange.Serve(t.Context(), s.engine, id, &exchange.Request{Turn: 1, Free: 1}, false)
	if err != nil || a.NextMS != 1000 {
		t.Errorf("%+v, %v; want next_ms 1000", a, err)
	}
}

// TestAnExchangeThatDoesNotWait: one that asks the server not to wait may be followed by the next at
// once. Otherwise the report of each step would wait for a second behind the one before.
func TestAnExchangeThatDoesNotWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.register(`{"handlers":["far"]}`)
	for turn, free := range []int{0, 1} {
		a := s.want(200, "POST", s.of(id, "exchange"), fmt.Sprintf(`{"turn":%d,"free":%d,"wait_ms":0,"holding":[]}`, turn+1, free))
		if n := a.field(t, "next_ms").(float64); n != 0 {
			t.Errorf("free %d: next_ms %v, want 0", free, n)
		}
	}
}

func (s *site) register(body string) pawl.ID {
	s.t.Helper()
	id, err := pawl.ParseID(pawl.WorkerPrefix, s.want(201, "POST", "/api/workers", body).field(s.t, "id").(string))
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *site) of(worker pawl.ID, verb string) string {
	return fmt.Sprintf("/api/workers/%s/%s", worker.Public(pawl.WorkerPrefix), verb)
}
