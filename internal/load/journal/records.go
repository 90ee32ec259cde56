package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// recordsName returns the name of the file with the intervals of an agent.
func recordsName(agent int) string { return fmt.Sprintf("%d.pb", agent) }

// Records are the intervals of an agent as they come. They are not safe for concurrent use. A record that is
// being written, or that a controller has left incomplete as it died, is never read.
type Records struct {
	file *os.File
	at   int64
}

// Close closes the file.
func (r *Records) Close() error { return r.file.Close() }

// From has the records go on at a place: behind a record that was read, or 0. It is an error of kind pawl.Invalid if
// no record ends there. It reads all records before the place, calls passed at each, and fails with its error.
func (r *Records) From(at int64, passed func() error) error {
	r.at = 0
	if at == 0 {
		return nil
	}
	err := r.each(func(in *bufio.Reader, size int) error {
		if _, err := in.Discard(size); err != nil {
			return err
		}
		if err := passed(); err != nil || r.at < at {
			return err
		}
		return errThere
	})
	if err != nil && !errors.Is(err, errThere) {
		return err
	}
	if r.at != at {
		return noRecord(at)
	}
	return nil
}

// errThere ends the reading of records at a place, or behind it.
var errThere = errors.New("the place is there")

func noRecord(at int64) error {
	return pawl.Errorf(pawl.Invalid, "no interval of the agent ends at %d", at)
}

// Read calls f with each interval that is there and was not read yet, and the place behind it, until f
// fails. It is an error of kind pawl.Conflict if there is something else.
func (r *Records) Read(f func(i *loadpb.Interval, next int64) error) error {
	var buffer []byte
	return r.each(func(in *bufio.Reader, size int) error {
		if cap(buffer) < size {
			buffer = make([]byte, size)
		}
		if _, err := io.ReadFull(in, buffer[:size]); err != nil {
			return err
		}
		var record loadpb.ResultRecord
		if err := proto.Unmarshal(buffer[:size], &record); err != nil {
			return damagedRecord(err)
		}
		i := record.GetInterval()
		if i == nil {
			return damagedRecord(errors.New("a record is no interval"))
		}
		if err := report.CheckInterval(i); err != nil {
			return damagedRecord(err)
		}
		return f(i, r.at)
	})
}

// ToLast goes to the beginning of the last interval that is there, if there is one, and returns the place. It calls
// passed at each record.
func (r *Records) ToLast(passed func()) (int64, error) {
	last := r.at
	err := r.each(func(in *bufio.Reader, size int) error {
		passed()
		begin := r.at - int64(size) - int64(sizeOf(size))
		if _, err := in.Discard(size); err != nil {
			return err
		}
		last = begin
		return nil
	})
	r.at = last
	return last, err
}

// each calls f with each record that has begun: its size and a reader positioned at it. r.at is behind the
// record then, or before it if it is not whole.
func (r *Records) each(f func(in *bufio.Reader, size int) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(r.file, r.at, math.MaxInt64-r.at), 32<<10)
	for {
		size, err := binary.ReadUvarint(in)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err == nil && size > report.MaxRecord {
			err = fmt.Errorf("a record has %d bytes", size)
		}
		if err != nil {
			return damagedRecord(err)
		}
		before := r.at
		r.at += int64(size) + int64(sizeOf(int(size)))
		if err := f(in, int(size)); err == io.EOF || err == io.ErrUnexpectedEOF {
			r.at = before
			return nil
		} else if err != nil {
			return err
		}
	}
}

// sizeOf returns how many bytes the size of a record takes.
func sizeOf(size int) int { return len(binary.AppendUvarint(nil, uint64(size))) }

// IntervalOf returns what an agent has done in an interval, as a line of a run that has begun at a time.
func IntervalOf(agent int, i *loadpb.Interval, begun time.Time) (*IntervalLine, error) {
	done := stats.Table{}
	if err := done.Add(i.GetOperations()); err != nil {
		return nil, damagedRecord(err)
	}
	from, to := time.Duration(i.GetStartNs()), time.Duration(i.GetEndNs())
	seconds := (to - from).Seconds()
	return &IntervalLine{TypeInterval, begun.Add(to).UTC(), from.Seconds(), to.Seconds(), i.GetWarmup(), 1, &agent, i.GetBacklog(),
		report.Total(done, seconds), report.Operations(done, seconds)}, nil
}

func damagedRecord(err error) error {
	return &pawl.Error{Kind: pawl.Conflict, Message: "the intervals of an agent are damaged", Err: err}
}
