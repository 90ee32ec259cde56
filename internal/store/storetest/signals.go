package storetest

import (
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var signalTests = []test{
	{name: "Signals/Order", run: signalOrder},
	{name: "Signals/Taken", run: signalTaken},
	{name: "Signals/Limit", run: signalLimit},
	{name: "Signals/Stale", run: signalStale},
	{name: "Signals/Sizes", run: signalSizes},
}

// signal records an event of the job, with data, and returns the stored signal.
func (e *env) signal(j *pawl.Job, name, data string) *pawl.Signal {
	e.Helper()
	var s *pawl.Signal
	e.do(&store.Query{Jobs: []rowkey.Job{j.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveJob(f.Jobs[j.Key()], lifecycle.JobSignal)
		s = &pawl.Signal{Job: j.Key(), Seq: f.Jobs[j.Key()].Seq, Name: name, At: f.Now, Actor: "someone"}
		if data != "" {
			s.Data = json.RawMessage(data)
		}
		b.NewSignals = append(b.NewSignals, s)
	})
	return s
}

// signals returns the signals of jobs that no step has taken.
func (e *env) signals(jobs ...rowkey.Job) map[rowkey.Job][]*pawl.Signal {
	e.Helper()
	return e.see(&store.Query{Signals: jobs}).Signals
}

// take stores that the step of the job took the signal.
func (e *env) take(s *pawl.Signal, by pawl.Ord) error {
	return e.try(e.st, &store.Query{Jobs: []rowkey.Job{s.Job}}, func(_ *store.Facts, b *Batch) {
		taken := *s
		taken.Taken = by
		b.Taken = append(b.Taken, &taken)
	})
}

// signalOrder: by seq, with data, each job's own; none if there is none.
func signalOrder(e *env) {
	a, b := e.add(0, nil), e.add(0, nil)
	first := e.signal(a.job, "go", `{"a":"ü"}`)
	other := e.signal(b.job, "go", "")
	second := e.signal(a.job, "go", `null`)
	got := e.signals(a.key(), b.key(), 5)
	e.diff("of one", []*pawl.Signal{first, second}, got[a.key()])
	e.diff("of the other", []*pawl.Signal{other}, got[b.key()])
	if len(got[5]) != 0 {
		e.Errorf("signals %v of a job that is not there", got[5])
	}
	view, err := e.st.Signals(e.ctx, a.key())
	e.ok(err)
	e.diff("view", bare(first, second), view)
	view, err = e.st.Signals(e.ctx, 5)
	e.ok(err)
	if len(view) != 0 {
		e.Errorf("view of a job that is not there: %v", view)
	}
}

// signalTaken: a taken signal is no longer returned, and kept with its data.
func signalTaken(e *env) {
	m := e.add(1, nil)
	first, second, third := e.signal(m.job, "a", `1`), e.signal(m.job, "b", `2`), e.signal(m.job, "c", `3`)
	e.ok(e.take(second, m.steps[0].Ord))
	e.diff("left", []*pawl.Signal{first, third}, e.signals(m.key())[m.key()])
	view, err := e.st.Signals(e.ctx, m.key())
	e.ok(err)
	e.diff("view", bare(first, third), view)
	e.diff("stored", [][]string{{decimal(int64(m.steps[0].Ord)), "2"}}, e.sql("select taken, data from signal where name = 'b'"))
}

func signalLimit(e *env) {
	m := e.add(0, nil)
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		for i := range store.MaxSignals + 2 {
			b.NewSignals = append(b.NewSignals, &pawl.Signal{Job: m.key(), Seq: int64(i + 1), Name: "s", At: f.Now})
		}
	})
	first := e.signals(m.key())[m.key()]
	view, err := e.st.Signals(e.ctx, m.key())
	e.ok(err)
	e.diff("view", first, view)
	if len(first) != store.MaxSignals || first[0].Seq != 1 {
		e.Fatalf("%d signals, want the first %d", len(first), store.MaxSignals)
	}
	e.ok(e.take(first[0], 1))
	next := e.signals(m.key())[m.key()]
	e.diff("next", first[1:], next[:store.MaxSignals-1])
}

// signalSizes: the number and the size of the signals that no step has taken.
func signalSizes(e *env) {
	m, none := e.add(0, nil), e.add(0, nil)
	for _, data := range []string{"", `"ü"`, `12345`} {
		e.signal(m.job, "go", data)
	}
	e.ok(e.take(e.signal(m.job, "go", `1`), 1))
	got := e.see(&store.Query{Untaken: []rowkey.Job{m.key(), none.key(), m.key()}}).Untaken
	if got[m.key()] != (store.Untaken{Count: 3, Bytes: 9}) || got[none.key()] != (store.Untaken{}) {
		e.Errorf("untaken %+v, want 3 of 9 bytes, and none", got)
	}
}

// bare returns signals as the view has them, without data.
func bare(signals ...*pawl.Signal) (list []*pawl.Signal) {
	for _, s := range signals {
		b := *s
		b.Data = nil
		list = append(list, &b)
	}
	return list
}

// signalStale: a signal is recorded once, and taken by one step.
func signalStale(e *env) {
	m := e.add(0, nil)
	s := e.signal(m.job, "go", `1`)
	again := *s
	again.Name = "other"
	err := e.try(e.st, &store.Query{}, func(_ *store.Facts, b *Batch) { b.NewSignals = append(b.NewSignals, &again) })
	if !errors.Is(err, store.ErrStale) {
		e.Errorf("the same signal again: error %v, want ErrStale", err)
	}
	e.ok(e.take(s, 1))
	if err := e.take(s, 2); !errors.Is(err, store.ErrStale) {
		e.Errorf("take a signal that is taken: error %v, want ErrStale", err)
	}
	gone := *s
	gone.Seq = 99
	if err := e.take(&gone, 2); !errors.Is(err, store.ErrStale) {
		e.Errorf("take a signal that is not there: error %v, want ErrStale", err)
	}
	e.diff("stored", [][]string{{"go", "1"}}, e.sql("select name, taken from signal"))
}
