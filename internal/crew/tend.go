package crew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
)

// PatrolAndStart patrols, and starts the programs of those who have a task. It returns what it has done, and what has
// failed, a line each.
func (v *Advance) PatrolAndStart(ctx context.Context) (done, failed []string, err error) {
	found, err := v.Patrol(ctx, Patrol{Fix: true, Start: v.Start})
	if err != nil && !errors.Is(err, ErrPatrolled) {
		failed = append(failed, "patrol: "+err.Error())
	}
	for _, f := range found {
		line := strings.TrimSpace(f.Member + " " + string(f.Event) + f.Action + ": " + f.Text)
		if f.Error != "" {
			failed = append(failed, line+": "+f.Error)
		} else if f.Done {
			done = append(done, line)
		}
	}
	return done, failed, v.startAll(ctx, &done, &failed)
}

// TestAndLand runs the gates on what was submitted, and lands what waits, which may take long. It returns the same as
// PatrolAndStart.
func (v *Advance) TestAndLand(ctx context.Context) (done, failed []string, err error) {
	errs, err := v.Everyone(ctx)
	for id, e := range errs {
		failed = append(failed, id+": "+e.Error())
	}
	if err != nil {
		return done, failed, err
	}
	return done, failed, v.landAll(ctx, &done, &failed)
}

// startAll starts the programs of members that have a task and have not begun.
func (v *Advance) startAll(ctx context.Context, done, failed *[]string) error {
	ids, err := v.Members()
	if err != nil || v.Start == nil {
		return err
	}
	for _, id := range ids {
		m, err := v.Load(id)
		if err != nil || m.State != lifecycle.MemberAssigned {
			continue
		}
		if due, err := v.due(m); err != nil || !due {
			continue
		}
		if err := v.Start(ctx, id); err != nil {
			*failed = append(*failed, id+" start: "+err.Error())
		} else {
			*done = append(*done, id+" start: it has a task")
		}
	}
	return nil
}

// due reports whether the program of a member that has a task is to be started.
func (v *Advance) due(m *Member) (bool, error) {
	a, err := v.Assignment(m)
	if err != nil || v.Now().Before(a.Before.Time()) {
		return false, err
	}
	run, err := v.RunOf(m.ID, m.Epoch)
	if err != nil || run.Alive {
		return false, err
	}
	_, err = v.AgentOf(m.ID)
	return err == nil, nil
}

// landAll lands what waits.
func (v *Advance) landAll(ctx context.Context, done, failed *[]string) error {
	targets, err := v.Targets()
	if err != nil {
		return err
	}
	for _, target := range targets {
		for ctx.Err() == nil {
			l, err := NewMerger(v.Crew, v.By).Next(ctx, target)
			if err != nil {
				*failed = append(*failed, "landing on "+target+": "+err.Error())
			}
			if l == nil {
				break
			}
			*done = append(*done, fmt.Sprintf("%s %s on %s: %s%s", l.Member, l.State, target, l.Reason, short(l.Commit)))
		}
	}
	return ctx.Err()
}

// Targets returns the branches on which something waits to land.
func (c *Crew) Targets() (targets []string, err error) {
	dirs, err := os.ReadDir(filepath.Join(c.Dir, queueDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, d := range dirs {
		target, err := url.PathUnescape(d.Name())
		if err != nil {
			continue // it is none of Pawl's
		}
		list, err := c.Queue(target)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			targets = append(targets, list[0].Target)
		}
	}
	return targets, err
}
