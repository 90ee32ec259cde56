package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// export writes the entries as lines.
func export(t rapid.TB, entries []audit.Entry) string {
	t.Helper()
	var b bytes.Buffer
	if err := audit.WriteLines(&b, entries); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// K6: what is exported is read back as it was, metadata to the byte.
func TestK6ExportRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, entries := drawTrail(t, lifecycle.All())
		lines := strings.SplitAfter(export(t, entries), "\n")
		if len(lines) != len(entries)+1 {
			t.Fatalf("%d lines of %d entries", len(lines)-1, len(entries))
		}
		for i, want := range entries {
			var got audit.Entry
			if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
				t.Fatal(err)
			}
			if len(want.Metadata) == 0 {
				want.Metadata = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s(-want +got):\n%s", lines[i], diff)
			}
		}
	})
}

// K6: json.Marshal is exact too, indented or not, for canonical metadata.
func TestK6MarshalRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, entries := drawTrail(t, lifecycle.All())
		for i := range entries {
			var err error
			if entries[i].Metadata, err = audit.CanonicalMetadata(entries[i].Metadata); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.MarshalIndent(entries, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		var got []audit.Entry
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entries, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestCanonicalMetadata(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want, err string }{
		{"", "", ""},
		{" null ", "", ""},
		{"{}", "{}", ""},
		{" { \"b\" : 1,\n\"a\" : \"x y\" } ", `{"b":1,"a":"x y"}`, ""},
		{`{"a":"<&>"}`, `{"a":"\u003c\u0026\u003e"}`, ""},
		{`[1]`, "", "want a JSON object"},
		{`"x"`, "", "want a JSON object"},
		{`{"a":}`, "", "want a JSON object"},
		{`{} {}`, "", "want a JSON object"},
		{"{\"a\":\"\xff\"}", "", "valid UTF-8"},
	}
	for _, tt := range tests {
		got, err := audit.CanonicalMetadata([]byte(tt.in))
		if string(got) != tt.want || !says(err, tt.err) {
			t.Errorf("%q: got %q, %v; want %q, %q", tt.in, got, err, tt.want, tt.err)
		}
	}
}

// says reports whether err has the text in it; none means no error.
func says(err error, text string) bool {
	if err == nil || text == "" {
		return err == nil && text == ""
	}
	return strings.Contains(err.Error(), text)
}

// K6: what could not be verified afterwards is not exported.
func TestK6ExportRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func(*audit.Entry)
		want string
	}{
		{"metadata that is no JSON", func(e *audit.Entry) { e.Metadata = []byte("{") }, "want a JSON object"},
		{"metadata that is a list", func(e *audit.Entry) { e.Metadata = []byte("[]") }, "want a JSON object"},
		{"metadata that is null", func(e *audit.Entry) { e.Metadata = []byte("null") }, "want a JSON object"},
		{"metadata with white space", func(e *audit.Entry) { e.Metadata = []byte(`{"a": 1}`) }, "want compact JSON"},
		{"a reason that is not UTF-8", func(e *audit.Entry) { e.Reason = "\xff" }, "reason"},
		{"a state that is not UTF-8", func(e *audit.Entry) { e.From = "\xff" }, "from"},
		{"a time before year 0", func(e *audit.Entry) { e.At = -1 << 62 }, "years 0 to 9999"},
		{"a time after year 9999", func(e *audit.Entry) { e.At = 1 << 62 }, "years 0 to 9999"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			entries := jobTrail()
			tt.edit(&entries[2])
			var b bytes.Buffer
			err := audit.WriteLines(&b, entries)
			if !says(err, tt.want) || !says(err, `entry 3 of "`+jobID+`"`) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if n := strings.Count(b.String(), "\n"); n != 2 {
				t.Errorf("%d lines before it, want 2", n)
			}
			if _, err := json.Marshal(entries[2]); !says(err, tt.want) {
				t.Errorf("json.Marshal: error %v, want %q", err, tt.want)
			}
		})
	}
}

// K6: a line has one form; whatever else stands in it is refused.
func TestK6UnmarshalIsStrict(t *testing.T) {
	t.Parallel()
	good := strings.TrimSuffix(export(t, jobTrail()[1:2]), "\n")
	tests := []struct{ name, old, new, want string }{
		{"as it is", "", "", ""},
		{"white space", `,"actor":`, ` , "actor" : `, ""},
		{"no object", good, `[]`, "want a JSON object"},
		{"empty", good, ``, "want a JSON object"},
		{"null", good, `null`, "want a JSON object"},
		{"cut", `"}`, `"`, "the object does not end"},
		{"two objects", `"}`, `"}{}`, "after top-level value|something follows"},
		{"key missing", `"actor":"operator",`, ``, `key "actor" is missing`},
		{"key twice", `"actor":"operator"`, `"actor":"operator","actor":"operator"`, `key "actor" comes twice`},
		{"key unknown", `"actor":"operator"`, `"actor":"operator","note":1`, `key "note"`},
		{"key in the wrong case", `"actor"`, `"Actor"`, `key "Actor"`},
		{"text null", `"actor":"operator"`, `"actor":null`, "actor null: want a string"},
		{"text a number", `"to":"PENDING"`, `"to":1`, "to 1: want a string"},
		{"from empty", `"from":"SUBMITTED"`, `"from":""`, "or null for the creation"},
		{"sequence null", `"sequence":2`, `"sequence":null`, "want a whole number"},
		{"sequence a text", `"sequence":2`, `"sequence":"2"`, "want a whole number"},
		{"sequence a fraction", `"sequence":2`, `"sequence":2.0`, "want a whole number"},
		{"metadata a list", `{"try":1}`, `[]`, "want a JSON object"},
		{"metadata a text", `{"try":1}`, `"{}"`, "want a JSON object"},
		{"time in another zone", `456Z`, `456+00:00`, "RFC 3339"},
		{"time in milliseconds", `24456Z`, `24Z`, "RFC 3339"},
		{"time with a comma", `.124456Z`, `,124456Z`, "RFC 3339"},
		{"time in nanoseconds", `456Z`, `456000Z`, "RFC 3339"},
		{"no such day", `2025-11-21`, `2025-11-31`, "RFC 3339"},
		{"hash too short", `"}`, ``, "the object does not end|unexpected EOF"},
		{"hash empty", good[strings.Index(good, `"hash"`):], `"hash":""}`, "64 lower-case"},
		{"hash in upper case", good[strings.Index(good, `"hash"`):], `"hash":"` + strings.Repeat("AB", 32) + `"}`, "64 lower-case"},
		{"not UTF-8", "because", "\xff", "valid UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, tt.old, tt.new, 1)
			if tt.want != "" && text == good {
				t.Fatalf("%q is not in %s", tt.old, good)
			}
			e := audit.Entry{Reason: "before"}
			err := e.UnmarshalJSON([]byte(text))
			first, second, _ := strings.Cut(tt.want, "|")
			if !says(err, first) && (second == "" || !says(err, second)) {
				t.Errorf("%s: error %v, want %q", text, err, tt.want)
			}
			if err != nil && e.Reason != "before" {
				t.Error("the entry was changed")
			}
		})
	}
}

// threeTrails are the trails of a job, its step and a worker, as one list in the
// order of their times.
func threeTrails() []audit.Entry {
	job := jobTrail()
	step := trailOf(lifecycle.Step, "st_019373a1c4007abc8123000000200001", lifecycle.StepEnqueue, lifecycle.StepClaim, lifecycle.StepSuccess)
	worker := trailOf(lifecycle.Worker, "w_019373a1c4007abc8123000000200007", lifecycle.WorkerStartTask)
	var mixed []audit.Entry
	for i := range job {
		mixed = append(mixed, job[i])
		if i < len(step) {
			mixed = append(mixed, step[i])
		}
		if i < len(worker) {
			mixed = append(mixed, worker[i])
		}
	}
	return mixed
}

// K6: an export is verified without a database, trails mixed or not.
func TestK6VerifyLines(t *testing.T) {
	t.Parallel()
	entries := threeTrails()
	got, err := audit.VerifyLines(strings.NewReader(export(t, entries)))
	if err != nil {
		t.Fatal(err)
	}
	states := make(map[string]string)
	for entity, r := range got {
		states[entity] = fmt.Sprintf("%s after %d", r.State, r.Seq)
	}
	want := map[string]string{
		jobID:                                 "COMPLETED after 6",
		"st_019373a1c4007abc8123000000200001": "complete after 4",
		"w_019373a1c4007abc8123000000200007":  "RUNNING after 2",
	}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := entries[len(entries)-1]; got[jobID].Head != last.Hash {
		t.Errorf("head %x, want %x", got[jobID].Head, last.Hash)
	}
}

// K6: the first line that breaks is named, with the row of its entity.
func TestK6VerifyLinesFindsFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func([]string) []string
		want string
	}{
		{"nothing", func(l []string) []string { return nil }, ""},
		{"no line feed at the end", func(l []string) []string { l[5] = strings.TrimSuffix(l[5], "\n"); return l }, ""},
		{"reason edited", func(l []string) []string { l[2] = strings.Replace(l[2], "because", "becausf", 1); return l }, "line 3: " + jobID + ": entry 3: hash: "},
		{"line deleted", func(l []string) []string { return append(l[:1], l[2:]...) }, "line 2: " + jobID + ": entry 2: gap: "},
		{"line twice", func(l []string) []string { return append(l, l[5]) }, "line 7: " + jobID + ": entry 6: order: "},
		{"empty line", func(l []string) []string { l[3] = "\n" + l[3]; return l }, "line 4: entry: want a JSON object"},
		{"cut within a line", func(l []string) []string { l[5] = l[5][:80]; return l }, "line 6: entry: "},
		{"prefix unknown", func(l []string) []string { l[0] = strings.Replace(l[0], "j_", "x_", 1); return l }, "line 1: x_019373a1c4007abc8123000000200001: entry 1: entity: "},
		{"machine of another prefix", func(l []string) []string { l[0] = strings.Replace(l[0], "j_", "w_", 1); return l }, "line 1: w_019373a1c4007abc8123000000200001: entry 1: hash: "},
		{"line too long", func(l []string) []string { l[1] = strings.Repeat(" ", audit.MaxLine) + l[1]; return l }, "line 2: longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lines := strings.SplitAfter(export(t, jobTrail()), "\n")
			_, err := audit.VerifyLines(strings.NewReader(strings.Join(tt.edit(lines[:6]), "")))
			if !says(err, tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			var f *audit.Fault
			if isFault := strings.Contains(tt.want, "_"); isFault != errors.As(err, &f) {
				t.Errorf("error %v: a fault %v, want %v", err, !isFault, isFault)
			}
		})
	}
}

// K6: an export with any byte changed fails, unless the change means nothing: an
// escape or white space, read back as the same entries. What follows the last
// line is not the file's to know, so a cut between lines is another test.
func TestK6AnyChangedByteOfAnExportIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, entries := drawTrail(t, exported())
		good := export(t, entries)
		bad := flip(t, good)
		got, err := audit.VerifyLines(strings.NewReader(bad))
		if err != nil {
			return
		}
		want, err := audit.VerifyLines(strings.NewReader(good))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("not found in %s(-want +got):\n%s", bad, diff)
		}
	})
}

// A reader that fails is not a file that is in order.
func TestVerifyLinesReportsTheReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk is gone")
	lines := export(t, jobTrail())
	got, err := audit.VerifyLines(&failing{strings.NewReader(lines), broken})
	if !errors.Is(err, broken) || got[jobID].Seq != 6 {
		t.Errorf("got %+v, %v", got, err)
	}
}

type failing struct {
	text *strings.Reader
	err  error
}

func (f *failing) Read(b []byte) (int, error) {
	if f.text.Len() == 0 {
		return 0, f.err
	}
	return f.text.Read(b)
}

// FuzzUnmarshal: whatever is read can be written, and is read back alike.
func FuzzUnmarshal(f *testing.F) {
	var b bytes.Buffer
	if err := audit.WriteLines(&b, threeTrails()); err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var e, again audit.Entry
		if e.UnmarshalJSON(text) != nil {
			return
		}
		line := export(t, []audit.Entry{e})
		if err := again.UnmarshalJSON([]byte(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatalf("%s(-want +got):\n%s", line, diff)
		}
	})
}
