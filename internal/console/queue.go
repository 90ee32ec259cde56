package console

import (
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// QueueRows returns the rows of a list of queues.
func QueueRows(queues []pawl.QueueView, zone *time.Location) [][]string {
	rows := [][]string{{"NAME", "DEPTH", "OLDEST", "RUNNING", "LIMIT", "WORKERS", "PAUSED"}}
	for _, q := range queues {
		limit, paused := "-", "-"
		if q.Limit != nil {
			limit = strconv.Itoa(*q.Limit)
		}
		if p := q.Paused; p != nil {
			paused = "since " + Second(p.At, zone) + " by " + p.Actor
			if p.Reason != "" {
				paused += ": " + p.Reason
			}
		}
		rows = append(rows, []string{q.Name, strconv.Itoa(q.Depth), Second(q.Oldest, zone), strconv.Itoa(q.Running), limit, strconv.Itoa(q.Workers), paused})
	}
	return rows
}
