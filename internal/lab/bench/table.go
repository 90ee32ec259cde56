package bench

import (
	"fmt"
	"strconv"
)

// ResultRows are the rows of a table of results, with the budget as the last.
func ResultRows(results []Result) [][]string {
	rows := [][]string{{"STORE", "WORKLOAD", "JOBS/S", "STEPS/S", "P50 MS", "P99 MS", "P99.9 MS", "COMMITS/JOB", "ROLLBACKS", "INSERTS", "UPDATES", "AUDIT", "WAL KB", "WRITTEN KB", "DEAD", "INDEXED", "ALLOC KB", "CLIENT CPU µS", "SERVER CPU µS"}}
	for _, r := range results {
		c := r.PerJob
		rows = append(rows, []string{r.Store, r.Workload, figure(0, r.JobRate), figure(0, r.StepRate), figure(2, float64(r.P50)), figure(2, float64(r.P99)), figure(2, float64(r.P999)),
			figure(3, c.Commits), figure(3, c.Rollbacks), figure(1, c.Inserts), figure(1, c.Updates), figure(1, c.Audit),
			figure(1, c.WAL/1000), figure(1, c.Written/1000), figure(1, c.Dead), figure(1, c.Indexed), figure(1, c.Allocated/1000), figure(0, c.ClientCPU), figure(0, c.ServerCPU)})
	}
	most := Budget
	return append(rows, []string{"budget", "a no-op job", "", "", "", "", "", fmt.Sprintf("%.0f, not shared", most.Commits), "",
		figure(1, most.Inserts), figure(1, most.Updates), figure(1, most.Audit), "", "", "", "", "", "", ""})
}

// TransitionRows are the rows of a table of transitions.
func TransitionRows(list []Transitions) [][]string {
	rows := [][]string{{"TRANSITIONS", "ENGINE/S", fmt.Sprintf("BARE DATABASE/S, BATCHES OF %d", BareBatch), "RATIO", "AIM"}}
	for _, t := range list {
		rows = append(rows, []string{t.Store, figure(0, t.Engine), figure(0, t.Bare), figure(2, t.Ratio), "at least " + figure(2, t.Aim)})
	}
	return rows
}

// figure writes a number for a table, and nothing as -.
func figure(decimals int, v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
