package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var pageTests = []test{
	{name: "T8/TrailPages", run: trailPages},
	{name: "T8/HistoryPages", run: historyPages},
	{name: "T8/HistoryPageBytes", run: historyPageBytes},
	{name: "T8/RefusalPages", run: refusalPages},
	{name: "T8/VersionPages", run: versionPages},
	{name: "T8/WorkflowPages", run: workflowPages},
	{name: "T8/SchedulePages", run: schedulePages},
	{name: "T8/QuotaPages", run: quotaPages},
}

// share is the size of a record in these tests, a fraction of a page.
const share = store.PageBytes / 4

// large returns a text of that size that begins with a number.
func large(i int) string { return fmt.Sprintf("%04d", i) + strings.Repeat("x", share) }

// paged reads a list page by page, each beyond the last record of the previous one. It fails
// if a page has more rows than its limit, or more bytes than a page.
func paged[T any](e *env, what string, limit int, read func(last *T) ([]T, error)) (all []T) {
	e.Helper()
	var last *T
	for {
		page, err := read(last)
		e.ok(err)
		if len(page) > limit || len(page) > store.PageBytes/share {
			e.Errorf("%s: a page of %d records of %d bytes, with a limit of %d and of %d bytes", what, len(page), share, limit, store.PageBytes)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		last = &page[len(page)-1]
	}
}

// limits are the limits of the reads: with one, rows end the pages, with the other, bytes.
var limits = []int{3, 1000}

// trailPages: of a job, a step, a worker and a schedule, and with entries that share a row
// with others, or are in rows of others.
func trailPages(e *env) {
	const rounds = 6
	m, w, s := e.add(3, enqueued(1, 0)), e.addWorker(), e.addSchedule("s", nil)
	step := m.steps[2].StepKey
	q := &store.Query{Jobs: []rowkey.Job{m.key()}, Steps: []pawl.StepKey{step}, Workers: []rowkey.Worker{w.Key()}, Schedules: []rowkey.Schedule{s.Key()}}
	for i := range 2 * rounds {
		e.do(q, func(f *store.Facts, b *Batch) {
			if i < rounds { // the others are short, and packed
				b.Reason = func() string { return large(i) }
			}
			if i == 0 {
				b.MoveWorker(f.Workers[w.Key()], lifecycle.WorkerStartTask)
			}
			b.MoveJob(f.Jobs[m.key()], lifecycle.JobPause, lifecycle.JobResume)
			b.MoveStep(f.Jobs[m.key()], f.Steps[step], lifecycle.StepClaim, lifecycle.StepInterrupt, lifecycle.StepEnqueue)
			b.MoveWorker(f.Workers[w.Key()], lifecycle.WorkerPause, lifecycle.WorkerResume)
			b.MoveSchedule(f.Schedules[s.Key()], lifecycle.SchedulePause, lifecycle.ScheduleResume)
		})
	}
	whole := map[store.EntityKey][]audit.Entry{}
	e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error {
		for i := range t.Entries {
			t.Entries[i].Folded = 0 // which belongs to the record
		}
		whole[t.EntityKey] = t.Entries
		return nil
	}))
	for k, least := range map[store.EntityKey]int{JobKey(m.job): 2, StepKey(m.steps[2]): 3, StepKey(m.steps[0]): 0, WorkerKey(w): 2, ScheduleKey(s): 2} {
		if len(whole[k]) < 2*rounds*least {
			e.Fatalf("%v has %d entries", k, len(whole[k]))
		}
		for _, limit := range limits {
			e.trailPagesOf(k, whole[k], limit)
		}
		all, err := e.st.Trail(e.ctx, k, 0, 0)
		e.ok(err)
		e.diff(fmt.Sprint("all of ", k), whole[k], all)
	}
}

func (e *env) trailPagesOf(k store.EntityKey, want []audit.Entry, limit int) {
	e.Helper()
	var got []audit.Entry
	for after := int64(0); ; {
		page, err := e.st.Trail(e.ctx, k, after, limit)
		e.ok(err)
		size := 0
		for i := range page {
			size += len(page[i].Reason)
		}
		if len(page) > limit || size > store.PageBytes+share+4 {
			e.Errorf("%v: a page of %d entries, of %d bytes", k, len(page), size)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		after = page[len(page)-1].Sequence
	}
	e.diff(fmt.Sprint("pages of ", k, " by ", limit), want, got)
}

// historyPages: all entries of a job in the order of time.
func historyPages(e *env) {
	m := e.add(40, enqueued(1, 0))
	other := e.add(2, nil)
	for i := range 20 {
		k := m.steps[39-i].StepKey
		e.do(&store.Query{Jobs: []rowkey.Job{m.key()}, Steps: []pawl.StepKey{k}}, func(f *store.Facts, b *Batch) {
			b.MoveStep(f.Jobs[m.key()], f.Steps[k], lifecycle.StepClaim, lifecycle.StepSuccess)
			b.MoveJob(f.Jobs[m.key()], lifecycle.JobPause, lifecycle.JobResume)
		})
	}
	var want []store.Entry
	e.ok(e.st.Trails(e.ctx, m.key(), func(t store.TrailOf) error {
		for _, n := range t.Entries {
			n.Entity, n.From, n.Folded = "", "", 0
			want = append(want, store.Entry{EntityKey: t.EntityKey, Entry: n})
		}
		return nil
	}))
	slices.SortStableFunc(want, func(a, b store.Entry) int { return cmp.Compare(a.At, b.At) })
	for _, limit := range []int{1, 7, 1000} {
		var got []store.Entry
		pages := 0
		for at := (store.HistoryPlace{}); ; pages++ {
			page, last, err := e.st.History(e.ctx, m.key(), at, limit)
			e.ok(err)
			if len(page) == 0 {
				break
			}
			got, at = append(got, page...), last
		}
		if pages < 20/limit {
			e.Errorf("%d pages of %d rows", pages, limit)
		}
		e.diff(fmt.Sprint("history by ", limit), want, got)
	}
	if page, _, err := e.st.History(e.ctx, other.key()+1, store.HistoryPlace{}, 1); err != nil || len(page) != 0 {
		e.Errorf("%d entries of no job, %v", len(page), err)
	}
}

// historyPageBytes: the bytes end a page of a history, whatever its limit.
func historyPageBytes(e *env) {
	m := e.longJob()
	entries, pages := 0, 0
	for at := (store.HistoryPlace{}); ; pages++ {
		page, last, err := e.st.History(e.ctx, m.key(), at, store.TrailPageRows)
		e.ok(err)
		size := 0
		for i := range page {
			size += store.TrailBytes(&page[i].Entry)
		}
		if size > store.TrailPageBytes+(8<<10) {
			e.Errorf("page %d has %d bytes", pages, size)
		}
		if len(page) == 0 {
			break
		}
		entries, at = entries+len(page), last
	}
	if want := int(m.job.Seq) + 2*len(m.steps); entries != want || pages < 2 {
		e.Errorf("%d entries in %d pages, want %d in several", entries, pages, want)
	}
}

// refusalPages: also with equal times.
func refusalPages(e *env) {
	m := e.add(1, nil)
	var whys []string
	for i := range 10 {
		whys = append(whys, fmt.Sprint(i))
		e.do(&store.Query{}, func(_ *store.Facts, b *Batch) {
			data, _ := json.Marshal(large(i))
			b.Refusals = append(b.Refusals, pawl.Refusal{StepKey: m.steps1(), At: int64(10 + i/4), Claim: 3, Event: lifecycle.StepSuccess, Why: whys[i], Data: data})
		})
	}
	for _, limit := range limits {
		all := paged(e, "refused facts", limit, func(last *pawl.Refusal) ([]pawl.Refusal, error) {
			at := store.RefusalPlace{}
			if last != nil {
				at = store.RefusalPlace{At: last.At, ID: last.ID}
			}
			return e.st.Refusals(e.ctx, m.key(), at, limit)
		})
		var got []string
		for _, f := range all {
			got = append(got, f.Why)
		}
		e.diff("refused facts", whys, got)
	}
}

func versionPages(e *env) {
	var want []*pawl.Version
	for i := range 10 {
		v := &pawl.Version{Workspace: "w", Name: "flow", Version: i + 1, Dir: large(i)}
		e.ok(e.tryRegister(v))
		want = append([]*pawl.Version{v}, want...)
	}
	for _, limit := range limits {
		got := paged(e, "versions", limit, func(last **pawl.Version) ([]*pawl.Version, error) {
			below := 0
			if last != nil {
				if below = (*last).Version; below == 1 {
					return nil, nil
				}
			}
			return e.st.Registered(e.ctx, pawl.WorkflowName{Workspace: "w", Name: "flow"}, below, limit)
		})
		e.diff("versions", want, got)
	}
}

// workflowPages: by name and workspace, of all workspaces.
func workflowPages(e *env) {
	var want []*pawl.Version
	for i := range 10 {
		for version := range 2 {
			v := &pawl.Version{Workspace: fmt.Sprint("w", i%2), Name: fmt.Sprint("flow", i/2), Version: version + 1, Dir: large(i)}
			e.ok(e.tryRegister(v))
			if version == 1 {
				want = append(want, v)
			}
		}
	}
	for _, limit := range limits {
		got := paged(e, "workflows", limit, func(last **pawl.Version) ([]*pawl.Version, error) {
			after := pawl.WorkflowName{}
			if last != nil {
				after = pawl.WorkflowName{Workspace: (*last).Workspace, Name: (*last).Name}
			}
			return e.st.Workflows(e.ctx, "", after, limit)
		})
		e.diff("workflows", want, got)
	}
}

func schedulePages(e *env) {
	var want []*pawl.Schedule
	for i := range 10 {
		want = append(want, e.addSchedule(fmt.Sprint("s", i/2), func(s *pawl.Schedule) {
			s.Workspace = fmt.Sprint("w", i%2)
			s.Inputs, _ = json.Marshal(map[string]string{"in": large(i)})
		}))
	}
	for _, limit := range limits {
		got := paged(e, "schedules", limit, func(last **pawl.Schedule) ([]*pawl.Schedule, error) {
			after := pawl.ScheduleName{}
			if last != nil {
				after = pawl.ScheduleName{Workspace: (*last).Workspace, Name: (*last).Name}
			}
			return e.st.Schedules(e.ctx, pawl.ScheduleName{}, after, limit)
		})
		e.diff("schedules", want, got)
	}
}

func quotaPages(e *env) {
	var want []*pawl.Quota
	for i := range 10 {
		want = append(want, &pawl.Quota{Workspace: fmt.Sprint("w", i%2), Name: fmt.Sprint("queue/q", i/2), Slots: i, Reason: large(i)})
	}
	e.do(&store.Query{}, func(_ *store.Facts, b *Batch) { b.Quotas = want })
	for _, limit := range limits {
		got := paged(e, "quotas", limit, func(last **pawl.Quota) ([]*pawl.Quota, error) {
			after := pawl.WorkflowName{}
			if last != nil {
				after = pawl.WorkflowName{Workspace: (*last).Workspace, Name: (*last).Name}
			}
			return e.st.Quotas(e.ctx, "", after, limit)
		})
		e.diff("quotas", want, got)
	}
}
