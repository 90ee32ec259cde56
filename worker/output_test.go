package worker

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/workflow"
	"pgregory.net/rapid"
)

// (T8) what becomes of stdout.
func TestOutputModes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		mode   workflow.OutputMode
		stdout string
		want   string // the output, or CLASS: MESSAGE
	}{
		{"none", "none", "anything\n", `null`},
		{"none, and too much", "none", strings.Repeat("x", 200), `null`},
		{"text", "text", "one\ntwo\n", `"one\ntwo"`},
		{"text is the default", "", "one\n", `"one"`},
		{"one newline is cut", "text", "one\n\n", `"one\n"`},
		{"no newline", "text", "one", `"one"`},
		{"nothing", "text", "", `""`},
		{"no HTML escapes", "text", "<a&b>", `"<a&b>"`},
		{"not UTF-8", "text", "a\xff\xfeb", "\"a\uFFFDb\""},
		{"lines", "lines", "one\n\ntwo\n", `["one","","two"]`},
		{"no line", "lines", "", `[]`},
		{"an empty line", "lines", "\n", `[""]`},
		{"last line without newline", "lines", "one\ntwo", `["one","two"]`},
		{"lines not UTF-8", "lines", "a\xff\nb\n", "[\"a\uFFFD\",\"b\"]"},
		{"json", "json", "{ \"a\": [1, 12345678901234567890] }\n", `{"a":[1,12345678901234567890]}`},
		{"json not UTF-8", "json", "\"a\xff\"", "\"a\uFFFD\""},
		{"json null", "json", "null", `null`},
		{"json empty", "json", " \n", `invalid_output: stdout is empty; want one JSON value`},
		{"json broken", "json", "{\n  \"a\": nope\n}", `invalid_output: stdout is not JSON: line 2, column 9: invalid character 'o' in literal null (expecting 'u')`},
		{"json cut short", "json", "[1,", `invalid_output: stdout is not JSON: line 1, column 3: unexpected end of JSON input`},
		{"json twice", "json", "{}\n{}", `invalid_output: stdout is not JSON: line 2, column 1: invalid character '{' after top-level value`},
		{"text at the limit", "text", strings.Repeat("x", 98), `"` + strings.Repeat("x", 98) + `"`},
		{"text over the limit as JSON", "text", strings.Repeat("x", 99), tooMuch("stdout has 101 bytes as JSON")},
		{"text over the limit", "text", strings.Repeat("x", 101), tooMuch("stdout has 101 bytes")},
		{"lines over the limit as JSON", "lines", strings.Repeat("\n", 60), tooMuch("stdout has 181 bytes as JSON")},
		{"json over the limit", "json", strings.Repeat(" ", 99) + "{}", tooMuch("stdout has 101 bytes")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := capture{limit: 100}
			_, _ = c.Write([]byte(test.stdout))
			r, note := source{name: "stdout", bytes: c.buf, size: c.size, limit: 100}.output(test.mode)
			got := string(r.Output)
			if r.Failure != nil {
				got = r.Failure.Class + ": " + r.Failure.Message
				if !r.Failure.Permanent {
					t.Error("is retryable")
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if wantNote := strings.Contains(test.stdout, "\xff"); wantNote != strings.Contains(note, "not valid UTF-8") {
				t.Errorf("note %q", note)
			}
		})
	}
}

// tooMuch is what is said of an output that is too large.
func tooMuch(what string) string {
	return "output_too_large: " + what + ", and an output has at most 100: keep the data in a file and put out its path, or set `output: none` if nothing needs it"
}

// Lines are what strings.Split says, for any text.
func TestOutputLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("a\n\"<é"))).Draw(t, "text")
		want := []string{}
		if text != "" {
			want = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		}
		var got []string
		r, _ := source{bytes: []byte(text), limit: 1 << 20}.output(workflow.OutputLines)
		if err := json.Unmarshal(r.Output, &got); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q, error %v", text, got, want, err)
		}
	})
}

// (T8) what is written to PAWL_OUTPUT wins over stdout.
func TestOutputFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		mode         workflow.OutputMode
		want         string
	}{
		{"wins over text", `echo text; echo '{"a": 1}' >"$PAWL_OUTPUT"`, "text", `{"a":1}`},
		{"wins over none", `echo '[1]' >>"$PAWL_OUTPUT"`, "none", `[1]`},
		{"wins over too much", `head -c 200 /dev/zero; echo 1 >"$PAWL_OUTPUT"`, "text", `1`},
		{"empty is none", `echo text; : >"$PAWL_OUTPUT"`, "text", `"text"`},
		{"not JSON", `echo '{"a": ' >"$PAWL_OUTPUT"`, "text", "invalid_output: PAWL_OUTPUT is not JSON: line 1, column 7: unexpected end of JSON input"},
		{"blank", `echo >"$PAWL_OUTPUT"`, "text", "invalid_output: PAWL_OUTPUT is empty; want one JSON value"},
		{"too much", `head -c 101 /dev/zero >"$PAWL_OUTPUT"`, "text", "output_too_large: PAWL_OUTPUT has 101 bytes, and an output has at most 100: keep the data in a file and put out its path, or write less to it"},
		{"a pipe", `mkfifo "$PAWL_OUTPUT"`, "text", "invalid_output: PAWL_OUTPUT is not a regular file any more"},
		{"a folder", `mkdir "$PAWL_OUTPUT"`, "text", "invalid_output: PAWL_OUTPUT is not a regular file any more"},
		{"only of a success", `echo 1 >"$PAWL_OUTPUT"; exit 7`, "text", "exit_7: exit status 7"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			task := newTask(t, script(test.script))
			task.Output, task.Limits.Output = test.mode, 100
			r := execute(t, context.Background(), task)
			got := string(r.Output)
			if r.Failure != nil {
				got = r.Failure.Class + ": " + r.Failure.Message
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// (T8) stdout that is not UTF-8 is replaced, and the log says so.
func TestOutputNotUTF8IsNoted(t *testing.T) {
	t.Parallel()
	p := newPrintout(t)
	task := newTask(t, script(`printf 'a\377b'`))
	task.Log = p.Log
	wantOutput(t, execute(t, context.Background(), task), "\"a\uFFFDb\"")
	if got := p.of(Stdout); got != "a\xffb" {
		t.Errorf("the log has %q", got)
	}
	if got := p.of(Notes); !strings.Contains(got, "stdout is not valid UTF-8") {
		t.Errorf("the log does not say so: %q", got)
	}
}

// (T8) any amount of output, one line of it, takes bounded memory. Not parallel:
// it measures what the whole process allocates.
func TestOutputMemory(t *testing.T) {
	for _, mode := range []workflow.OutputMode{workflow.OutputNone, workflow.OutputText} {
		log := NewLog(LogConfig{
			Head: 32 << 10, Tail: 32 << 10, Chunk: 4 << 10,
			Sink: (&memory{}).sink,
		})
		task := newTask(t, argv(program("flood", "64")...))
		task.Output, task.Log = mode, log
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := execute(t, context.Background(), task)
		if err := log.Close(context.Background()); err != nil {
			t.Error(err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%s: 64 MiB of output allocated %d bytes", mode, used)
		}
		if mode == workflow.OutputNone {
			wantOutput(t, r, "null")
		} else {
			wantFailure(t, r, "output_too_large", true)
		}
	}
}

func TestFolderIsPrivate(t *testing.T) {
	t.Parallel()
	f, err := makeFolder(t.TempDir(), newTask(t, script("true")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.remove(nil)
	for path, want := range map[string]os.FileMode{f.path: 0o700, f.input: 0o600, f.script: 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, want)
		}
	}
}
