package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

func TestHistoryMarksRefusals(t *testing.T) { // T5
	t.Parallel()
	from, held := lifecycle.StepInProgress, pawl.Duration(1500*time.Millisecond)
	var b strings.Builder
	rows := History(&b, false, nil)
	for _, row := range []pawl.Transition{
		{Step: "load[3]", From: &from, To: lifecycle.StepPending, Event: lifecycle.StepInterrupt, Actor: "w_1", At: after(0), Took: &held},
		{Step: "load[3]", Event: lifecycle.StepSuccess, Actor: "w_1", Reason: "the step has been claimed again since", At: after(0), Refused: true},
	} {
		if err := rows.Add(&row); err != nil {
			t.Fatal(err)
		}
	}
	err := rows.End()
	want := "AT                        OF       MOVE                    EVENT      TOOK  BY   WHY\n" +
		"2026-01-31T12:00:00.000Z  load[3]  in_progress -> pending  interrupt  1.5s  w_1  \n" +
		"2026-01-31T12:00:00.000Z  load[3]  REFUSED                 success          w_1  the step has been claimed again since\n"
	if diff := cmp.Diff(want, b.String()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
