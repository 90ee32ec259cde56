package postgres

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var (
	readTurns = &statement{"read_turns", "select worker, turn, tries from remote where worker = any($1::bigint[]) order by worker for update"}
	setTurns  = &statement{"set_turns", `insert into remote (worker, turn, tries) select * from unnest($1::bigint[], $2::bigint[], $3::bigint[])
on conflict (worker) do update set turn = excluded.turn, tries = excluded.tries`}
)

func (r *reading) queueTurns(p *pipe) {
	if len(r.q.Turns) == 0 {
		return
	}
	p.add(readTurns, func(c *cursor) {
		worker := rowkey.Worker(c.num())
		r.Turns[worker] = store.Turn{Number: c.num(), Tries: c.num()}
	}, nums(r.q.Turns))
}

func (w *writing) turns(set map[rowkey.Worker]store.Turn) {
	if len(set) == 0 {
		return
	}
	workers := slices.Sorted(maps.Keys(set))
	numbers, tries := make([]int64, len(workers)), make([]int64, len(workers))
	for i, worker := range workers {
		numbers[i], tries[i] = set[worker].Number, set[worker].Tries
	}
	w.add(setTurns, nums(workers), nums(numbers), nums(tries))
}
