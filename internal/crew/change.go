package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Move is a transition that a caller has decided on.
type Move struct {
	Event   machine.Event
	Actor   string
	Reason  string
	Request string        // the id of the request, or empty
	Set     func(*Member) // sets what changes besides the state; may be nil
}

// lockTime is how long a change waits for the lock of its member, unless its context ends.
const lockTime = 30 * time.Second

// Spawn creates a member.
func (f *Folder) Spawn(ctx context.Context, id string, move Move) (*Member, error) {
	move.Event = lifecycle.Member.Create
	return f.change(ctx, id, func(m *Member) (*Move, error) {
		if m != nil {
			return nil, pawl.Errorf(pawl.Conflict, "member %s exists, and is %s", id, m.State)
		}
		return &move, nil
	})
}

// Change changes a member (C3): decide gets its state and returns a move, nil for none. It
// returns the state that the member then has. If it returns an error that is none of decide's,
// the member has the old state, unless the error says otherwise.
func (f *Folder) Change(ctx context.Context, id string, decide func(*Member) (*Move, error)) (*Member, error) {
	return f.change(ctx, id, func(m *Member) (*Move, error) {
		if m == nil {
			return nil, notFound(id)
		}
		return decide(m)
	})
}

// Settle returns the state of a member, and first completes a change whose process died. Whoever decides
// by a state outside of Change calls it: Load may be one change behind.
func (f *Folder) Settle(ctx context.Context, id string) (*Member, error) {
	return f.Change(ctx, id, func(*Member) (*Move, error) { return nil, nil })
}

func (f *Folder) change(ctx context.Context, id string, decide func(*Member) (*Move, error)) (*Member, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	lock, err := f.take(ctx, id)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	m, last, err := f.settle(id)
	if err != nil {
		return nil, err
	}
	move, err := decide(m.clone())
	if err != nil || move == nil {
		return m, err
	}
	next, row, err := f.next(id, m, last, move)
	if err != nil {
		return nil, err
	}
	return next, f.commit(next, row)
}

func (m *Member) clone() *Member {
	if m == nil {
		return nil
	}
	c := *m
	return &c
}

// take takes the lock of a member.
func (f *Folder) take(ctx context.Context, id string) (*durable.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := durable.Acquire(ctx, f.lock(id))
	if errors.Is(err, durable.ErrHeld) {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "member " + id + " is being changed by another process", Err: err}
	}
	return lock, err
}

// settle returns the state of a member, nil if there is none, and the last row of its history.
// It is called with the lock held, and completes a change whose process died.
func (f *Folder) settle(id string) (*Member, *audit.Entry, error) {
	if _, err := f.Disk.Mend(f.history(id)); err != nil {
		return nil, nil, err
	}
	last, recorded, err := f.lastRow(id)
	if err != nil {
		return nil, nil, err
	}
	m, err := f.read(id)
	switch {
	case err != nil:
		return nil, nil, err
	case recorded == nil && m == nil:
		return nil, nil, nil
	case recorded == nil:
		return nil, nil, &TamperedError{id, fmt.Sprintf("it is at version %d, and there is no history", m.Version)}
	case m != nil && m.same(recorded):
		return m, last, nil
	case m == nil && recorded.Version == 1, m != nil && m.Version == recorded.Version-1:
		return recorded, last, f.publish(recorded)
	case m == nil:
		return nil, nil, &TamperedError{id, fmt.Sprintf("it is missing, and the history leads to version %d", recorded.Version)}
	default:
		return nil, nil, &TamperedError{id, fmt.Sprintf("it has version %d and state %s, and the history leads to version %d and state %s, or other fields differ",
			m.Version, m.State, recorded.Version, recorded.State)}
	}
}

// rowData is the metadata of a row of the history.
type rowData struct {
	Record *Member `json:"record"` // the state to which the row leads
	Instant
}

// lastRow returns the last row of a history, with the state that it leads to, nil if there is
// no history.
func (f *Folder) lastRow(id string) (*audit.Entry, *Member, error) {
	line, at, err := durable.LastLine(f.history(id))
	if err != nil || len(line) == 0 {
		return nil, nil, err
	}
	row, record, err := parseRow(id, line)
	if err != nil {
		return nil, nil, &TamperedError{id, fmt.Sprintf("the row at byte %d of its history is damaged: %v", at, err)}
	}
	return row, record, nil
}

func parseRow(id string, line []byte) (*audit.Entry, *Member, error) {
	row, data := new(audit.Entry), rowData{}
	if err := row.UnmarshalJSON(line); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(row.Metadata, &data); err != nil {
		return nil, nil, err
	}
	switch r := data.Record; {
	case row.Entity != entity(id):
		return nil, nil, fmt.Errorf("it is of %s", row.Entity)
	case r == nil:
		return nil, nil, errors.New("it has no record")
	case r.ID != id || r.Version != row.Sequence || r.State != row.To:
		return nil, nil, errors.New("its record is of another row")
	}
	return row, data.Record, nil
}

// next returns the state to which a move leads, and its row.
func (f *Folder) next(id string, m *Member, last *audit.Entry, move *Move) (*Member, *audit.Entry, error) {
	now := f.Now().UnixMicro()
	row := &audit.Entry{Entity: entity(id), Sequence: 1, To: lifecycle.Member.Initial, Event: move.Event,
		Actor: move.Actor, Reason: move.Reason, RequestID: move.Request, At: now}
	next, prev := &Member{ID: id}, audit.Hash{}
	if m != nil {
		to, err := lifecycle.Member.Next(m.State, move.Event)
		if err != nil {
			return nil, nil, &pawl.Error{Kind: pawl.Conflict, Message: "member " + id, Err: err}
		}
		next, prev = m.clone(), last.Hash
		row.From, row.To, row.Sequence, row.At = m.State, to, last.Sequence+1, max(now, last.At)
	}
	if move.Set != nil {
		move.Set(next)
	}
	next.ID, next.State, next.Version = id, row.To, row.Sequence
	if row.From != row.To {
		next.StateChangedAt = pawl.Timestamp(row.At)
	}
	data, err := json.Marshal(rowData{next, f.Clock()})
	if err != nil {
		return nil, nil, err
	}
	row.Metadata = data
	row.Seal(prev)
	return next, row, nil
}

// commit appends a row and publishes the state to which it leads.
func (f *Folder) commit(m *Member, row *audit.Entry) error {
	line, err := row.MarshalJSON()
	if err != nil {
		return err
	}
	history := f.history(m.ID)
	at, err := f.Disk.Append(history, append(line, '\n'))
	if err != nil {
		return err
	}
	err = f.publish(m)
	if err == nil {
		return nil
	}
	there, unread := f.read(m.ID)
	if unread == nil && (there == nil || !there.same(m)) { // nobody can have seen the new state
		if unread = f.Disk.TakeBack(history, at); unread == nil {
			return err
		}
	}
	return fmt.Errorf("version %d of member %s is written and may stay: %w", m.Version, m.ID, errors.Join(err, unread))
}

func (f *Folder) publish(m *Member) error {
	b, err := m.file()
	if err != nil {
		return err
	}
	return f.Disk.Publish(f.state(m.ID), b)
}
