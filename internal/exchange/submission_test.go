package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

var batches = []string{
	`{"jobs":[{}]}`, "{ \"request_id\" : \"b\" , \"jobs\" : [ { \"workflow\" : \"a\" } , { } ] }\n",
	`{"jobs":[{"workspace_id":"w","definition":{"a":1},"inputs":{"x":1},"metadata":{"m":[1]}},{"workspace_id":"w","definition":{"a":1},"inputs":{"x":1},"metadata":{"m":[1]}},{"definition":{"a":1,"b":2}},{"definition":{"a":12}}]}`,
	`{"jobs":[{"request_id":"r","source":"name: a\n","task_description":"ä","priority":-1000,"parent_job_id":"j_1","depth":5,"worker_count":10,"traceparent":"00"},{"inputs":null,"definition":1},{"inputs":"x","definition":12}]}`,
}

// oddBatches are batches that are read slowly: wrong ones, and unusual ones.
var oddBatches = []string{
	``, `null`, `{}`, `[]`, `{"jobs":[]}`, `{"jobs":null}`, `{"jobs":[null]}`, `{"jobs":[{}],"jobs":[{}]}`, `{"jobs":[{}]}{}`, `{"jobs":[{}],"new":1}`, `{"jobs":[{"new":1}]}`,
	`{"jobs":[{"priority":1001}]}`, `{"jobs":[{"priority":-1001}]}`, `{"jobs":[{"priority":1.5}]}`, `{"jobs":[{"priority":- 5}]}`, "{\"jobs\":[{\"priority\":- \n5}]}", `{"jobs":[{"priority":--5}]}`, `{"jobs":[{"priority":-`, `{"jobs":[{"priority":"1"}]}`, `{"jobs":[{"depth":6}]}`, `{"jobs":[{"depth":-1}]}`, `{"jobs":[{"worker_count":0}]}`, `{"jobs":[{"worker_count":11}]}`,
	`{"jobs":[{"workflow":1}]}`, `{"jobs":[{"workflow":null}]}`, `{"jobs":[{"inputs":{"a":1,"a":2}}]}`, `{"jobs":[{"inputs":}]}`, "{\"jobs\":[{\"workflow\":\"\xff\"}]}",
	`{"jobs":[{"definition":{"a":1}},{"definition":{"a":1}2}]}`, `{"jobs":[{"definition":{"a":1}},{"definition":{"a":1}}}]}`,
	`{"jobs":[` + strings.Repeat(`{},`, MaxBatch) + `{}]}`, `{"jobs":[{"metadata":{"a":"` + strings.Repeat("a", maxMetadata) + `"}}]}`,
	`{"request_id":"` + strings.Repeat("r", 256) + `","jobs":[{}]}`, `{"jobs":[{"workspace_id":"` + strings.Repeat("w", 129) + `"}]}`, `{"jobs":[{"task_description":"` + strings.Repeat("d", 4097) + `"}]}`,
}

// TestQuickBatches: usual batches are read quickly, and others not at all.
func TestQuickBatches(t *testing.T) {
	t.Parallel()
	for _, text := range batches {
		if QuickBatch([]byte(text)) == nil {
			t.Errorf("%s is odd", text)
		}
	}
	for _, text := range oddBatches {
		if b := QuickBatch([]byte(text)); b != nil {
			t.Errorf("%.200s was read: %+v", text, b)
		}
	}
	full := `{"jobs":[` + strings.Repeat(`{},`, MaxBatch-1) + `{}]}`
	if b := QuickBatch([]byte(full)); b == nil || len(b.Jobs) != MaxBatch {
		t.Errorf("a full batch is odd")
	}
}

// sameBatch fails unless a batch is odd, or encoding/json reads the same from it; and a submission
// likewise.
func sameBatch(t rapid.TB, text []byte) {
	same(t, text, QuickBatch(text), new(Batch))
	same(t, text, QuickSubmission(text), new(Submission))
}

func same[T any](t rapid.TB, text []byte, got, want *T) {
	if got == nil {
		return
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(want); err != nil || !json.Valid(text) {
		t.Fatalf("%s: %v", text, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-encoding/json +quick)\n%s", text, diff)
	}
}

// FuzzQuickBatch: what is read quickly is read as encoding/json reads it.
func FuzzQuickBatch(f *testing.F) {
	for _, text := range append(batches, oddBatches...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameBatch(t, text) })
}

// TestChangedBatches: the same of batches with a few changed bytes.
func TestChangedBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { sameBatch(t, changed(t, []byte(rapid.SampledFrom(batches).Draw(t, "batch")))) })
}

// drawnSubmission draws a submission.
func drawnSubmission(t *rapid.T) Submission {
	text := rapid.OneOf(rapid.StringMatching(`[a-z_0-9]{0,8}`), rapid.String())
	value := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":[1,2.5,"<b>"],"b":{}}`), json.RawMessage(`null`), json.RawMessage(`{}`)})
	s := Submission{RequestID: text.Draw(t, "key"), Workspace: text.Draw(t, "workspace"), Workflow: text.Draw(t, "workflow"), Source: text.Draw(t, "source"), Definition: value.Draw(t, "definition"),
		Inputs: value.Draw(t, "inputs"), Description: text.Draw(t, "description"), Priority: rapid.IntRange(-1000, 1000).Draw(t, "priority"), Parent: text.Draw(t, "parent"),
		WorkerCount: rapid.IntRange(0, 10).Draw(t, "workers"), Metadata: value.Draw(t, "metadata"), Traceparent: text.Draw(t, "trace")}
	if rapid.Bool().Draw(t, "deep") {
		depth := rapid.IntRange(0, 5).Draw(t, "depth")
		s.Depth = &depth
	}
	return s
}

// TestWrittenBatches: a batch is written as encoding/json writes it, and read back.
func TestWrittenBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &Batch{RequestID: rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "key"), Jobs: rapid.SliceOfN(rapid.Custom(drawnSubmission), 1, 3).Draw(t, "jobs")}
		for _, v := range []interface {
			Written() bool
			AppendJSON([]byte) []byte
		}{b, &b.Jobs[0]} {
			var want bytes.Buffer
			e := json.NewEncoder(&want)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil || !v.Written() {
				t.Fatalf("%v, written %t", err, v.Written())
			}
			text := append(v.AppendJSON(nil), '\n')
			if diff := cmp.Diff(want.String(), string(text)); diff != "" {
				t.Fatalf("-encoding/json +AppendJSON\n%s", diff)
			}
			sameBatch(t, text)
		}
	})
}

// TestUnwritten: what is no JSON is not written, wherever it stands.
func TestUnwritten(t *testing.T) {
	t.Parallel()
	good, bad := json.RawMessage(`{}`), json.RawMessage(`{`)
	for i, s := range []Submission{{Definition: bad}, {Inputs: bad}, {Metadata: bad}} {
		b := Batch{Jobs: []Submission{{Definition: good, Inputs: good, Metadata: good}, s}}
		if s.Written() || b.Written() {
			t.Errorf("%d is written", i)
		}
	}
}

// TestReceipts: receipts are written as encoding/json writes them, and those of new jobs are read back,
// alone and in the response to a batch.
func TestReceipts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a-z_0-9]{0,8}`), rapid.String())
		at := rapid.SampledFrom([]pawl.Timestamp{0, 1, 1_700_000_000_123_456})
		draw := rapid.Custom(func(t *rapid.T) *pawl.Receipt {
			r := &pawl.Receipt{ID: text.Draw(t, "id"), Status: machine.State(text.Draw(t, "status")), To: machine.State(text.Draw(t, "to")), Sequence: rapid.Int64Range(0, 9).Draw(t, "sequence"), At: at.Draw(t, "at"), Actor: text.Draw(t, "actor")}
			if from := machine.State(text.Draw(t, "from")); from != "" {
				r.From = &from
			}
			return r
		})
		list := rapid.SliceOfN(draw, 1, 3).Draw(t, "receipts")
		whole := []byte(`{"items":[{"problem":{"code":"X"}}`)
		for _, r := range list {
			var want bytes.Buffer
			e := json.NewEncoder(&want)
			e.SetEscapeHTML(false)
			if err := e.Encode(r); err != nil {
				t.Fatal(err)
			}
			got := AppendReceipt(nil, r)
			if diff := cmp.Diff(want.String(), string(got)+"\n"); diff != "" {
				t.Fatalf("-encoding/json +AppendReceipt\n%s", diff)
			}
			if back := QuickReceipt(got); back != nil && cmp.Diff(r, back, cmpopts.EquateEmpty()) != "" {
				t.Fatalf("%s was read as %+v", got, back)
			}
			whole = append(fmt.Appendf(whole, `,{"receipt":%s`, got), '}')
		}
		whole = append(whole, "]}"...)
		for _, text := range [][]byte{whole, changed(t, whole)} {
			if got := QuickOutcomes(text); got != nil {
				same(t, text, got, new(Outcomes))
			}
		}
	})
	if QuickReceipt([]byte(`{"id":"j_1","status":"PENDING","from_state":null,"to_state":"PENDING","sequence":2,"timestamp":"2026-01-02T03:04:05.000006Z","actor":"ada"}`)) == nil ||
		QuickOutcomes([]byte(`{"items":[{"receipt":{"id":"j_1","status":"PENDING","from_state":null,"to_state":"PENDING","sequence":2,"timestamp":"2026-01-02T03:04:05.000006Z","actor":"ada"}}]}`)) == nil {
		t.Error("a usual receipt is odd")
	}
	if r := QuickReceipt([]byte(`{"timestamp":""}`)); r != nil {
		t.Errorf("a receipt with an empty time was read: %+v", r)
	}
}
