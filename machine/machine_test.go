package machine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/machine"
)

var door = &machine.Machine{
	Name:    "door",
	Doc:     "a door",
	Create:  "build",
	Initial: "open",
	States:  []machine.State{"open", "shut", "walled"},
	Ends:    []machine.State{"walled"},
	Table: machine.Table{
		"open": {"close": "shut", "knock": "open"},
		"shut": {"open": "open", "wall": "walled"},
	},
}

// K3: what is legal leads on; the rest is a refusal that says what would be.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from  machine.State
		event machine.Event
		to    machine.State
		want  string
	}{
		{from: "open", event: "close", to: "shut"},
		{from: "open", event: "knock", to: "open"},
		{from: "shut", event: "wall", to: "walled"},
		{from: "open", event: "wall", want: "door: event wall is not allowed in state open (allowed: close, knock)"},
		{from: "shut", event: "knock", want: "door: event knock is not allowed in state shut (allowed: open, wall)"},
		{from: "shut", event: "close", want: "door is already in shut"},
		{from: "open", event: "open", want: "door is already in open"},
		{from: "walled", event: "wall", want: "door is already in walled"},
		{from: "walled", event: "open", want: "door: event open is not allowed in state walled, which is final"},
		{from: "open", event: "", want: "door: event  is not allowed in state open (allowed: close, knock)"},
		{from: "burnt", event: "open", want: `door: event open is not allowed in "burnt", which is not a state`},
		{from: "", event: "build", want: `door: event build is not allowed in "", which is not a state`},
	} {
		t.Run(string(tt.from)+"-"+string(tt.event), func(t *testing.T) {
			t.Parallel()
			to, err := door.Next(tt.from, tt.event)
			if to != tt.to {
				t.Errorf("Next = %q, want %q", to, tt.to)
			}
			if got := text(err); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// K3: a refusal is typed and carries entity, state, event and what is allowed.
func TestRefusalFields(t *testing.T) {
	t.Parallel()
	_, err := door.Next("shut", "close")
	var got *machine.Refusal
	if !errors.As(err, &got) {
		t.Fatalf("Next: %v, want a *Refusal", err)
	}
	want := &machine.Refusal{Machine: "door", State: "shut", Event: "close", Allowed: []machine.Event{"open", "wall"}, Already: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	got.Entity = "d_1"
	if want := "door d_1 is already in shut"; got.Error() != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

// K3: no state and no event, however odd, makes Next panic; it returns either a
// state of the machine or a refusal that can be read.
func TestNextOnJunk(t *testing.T) {
	t.Parallel()
	machines := []*machine.Machine{door, {}, {Name: "x", Table: machine.Table{"a": nil}}}
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(machines).Draw(t, "machine")
		from := machine.State(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"open", "shut", "a"})).Draw(t, "from"))
		event := machine.Event(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"open", "wall"})).Draw(t, "event"))
		to, err := m.Next(from, event)
		if err == nil && !m.Has(to) {
			t.Errorf("Next(%q, %q) = %q, not a state", from, event, to)
		}
		var refusal *machine.Refusal
		if err != nil && (!errors.As(err, &refusal) || err.Error() == "" || to != "") {
			t.Errorf("Next(%q, %q) = %q, %v, want a refusal alone", from, event, to, err)
		}
	})
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]machine.Event{"close", "knock", "open", "wall"}, door.Events()); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	if got := door.Allowed("walled"); len(got) != 0 {
		t.Errorf("Allowed(walled) = %v, want none", got)
	}
	if !door.Has("shut") || door.Has("ajar") {
		t.Error("Has: want shut, and not ajar")
	}
	if !door.Ended("walled") || door.Ended("shut") {
		t.Error("Ended: want walled, and not shut")
	}
	want := []machine.Transition{
		{From: "open", Event: "close", To: "shut"}, {From: "open", Event: "knock", To: "open"},
		{From: "shut", Event: "open", To: "open"}, {From: "shut", Event: "wall", To: "walled"},
	}
	if diff := cmp.Diff(want, door.Transitions()); diff != "" {
		t.Errorf("Transitions (-want +got):\n%s", diff)
	}
}

// K4: a machine prints itself in four forms; K2: and as its matrix.
func TestRender(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		render func() string
		want   string
	}{
		{"mermaid", door.Mermaid, `stateDiagram-v2
    [*] --> open: build
    open --> shut: close
    open --> open: knock
    shut --> open: open
    shut --> walled: wall
    walled --> [*]
`},
		{"dot", door.DOT, `digraph "door" {
    rankdir=LR;
    node [shape=box, style=rounded];
    "" [shape=point];
    "open";
    "shut";
    "walled" [peripheries=2];
    "" -> "open" [label="build"];
    "open" -> "shut" [label="close"];
    "open" -> "open" [label="knock"];
    "shut" -> "open" [label="open"];
    "shut" -> "walled" [label="wall"];
}
`},
		{"markdown", door.Markdown, `| from  | event | to         |
| ----- | ----- | ---------- |
| (new) | build | open       |
| open  | close | shut       |
| open  | knock | open       |
| shut  | open  | open       |
| shut  | wall  | **walled** |
`},
		{"matrix", door.Matrix, `| event | open    | shut       | **walled** |
| ----- | ------- | ---------- | ---------- |
| close | shut    | already    | -          |
| knock | open    | -          | -          |
| open  | already | open       | -          |
| wall  | -       | **walled** | already    |
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for range 20 { // map order must not show
				if diff := cmp.Diff(tt.want, tt.render()); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// K4: the JSON form has every row, and empty lists where there is nothing.
func TestJSON(t *testing.T) {
	t.Parallel()
	const want = `{"name":"door","doc":"a door","create":"build","initial":"open",` +
		`"states":["open","shut","walled"],"ends":["walled"],"resident":false,` +
		`"events":["close","knock","open","wall"],"transitions":[` +
		`{"from":"open","event":"close","to":"shut"},{"from":"open","event":"knock","to":"open"},` +
		`{"from":"shut","event":"open","to":"open"},{"from":"shut","event":"wall","to":"walled"}]}`
	got, err := json.Marshal(door)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty, err := json.Marshal(&machine.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	const nothing = `{"name":"","doc":"","create":"","initial":"","states":[],"ends":[],"resident":false,"events":[],"transitions":[]}`
	if diff := cmp.Diff(nothing, string(empty)); diff != "" {
		t.Errorf("empty machine (-want +got):\n%s", diff)
	}
}

// A long enough walk along allowed events never leaves the machine, and every
// event that is not allowed is refused.
func TestWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := door.Initial
		for _, event := range rapid.SliceOf(rapid.SampledFrom(door.Events())).Draw(t, "events") {
			to, err := door.Next(at, event)
			if legal := slices.Contains(door.Allowed(at), event); legal != (err == nil) {
				t.Fatalf("Next(%s, %s): %v, but allowed is %v", at, event, err, door.Allowed(at))
			}
			if err == nil {
				at = to
			}
		}
		if !door.Has(at) {
			t.Fatalf("came to %q", at)
		}
	})
}
