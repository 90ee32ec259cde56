package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var retentionTests = []test{
	{name: "K6/Retention/WholeOrGone", run: wholeOrGone},
	{name: "K6/Retention/WhatHasNotEndedStays", run: whatHasNotEndedStays},
	{name: "K6/Retention/WhatIsNeededStays", run: whatIsNeededStays},
	{name: "K6/Retention/WhatLivesLong", run: longLived},
	{name: "K6/Retention/AnchorsAreChained", run: anchorsAreChained},
	{name: "K6/Retention/SealedJobsAreFoldedAlone", run: sealedJobsAreFoldedAlone},
	{name: "K6/Retention/AHugeJobGoesInSteps", run: aHugeJobGoesInSteps},
	{name: "K6/Retention/ManyAtOnce", run: manyRetain, shared: true},
	{name: "K6/Retention/Killed", run: retainerKilled, shared: true},
}

// days returns noon of the UTC day this many days ago, as of the first call.
func (e *env) days(ago int) int64 {
	e.Helper()
	if e.noon.IsZero() {
		e.noon = pawl.Time(e.now()).Truncate(24 * time.Hour).Add(12 * time.Hour)
	}
	return pawl.Micros(e.noon.AddDate(0, 0, -ago))
}

func (e *env) policy(ago int) *store.Policy {
	return &store.Policy{Before: e.days(ago), Actor: "retention", Reason: "older than " + decimal(int64(ago)) + "d"}
}

// old stores a job of the past with n steps, and one of each kind of data that a job has. The
// job has ended unless change prevents it.
func (e *env) old(at int64, n int, change func(m made, b *Batch)) made {
	e.Helper()
	m, err := e.tryOld(at, n, change)
	e.ok(err)
	return m
}

func (e *env) tryOld(at int64, n int, change func(m made, b *Batch)) (m made, err error) {
	b := NewBatch(at) // made before the transaction: thousands of steps take longer than a transaction may be idle
	m = e.build(at, n, b, claimed(1))
	if change == nil {
		change = finished
	}
	change(m, b)
	b.NewSignals = append(b.NewSignals, &pawl.Signal{Job: m.key(), Seq: m.job.Seq, Name: "go", At: at, Actor: "x"})
	b.Refusals = append(b.Refusals, pawl.Refusal{StepKey: pawl.StepKey{Job: m.key(), Ord: 1}, At: at, Event: "success", Actor: "x", Why: "late"})
	err = e.st.Do(e.ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &b.Changes, nil })
	if err != nil {
		return m, err
	}
	return m, e.st.AppendLogs(e.ctx, []pawl.Chunk{{StepKey: pawl.StepKey{Job: m.key(), Ord: 1}, Claim: 1, Stream: "stdout", At: at, Data: []byte("x")}})
}

func finished(m made, b *Batch) {
	for _, s := range m.steps {
		b.MoveStep(m.job, s, lifecycle.StepSuccess)
	}
	b.MoveJob(m.job, lifecycle.JobSuccess)
}

func unfinished(made, *Batch) {}

// ofJobs are the tables with data of a job, and their columns of the job.
var ofJobs = []string{"job.id", "step.job", "trail.job", "signal.job", "refusal.job"}

// rows counts the rows of a job, by table; logs too.
func (e *env) rows(job rowkey.Job) map[string]string {
	e.Helper()
	counts := map[string]string{"log": decimal(int64(len(e.logs(job, 0))))}
	var parts []string
	for _, c := range ofJobs {
		table, column, _ := strings.Cut(c, ".")
		parts = append(parts, fmt.Sprintf("select '%s', count(*) from %[1]s where %s = %d", table, column, job))
	}
	for _, row := range e.sql(strings.Join(parts, " union all ")) {
		counts[row[0]] = row[1]
	}
	return counts
}

// whole fails unless the jobs exist with all their data.
func (e *env) whole(jobs ...made) {
	e.Helper()
	for _, m := range jobs {
		entries := m.job.Seq
		for _, s := range m.steps {
			entries += s.Seq
		}
		e.diff("rows of a job that stays", map[string]string{"job": "1", "step": decimal(int64(len(m.steps))), "trail": decimal(entries),
			"signal": "1", "refusal": "1", "log": "1"}, e.rows(m.key()))
	}
}

// gone fails unless no data of the jobs is left.
func (e *env) gone(jobs ...made) {
	e.Helper()
	for _, m := range jobs {
		e.diff("rows of a job that was removed", map[string]string{"job": "0", "step": "0", "trail": "0", "signal": "0", "refusal": "0", "log": "0"}, e.rows(m.key()))
	}
}

// sound fails unless all trails and anchors verify, and each job is one of those stored, with
// all of its steps.
func (e *env) sound(jobs ...made) {
	e.Helper()
	e.verify(0)
	anchors, err := e.st.Anchors(e.ctx)
	e.ok(err)
	if f := audit.VerifyAnchors(anchors); f != nil {
		e.Fatal(f)
	}
	there := e.jobs(store.JobFilter{})
	for _, m := range jobs {
		steps, err := e.st.Steps(e.ctx, m.key(), 0, 0)
		e.ok(err)
		if want := len(m.steps); slices.Contains(there, m.key()) && len(steps) != want || !slices.Contains(there, m.key()) && len(steps) != 0 {
			e.Fatalf("%d of %d steps of job %d, which is listed: %v", len(steps), want, m.key(), slices.Contains(there, m.key()))
		}
	}
}

// retain runs retention until nothing is left, and returns what was removed by kind. Locks of
// a killed process may last for a moment; then it starts again.
func (e *env) retain(st store.Store, p *store.Policy) map[string]int64 {
	e.Helper()
	removed := map[string]int64{}
	busy := false
	for from := (store.Place{}); ; {
		r, err := st.Retain(e.ctx, p, from)
		e.ok(err)
		removed[r.Kind] += r.Count
		busy = busy || r.Busy != ""
		from = r.Next
		switch {
		case r.Done && !busy:
			return removed
		case r.Done:
			from, busy = store.Place{}, false
		}
	}
}

// ends returns the final hashes of the trails of a kind, in the form and order of an export,
// by entity.
func (e *env) ends(kinds ...string) (entities []string, heads map[string]audit.Hash) {
	e.Helper()
	heads = map[string]audit.Hash{}
	e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error {
		if slices.Contains(kinds, t.Kind) {
			entities = append(entities, t.ID)
			heads[t.ID] = t.Entries[len(t.Entries)-1].Hash
		}
		return nil
	}))
	return entities, heads
}

// wholeOrGone: at whatever moment retention stops, or dies, each job exists with all its data
// or is gone with all of it, and everything verifies. Removed jobs are anchored, and an export
// reproduces the digest.
func wholeOrGone(e *env) {
	first := []made{e.old(e.days(41), 2, nil), e.old(e.days(41)+1, 1, nil), e.old(e.days(41)+7e6, 0, nil)}
	second := []made{e.old(e.days(40), 3, nil), e.old(e.days(40), 2, nil)}
	young := []made{e.old(e.days(20), 2, nil), e.add2()}
	all := slices.Concat(first, second, young)
	before, heads := e.ends("job", "step")
	p := e.policy(30)
	steps := 0
	for from := (store.Place{}); ; steps++ {
		r, err := e.st.Retain(e.ctx, p, from)
		e.ok(err)
		e.sound(all...)
		if from = r.Next; r.Count > 0 {
			from = store.Place{} // as after a crash
		}
		if r.Done {
			break
		}
	}
	e.gone(slices.Concat(first, second)...)
	e.whole(young[0])
	e.diff("jobs", []rowkey.Job{young[1].key(), young[0].key()}, e.jobs(store.JobFilter{}))
	if left := e.retain(e.st, p); left["job"] != 0 {
		e.Errorf("%v left to be removed", left)
	}
	after, _ := e.ends("job", "step")
	anchors, err := e.st.Anchors(e.ctx)
	e.ok(err)
	if len(anchors) != 2 {
		e.Fatalf("%d anchors, want one for each day: %+v", len(anchors), anchors)
	}
	for i, a := range anchors {
		var digest audit.Hash
		for _, id := range before {
			if day := [][]made{first, second}[i]; !slices.Contains(after, id) && ofDay(day, id) {
				digest = audit.Fold(digest, heads[id])
			}
		}
		entries, at := int64(0), e.days(41-i)
		for _, m := range [][]made{first, second}[i] {
			entries += m.job.Seq
			for _, s := range m.steps {
				entries += s.Seq
			}
		}
		want := audit.Anchor{Kind: "job", Sequence: int64(i + 1), Day: at - 12*3600e6, Count: int64(3 - i), Entries: entries, FirstCreated: at, LastCreated: at,
			FirstEnded: at, LastEnded: at, Last: max(int64(first[2].key()), a.Last), Digest: digest, At: a.At, Actor: "retention", Reason: "older than 30d", Hash: a.Hash}
		if i == 0 {
			want.LastCreated, want.LastEnded, want.Last = at+7e6, at+7e6, int64(first[2].key())
		}
		e.diff("anchor", want, a)
	}
}

func ofDay(day []made, id string) bool {
	return slices.ContainsFunc(day, func(m made) bool {
		return id == m.job.ID.Public(pawl.JobPrefix) || slices.ContainsFunc(m.steps, func(s *pawl.Step) bool { return id == m.job.ID.Step(s.Ord).Public(pawl.StepPrefix) })
	})
}

// add2 stores a present job.
func (e *env) add2() made { return e.add(2, nil) }

// whatHasNotEndedStays, and so does what ended too late; the prospects agree.
func whatHasNotEndedStays(e *env) {
	open := e.old(e.days(43), 2, unfinished)
	later := e.days(29)
	late := e.old(e.days(42), 1, func(m made, b *Batch) {
		b.now = later
		finished(m, b)
	})
	ended := e.old(e.days(41), 1, nil)
	got, err := e.st.Prospects(e.ctx, e.policy(30).Before)
	e.ok(err)
	e.diff("prospects", []pawl.Prospect{{Kind: "job", Goes: 1, Open: 1}, {Kind: "worker"}, {Kind: "schedule"}, {Kind: "token"}, {Kind: "queue_pause"}, {Kind: "webhook"}}, got)
	e.diff("removed", map[string]int64{"job": 1, "worker": 0, "schedule": 0, "token": 0, "queue_pause": 0, "webhook": 0}, e.retain(e.st, e.policy(30)))
	e.whole(open, late)
	e.gone(ended)
	e.sound(open, late, ended)
}

// whatIsNeededStays until the jobs that need it have ended: a continued job, a parent and a
// child.
func whatIsNeededStays(e *env) {
	continued, parent := e.old(e.days(45), 1, nil), e.old(e.days(44), 1, nil)
	waiting := e.old(e.days(43), 1, unfinished)
	child := e.old(e.days(42), 1, func(m made, b *Batch) {
		m.job.Parent = waiting.key()
		finished(m, b)
	})
	needing := e.add(1, func(m made, b *Batch) { m.job.Continues, m.job.Parent = continued.key(), parent.key() })
	got, err := e.st.Prospects(e.ctx, e.policy(30).Before)
	e.ok(err)
	e.diff("prospects", pawl.Prospect{Kind: "job", Open: 1, Needed: 3}, got[0])
	e.diff("removed", int64(0), e.retain(e.st, e.policy(30))["job"])
	e.whole(continued, parent, waiting, child)
	for _, m := range []made{waiting, needing} {
		e.do(&store.Query{Jobs: []rowkey.Job{m.key()}}, func(f *store.Facts, b *Batch) { b.MoveJob(f.Jobs[m.key()], lifecycle.JobCancel) })
	}
	e.diff("removed later", int64(3), e.retain(e.st, e.policy(30))["job"])
	e.gone(continued, parent, child)
	e.sound(continued, parent, child)
}

// longLived: workers, schedules, tokens, webhooks and pauses of queues are removed with their trails and beats, unless
// they live or hold a step.
func longLived(e *env) {
	at := e.days(40)
	var workers []*pawl.Worker
	e.ok(e.st.Do(e.ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) {
		b := NewBatch(at)
		for i := range 3 {
			w, s, t := &pawl.Worker{ID: e.mint.ID(at), Workspace: "w"}, e.schedule(at, decimal(int64(i))), e.token(at, decimal(int64(i)))
			b.AddWorker(w)
			b.AddSchedule(s)
			p := e.pause(at, "q"+decimal(int64(i)))
			b.AddToken(t)
			b.AddPause(p)
			h := e.webhook(at, decimal(int64(i)))
			b.AddWebhook(h)
			if i > 0 {
				b.MoveWorker(w, lifecycle.WorkerTerminate)
				b.MoveSchedule(s, lifecycle.ScheduleRemove)
				b.MoveToken(t, []machine.Event{"", lifecycle.TokenRevoke, lifecycle.TokenExpire}[i])
				b.MovePause(p, lifecycle.QueueResumeEvent)
				b.MoveWebhook(h, lifecycle.WebhookDelete)
			}
			workers = append(workers, w)
		}
		return &b.Changes, nil
	}))
	_, err := e.st.Beat(e.ctx, link.Pulse{Worker: workers[1].Key()})
	e.ok(err)
	e.old(at, 1, func(m made, b *Batch) { m.steps[0].Worker = workers[2].Key() })
	before, heads := e.ends("worker")
	e.diff("removed", map[string]int64{"job": 0, "worker": 1, "schedule": 2, "token": 2, "queue_pause": 2, "webhook": 2}, e.retain(e.st, e.policy(30)))
	e.sound()
	anchors, err := e.st.Anchors(e.ctx)
	e.ok(err)
	kinds := make([]string, len(anchors))
	for i, a := range anchors {
		kinds[i] = fmt.Sprint(a.Kind, " ", a.Count)
	}
	e.diff("anchors", []string{"queue_pause 2", "schedule 2", "token 2", "webhook 2", "worker 1"}, kinds)
	if last := anchors[len(anchors)-1]; last.Entries != 2 || last.Digest != audit.Fold(audit.Hash{}, heads[before[1]]) {
		e.Errorf("anchor %+v", last)
	}
	for table, want := range map[string]string{"worker": "2", "worker_audit": "3", "schedule": "1", "schedule_audit": "1", "token": "1", "token_audit": "1", "queue_pause": "1", "queue_pause_audit": "1", "webhook": "1", "webhook_audit": "1"} {
		if got := e.sql("select count(*) from " + table)[0][0]; got != want {
			e.Errorf("%s rows in %s, want %s", got, table, want)
		}
	}
}

// sealing is finished for a job whose rows are of version 2.
func sealing(m made, b *Batch) {
	finished(m, b)
	heads := map[pawl.StepKey]audit.Hash{}
	for i := range b.Entries {
		e := &b.Entries[i]
		e.Version = audit.Version2
		e.Seal(heads[e.StepKey])
		heads[e.StepKey] = e.Hash
	}
	m.job.Head = heads[pawl.StepKey{Job: m.key()}]
	for _, s := range m.steps {
		s.Head = heads[s.StepKey]
	}
}

// sealedJobsAreFoldedAlone: for a job that seals its steps an anchor has its own trail, for an
// older one all trails.
func sealedJobsAreFoldedAlone(e *env) {
	jobs := []made{e.old(e.days(41), 2, sealing), e.old(e.days(41)+1, 1, nil), e.old(e.days(41)+2, 0, sealing)}
	e.retain(e.st, e.policy(30))
	e.sound()
	anchors, err := e.st.Anchors(e.ctx)
	e.ok(err)
	var digest audit.Hash
	for _, head := range []audit.Hash{jobs[0].job.Head, jobs[1].job.Head, jobs[1].steps[0].Head, jobs[2].job.Head} {
		digest = audit.Fold(digest, head)
	}
	if len(anchors) != 1 || anchors[0].Sealed != 2 || anchors[0].Count != 3 || anchors[0].Digest != digest {
		e.Errorf("anchors %+v, want two sealed jobs and the digest %x", anchors, digest)
	}
	e.sql("update anchor set sealed = sealed + 1 where seq = 1 returning seq")
	anchors, err = e.st.Anchors(e.ctx)
	e.ok(err)
	if f := audit.VerifyAnchors(anchors); f == nil || f.Code != audit.FaultHash {
		e.Errorf("the number of sealed jobs was changed: %v", f)
	}
}

// stepRows is how many rows of a table one step of retention removes at most.
const stepRows = 5000

// aHugeJobGoesInSteps: no transaction of retention removes more than stepRows rows of a table,
// whatever the size of a job. After each of them a process without prior state continues; a
// part of the job is never visible, and everything verifies.
func aHugeJobGoesInSteps(e *env) {
	huge := e.old(e.days(41), stepRows+300, func(m made, b *Batch) {
		finished(m, b)
		for i := range stepRows + 100 {
			b.Refusals = append(b.Refusals, pawl.Refusal{StepKey: pawl.StepKey{Job: m.key(), Ord: 1}, At: b.now + int64(i), Event: "success", Actor: "x", Why: "late"})
		}
	})
	small, young := e.old(e.days(41)+7e6, 1, nil), e.old(e.days(20), 2, nil)
	before, heads := e.ends("job", "step")
	parts := 0 // how often a part was there
	for from := (store.Place{}); ; {
		was := e.rows(huge.key())
		r, err := e.st.Retain(e.ctx, e.policy(30), from)
		e.ok(err)
		is := e.rows(huge.key())
		for table := range is {
			if gone := number(e, was[table]) - number(e, is[table]); gone > stepRows && table != "trail" && table != "log" {
				e.Errorf("a step has removed %d rows of %s, want %d at most", gone, table, stepRows)
			}
		}
		if is["job"] == "0" && is["step"] != "0" {
			parts++
			e.unseen(huge)
		}
		e.sound(huge, small, young)
		if from = r.Next; r.Count > 0 || was["step"] != is["step"] || was["refusal"] != is["refusal"] {
			from = store.Place{} // as after a crash
		}
		if r.Done {
			break
		}
	}
	if parts == 0 {
		e.Error("the job went in one step")
	}
	e.gone(huge, small)
	e.whole(young)
	e.anchored(before, heads, 2, huge, small)
}

func number(e *env, s string) int64 {
	e.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	e.ok(err)
	return n
}

// unseen fails if anything shows a job of which only a part is left, or if it can be retried.
func (e *env) unseen(m made) {
	e.Helper()
	if _, err := e.st.Job(e.ctx, m.key()); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("the job: %v, want that it is not found", err)
	}
	bare, err := e.st.Bare(e.ctx, m.key(), 0, 10)
	e.ok(err)
	counts, err := e.st.StepCounts(e.ctx, m.key())
	e.ok(err)
	if len(bare) != 0 || len(counts) != 0 {
		e.Errorf("%d steps are shown, and counted as %v", len(bare), counts)
	}
	e.ok(e.st.Trails(e.ctx, m.key(), func(t store.TrailOf) error {
		e.Errorf("the trail of %s %d is shown", t.Kind, t.Ord)
		return nil
	}))
	if f := e.see(&store.Query{Jobs: []rowkey.Job{m.key()}}); f.Jobs[m.key()] != nil {
		e.Error("a retry finds the job")
	}
}

// anchored fails unless the jobs are in one anchor, with a digest that an export from before
// the removal reproduces.
func (e *env) anchored(before []string, heads map[string]audit.Hash, count int64, jobs ...made) {
	e.Helper()
	anchors, err := e.st.Anchors(e.ctx)
	e.ok(err)
	gone := map[string]bool{}
	for _, m := range jobs {
		gone[m.job.ID.Public(pawl.JobPrefix)] = true
		for _, s := range m.steps {
			gone[m.job.ID.Step(s.Ord).Public(pawl.StepPrefix)] = true
		}
	}
	var digest audit.Hash
	for _, id := range before {
		if gone[id] {
			digest = audit.Fold(digest, heads[id])
		}
	}
	if len(anchors) != 1 || anchors[0].Count != count || anchors[0].Digest != digest {
		e.Errorf("anchors %+v, want one of %d jobs with the digest %x", anchors, count, digest)
	}
}

// anchorsAreChained: a changed or removed anchor is found.
func anchorsAreChained(e *env) {
	for ago := range 3 {
		e.old(e.days(50-ago), 1, nil)
	}
	e.retain(e.st, e.policy(30))
	e.sound()
	fault := func(statement string) audit.Code {
		e.Helper()
		_, _, err := e.db.SQL(e.ctx, statement)
		e.ok(err)
		anchors, err := e.st.Anchors(e.ctx)
		e.ok(err)
		f := audit.VerifyAnchors(anchors)
		if f == nil {
			e.Fatalf("%s: no fault", statement)
		}
		if f.Sequence != 2 || f.Entity != "anchor of job" {
			e.Errorf("%s: %v", statement, f)
		}
		return f.Code
	}
	e.diff("changed", audit.FaultHash, fault("update anchor set count = count + 1 where seq = 2"))
	e.diff("taken out", audit.FaultGap, fault("delete from anchor where seq = 2"))
}

// manyRetain: two processes remove at the same time while others write.
func manyRetain(e *env) {
	var all []made
	for i := range 6 {
		all = append(all, e.old(e.days(45-i/2), 2, nil))
	}
	common, other := e.add(0, nil), e.open()
	var wg sync.WaitGroup
	for _, st := range []store.Store{e.st, other} {
		wg.Go(func() {
			for from := (store.Place{}); ; {
				r, err := st.Retain(e.ctx, e.policy(30), from)
				if err != nil {
					e.Error(err)
					return
				}
				if from = r.Next; r.Done {
					return
				}
			}
		})
		wg.Go(func() {
			for range 4 {
				if err := e.round(st, common.key()); err != nil {
					e.Error(err)
				}
			}
		})
	}
	wg.Wait()
	e.retain(e.st, e.policy(30))
	e.gone(all...)
	e.sound(all...)
	anchors, err := e.st.Anchors(e.ctx)
	e.ok(err)
	total := int64(0)
	for _, a := range anchors {
		total += a.Count
	}
	e.diff("anchored", int64(6), total)
}

// retainerKilled: a process killed during a removal leaves whole jobs, and the next one
// continues.
func retainerKilled(e *env) {
	var all []made
	for i := range 12 {
		steps := 2
		if i == 3 {
			steps = stepRows + 300
		}
		all = append(all, e.old(e.days(60-i), steps, nil))
	}
	c := e.start("retain", e.policy(30).Before)
	c.line()
	for len(e.jobs(store.JobFilter{})) > 9 && e.ctx.Err() == nil {
	}
	c.kill()
	e.sound(all...)
	e.retain(e.st, e.policy(30))
	e.sound(all...)
	e.gone(all...)
}

// retainRole removes what ended before the given time.
func retainRole(e *env, before int64) error {
	fmt.Println("ready")
	for from := (store.Place{}); ; {
		r, err := e.st.Retain(e.ctx, &store.Policy{Before: before, Actor: "child"}, from)
		if err != nil {
			return err
		}
		if from = r.Next; r.Done {
			return nil
		}
	}
}
