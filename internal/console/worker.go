package console

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

func WorkerRows(workers []pawl.WorkerView, zone *time.Location) [][]string {
	rows := [][]string{{"ID", "NAME", "STATUS", "RUNS", "QUEUES", "SINCE", "REGISTERED"}}
	for i := range workers {
		w := &workers[i]
		rows = append(rows, []string{w.ID, w.Name, string(w.Status), runs(w), strings.Join(queuesOf(w), ","), Second(w.UpdatedAt, zone), Second(w.CreatedAt, zone)})
	}
	return rows
}

func runs(w *pawl.WorkerView) string { return strconv.Itoa(w.Running) + "/" + strconv.Itoa(w.Capacity) }

func queuesOf(w *pawl.WorkerView) []string {
	var queues []string
	for _, h := range w.Handlers {
		queue, _, _ := strings.Cut(h, "/")
		queues = append(queues, queue)
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

func Worker(w io.Writer, v *pawl.WorkerView, now time.Time, zone *time.Location) {
	last := pawl.Transition{}
	if n := len(v.StateHistory); n > 0 {
		last = v.StateHistory[n-1]
	}
	for _, fact := range [][2]string{
		{"worker", v.ID},
		{"name", v.Name},
		{"process", fmt.Sprintf("%d on %s", v.PID, v.Host)},
		{"workspace", v.Workspace},
		{"status", fmt.Sprintf("%s for %s, by %s", v.Status, elapsed(last.At, 0, now), last.Actor)},
		{"reason", last.Reason},
		{"runs", runs(v)},
		{"serves", strings.Join(v.Handlers, ", ")},
		{"registered", exactly(v.CreatedAt, zone)},
	} {
		if fact[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", fact[0], Printable(fact[1]))
		}
	}
}

// WorkerHistory lists the transitions of a worker.
func WorkerHistory(w io.Writer, json bool, zone *time.Location) *Listing[pawl.Transition] {
	row := func(m *pawl.Transition) []string {
		return []string{Stamp(m.At.Time(), zone), move(m), string(m.Event), m.Actor, m.Reason}
	}
	return &Listing[pawl.Transition]{W: w, JSON: json, Head: []string{"AT", "MOVE", "EVENT", "BY", "WHY"}, Row: row}
}
