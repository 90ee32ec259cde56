package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// payloadPages: the payload read for verification is bounded in bytes as well as in rows, and
// nothing is skipped at the end of a page.
func payloadPages(e *env) {
	const many, length = 7, 1 << 20
	var bodies [many][]byte
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", length))
	}
	body := func(i int) []byte { return bodies[i] }
	m := e.add(many, func(m made, b *Batch) {
		for i, s := range m.steps {
			s.Output = body(i)
			b.NewSignals = append(b.NewSignals, &pawl.Signal{Job: m.key(), Seq: int64(i + 1), Name: "s", Data: body(i), At: 1})
		}
	})
	keys := []pawl.StepKey{{Job: m.key(), Ord: pawl.MakeOrd(many+1, 0)}} // does not exist
	for _, s := range m.steps {
		keys = append(keys, s.StepKey)
	}
	got := map[int][]byte{}
	for rest := keys; len(rest) > 0; {
		found, through, err := e.st.Payloads(e.ctx, lifecycle.Step.Name, rest)
		e.ok(err)
		if through < 1 || len(found) > store.PayloadPageBytes/length+1 {
			e.Fatalf("a page went through %d of %d keys, and has %d records", through, len(rest), len(found))
		}
		for k, p := range found {
			if !slices.Contains(rest[:through], k) {
				e.Fatalf("%v is behind the page", k)
			}
			got[k.Ord.Node()-1] = p.Bodies["output"]
		}
		rest = rest[through:]
	}
	signals, pages := map[int][]byte{}, 0
	for after, more := int64(0), true; more; pages++ {
		var data map[int64][]byte
		var err error
		data, more, err = e.st.SignalData(e.ctx, m.key(), after)
		e.ok(err)
		if len(data) > store.PayloadPageBytes/length+1 {
			e.Fatalf("a page has %d signals", len(data))
		}
		for seq, b := range data {
			signals[int(seq)-1] = b
		}
		after = slices.Max(slices.Collect(maps.Keys(data)))
	}
	want := map[int][]byte{}
	for i := range many {
		want[i] = body(i)
	}
	if !maps.EqualFunc(want, got, slices.Equal) || !maps.EqualFunc(want, signals, slices.Equal) || pages != 2 {
		e.Errorf("%d outputs and %d signals in %d pages, want %d of each, as they were written, in 2", len(got), len(signals), pages, many)
	}
}
