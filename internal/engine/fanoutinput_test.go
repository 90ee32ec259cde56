package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// TestFanOutInput: an instance reads the whole list, spelled as its step wrote it, and its own
// item, as expressions write values (T8).
func TestFanOutInput(t *testing.T) {
	tests := []struct {
		name, list string
		items      []string
	}{
		{"numbers", `[0,-0,1.0,1e2,1E+2,0.1]`, []string{`0`, `0`, `1`, `100`, `100`, `0.1`}},
		{"huge numbers", `[12345678901234567890123,9007199254740993,-9223372036854775808,1e308]`,
			[]string{`12345678901234567890123`, `9007199254740993`, `-9223372036854775808`, `1e+308`}},
		{"null", `[null,null]`, []string{`null`, `null`}},
		{"nested", `[[],[1,[2,[3,null]]],[[[]]]]`, []string{`[]`, `[1,[2,[3,null]]]`, `[[[]]]`}},
		{"objects", `[{},{"b":1,"a":{"c":[]}},{"":""}]`, []string{`{}`, `{"a":{"c":[]},"b":1}`, `{"":""}`}},
		{"duplicate keys", `[{"a":1,"a":2}]`, []string{`{"a":2}`}},
		{"texts", `["","<&>","é😀\ud83d\ude00","a\"b\\c\/"]`, []string{`""`, `"\u003c\u0026\u003e"`, `"é😀😀"`, `"a\"b\\c/"`}},
		{"white space", " [ 1 ,\n\t{ \"a\" : 2 } ] ", []string{`1`, `{"a":2}`}},
		{"none", `[]`, nil},
	}
	onStores(t, func(t *testing.T, open func() store.Store) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				var mu sync.Mutex
				got, want := map[string]string{}, map[string]string{}
				p := startProcess(t, open(), map[string]worker.Handler{
					"list": func(context.Context, *worker.Task) worker.Result {
						return worker.Result{Output: json.RawMessage(test.list)}
					},
					"read": func(_ context.Context, t *worker.Task) worker.Result {
						mu.Lock()
						defer mu.Unlock()
						got[t.Key] = string(t.Input())
						return worker.Result{}
					},
				})
				v := p.wait(p.submit(define(t, "name: fan\ninputs: {n: {type: number, default: 1.50}}\nsteps:\n  - {id: list, handler: list}\n"+
					"  - {id: each, handler: read, needs: [list], foreach: \"${{ steps.list.output }}\"}\n"), ""))
				if v.Status != lifecycle.JobCompleted {
					t.Fatalf("status %s, %v", v.Status, v.Error)
				}
				for i, item := range test.items {
					want[fmt.Sprintf("each[%d]", i)] = fmt.Sprintf(`{"inputs":{"n":1.5},"needs":{"list":%s},"item":%s,"index":%d}`, test.list, item, i)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		}
	})
}
