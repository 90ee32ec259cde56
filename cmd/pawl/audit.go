package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

func newAudit(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "audit", Short: "Check, export or compare the audit trail",
		Long:    "Check, export or compare the audit trail: a row for every move of every job, step and\nworker, each sealed with the SHA-256 of itself and of the row before it.",
		Example: "  pawl audit verify\n  pawl audit export > trail.jsonl",
	})
	c.AddCommand(newAuditVerify(a), newAuditExport(a), newAuditCheckpoint(a), newAuditCompare(a))
	return c
}

const verifyLong = `Check the audit trail of all jobs, steps, workers and schedules, or of one job:
that every row is a legal move, that none is missing, out of order or changed, and
that it leads to what is stored; that inputs, outputs, errors and the data of signals
are what its rows seal, and missing only where a redaction of the job withholds them;
and that no step of a job is missing, with all its rows, that was counted out. The
first row that breaks is named, with exit code 1. What retention removed is told, and
the anchors that say so are checked. Facts that were refused, as they came too late,
are in no trail: they are counted.

--file checks an exported trail without a database; - is standard input. It has no
inputs, outputs and errors, so that it cannot say whether they are withheld. A file
cannot say what it never had: a job that has not ended, or that was left out as a
whole, passes. Nor can a database, of a job that was removed from it with its steps
and all of their rows, or of the last anchors: for that, see "pawl audit compare". Jobs
that were made before the trail had seals are checked without.`

func newAuditVerify(a *app) *cobra.Command {
	form, file := formText, ""
	c := &cobra.Command{
		Use: "verify [JOB]", Short: "Check the audit trail", Long: verifyLong,
		Example: "  pawl audit verify\n  pawl audit verify last -o json\n  pawl audit verify --file trail.jsonl",
		Args:    want(0, 1, "one JOB at most"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			if file != "" && len(args) > 0 {
				return usage("", "--file goes without a JOB")
			}
			v, err := a.verified(c.Context(), file, args)
			if err != nil {
				return err
			}
			if err := showVerdict(a.stdout, a.stderr, v, form == formJSON); err != nil {
				return err
			}
			if v.Fault != nil {
				return exit{codeFailed}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text, or json: {ok, entities, entries, fault, refused, removed}")
	c.Flags().StringVar(&file, "file", "", "check this export (JSON lines; - is standard input) and no database")
	return c
}

// verified checks an exported trail, or that of the database or of a job in it.
func (a *app) verified(ctx context.Context, file string, args []string) (v *verdict, err error) {
	switch file {
	case "":
		err = a.withTrails(ctx, args, func(s store.Store, job int64) (err error) {
			v, err = verifyTrails(ctx, s, job)
			return err
		})
		return v, err
	case "-":
		return verifyExport(a.stdin), nil
	}
	f, err := openFile(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return verifyExport(f), nil
}

// A verdict is what a check of the trail found.
type verdict struct {
	OK       bool   `json:"ok"`
	Entities int    `json:"entities"`
	Entries  int64  `json:"entries"`
	Fault    *fault `json:"fault"`
	Refused  int64  `json:"refused"` // facts that came too late; they are in no trail

	Removed []removed `json:"removed,omitempty"` // by retention
}

// A fault is the first row that breaks.
type fault struct {
	Entity   string     `json:"entity"`
	Sequence int64      `json:"sequence"`
	Code     audit.Code `json:"code"`
	Message  string     `json:"message"`
}

// A removed is what retention has removed of a kind.
type removed struct {
	Kind  string         `json:"kind"`
	Count int64          `json:"count"`
	Days  int            `json:"days"` // of their creation
	From  pawl.Timestamp `json:"from"` // when the first one was created
	Until pawl.Timestamp `json:"until"`
}

// errStop ends a walk over trails that has found what it looked for.
var errStop = errors.New("found")

// verifyTrails checks the trails of a store, or those of a job and its steps.
func verifyTrails(ctx context.Context, s store.Store, job int64) (*verdict, error) {
	v := &verdict{OK: true}
	err := v.trails(ctx, s, job)
	if errors.Is(err, errStop) {
		err = nil
	}
	return v, err
}

func (v *verdict) trails(ctx context.Context, s store.Store, job int64) (err error) {
	check := &store.Verifier{Views: s}
	defer func() { v.Entities, v.Entries = check.Entities, check.Entries }()
	found := func(f *audit.Fault, err error) error {
		if f == nil || err != nil {
			return err
		}
		v.OK, v.Fault = false, faultOf(f)
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
			v.OK, v.Fault = false, &fault{Sequence: 1, Code: audit.FaultRecord, Message: missingRecord(t.Kind, t.Entries, anchors)}
			return errStop
		}
		return found(check.Take(ctx, t))
	})
	if err != nil {
		return err
	}
	return found(check.End(ctx))
}

// missingRecord speaks of a trail whose record was removed, and its id with it:
// when it began is all there is to find it by.
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

// anchors checks what retention wrote down, and counts it.
func (v *verdict) anchors(ctx context.Context, s store.Store) ([]audit.Anchor, error) {
	anchors, err := s.Anchors(ctx)
	if err != nil {
		return nil, err
	}
	if f := audit.VerifyAnchors(anchors); f != nil {
		v.OK, v.Fault = false, faultOf(f)
		return nil, errStop
	}
	days := map[string]map[int64]bool{}
	for i := range anchors {
		n := &anchors[i]
		if days[n.Kind] == nil {
			days[n.Kind] = map[int64]bool{}
			v.Removed = append(v.Removed, removed{Kind: n.Kind, From: pawl.Timestamp(n.FirstCreated)})
		}
		r := &v.Removed[len(v.Removed)-1]
		days[n.Kind][n.Day] = true
		r.Count, r.Days = r.Count+n.Count, len(days[n.Kind])
		r.From, r.Until = min(r.From, pawl.Timestamp(n.FirstCreated)), max(r.Until, pawl.Timestamp(n.LastCreated))
	}
	return anchors, nil
}

// codeLine is the code of a line of an export that is no row at all. The message
// has its number.
const codeLine audit.Code = "line"

func faultOf(f *audit.Fault) *fault { return &fault{f.Entity, f.Sequence, f.Code, f.Message} }

// verifyExport checks an exported trail.
func verifyExport(lines io.Reader) *verdict {
	replayed, err := audit.VerifyLines(lines)
	v := &verdict{OK: err == nil, Entities: len(replayed)}
	for _, r := range replayed {
		v.Entries += r.Seq
	}
	var broken *audit.Fault
	switch {
	case err == nil:
	case errors.As(err, &broken):
		v.Fault = faultOf(broken)
	default:
		v.Fault = &fault{Code: codeLine, Message: err.Error()}
	}
	return v
}

// showVerdict writes what a check found: what is well to out, and what is broken to talk.
func showVerdict(out, talk io.Writer, v *verdict, json bool) error {
	if json {
		if err := console.JSON(out, v); err != nil {
			return err
		}
	}
	if f := v.Fault; f != nil {
		where := ""
		switch {
		case f.Entity != "":
			where = fmt.Sprintf("%s: entry %d: %s: ", f.Entity, f.Sequence, f.Code)
		case f.Code != codeLine:
			where = string(f.Code) + ": "
		}
		console.Say(talk, "error", "the audit trail is broken: "+where+f.Message)
		return nil
	}
	if json {
		return nil
	}
	fmt.Fprintf(out, "ok: %d entries of %d entities\n", v.Entries, v.Entities)
	if v.Refused > 0 {
		fmt.Fprintf(out, "refused facts: %d, which are in no trail\n", v.Refused)
	}
	for _, r := range v.Removed {
		fmt.Fprintf(out, "anchors: %s of %s, created %s to %s, removed by retention\n",
			console.Plural(r.Count, r.Kind), console.Plural(int64(r.Days), "day"), r.From, r.Until)
	}
	return nil
}

func newAuditExport(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "export [JOB]", Short: "Write the audit trail as JSON lines",
		Long:    "Write the audit trail of all jobs, steps, workers and schedules, or of one job\nand its steps, to stdout: one row as JSON on each line.",
		Example: "  pawl audit export > trail.jsonl\n  pawl audit export last",
		Args:    want(0, 1, "one JOB at most"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			return a.export(c.Context(), args, a.stdout)
		},
	}
}

func (a *app) export(ctx context.Context, args []string, w io.Writer) error {
	return a.withTrails(ctx, args, func(s store.Store, job int64) error {
		return s.Trails(ctx, job, func(t store.TrailOf) error { return audit.WriteLines(w, t.Entries) })
	})
}

// withTrails hands a database that exists to f, with the key of the job that is named; 0: all.
func (a *app) withTrails(ctx context.Context, args []string, f func(s store.Store, job int64) error) (err error) {
	s, err := a.openExisting(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key := int64(0)
	if len(args) == 1 {
		if key, err = a.jobKey(ctx, s, args[0]); err != nil {
			return err
		}
	}
	return f(s, key)
}

// jobKey returns the key of the job that is named. The engine that looks it up
// is gone before the trail is read.
func (a *app) jobKey(ctx context.Context, s store.Store, text string) (int64, error) {
	e := engine.New(engine.Config{Store: s, Passive: true, Log: a.log})
	defer e.Close()
	cl := a.client(e)
	id, err := a.jobOf(ctx, cl, text)
	if err != nil {
		return 0, err
	}
	_, err = cl.Jobs.Get(ctx, id)
	return id.Key(), err
}
