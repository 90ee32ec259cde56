package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/sleep"
)

// CrewEvery is the time between two rounds in which a process tends its crew.
const CrewEvery = 5 * time.Second

// A tender does its part of tending a crew: as long as both run, nobody has to patrol, start programs or land
// what waits.
type tender struct {
	round   func(context.Context) (done, failed []string, err error)
	log     *slog.Logger
	failing map[string]bool // what the last round could not do, and was logged

	mu   sync.Mutex
	seen server.Progress
}

// crewComponents returns the components that tend a crew. The process works without them. Gates may take long,
// so they are apart from patrols.
func crewComponents(c *crew.Crew, start func(ctx context.Context, id string) error, log *slog.Logger) []server.Component {
	by := crew.Caller{Actor: "server"}
	patrol, gates := &crew.Advance{Crew: c, Start: start, By: by}, &crew.Advance{Crew: c, By: by}
	return []server.Component{
		(&tender{round: patrol.PatrolAndStart, log: log}).component("crew", "patrols the crew of "+c.Repo.Root+", and starts its programs"),
		(&tender{round: gates.TestAndLand, log: log}).component("crew-gates", "runs the gates of the crew of "+c.Repo.Root+", and lands what waits"),
	}
}

func (t *tender) component(name, doc string) server.Component {
	return server.Component{Name: name, Doc: doc, Optional: true, Every: CrewEvery, Run: t.run, Progress: func() server.Progress {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.seen
	}}
}

func (t *tender) run(ctx context.Context) error {
	for {
		t.begins()
		done, failed, err := t.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			failed = append(failed, err.Error())
		}
		t.ended(done, failed)
		if !sleep.For(ctx, CrewEvery) {
			return nil
		}
	}
}

func (t *tender) begins() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Busy = time.Now()
}

// ended logs what a round has done, and what fails newly.
func (t *tender) ended(done, failed []string) {
	for _, line := range done {
		t.log.Info("crew", "done", line)
	}
	failing := map[string]bool{}
	for _, line := range failed {
		if failing[line] = true; !t.failing[line] {
			t.log.Warn("crew", "failed", line)
		}
	}
	t.failing = failing
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Rounds, t.seen.At, t.seen.Busy, t.seen.Error = t.seen.Rounds+1, time.Now(), time.Time{}, strings.Join(failed, "; ")
	if len(failed) > 0 {
		t.seen.Failures++
	}
}
