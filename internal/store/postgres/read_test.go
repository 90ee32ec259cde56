package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestNothingIsSentForWhatIsNotAsked: each part of a query is a statement or two,
// in the order of the locks, and no other.
func TestNothingIsSentForWhatIsNotAsked(t *testing.T) {
	t.Parallel()
	job, worker, schedule := []rowkey.Job{1}, []rowkey.Worker{1}, []rowkey.Schedule{1}
	steps := []pawl.StepKey{{Job: 1, Ord: 1}}
	pools := []store.Pool{{Kind: store.PoolJobs, Key: 1}}
	keys := []store.IdempotencyKey{{Workspace: "w", Key: "k"}}
	names := []pawl.WorkflowName{{Workspace: "w", Name: "n"}}
	scheduled := []pawl.ScheduleName{{Workspace: "w", Name: "n"}}
	claims := []store.ClaimQuery{{Routes: []rowkey.Route{1}, Limit: 1}}
	tests := map[string]struct {
		q    store.Query
		want []*statement
	}{
		"nothing":   {store.Query{}, nil},
		"pools":     {store.Query{Pools: pools}, []*statement{lockPools, countPools}},
		"keys":      {store.Query{Keys: keys}, []*statement{limitWait, takeKeys, waitOn, readKeys}},
		"names":     {store.Query{Names: names}, []*statement{readVersions}},
		"schedules": {store.Query{Schedules: schedule}, []*statement{readSchedules}},
		"scheduled": {store.Query{Scheduled: scheduled}, []*statement{readSchedules}},
		"workers":   {store.Query{Workers: worker}, []*statement{readWorkers}},
		"turns":     {store.Query{Turns: worker}, []*statement{readTurns}},
		"jobs":      {store.Query{Jobs: job}, []*statement{readJobs}},
		"signals":   {store.Query{Signals: job}, []*statement{readSignals}},
		"steps":     {store.Query{Steps: steps}, []*statement{readNamed}},
		"nodes":     {store.Query{Nodes: job}, []*statement{readSteps}},
		"claims":    {store.Query{Claims: claims}, []*statement{claimOne}},
		"all": {
			store.Query{
				Keys: keys, Pools: pools, Names: names, Schedules: schedule, Scheduled: scheduled, Workers: worker, Turns: worker, Jobs: job, Steps: steps,
				Signals: job, Waiting: []store.JobLimit{{Job: 1, Limit: 1}}, Open: job, Nodes: job, Held: worker, Claims: claims,
			},
			[]*statement{lockPools, countPools, limitWait, takeKeys, waitOn, readKeys, readSchedules, readWorkers, readTurns, readJobs, readSignals, readVersions, readSteps, claimOne},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pipe
			r := newReading(&tt.q)
			r.claimCursor = new(lookback).claimCursor
			r.queue(&p)
			want := []string{begin.name}
			for _, s := range tt.want {
				want = append(want, s.name)
			}
			var got []string
			for _, c := range p.calls {
				got = append(got, c.statement.name)
			}
			if diff := cmp.Diff(append(want, now.name), got); diff != "" {
				t.Errorf("statements (-want +got):\n%s", diff)
			}
		})
	}
}
