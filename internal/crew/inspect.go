package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
)

// memory is what patrol keeps of one time to the next: since when, by this machine's clock, it
// knows what has no instant of that clock.
type memory map[string]seen

type seen struct {
	What  string  `json:"what"`
	Since Instant `json:"since"`
}

// age returns how long something has been so: since its own instant if the clock is comparable,
// otherwise since patrol saw it first. It is known if patrol has also seen what was before.
func (m memory) age(key, what string, at, now Instant) (d time.Duration, known bool) {
	if d, ok := now.since(at); ok {
		return d, true
	}
	s := m[key]
	d, known = now.since(s.Since)
	if s.What == what && known {
		return d, true
	}
	m[key] = seen{what, now}
	return 0, known
}

// patrolFile has the memory of patrols. No member has such an id.
const patrolFile = ".patrol.json"

func (f *Folder) recall() (memory, error) {
	mem := memory{}
	text, err := readFile(filepath.Join(f.Dir, patrolFile), 16*maxState)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return mem, err
	}
	if json.Unmarshal(text, &mem) != nil { // it is only about how long something has been so
		return memory{}, nil
	}
	return mem, nil
}

// remember keeps what recall returns.
func (f *Folder) remember(mem memory) error {
	text, err := json.Marshal(mem)
	if err != nil {
		return err
	}
	return f.Disk.Replace(filepath.Join(f.Dir, patrolFile), append(text, '\n'))
}

const unjudged = "it cannot be judged"

// inspect judges a member and, to fix it, makes the move. It returns nil if nothing is to be done.
func (f *Folder) inspect(ctx context.Context, id string, mem memory, limits func(*Member) (Limits, error), fix bool) *Finding {
	lock, err := f.take(ctx, id)
	if err != nil {
		return &Finding{Member: id, Error: err.Error(), Text: unjudged}
	}
	defer lock.Release()
	m, last, err := f.settle(id)
	if err != nil || m == nil {
		return &Finding{Member: id, Error: fmt.Sprint(err), Text: unjudged}
	}
	l, err := limits(m)
	if err != nil {
		return &Finding{Member: id, State: m.State, Error: err.Error(), Text: unjudged}
	}
	s, err := f.look(m, last, mem)
	if err != nil {
		return &Finding{Member: id, State: m.State, Error: err.Error(), Text: unjudged}
	}
	v := judge(s, l.withDefaults())
	if v.event == "" {
		return nil
	}
	one := &Finding{Member: id, State: m.State, Event: v.event, Text: v.reason}
	if !fix {
		return one
	}
	next, row, err := f.next(id, m, last, &Move{Event: v.event, Actor: "patrol", Reason: v.reason, Set: func(m *Member) { m.Attention = v.attention }})
	if err == nil {
		err = f.commit(next, row)
	}
	one.did(err)
	return one
}

// look finds out what judge wants to know. It is called with the lock held.
func (f *Folder) look(m *Member, last *audit.Entry, mem memory) (*sight, error) {
	s := &sight{state: m.State, attention: m.Attention}
	came, err := f.arrival(m.ID, last)
	if err != nil {
		return nil, err
	}
	s.from, s.event, s.arrived = came.row.From, came.row.Event, came.row.Sequence
	now := f.Clock()
	s.since, _ = mem.age(m.ID+" state", fmt.Sprint(came.row.Sequence), came.Instant, now)
	s.silent = s.since
	switch b, err := f.LastBeat(m.ID); {
	case err != nil:
		return nil, err
	case b != nil && b.Epoch == m.Epoch:
		silent, known := mem.age(m.ID+" beat", fmt.Sprintf("%d %d %s", b.Epoch, b.Sequence, b.At), b.Instant, now)
		s.beat, s.silent = known && silent < s.since, min(s.since, silent)
	}
	s.run, err = f.RunOf(m.ID, m.Epoch)
	return s, err
}

// An arrival is the row by which a member came to its state, with its instant.
type arrival struct {
	row *audit.Entry
	Instant
}

// arrival returns the row by which a member came to its state: the last one that did not leave it
// where it was.
func (f *Folder) arrival(id string, last *audit.Entry) (arrival, error) {
	row := last
	if last.From == last.To {
		row = nil
		_, err := scan(f.history(id), 0, func(_ int64, line []byte) bool {
			if one, _, err := parseRow(id, line); err == nil && one.From != one.To {
				row = one
			}
			return true
		})
		if err != nil {
			return arrival{}, err
		}
		if row == nil {
			return arrival{}, &TamperedError{id, "no row of its history leads to a state"}
		}
	}
	var data rowData
	err := json.Unmarshal(row.Metadata, &data)
	return arrival{row, data.Instant}, err
}

// judgeOne judges a member by the limits of its target, and makes the move that follows. It returns nil if
// nothing is to be done.
func (c *Crew) judgeOne(ctx context.Context, id string) (*Finding, error) {
	mem, err := c.recall()
	if err != nil {
		return nil, err
	}
	one := c.inspect(ctx, id, mem, func(m *Member) (Limits, error) { return c.limitsOf(ctx, m) }, true)
	if one != nil && one.Error != "" {
		return nil, pawl.Errorf(pawl.Unavailable, "member %s: %s: %s", id, one.Text, one.Error)
	}
	return one, nil
}

// limitsOf returns the limits that the target of a member's work has.
func (c *Crew) limitsOf(ctx context.Context, m *Member) (Limits, error) {
	if m.Task == "" {
		return Limits{}, nil
	}
	a, err := c.Assignment(m)
	if err != nil {
		return Limits{}, err
	}
	_, config, err := c.Repo.target(ctx, a.Target)
	if err != nil {
		return Limits{}, err
	}
	return config.Limits, nil
}
