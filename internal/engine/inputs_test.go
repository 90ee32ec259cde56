package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestSubmitBindsInputs: inputs are checked against the definition for every submitter, and
// omitted inputs take their defaults (J2).
func TestSubmitBindsInputs(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		e := passive(t, open()).e
		def := define(t, "name: w\ninputs: {n: {type: integer, required: true}, region: {default: eu}}\nsteps: [{id: a, handler: nobody}]\n")
		submit := func(inputs, request string) pawl.Submitted {
			t.Helper()
			answers, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Inputs: json.RawMessage(inputs), Actor: "test", RequestID: request})
			if err != nil {
				t.Fatal(err)
			}
			return answers[0]
		}
		for inputs, want := range map[string]string{
			"":                      `input "n" is required: want an integer`,
			"{}":                    `input "n" is required: want an integer`,
			`{"n":"3"}`:             `input "n": want an integer, got string "3"`,
			`{"n":1.5}`:             `input "n": want an integer, got number 1.5`,
			`{"n":1,"regoin":"us"}`: `there is no input "regoin" (did you mean "region"?)`,
			`[1]`:                   `inputs: want a JSON object, got [1]`,
			`{"n":`:                 `inputs: not JSON`,
			`{"n":1} {}`:            `inputs: not JSON: text after the value`,
		} {
			if a := submit(inputs, ""); pawl.KindOf(a.Err) != pawl.Invalid || !strings.Contains(a.Err.Error(), want) {
				t.Errorf("inputs %s: %v, want %s", inputs, a.Err, want)
			}
		}
		first := submit(`{"n":3}`, "once")
		if first.Err != nil {
			t.Fatal(first.Err)
		}
		v, err := e.Job(t.Context(), first.ID)
		if err != nil || string(v.Inputs) != `{"n":3,"region":"eu"}` {
			t.Errorf("the job has inputs %s, %v; want the default with what was given", v.Inputs, err)
		}
		if again := submit(` {"region": "eu", "n": 3}`, "once"); again.Err != nil || !again.Replayed || again.ID != first.ID {
			t.Errorf("the same request with its default written out: %+v, want the job of the first", again)
		}
	})
}
