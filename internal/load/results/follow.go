package results

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// maxPiece is about how many bytes of lines are read at once.
const maxPiece = 1 << 20

// A Line is a line of a run that is followed.
type Line struct {
	Type  string
	Data  []byte
	Place string // to go on behind it
}

// A Follower reads the lines of a run as they come. It is not safe for concurrent use. After an error of kind
// pawl.Unavailable, which means that the file system hangs, only Close is called.
type Follower struct {
	folder  *Folder
	run     string // its name
	reader  *journal.Reader
	agent   int // whose intervals take the place of those of all; -1: of none
	records *journal.Records
	start   time.Time // of the load, once there is an interval
	lines   int64     // the place in the lines, and that in the intervals of the agent
	apart   int64
	hangs   bool
}

// Follow opens a run: its journal, or nothing if it has a result. With the folder of an agent, as Names has it,
// its intervals take the place of those of all. It is an error of kind pawl.Conflict if the run is damaged.
func (f *Folder) Follow(name, agent string) (Run, *Follower, error) {
	for {
		r, err := f.Run(name)
		switch {
		case err != nil:
			return r, nil, err
		case r.State == Damaged:
			return r, nil, damagedRun(&r)
		case r.Result && agent != "":
			return r, nil, f.knows(name, agent)
		case r.Result:
			return r, nil, nil
		}
		follower, err := f.follow(&r, agent)
		if pawl.KindOf(err) != pawl.NotFound { // it has just ended
			return r, follower, err
		}
	}
}

func damagedRun(r *Run) error {
	return pawl.Errorf(pawl.Conflict, "run %.50q is damaged: %s", r.Name, r.Reason)
}

func (f *Folder) follow(r *Run, agent string) (*Follower, error) {
	index := -1
	if agent != "" {
		var err error
		if index, err = f.indexOf(r.Name, agent); err != nil {
			return nil, err
		}
	}
	return inTime(context.Background(), f, f.deep, r.Name, func(p *progress) (*Follower, error) {
		reader, err := f.openJournal(r.Name)
		if err != nil {
			return nil, err
		}
		to := &Follower{folder: f, run: r.Name, reader: reader, agent: index, start: r.Begun}
		if err := to.openAgent(p); err != nil {
			to.Close()
			return nil, err
		}
		return to, nil
	})
}

// openAgent opens the intervals of the agent, if that is wanted and they are there by now.
func (f *Follower) openAgent(p *progress) error {
	if f.agent < 0 || f.records != nil {
		return nil
	}
	r, err := f.reader.Agent(f.agent)
	if err == nil && r != nil {
		f.records = r
		err = r.From(f.apart, p.passed)
	}
	return err
}

// Close closes the files, which were only read. Those that are still being read, of a file system that hangs, are
// closed once they are garbage.
func (f *Follower) Close() {
	if f.hangs {
		return
	}
	_ = f.reader.Close()
	if f.records != nil {
		_ = f.records.Close()
	}
}

// bounded has the follower read, for as long as the file system goes on.
func bounded[T any](f *Follower, read func(*progress) (T, error)) (T, error) {
	v, err := inTime(context.Background(), f.folder, f.folder.deep, f.run, func(p *progress) (T, error) {
		f.folder.reads(journal.NameOf(f.run))
		return read(p)
	})
	f.hangs = pawl.KindOf(err) == pawl.Unavailable
	return v, err
}

// From has the follower go on at the place of a line that was read of the same run and agent. It is an error of kind
// pawl.Invalid if there can be none.
func (f *Follower) From(place string) error {
	f.lines, f.apart = 0, 0
	var err error
	if f.agent < 0 {
		f.lines, err = strconv.ParseInt(place, 10, 64)
	} else {
		agent := 0
		if _, err = fmt.Sscanf(place, ofAgent, &f.lines, &agent, &f.apart); agent != f.agent {
			err = errors.New("it is of another agent")
		}
	}
	if err != nil || f.place() != place || f.lines < 0 || f.apart < 0 || f.lines+f.apart == 0 || f.apart > 0 && f.records == nil {
		return pawl.Errorf(pawl.Invalid, "%.50q is no place behind a line of the run", place)
	}
	_, err = bounded(f, func(p *progress) (none struct{}, err error) {
		if f.records != nil {
			err = f.records.From(f.apart, p.passed)
		}
		if err == nil {
			err = f.reader.From(f.lines)
		}
		return none, err
	})
	return err
}

// ofAgent is the form of a place of a follower of an agent: in the lines, the agent, and in its intervals.
const ofAgent = "%d-%d-%d"

// place returns the place at which the follower is.
func (f *Follower) place() string {
	if f.agent < 0 {
		return strconv.FormatInt(f.lines, 10)
	}
	return fmt.Sprintf(ofAgent, f.lines, f.agent, f.apart)
}

// Begin reads the lines so far, and returns those that say what the run is: the last one of each kind and agent. The
// last interval of an agent is the first that Next returns, and the end of the run comes after it.
func (f *Follower) Begin(ctx context.Context) ([]Line, error) {
	var state journal.State
	for more := true; more; {
		var err error
		if more, err = bounded(f, func(p *progress) (bool, error) { return f.read(p, state.Take) }); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if f.agent >= 0 {
		state.Interval = nil // of all
		if e := state.End; e != nil {
			f.lines, state.End = e.Next-int64(len(e.Data))-1, nil
		}
		if _, err := bounded(f, func(p *progress) (struct{}, error) { return struct{}{}, f.toLast(p) }); err != nil {
			return nil, err
		}
	}
	var all []Line
	end := f.lines
	for _, l := range state.Lines() {
		f.lines = l.Next
		all = append(all, Line{l.Type, l.Data, f.place()})
	}
	f.lines = end
	return all, nil
}

// toLast has the follower go on with the last interval of the agent.
func (f *Follower) toLast(p *progress) error {
	err := f.reader.From(f.lines)
	if err == nil {
		err = f.openAgent(p)
	}
	if err == nil && f.records != nil {
		f.apart, err = f.records.ToLast(p.made)
	}
	return err
}

// errPiece ends the reading of a piece.
var errPiece = errors.New("the piece is full")

// read calls each with the lines that were not read yet, of a piece at most, and reports whether there may be more.
func (f *Follower) read(p *progress, each func(journal.Line) error) (more bool, err error) {
	size := 0
	err = f.reader.Read(noting(p, func(l journal.Line) error {
		if err := f.take(l, each); err != nil {
			return err
		}
		if size += len(l.Data); size > maxPiece {
			return errPiece
		}
		return nil
	}))
	if errors.Is(err, errPiece) {
		return true, nil
	}
	return false, err
}

// take takes a line.
func (f *Follower) take(l journal.Line, each func(journal.Line) error) error {
	var run journal.RunLine
	if l.Type == journal.TypeRun && json.Unmarshal(l.Data, &run) == nil && run.Start != nil {
		f.start = *run.Start
	}
	f.lines = l.Next
	return each(l)
}

// A Piece is what Next returns.
type Piece struct {
	Lines []Line
	More  bool // there may be more at once
	Alive bool // the controller was, before the lines were read: if not, and there are no more, none comes
}

// Next returns the lines that were not read yet.
func (f *Follower) Next() (Piece, error) {
	return bounded(f, func(at *progress) (p Piece, err error) {
		p.Alive = f.reader.Alive()
		if p.More, err = f.intervals(at, &p); p.More || err != nil {
			return p, err
		}
		p.More, err = f.read(at, func(l journal.Line) error {
			if l.Type == journal.TypeInterval && f.agent >= 0 {
				return nil
			}
			if l.Type == journal.TypeEnd { // the last ones may have come since
				if _, err := f.intervals(at, &p); err != nil {
					return err
				}
			}
			p.Lines = append(p.Lines, Line{l.Type, bytes.Clone(l.Data), f.place()})
			return nil
		})
		return p, err
	})
}

// intervals adds the intervals of the agent that were not read yet, of a piece at most, and reports whether there
// may be more.
func (f *Follower) intervals(p *progress, to *Piece) (more bool, err error) {
	if err := f.openAgent(p); err != nil || f.records == nil {
		return false, err
	}
	size := 0
	err = f.records.Read(func(i *loadpb.Interval, next int64) error {
		p.made()
		line, err := f.lineOf(i)
		if err != nil {
			return err
		}
		f.apart = next
		to.Lines = append(to.Lines, Line{journal.TypeInterval, line, f.place()})
		if size += len(line); size > maxPiece {
			return errPiece
		}
		return nil
	})
	if errors.Is(err, errPiece) {
		return true, nil
	}
	return false, err
}

// lineOf returns an interval of the agent as a line.
func (f *Follower) lineOf(i *loadpb.Interval) ([]byte, error) {
	line, err := journal.IntervalOf(f.agent, i, f.start)
	if err != nil {
		return nil, err
	}
	return json.Marshal(line)
}
