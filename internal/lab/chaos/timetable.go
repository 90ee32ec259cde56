package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// A timetable is a schedule that keeps creating jobs.
type timetable struct {
	name    string
	shape   string
	every   time.Duration
	overlap string
	catchUp time.Duration
}

// timetables are the schedules of a run. A slow job takes longer than the time between two of
// its starts.
var timetables = []timetable{
	{"skips", "slow", time.Second, schedule.Skip, 0},
	{"queues", "slow", time.Second, schedule.Queue, 0},
	{"cancels", "slow", 2 * time.Second, schedule.CancelOld, 0},
	{"catches-up", "noop", 2 * time.Second, schedule.Skip, 10 * time.Minute},
}

// addTimetables registers what the schedules run, and adds them, by the binary.
func (r *run) addTimetables(ctx context.Context) error {
	for _, name := range []string{"slow", "noop"} {
		path := filepath.Join(r.dir, name+".yaml")
		if err := os.WriteFile(path, shapeOf(name).source(), 0o600); err != nil {
			return err
		}
		if err := r.order(ctx, "workflow", "register", path); err != nil {
			return err
		}
	}
	for _, t := range timetables {
		err := r.order(ctx, "schedule", "add", t.name, "--workflow", t.shape, "--cron", "@every "+t.every.String(), "--overlap", t.overlap,
			"--catch-up", t.catchUp.String(), "-i", "effects="+filepath.Join(r.dir, "effects"), "-i", "n=0")
		if err != nil {
			return err
		}
	}
	return nil
}

// order runs a command of the binary, with retries as in ask.
func (r *run) order(ctx context.Context, args ...string) error {
	return r.ask(ctx, strings.Join(args[:2], " "), func() error {
		_, err := r.command(ctx, args...)
		return err
	})
}

// endTimetables waits until every due time has been handled, and pauses the schedules.
func (r *run) endTimetables(ctx context.Context) error {
	late, cancel := context.WithTimeout(ctx, r.config.patience)
	defer cancel()
	err := r.until(late, func() (bool, error) {
		all, err := r.store.Schedules(late, pawl.ScheduleName{Workspace: pawl.DefaultWorkspace}, pawl.ScheduleName{}, 0)
		now := pawl.Micros(r.database.clock().now())
		for _, s := range all {
			if s.DueAt <= now {
				return false, err
			}
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("a schedule is behind its times: %w", errStuck)
	}
	for _, t := range timetables {
		if err := r.order(ctx, "schedule", "pause", t.name); err != nil {
			return err
		}
	}
	return nil
}
