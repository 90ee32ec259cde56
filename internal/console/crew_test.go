package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestCrewTable: the note of a member is what a person should know now, and a member that cannot be read has
// its reason there. Nothing that a member has written moves the cursor.
func TestCrewTable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 10, 14, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) pawl.Timestamp { return pawl.Timestamp(now.Add(-d).UnixMicro()) }
	member := func(id string, m crew.Member) crew.Status {
		m.ID, m.Task, m.Attempt, m.MaxAttempts, m.Epoch, m.StateChangedAt = id, "t1", 1, 3, 2, ago(time.Minute)
		return crew.Status{ID: id, Member: &m}
	}
	works := member("auth", crew.Member{State: lifecycle.MemberWorking})
	works.Beat = &crew.Beat{Epoch: 2, At: ago(4 * time.Second), Note: "runs\x1b[2J tests"}
	late := member("b", crew.Member{State: lifecycle.MemberInReview, LastError: "an old conflict", Attention: "review_overdue"})
	late.Beat = &crew.Beat{Epoch: 1, At: ago(time.Hour)}
	waits := member("c", crew.Member{State: lifecycle.MemberApproved})
	waits.Queued = &crew.Entry{Target: "main"}
	back := member("d", crew.Member{State: lifecycle.MemberWorking, LastError: "conflict with main in a.go", Attention: "conflict"})
	idle := crew.Status{ID: "e", Member: &crew.Member{ID: "e", State: lifecycle.MemberIdle, StateChangedAt: ago(time.Hour)}}
	board := []crew.Status{works, late, waits, back, idle, {ID: "f", Problem: "it is not JSON"}}

	want := strings.Split(strings.TrimSpace(`
MEMBER  STATE      TASK  ATTEMPT  FOR    BEAT  NOTE
auth    WORKING    t1    1/3      1m00s  4.0s  runs�[2J tests
b       IN_REVIEW  t1    1/3      1m00s        review_overdue
c       APPROVED   t1    1/3      1m00s        waits to land on main
d       WORKING    t1    1/3      1m00s        conflict: conflict with main in a.go
e       IDLE                      1h00m
f       ?                                      it is not JSON`), "\n")
	if diff := cmp.Diff(want, DrawCrew(board, Frame{Now: now})); diff != "" {
		t.Error(diff)
	}
	for _, line := range DrawCrew(board, Frame{Now: now, width: 30}) {
		if n := len([]rune(line)); n > 30 {
			t.Errorf("%d wide: %s", n, line)
		}
	}
	var b strings.Builder
	CrewMember(&b, &back, now, nil)
	for _, text := range []string{"state        WORKING for 1m00s", "attention    conflict\n", "error        conflict with main in a.go\n"} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("no %q in\n%s", text, &b)
		}
	}
	if line := CrewLine(&works, now, nil); line != "2026-01-10T13:59:00.000Z  auth  WORKING  t1  runs�[2J tests" {
		t.Error(line)
	}
}
