package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
)

// errFull ends the reading of a page.
var errFull = errors.New("the page is full")

// pageLook is how many entries or chunks one page looks at: it may be short, though there
// are more that match.
const pageLook = 20_000

// defaultPage and maxPage bound the rows of a page.
const (
	defaultPage = 50
	maxPage     = 1000
)

func pageLimit(limit int) (int, error) {
	if limit < 0 || limit > maxPage {
		return 0, pawl.Errorf(pawl.Invalid, "limit: %d: want 1 to %d", limit, maxPage)
	}
	return cmp.Or(limit, defaultPage), nil
}

// A historyPlace is the place at which a page of a job's history has ended.
type historyPlace struct {
	from  store.HistoryPlace // where the reading of entries begins
	ord   pawl.Ord           // the last entry that was passed, if it is behind from
	seq   int64
	after store.RefusalPlace // the last refused fact that was passed
}

func (p historyPlace) String() string {
	return fmt.Sprintf("%d.%d.%d.%d.%d.%d.%d", p.from.At, p.from.Ord, p.from.Seq, p.ord, p.seq, p.after.At, p.after.ID)
}

func parseHistoryPlace(text string) (p historyPlace, err error) {
	if text == "" {
		return p, nil
	}
	if _, err := fmt.Sscanf(text, "%d.%d.%d.%d.%d.%d.%d", &p.from.At, &p.from.Ord, &p.from.Seq, &p.ord, &p.seq, &p.after.At, &p.after.ID); err != nil || p.String() != text {
		return p, noPlace(text)
	}
	return p, nil
}

func noPlace(text string) error {
	return pawl.Errorf(pawl.Invalid, "place %q: want that at which a page of this list has ended", text)
}

// HistoryPage returns rows of what History passes, and the place behind which the next page
// begins: none is the end.
func (r *Reader) HistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	place, err := parseHistoryPlace(q.After)
	if err != nil {
		return nil, "", err
	}
	h, err := r.historyOf(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if q.Step != "" {
		if _, err := h.def.OrdOf(q.Step); err != nil {
			return nil, "", err
		}
	}
	h.after = place.after
	h.f = func(t pawl.Transition) error {
		if q.Step != "" && t.Step != q.Step {
			return nil
		}
		if len(rows) == limit {
			return errFull
		}
		rows = append(rows, t)
		return nil
	}
	rowsAtOnce := historyRows
	if q.Step != "" { // most rows are of others
		rowsAtOnce = store.TrailPageRows
	}
	err = h.page(ctx, &place, rowsAtOnce)
	switch {
	case err == nil:
		return rows, "", nil
	case errors.Is(err, errFull):
		place.after = h.after
		return rows, place.String(), nil
	}
	return nil, "", err
}

// page passes on what is behind a place, and moves the place, until f fails or much was
// looked at. The store scans all rows of the job for each reading of rowsAtOnce.
func (h *history) page(ctx context.Context, place *historyPlace, rowsAtOnce int) error {
	for looked := 0; ; {
		page, end, err := h.store.History(ctx, h.job.Key(), place.from, rowsAtOnce)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return h.refused(ctx, 0)
		}
		begin := 0
		for i := range page {
			if place.seq != 0 && page[i].Ord == place.ord && page[i].Sequence == place.seq {
				begin = i + 1
			}
		}
		for i := begin; i < len(page); i++ {
			if err := h.entry(ctx, &page[i]); err != nil {
				return err
			}
			place.ord, place.seq = page[i].Ord, page[i].Sequence
		}
		place.from, place.ord, place.seq = end, 0, 0
		if looked += len(page); looked >= pageLook {
			return errFull
		}
	}
}

// historyRows is how many rows are read at once: each has one entry or more.
const historyRows = 200

// recallRows is how many moves of an entity are read at once to learn its state.
const recallRows = 64

// recall learns the state that an entry leaves, and since when, if the history was not read
// from its beginning.
func (h *history) recall(ctx context.Context, e *store.Entry) error {
	if _, known := h.states[e.Ord]; known || e.Sequence <= 1 {
		return nil
	}
	k := store.StepEntity(pawl.StepKey{Job: h.job.Key(), Ord: e.Ord})
	var earlier []audit.Entry
	for first := e.Sequence - 1; first > 0; {
		count := min(first, recallRows)
		first -= count
		rows, err := h.store.Trail(ctx, k, first, int(count))
		if err != nil {
			return err
		}
		earlier = append(rows, earlier...)
		if slices.ContainsFunc(rows, func(e audit.Entry) bool { return e.From != e.To }) {
			break
		}
	}
	for i := range earlier {
		h.seen(&store.Entry{EntityKey: k, Entry: earlier[i]})
	}
	return nil
}

// LogPage returns pieces of what Logs passes, and the place behind which the next page
// begins: none is the end.
func (r *Reader) LogPage(ctx context.Context, id pawl.ID, q pawl.LogQuery) (lines []pawl.LogLine, next string, err error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	after, err := parseLogPlace(q.After)
	if err != nil {
		return nil, "", err
	}
	looked := 0
	end := after
	err = r.logs(ctx, id, q.Step, after, func(l pawl.LogLine, at store.LogPlace) error {
		if looked == pageLook {
			return errFull
		}
		looked++
		if q.Stream == "" || l.Stream == q.Stream {
			if len(lines) == limit {
				return errFull
			}
			lines = append(lines, l)
		}
		end = at
		return nil
	})
	switch {
	case err == nil:
		return lines, "", nil
	case errors.Is(err, errFull):
		return lines, logPlaceText(end), nil
	}
	return nil, "", err
}

// streams are the streams of logs.
var streams = []string{"stdout", "stderr", "pawl"}

func logPlaceText(p store.LogPlace) string {
	return fmt.Sprintf("%d.%d.%d.%d.%s", p.Ord, p.Claim, p.At, p.Offset, p.Stream)
}

func parseLogPlace(text string) (p store.LogPlace, err error) {
	if text == "" {
		return p, nil
	}
	_, err = fmt.Sscanf(text, "%d.%d.%d.%d.%s", &p.Ord, &p.Claim, &p.At, &p.Offset, &p.Stream)
	if err != nil || logPlaceText(p) != text || !slices.Contains(streams, p.Stream) {
		return p, noPlace(text)
	}
	return p, nil
}

// WorkerHistoryPage returns moves of a worker, and the place behind which the next page
// begins: none is the end.
func (r *Reader) WorkerHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if _, err := store.FindWorker(ctx, r.store, id); err != nil {
		return nil, "", err
	}
	rows, next, err := r.movesPage(ctx, store.WorkerEntity(id.WorkerKey()), q)
	for i := range rows {
		rows[i].Entity = ""
	}
	return rows, next, err
}

// ScheduleHistoryPage is WorkerHistoryPage for a schedule.
func (r *Reader) ScheduleHistoryPage(ctx context.Context, n pawl.ScheduleName, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	s, err := store.FindSchedule(ctx, r.store, n)
	if err != nil {
		return nil, "", err
	}
	return r.movesPage(ctx, store.ScheduleEntity(s.Key()), q)
}

// movesPage returns moves of one entity, and the sequence behind which the next page
// begins.
func (r *Reader) movesPage(ctx context.Context, k store.EntityKey, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	after := int64(0)
	if q.After != "" {
		if _, err := fmt.Sscanf(q.After, "%d", &after); err != nil || fmt.Sprint(after) != q.After || after < 0 {
			return nil, "", noPlace(q.After)
		}
	}
	page, err := r.store.Trail(ctx, k, after, limit)
	for i := range page {
		rows = append(rows, pawl.TransitionOf(&page[i]))
		next = fmt.Sprint(page[i].Sequence)
	}
	if len(page) < limit {
		next = ""
	}
	return rows, next, err
}
