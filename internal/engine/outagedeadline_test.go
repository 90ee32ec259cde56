package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/workflow"
)

// A partlyAway database answers scans, and cannot read schedules while it is away.
type partlyAway struct {
	store.Store
	mu    sync.Mutex
	away  bool
	tries []time.Time // of reads while it was away
}

func (p *partlyAway) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

func (p *partlyAway) Schedule(ctx context.Context, key rowkey.Schedule) (*pawl.Schedule, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		p.tries = append(p.tries, time.Now())
		return nil, pawl.Errorf(pawl.Unavailable, "the database is away")
	}
	return p.Store.Schedule(ctx, key)
}

// TestDeadlinesAfterAnOutage: deadlines that are due while the database is unavailable are
// applied as soon as it is back, however often they were tried, and one failure ends a round,
// since each of many could take as long.
func TestDeadlinesAfterAnOutage(t *testing.T) { // K8, T10
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := &partlyAway{Store: db}
		e := New(Config{Store: s, Log: slog.New(slog.DiscardHandler)})
		defer e.Close()
		def, err := workflow.Parse("test.yaml", []byte("name: empty\nsteps: []\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.RegisterWorkflow(t.Context(), pawl.DefaultWorkspace, def.Canonical(), "", pawl.Change{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			plan := pawl.SchedulePlan{Name: fmt.Sprint("s", i), Workflow: "empty", Cron: "@every 1s", Overlap: "skip"}
			if err := e.PutSchedule(t.Context(), plan, false, pawl.Change{Actor: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		s.set(true)
		time.Sleep(time.Minute)
		s.set(false)
		back := time.Now()
		time.Sleep(2 * time.Second)
		all, err := db.Schedules(t.Context(), pawl.ScheduleName{Workspace: pawl.DefaultWorkspace}, pawl.ScheduleName{}, 0)
		if err != nil || len(all) != 3 {
			t.Fatalf("%d schedules, %v", len(all), err)
		}
		for _, made := range all {
			if made.Due < pawl.Micros(back) {
				t.Errorf("schedule %s: the last time that made a job is %s; the database is back since %s", made.Name, pawl.Time(made.Due), back)
			}
		}
		for i := range s.tries[1:] {
			if s.tries[i].Equal(s.tries[i+1]) {
				t.Fatalf("two tries in one round, at %s", s.tries[i])
			}
		}
	})
}
