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

// A tender tends a crew: as long as it runs, nobody has to patrol, start programs or land what waits.
type tender struct {
	crew.Advance
	log     *slog.Logger
	failing map[string]bool // what the last round could not do, and was logged

	mu   sync.Mutex
	seen server.Progress
}

// crewComponent returns the component that tends a crew. The process works without it, and since gates may
// take long it never counts as stuck.
func crewComponent(c *crew.Crew, start func(ctx context.Context, id string) error, log *slog.Logger) server.Component {
	t := &tender{Advance: crew.Advance{Crew: c, Start: start, By: crew.Caller{Actor: "server"}}, log: log}
	return server.Component{Name: "crew", Doc: "tends the crew of " + c.Repo.Root, Optional: true, Every: CrewEvery, Run: t.run, Progress: func() server.Progress {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.seen
	}}
}

func (t *tender) run(ctx context.Context) error {
	for {
		t.begins()
		done, failed, err := t.Tend(ctx)
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
