package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Feed reads what was committed, in the order in which it became visible.
//
// The feed has a row for each commit that wrote to a trail, by Do or in a user's transaction.
// It names the rows of the trails; the entries are read from there. So an event is left out
// once retention has removed its trail.
type Feed interface {
	// Since returns what was committed after a token, from about limit commits, and the token
	// behind it. The zero token is now: the batch is empty. After a token that the feed cannot
	// go on from, the error is a *GapError with one that it can. A database that is the standby
	// of another is an error of kind Unavailable.
	Since(ctx context.Context, after FeedToken, limit int) (*FeedBatch, error)
}

// FeedMemory is how long a token can be gone on from, and at least how long rows of the feed
// are kept.
const FeedMemory = time.Hour

// A FeedBatch is a part of the feed.
type FeedBatch struct {
	Events []Event   // by (At, Commit); an event may be before another of its entity with a lower sequence
	Token  FeedToken // behind the events
	All    bool      // there was nothing more; else an event may also be before one that follows
}

// An Event is an entry of a trail, with its Entity and without From, and what it is about.
type Event struct {
	Entry
	Commit     uint64
	Workspace  string
	Name       string            // of the workflow, the worker or the schedule
	Job        pawl.ID           // of a job or a step
	Definition rowkey.Definition // of that job
}

// A FeedToken is a place in the feed: what of it was seen. Commits are numbered, and a commit
// with a higher number may become visible before one with a lower. The zero value is no place.
type FeedToken struct {
	Epoch uint64   // differs from one database, and one history of it, to another
	At    int64    // when this was seen; on SQLite the time of the last commit that was
	Next  uint64   // no commit from this number on was seen
	Open  []uint64 // of the lower numbers those that were not, ascending
}

// Sees reports whether a commit was seen.
func (t *FeedToken) Sees(commit uint64) bool {
	_, open := slices.BinarySearch(t.Open, commit)
	return commit < t.Next && !open
}

// Covers reports whether every commit that was seen by u was seen by t.
func (t *FeedToken) Covers(u *FeedToken) bool {
	return t.Next >= u.Next && !slices.ContainsFunc(t.Open, u.Sees)
}

// maxFeedToken is the length limit of the text of a token: it is a header of requests.
const maxFeedToken = 4 << 10

// String returns the token as a text without spaces, or "" if there are too many open commits
// for one.
func (t FeedToken) String() string {
	b := strconv.AppendUint(nil, t.Epoch, 36)
	b = strconv.AppendInt(append(b, '.'), t.At, 36)
	b = strconv.AppendUint(append(b, '.'), t.Next, 36)
	for _, n := range t.Open {
		b = strconv.AppendUint(append(b, '.'), t.Next-n, 36)
	}
	if len(b) > maxFeedToken {
		return ""
	}
	return string(b)
}

// ParseFeedToken reads the text of a token.
func ParseFeedToken(s string) (FeedToken, error) {
	invalid := fmt.Errorf("token %.40q: want one that the feed has given", s)
	parts := strings.Split(s, ".")
	if len(s) > maxFeedToken || len(parts) < 3 {
		return FeedToken{}, invalid
	}
	var t FeedToken
	var errs [3]error
	t.Epoch, errs[0] = strconv.ParseUint(parts[0], 36, 64)
	t.At, errs[1] = strconv.ParseInt(parts[1], 36, 64)
	t.Next, errs[2] = strconv.ParseUint(parts[2], 36, 64)
	err := errors.Join(errs[:]...)
	for _, p := range parts[3:] {
		behind, bad := strconv.ParseUint(p, 36, 64)
		if bad != nil || behind == 0 || behind > t.Next || len(t.Open) > 0 && t.Next-behind <= t.Open[len(t.Open)-1] {
			return FeedToken{}, invalid
		}
		t.Open = append(t.Open, t.Next-behind)
	}
	if err != nil || t.String() != s {
		return FeedToken{}, invalid
	}
	return t, nil
}

// A GapError says that the feed cannot go on from a token.
type GapError struct {
	Reason string    // a Gap constant
	Now    FeedToken // the place from which it can
}

// The reasons of a gap.
const (
	GapOld        = "old"        // the token is older than FeedMemory
	GapOther      = "other"      // it is of another database, or of one that was restored
	GapUnreadable = "unreadable" // it is no token
	GapBehind     = "behind"     // the reader was too slow
)

func (e *GapError) Error() string {
	return "the events do not go on from this place: its token is " + e.Reason
}

// FeedRows are the rows of trails that a commit wrote, as a row of the feed names them: for
// each row its key and its sequence, the keys as differences.
type FeedRows []byte

// The kinds of trails in FeedRows: the lower bits of the first number of a row.
const (
	feedSameJob  = iota // of the job of the row before; the upper bits are the ord
	feedJob             // of another job, likewise
	feedWorker          // of a worker
	feedSchedule        // of a schedule, or of what the upper bits say
	feedKinds
)

// feedOther are the first numbers of rows of what has no kind of its own.
var feedOther = map[uint64]string{
	1*feedKinds + feedSchedule: lifecycle.QueuePause.Name,
	2*feedKinds + feedSchedule: lifecycle.Token.Name,
	3*feedKinds + feedSchedule: lifecycle.Webhook.Name,
}

// feedFirst are the first numbers of rows of entities of a kind that lives long.
var feedFirst = map[string]byte{lifecycle.Worker.Name: feedWorker, lifecycle.Schedule.Name: feedSchedule,
	lifecycle.QueuePause.Name: 1*feedKinds + feedSchedule, lifecycle.Token.Name: 2*feedKinds + feedSchedule, lifecycle.Webhook.Name: 3*feedKinds + feedSchedule}

// FeedRowsOf returns the rows that Pack has made, and the entries of other entities in a list. It is
// nil if there are none.
func FeedRowsOf(packed []Packed, entries []Entry) FeedRows {
	var b FeedRows
	if len(packed) > 0 {
		b = make(FeedRows, 0, 16+8*len(packed))
	}
	last := int64(0)
	for i := range packed {
		p := &packed[i]
		kind := uint64(feedJob)
		if i > 0 && p.Job == packed[i-1].Job {
			kind = feedSameJob
		}
		b = binary.AppendUvarint(b, uint64(p.Ord)*feedKinds+kind)
		if kind == feedJob {
			b = binary.AppendVarint(b, int64(p.Job)-last)
			last = int64(p.Job)
		}
		b = binary.AppendUvarint(b, uint64(p.Sequence))
	}
	for i := range entries {
		e := &entries[i]
		first, is := feedFirst[e.Kind]
		if !is {
			continue
		}
		b = append(b, first)
		b = binary.AppendVarint(b, int64(e.Job)-last)
		last = int64(e.Job)
		b = binary.AppendUvarint(b, uint64(e.Sequence))
	}
	return b
}

// Each calls f with each row: the entity and the sequence of its first entry.
func (b FeedRows) Each(f func(k EntityKey, seq int64)) error {
	last, job := int64(0), int64(0)
	for r := (feedReader{rest: b}); len(r.rest) > 0; {
		first := r.unsigned()
		if first%feedKinds != feedSameJob {
			last += r.signed()
		}
		var k EntityKey
		switch first % feedKinds {
		case feedWorker:
			k = WorkerEntity(rowkey.Worker(last))
		case feedSchedule:
			k = EntityOf(cmp.Or(feedOther[first], lifecycle.Schedule.Name), last)
		case feedJob:
			job = last
			fallthrough
		default:
			k = StepEntity(pawl.StepKey{Job: rowkey.Job(job), Ord: pawl.Ord(first / feedKinds)})
		}
		seq := int64(r.unsigned())
		if r.short {
			return fmt.Errorf("a row of the feed, %x, is cut off", []byte(b))
		}
		f(k, seq)
	}
	return nil
}

// A feedReader reads numbers. short says that they ended too soon.
type feedReader struct {
	rest  []byte
	short bool
}

func (r *feedReader) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *feedReader) signed() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *feedReader) skip(n int) {
	if n <= 0 {
		r.rest, r.short = nil, true
		return
	}
	r.rest = r.rest[n:]
}
