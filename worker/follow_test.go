package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/link"
)

// A lonely link knows when a server is there.
type lonely struct {
	link.Worker
	followed func() (bool, error)
}

func (l lonely) Followed(context.Context) (bool, error) { return l.followed() }

// A counter counts what is logged.
type counter struct {
	slog.Handler
	warnings atomic.Int64
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(context.Context, slog.Record) error {
	c.warnings.Add(1)
	return nil
}

// TestAWorkerAloneWarns: a worker without a server warns after 10 s, and again every
// five minutes; one that sees a server, or does not know, does not warn.
func TestAWorkerAloneWarns(t *testing.T) {
	t.Parallel()
	type turn struct {
		followed bool
		err      error
		lasts    time.Duration
		warnings int64 // during it
	}
	for name, turns := range map[string][]turn{
		"alone":                     {{false, nil, 9 * time.Second, 0}, {false, nil, time.Second, 1}, {false, nil, 299 * time.Second, 0}, {false, nil, time.Second, 1}},
		"with a server":             {{true, nil, time.Hour, 0}},
		"the server goes":           {{true, nil, time.Minute, 0}, {false, nil, 10 * time.Minute, 2}},
		"the server comes late":     {{false, nil, time.Minute, 1}, {true, nil, time.Hour, 0}},
		"the database does not say": {{false, errors.New("away"), time.Hour, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var now atomic.Pointer[turn]
				log := &counter{}
				w := &Worker{link: lonely{followed: func() (bool, error) { return now.Load().followed, now.Load().err }}, log: slog.New(log)}
				w.life, w.end = context.WithCancel(t.Context())
				go w.follow()
				for i, turn := range turns {
					now.Store(&turn)
					time.Sleep(turn.lasts)
					synctest.Wait()
					if n := log.warnings.Swap(0); n != turn.warnings {
						t.Errorf("turn %d: %d warnings, want %d", i, n, turn.warnings)
					}
				}
				w.end()
			})
		})
	}
}
