package storetest

import (
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var logTests = []test{
	{name: "Logs/Order", run: logOrder},
	{name: "Logs/Nothing", run: logNothing},
	{name: "T8/LogPageBytes", run: logPageBytes},
}

func chunk(ord pawl.Ord, claim int, stream string, offset, at int64, data string) pawl.Chunk {
	return pawl.Chunk{StepKey: pawl.StepKey{Job: 5, Ord: ord}, Claim: claim, Stream: stream, Offset: offset, At: at, Data: []byte(data)}
}

func (e *env) logs(job rowkey.Job, ord pawl.Ord) []pawl.Chunk {
	e.Helper()
	var all []pawl.Chunk
	for after := (store.LogPlace{}); ; {
		page, err := e.st.Logs(e.ctx, job, ord, after, 2)
		e.ok(err)
		if len(page) == 0 {
			return all
		}
		if len(page) > 2 {
			e.Errorf("%d chunks, want at most 2", len(page))
		}
		all, after = append(all, page...), store.PlaceOf(&page[len(page)-1])
	}
}

// logOrder: by ord, claim, time and offset; an older claim is kept.
func logOrder(e *env) {
	a := chunk(1, 1, "stdout", 0, 10, "a\n\x00")
	b := chunk(1, 1, "stderr", 0, 11, "b")
	c := chunk(1, 1, "stdout", 3, 12, "c")
	d := chunk(1, 1, "stdout", 4, 12, "")
	f := chunk(1, 2, "stdout", 0, 5, "f")
	g := chunk(2, 1, "stdout", 0, 1, "g")
	e.ok(e.st.AppendLogs(e.ctx, []pawl.Chunk{g, f, d}))
	e.ok(e.st.AppendLogs(e.ctx, []pawl.Chunk{c, b, a}))
	same := cmpopts.EquateEmpty()
	if diff := cmp.Diff([]pawl.Chunk{a, b, c, d, f, g}, e.logs(5, 0), same); diff != "" {
		e.Errorf("job (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]pawl.Chunk{g}, e.logs(5, 2), same); diff != "" {
		e.Errorf("step (-want +got):\n%s", diff)
	}
}

// logPageBytes: a page ends with the chunk that reaches PageBytes, and the rest follows.
func logPageBytes(e *env) {
	var all []pawl.Chunk
	for i := range 20 {
		all = append(all, chunk(pawl.Ord(1+i%2), 1, "stdout", int64(i), int64(i), strings.Repeat("x", store.PageBytes/4)))
	}
	e.ok(e.st.AppendLogs(e.ctx, all))
	page, err := e.st.Logs(e.ctx, 5, 0, store.LogPlace{}, 100)
	e.ok(err)
	if len(page) != 4 {
		e.Errorf("a page of %d chunks, want 4", len(page))
	}
	if n := len(e.logs(5, 0)); n != len(all) {
		e.Errorf("%d chunks, want %d", n, len(all))
	}
}

func logNothing(e *env) {
	e.ok(e.st.AppendLogs(e.ctx, nil))
	if chunks := e.logs(5, 0); len(chunks) != 0 {
		e.Errorf("%d chunks, want none", len(chunks))
	}
}
