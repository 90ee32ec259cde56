package explain

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// TestPagesOfAHistory: pages of any size, each read by itself, make up the whole history,
// with the states that its rows leave and how long these lasted; so do those of a log.
func TestPagesOfAHistory(t *testing.T) { // J4, K6
	t.Parallel()
	e := newBase(t)
	id := e.largeSteps(t, 3, 10)
	e.longHistory(t, id, 150, 10)
	var chunks []pawl.Chunk
	for i := range 120 {
		chunks = append(chunks, pawl.Chunk{StepKey: pawl.StepKey{Job: id.JobKey(), Ord: pawl.MakeOrd(1, 0)}, Claim: 1 + i%2,
			Stream: []string{"stdout", "stderr"}[i%2], Offset: int64(i), At: int64(i / 7), Data: fmt.Appendf(nil, "%04d", i)})
	}
	if err := e.db.AppendLogs(t.Context(), chunks); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"", "a", "a[1]"} {
		var history []pawl.Transition
		err := e.History(t.Context(), id, func(m pawl.Transition) error {
			if step == "" || m.Step == step {
				history = append(history, m)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 7, 100, 1000} {
			if step == "" && size == 1 {
				continue // each page reads what is before it in the store's own page
			}
			got := inPages(t, size, func(ctx context.Context, after string) ([]pawl.Transition, string, error) {
				return e.HistoryPage(ctx, id, pawl.HistoryQuery{Step: step, After: after, Limit: size})
			})
			if diff := cmp.Diff(history, got); diff != "" {
				t.Errorf("step %q in pages of %d: %s", step, size, diff)
			}
		}
	}
	for _, stream := range []string{"", "stderr"} {
		var log []pawl.LogLine
		err := e.Logs(t.Context(), id, "", func(l pawl.LogLine) error {
			if stream == "" || l.Stream == stream {
				log = append(log, l)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got := inPages(t, 7, func(ctx context.Context, after string) ([]pawl.LogLine, string, error) {
			return e.LogPage(ctx, id, pawl.LogQuery{Stream: stream, After: after, Limit: 7})
		})
		if diff := cmp.Diff(log, got); diff != "" {
			t.Errorf("stream %q: %s", stream, diff)
		}
	}
}

// inPages returns the rows of all pages, none of which is larger than size.
func inPages[T any](t *testing.T, size int, page func(context.Context, string) ([]T, string, error)) (all []T) {
	t.Helper()
	for after := ""; ; {
		rows, next, err := page(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) > size {
			t.Fatalf("a page has %d rows; want at most %d", len(rows), size)
		}
		all = append(all, rows...)
		if next == "" {
			return all
		}
		after = next
	}
}

// TestPlacesOfPages: what is no place of the list, and a limit out of range, is refused.
func TestPlacesOfPages(t *testing.T) { // J4
	t.Parallel()
	e := newBase(t)
	id := e.largeSteps(t, 1, 0)
	for _, after := range []string{"x", "1.2.3", "1.2.3.4.5.6.7.8", "1.2.3.4.5.6.x", " 1.2.3.4.5.6.7"} {
		if _, _, err := e.HistoryPage(t.Context(), id, pawl.HistoryQuery{After: after}); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("history after %q: %v; want an error of kind Invalid", after, err)
		}
	}
	for _, after := range []string{"x", "1.2.3.4", " 1.2.3.4.stdout"} {
		if _, _, err := e.LogPage(t.Context(), id, pawl.LogQuery{After: after}); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("log after %q: %v; want an error of kind Invalid", after, err)
		}
	}
	if _, _, err := e.HistoryPage(t.Context(), id, pawl.HistoryQuery{Limit: 1001}); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("limit 1001: %v; want an error of kind Invalid", err)
	}
	if _, _, err := e.HistoryPage(t.Context(), id, pawl.HistoryQuery{Step: "none"}); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("a step that is not in the workflow: %v; want an error of kind NotFound", err)
	}
}
