package trail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// errStop ends a walk over trails early.
var errStop = errors.New("found")

// Verify checks the trails of a store, or those of a job and its steps. It calls each, if not
// nil, with the number of entries that it has checked so far.
func Verify(ctx context.Context, s store.Store, job rowkey.Job, each func(entries int64)) (*pawl.Verdict, error) {
	v := verdict{Verdict: pawl.Verdict{OK: true}, each: each}
	err := v.trails(ctx, s, job)
	if errors.Is(err, errStop) {
		err = nil
	}
	return &v.Verdict, err
}

// A verdict is one in the making.
type verdict struct {
	pawl.Verdict
	each func(entries int64)
}

func (v *verdict) trails(ctx context.Context, s store.Store, job rowkey.Job) (err error) {
	check := &Verifier{Views: s}
	defer func() { v.Entities, v.Entries = check.Entities, check.Entries }()
	found := func(f *audit.Fault, err error) error {
		if f == nil || err != nil {
			return err
		}
		v.OK, v.Fault = false, f
		return errStop
	}
	if v.Refused, err = s.Refused(ctx, job); err != nil {
		return err
	}
	anchors, err := v.anchors(ctx, s)
	if err != nil {
		return err
	}
	err = s.Trails(ctx, job, func(t store.TrailOf) error {
		if t.ID == "" {
			v.OK, v.Fault = false, &audit.Fault{Sequence: 1, Code: audit.FaultRecord, Message: missingRecord(t.Kind, t.Entries, anchors)}
			return errStop
		}
		err := found(check.Take(ctx, t))
		if v.each != nil {
			v.each(check.Entries)
		}
		return err
	})
	if err != nil {
		return err
	}
	return found(check.End(ctx))
}

// missingRecord describes a trail whose record was removed, and its id with it: the time of
// its first entry is all that is left to find it by.
func missingRecord(kind string, trail []audit.Entry, anchors []audit.Anchor) string {
	if len(trail) == 0 {
		return "a trail has no record"
	}
	text := fmt.Sprintf("the trail of %d entries that begins at %s has no record", len(trail), time.UnixMicro(trail[0].At).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	if kind == lifecycle.Step.Name {
		kind = lifecycle.Job.Name
	}
	if audit.Anchored(anchors, kind, trail[0].At) {
		text += ", though retention removed what it took of that day whole"
	}
	return text
}

// anchors checks and counts the anchors of retention.
func (v *verdict) anchors(ctx context.Context, s store.Store) ([]audit.Anchor, error) {
	anchors, err := s.Anchors(ctx)
	if err != nil {
		return nil, err
	}
	if f := audit.VerifyAnchors(anchors); f != nil {
		v.OK, v.Fault = false, f
		return nil, errStop
	}
	days := map[string]map[int64]bool{}
	for i := range anchors {
		n := &anchors[i]
		if days[n.Kind] == nil {
			days[n.Kind] = map[int64]bool{}
			v.Removed = append(v.Removed, pawl.RemovedTrails{Kind: n.Kind, From: pawl.Timestamp(n.FirstCreated)})
		}
		r := &v.Removed[len(v.Removed)-1]
		days[n.Kind][n.Day] = true
		r.Count, r.Days = r.Count+n.Count, len(days[n.Kind])
		r.From, r.Until = min(r.From, pawl.Timestamp(n.FirstCreated)), max(r.Until, pawl.Timestamp(n.LastCreated))
	}
	return anchors, nil
}

// CodeLine is the code of a line of an export that is no row at all. The message has the
// line's number.
const CodeLine audit.Code = "line"

// VerifyExport checks an exported trail.
func VerifyExport(lines io.Reader) *pawl.Verdict {
	replayed, err := audit.VerifyLines(lines)
	v := &pawl.Verdict{OK: err == nil, Entities: len(replayed)}
	for _, r := range replayed {
		v.Entries += r.Seq
	}
	var broken *audit.Fault
	switch {
	case err == nil:
	case errors.As(err, &broken):
		v.Fault = broken
	default:
		v.Fault = &audit.Fault{Code: CodeLine, Message: err.Error()}
	}
	return v
}
