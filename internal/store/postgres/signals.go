package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var (
	readSignals = &statement{"read_signals", "select " + names("s", signalColumns) + ` from
  (select distinct unnest($1::bigint[]) as job) u cross join lateral
  (select * from signal t where t.job = u.job and t.taken = 0 order by seq limit $2::bigint) s`}
	countSignals = &statement{"count_signals", `select u.job, count(*), coalesce(sum(octet_length(t.data)), 0) from
  (select distinct unnest($1::bigint[]) as job) u cross join lateral
  (select data from signal t where t.job = u.job and t.taken = 0 order by seq limit $2::bigint) t group by u.job`}
	newSignals = &statement{"new_signals", insert("signal", signalColumns, "")}
	// A signal that is already taken causes ErrStale.
	setTaken = &statement{"set_taken", exactly(4, "update signal t set taken = u.taken from "+found("signal", takenColumns, takenColumns[:2], "k.taken = 0"))}

	takenColumns = columns("bigint job, bigint seq, bigint taken")
)

const readUntaken = "select job, seq, name, null::text, at, actor, taken from signal where job = $1 and taken = 0 order by seq limit $2"

func (c *cursor) signal() *pawl.Signal {
	return &pawl.Signal{
		Job: rowkey.Job(c.num()), Seq: c.num(), Name: c.text(), Data: c.body(), At: c.num(), Actor: c.text(), Taken: pawl.Ord(c.num()),
	}
}

func (r *reading) signal(c *cursor) {
	if s := c.signal(); c.err == nil {
		r.Signals[s.Job] = append(r.Signals[s.Job], s)
	}
}

func (w *writing) signals(ch *store.Changes) {
	r := collect(signalColumns, len(ch.NewSignals))
	for _, s := range ch.NewSignals {
		r.num(int64(s.Job))
		r.num(s.Seq)
		r.text(s.Name)
		r.body(s.Data)
		r.num(s.At)
		r.text(s.Actor)
		r.num(int64(s.Taken))
	}
	w.addRows(newSignals, r)
	if len(ch.Taken) > 0 {
		r := collect(takenColumns, len(ch.Taken))
		for _, s := range ch.Taken {
			r.num(int64(s.Job))
			r.num(s.Seq)
			r.num(int64(s.Taken))
		}
		w.add(setTaken, append(r.params(), num(int64(len(ch.Taken))))...)
	}
}

// Signals reads the signals of a job that no step has taken, by seq, without data.
func (db *DB) Signals(ctx context.Context, job rowkey.Job) ([]*pawl.Signal, error) {
	var list []*pawl.Signal
	err := db.query(ctx, "read signals", readUntaken, func(c *cursor) {
		if s := c.signal(); c.err == nil {
			list = append(list, s)
		}
	}, int64(job), store.MaxSignals)
	return list, err
}
