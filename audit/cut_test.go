package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// restOf returns the lines of a service's trail, cut off after an entry of it.
func restOf(t *testing.T, change func(*audit.Cut), from int) string {
	t.Helper()
	var trail []audit.Entry
	var head audit.Hash
	events := []machine.Event{lifecycle.ServiceAdd, lifecycle.ServiceStart, lifecycle.ServiceHasStarted, lifecycle.ServiceDegrade, lifecycle.ServiceRecover}
	for i, event := range events {
		e := audit.Entry{Entity: "sv_web", Sequence: int64(i + 1), Event: event, Actor: "a", At: int64(100 + i)}
		if i > 0 {
			e.From = trail[i-1].To
			e.To, _ = lifecycle.Service.Next(e.From, e.Event)
		} else {
			e.To = lifecycle.Service.Initial
		}
		e.Seal(head)
		head = e.Hash
		trail = append(trail, e)
	}
	last := trail[from-1]
	c := audit.Cut{Entity: "sv_web", Sequence: last.Sequence, State: last.To, CreatedAt: 100, At: last.At, Hash: last.Hash}
	if change != nil {
		change(&c)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out := bytes.NewBuffer(append(text, '\n'))
	if err := audit.WriteLines(out, trail[from:]); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// K6: what is left of a trail that was cut off is checked from there on.
func TestVerifyCut(t *testing.T) {
	t.Parallel()
	rest := restOf(t, nil, 2)
	told := 0
	got, err := audit.VerifyCut(strings.NewReader(rest), func(*audit.Cut, *audit.Entry, int) { told++ })
	if r := got["sv_web"]; err != nil || r.Seq != 5 || r.State != lifecycle.ServiceRunning || r.CreatedAt != 100 || told != 4 {
		t.Errorf("replayed %+v, %v, told of %d lines", r, err, told)
	}
	if _, err := audit.VerifyLines(strings.NewReader(rest)); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
		t.Errorf("VerifyLines takes a cut trail for a whole one: %v", err)
	}
	lines := strings.SplitAfter(rest, "\n")
	for name, tt := range map[string]struct {
		text string
		want audit.Code
	}{
		"another hash":  {restOf(t, func(c *audit.Cut) { c.Hash[0]++ }, 2), audit.FaultHash},
		"another state": {restOf(t, func(c *audit.Cut) { c.State = lifecycle.ServiceStopped }, 2), audit.FaultFrom},
		"later":         {restOf(t, func(c *audit.Cut) { c.At = 1000 }, 2), audit.FaultTime},
		"earlier":       {restOf(t, func(c *audit.Cut) { c.Sequence-- }, 2), audit.FaultGap},
		"no state":      {restOf(t, func(c *audit.Cut) { c.State = "flying" }, 2), audit.FaultIllegal},
		"not an entry":  {restOf(t, func(c *audit.Cut) { c.Sequence = 0 }, 2), audit.FaultIllegal},
		"no entity":     {restOf(t, func(c *audit.Cut) { c.Entity = "x" }, 2), audit.FaultEntity},
		"nothing left":  {lines[0], audit.FaultTail},
		"twice":         {lines[0] + lines[0] + lines[1], audit.FaultOrder},
		"too late":      {rest + lines[0], audit.FaultOrder},
		"no cut":        {lines[1], audit.FaultGap},
	} {
		var fault *audit.Fault
		if _, err := audit.VerifyCut(strings.NewReader(tt.text), nil); !errors.As(err, &fault) || fault.Code != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if _, err := audit.VerifyCut(strings.NewReader(`{"cut":"sv_web","why":1}`), nil); err == nil {
		t.Error("a cut with a key that nobody knows is in order")
	}
}
