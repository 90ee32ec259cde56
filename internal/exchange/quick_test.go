package exchange

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var requests = []string{
	`{"turn":1}`, "{ \"turn\" : 2 , \"free\" : 1000 , \"wait_ms\" : 0 , \"reports\" : [ ] }\n",
	`{"turn":3,"reports":[{"step_id":"st_1","claim":1,"outcome":"complete","output":null},{"step_id":"st_2","claim":2,"outcome":"release","after_ms":7}]}`,
	`{"turn":4,"reports":[{"step_id":"st_1","claim":1,"outcome":"complete","output":{"a":[1,-2.50,true,false,"\u00e9\n\"",{}],"b":"ä"}}]}`,
}

// odd are requests that are read slowly: wrong ones, and unusual ones.
var odd = []string{
	``, `null`, `{}`, `{"turn":0}`, `{"turn":-1}`, `{"turn":01}`, `{"turn":1.0}`, `{"turn":1e0}`, `{"turn":"1"}`, `{"turn":9007199254740993}`,
	`{"turn":1,"turn":1}`, `{"Turn":1}`, `{"t\u0075rn":1}`, `{"turn":1}}`, `{"turn":1}{}`, `{"turn":1,}`, `{"turn":1 "free":1}`, `{"turn":1`, `{turn:1}`, `{"turn":1,"new":1}`,
	`{"turn":1,"free":1001}`, `{"turn":1,"wait_ms":25001}`, `{"turn":1,"wait_ms":null}`, `{"turn":1,"holding":[]}`, `{"turn":1,"reports":null}`, `{"turn":1,"reports":[{}]}`,
	`{"turn":1,"reports":[{"step_id":"st_1","claim":0,"outcome":"complete"}]}`, `{"turn":1,"reports":[{"step_id":"st_1","claim":1,"outcome":"done"}]}`,
	`{"turn":1,"reports":[{"step_id":"st_1","claim":1,"outcome":"fail","error":{"message":"x"}}]}`, `{"turn":1,"reports":[{"claim":1,"outcome":"complete"}]}`,
	output(`{"a":1,"a":2}`), output(`1e999`), output(`01`), output(`-`), output(`.5`), output(`1.`), output(`"\x"`), output(`"\u12"`), output(`"\u+123"`), output("\"\xff\""), output("\"\n\""), output(`tru`), output(``), output(`[1,]`),
	output(strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)), output(strings.Repeat("9", 400)),
	`{"turn":1,"reports":[` + strings.Repeat(`{"step_id":"st_1","claim":1,"outcome":"cancel"},`, MaxReports) + `{"step_id":"st_1","claim":1,"outcome":"cancel"}]}`,
}

func output(text string) string {
	return `{"turn":1,"reports":[{"step_id":"st_1","claim":1,"outcome":"complete","output":` + text + `}]}`
}

// TestQuickRequests: usual requests are read quickly, and others not at all (T11).
func TestQuickRequests(t *testing.T) {
	t.Parallel()
	for _, text := range requests {
		if QuickRequest([]byte(text)) == nil {
			t.Errorf("%s is odd", text)
		}
	}
	for _, text := range odd {
		if r := QuickRequest([]byte(text)); r != nil {
			t.Errorf("%.200s was read: %+v", text, r)
		}
	}
}

// sameRequest fails unless a request is odd, or encoding/json reads the same from it.
func sameRequest(t rapid.TB, text []byte) {
	got := QuickRequest(text)
	if got == nil {
		return
	}
	want := new(Request)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(want); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !json.Valid(text) {
		t.Fatalf("%s is not JSON", text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-encoding/json +quick)\n%s", text, diff)
	}
}

// FuzzQuickRequest: what is read quickly is read as encoding/json reads it.
func FuzzQuickRequest(f *testing.F) {
	for _, text := range append(requests, odd...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameRequest(t, text) })
}

// TestChangedRequests: the same of requests with a few changed bytes.
func TestChangedRequests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { sameRequest(t, changed(t, []byte(rapid.SampledFrom(requests).Draw(t, "request")))) })
}

// changed returns a text with up to three changes.
func changed(t *rapid.T, text []byte) []byte {
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		behind := min(at+rapid.IntRange(0, 2).Draw(t, "cut"), len(text))
		with := rapid.SampledFrom(strings.Split(`0 1 9 - . e { } [ ] , : " \ u null true "turn" "claim" x `+"\x00 \xff \n ä", " ")).Draw(t, "with")
		text = append(append(bytes.Clone(text[:at]), with...), text[behind:]...)
	}
	return text
}

// answer draws an answer.
func answer(t *rapid.T) *Answer {
	text := rapid.OneOf(rapid.StringMatching(`[a-z_0-9]{0,8}`), rapid.String())
	claim := rapid.Custom(func(t *rapid.T) Claim { return Claim{text.Draw(t, "step"), rapid.IntRange(0, 9).Draw(t, "claim")} })
	value := rapid.SampledFrom([]json.RawMessage{json.RawMessage(`null`), json.RawMessage(`{"a":[1,2.5,"<b>\u2028"],"b":{}}`), json.RawMessage(`1e9`), json.RawMessage(`"ä"`)})
	step := rapid.Custom(func(t *rapid.T) Step {
		s := Step{Claim: claim.Draw(t, "claim"), JobID: text.Draw(t, "job"), Key: text.Draw(t, "key"), Workflow: text.Draw(t, "workflow"), Attempt: rapid.IntRange(0, 1<<40).Draw(t, "attempt"),
			Queue: text.Draw(t, "queue"), Handler: text.Draw(t, "handler"), Input: value.Draw(t, "input"), OutputMode: text.Draw(t, "mode"), TimeoutMS: rapid.Int64Range(0, 1<<40).Draw(t, "timeout"),
			Isolation: text.Draw(t, "isolation"), Dir: text.Draw(t, "dir"), Traceparent: text.Draw(t, "traceparent"), Redelivered: rapid.Bool().Draw(t, "redelivered"), Work: Work{Kind: text.Draw(t, "kind")}}
		switch rapid.IntRange(0, 4).Draw(t, "work") {
		case 0:
			s.Work.With = value.Draw(t, "with")
		case 1:
			s.Work.Command, s.Permanent = rapid.SliceOfN(text, 1, 3).Draw(t, "command"), []int{1, -2}
		case 2:
			s.Work.Run, s.Work.Dir, s.Work.Env = text.Draw(t, "run"), text.Draw(t, "folder"), map[string]string{text.Draw(t, "name"): "<"}
		case 3:
			s.Work.HTTP = &HTTP{Method: "GET", URL: text.Draw(t, "url"), Headers: map[string]string{"a": "b"}, Expect: []int{200}}
		}
		return s
	})
	return &Answer{State: text.Draw(t, "state"), Steps: rapid.SliceOfN(step, 0, 3).Draw(t, "steps"), Results: rapid.SliceOfN(text, 0, 3).Draw(t, "results"),
		Stops: rapid.SliceOfN(claim, 0, 3).Draw(t, "stops"), Gone: rapid.SliceOfN(claim, 0, 3).Draw(t, "gone"), More: rapid.Bool().Draw(t, "more"), NextMS: rapid.Int64Range(0, 1000).Draw(t, "next")}
}

// TestAnswers: an answer is written as encoding/json writes it, and read as it reads it, also
// with a few changed bytes.
func TestAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := answer(t)
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(a); err != nil {
			t.Fatal(err)
		}
		text := append(a.AppendJSON(nil), '\n')
		if diff := cmp.Diff(want.String(), string(text)); diff != "" {
			t.Fatalf("-encoding/json +AppendJSON\n%s", diff)
		}
		text = changed(t, text)
		got := QuickAnswer(text)
		if got == nil {
			return
		}
		read := new(Answer)
		if err := json.Unmarshal(text, read); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(read, got); diff != "" {
			t.Fatalf("%s (-encoding/json +quick)\n%s", text, diff)
		}
	})
	if QuickAnswer((&Answer{Steps: []Step{{Input: json.RawMessage(`{"a":"\n"}`)}}, Results: []string{}, Stops: []Claim{}, Gone: []Claim{{"st_1", 1}}}).AppendJSON(nil)) == nil {
		t.Error("a usual answer is odd")
	}
}

// TestWrittenRequests: a request is written as encoding/json writes it, HTML not escaped, but for white
// space in what is JSON already, and one with what is not JSON is not written.
func TestWrittenRequests(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.StringMatching(`[a-z_0-9]{0,8}`), rapid.String())
	claim := rapid.Custom(func(t *rapid.T) Claim { return Claim{text.Draw(t, "step"), rapid.IntRange(0, 9).Draw(t, "claim")} })
	value := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`null`), json.RawMessage(`{"a":[1,2.5,"<b>"],"b":{}}`), json.RawMessage(`"ä"`), json.RawMessage("{ \"a\" :\n1}")})
	report := rapid.Custom(func(t *rapid.T) Report {
		r := Report{Claim: claim.Draw(t, "claim"), Outcome: text.Draw(t, "outcome"), Output: value.Draw(t, "output"), AfterMS: rapid.Int64Range(0, 9).Draw(t, "after")}
		if rapid.Bool().Draw(t, "failed") {
			r.Error = &Error{Class: text.Draw(t, "class"), Message: text.Draw(t, "message"), Metadata: value.Draw(t, "metadata")}
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		r := &Request{Turn: rapid.Int64().Draw(t, "turn"), Reports: rapid.SliceOfN(report, 0, 3).Draw(t, "reports"), Free: rapid.IntRange(0, 9).Draw(t, "free")}
		if rapid.Bool().Draw(t, "waits") {
			r.WaitMS = new(rapid.Int64Range(0, 9).Draw(t, "wait"))
		}
		if rapid.Bool().Draw(t, "compares") {
			r.Holding = rapid.SliceOfN(claim, 0, 3).Draw(t, "holding")
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(r); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := json.Compact(&got, r.AppendJSON(nil)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()+"\n"); diff != "" || !r.Written() {
			t.Fatalf("-encoding/json +AppendJSON\n%s", diff)
		}
	})
	for _, r := range []Report{{Output: json.RawMessage(`{`)}, {Error: &Error{Metadata: json.RawMessage(`x`)}}} {
		if (&Request{Reports: []Report{{}, r}}).Written() {
			t.Errorf("%+v is no JSON", r)
		}
	}
}

// TestAlikeTexts: a text is taken for that of the step before only if it is the same, with all escapes.
func TestAlikeTexts(t *testing.T) {
	t.Parallel()
	text := []byte(`{"state":"s","steps":[{"step_id":"a","claim":1,"workflow":"x\\n","queue":"q","work":{"kind":"run"}},` +
		`{"step_id":"b","claim":1,"workflow":"x\n","queue":"q","work":{"kind":"run"}},{"step_id":"c","claim":1,"workflow":"x\\n","queue":"","work":{"kind":"ru"}}],` +
		`"results":["accepted","accepted","stale","accepted"],"stops":[],"gone":[],"next_ms":0}`)
	want := new(Answer)
	if err := json.Unmarshal(text, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, QuickAnswer(text)); diff != "" {
		t.Errorf("(-encoding/json +quick)\n%s", diff)
	}
}

// TestRoomIsUsedAgain: a list that is used again has nothing of before, and what was read keeps what
// it has.
func TestRoomIsUsedAgain(t *testing.T) {
	t.Parallel()
	const one = `{"step_id":"st_1","claim":1,"outcome":"complete","output":"one"}`
	for range 100 {
		first := QuickRequest([]byte(`{"turn":1,"reports":[` + one + `,` + one + `]}`))
		kept := first.Reports[0]
		first.Over()
		next := QuickRequest([]byte(`{"turn":2,"reports":[{"step_id":"st_2","claim":2,"outcome":"release"}]}`))
		if len(next.Reports) != 1 || next.Reports[0].Output != nil || kept.StepID != "st_1" || string(kept.Output) != `"one"` || first.Reports != nil {
			t.Fatalf("read %+v, kept %+v", next, kept)
		}
		next.Over()
		a := &Answer{Steps: append(stepRoom.take(2), Step{Key: "k"})}
		a.Over()
		if again := stepRoom.take(1); len(again) != 0 || cap(again) > 0 && again[:1][0].Key != "" {
			t.Fatalf("the room has %+v", again[:1])
		}
	}
}
