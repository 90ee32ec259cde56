package console

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// CrewRows lists members.
func CrewRows(board []crew.Status, now time.Time) [][]string {
	rows := [][]string{{"MEMBER", "STATE", "TASK", "ATTEMPT", "FOR", "BEAT", "NOTE"}}
	for i := range board {
		rows = append(rows, crewRow(&board[i], now))
	}
	return rows
}

func crewRow(s *crew.Status, now time.Time) []string {
	m := s.Member
	if m == nil {
		return []string{s.ID, "?", "", "", "", "", s.Problem}
	}
	beat, attempt := "", ""
	if s.Beat != nil && s.Beat.Epoch == m.Epoch && m.Task != "" {
		beat = elapsed(s.Beat.At, 0, now)
	}
	if m.Task != "" {
		attempt = fmt.Sprintf("%d/%d", m.Attempt, m.MaxAttempts)
	}
	return []string{s.ID, string(m.State), string(m.Task), attempt, elapsed(m.StateChangedAt, 0, now), beat, crewNote(s)}
}

// unsettled are the states in which the last error of a member is still to be dealt with.
var unsettled = map[machine.State]bool{lifecycle.MemberAssigned: true, lifecycle.MemberWorking: true, lifecycle.MemberStale: true, lifecycle.MemberFailed: true}

// crewNote returns what a person should know first.
func crewNote(s *crew.Status) string {
	var notes []string
	m := s.Member
	if m.Attention != "" {
		notes = append(notes, string(m.Attention))
	}
	switch {
	case s.Queued != nil:
		notes = append(notes, "waits to land on "+s.Queued.Target)
	case m.LastError != "" && unsettled[m.State]:
		notes = append(notes, string(m.LastError))
	case m.State == lifecycle.MemberWorking && s.Beat != nil && s.Beat.Epoch == m.Epoch && s.Beat.Note != "":
		notes = append(notes, s.Beat.Note)
	}
	return strings.Join(notes, ": ")
}

// CrewLine is a member on a line, after a change.
func CrewLine(s *crew.Status, now time.Time, zone *time.Location) string {
	if s.Member == nil {
		return Printable(fmt.Sprintf("%s  %s  ?  %s", Stamp(now, zone), s.ID, s.Problem))
	}
	line := fmt.Sprintf("%s  %s  %s  %s  %s", Stamp(s.Member.StateChangedAt.Time(), zone), s.ID, s.Member.State, s.Member.Task, crewNote(s))
	return Printable(strings.TrimRight(line, " "))
}

// crewTints maps the state of a member to that of a job or step whose colour it has.
var crewTints = map[machine.State]machine.State{
	lifecycle.MemberIdle: lifecycle.StepPending, lifecycle.MemberAssigned: lifecycle.StepPending,
	lifecycle.MemberWorking: lifecycle.JobRunning, lifecycle.MemberInReview: lifecycle.JobRunning, lifecycle.MemberApproved: lifecycle.JobRunning,
	lifecycle.MemberCompleted: lifecycle.JobCompleted, lifecycle.MemberStale: lifecycle.JobCanceled, lifecycle.MemberFailed: lifecycle.JobFailed,
}

// DrawCrew draws members as a table.
func DrawCrew(board []crew.Status, f Frame) []string {
	rows := CrewRows(board, f.Now)
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Printable(cell)
			wide[i] = max(wide[i], len([]rune(row[i])))
		}
	}
	var lines []string
	for n, row := range rows {
		var cells []string
		for i, cell := range row {
			cell = fmt.Sprintf("%-*s", wide[i], cell)
			if i == 1 && n > 0 {
				cell = f.state(cell, crewTints[machine.State(row[1])])
			}
			cells = append(cells, cell)
		}
		lines = append(lines, f.cut(strings.TrimRight(strings.Join(cells, "  "), " ")))
	}
	return f.fold(lines)
}

// CrewMember writes all about a member.
func CrewMember(w io.Writer, s *crew.Status, now time.Time, zone *time.Location) {
	m := s.Member
	facts := [][2]string{
		{"member", m.ID}, {"state", fmt.Sprintf("%s for %s, version %d", m.State, elapsed(m.StateChangedAt, 0, now), m.Version)},
		{"attention", string(m.Attention)}, {"task", string(m.Task)},
	}
	if unsettled[m.State] {
		facts = append(facts, [2]string{"error", string(m.LastError)})
	}
	if a := s.Assignment; a != nil {
		facts = append(facts, [2]string{"attempt", fmt.Sprintf("%d of %d, epoch %d", m.Attempt, m.MaxAttempts, m.Epoch)},
			[2]string{"assigned", exactly(m.AssignedAt, zone)}, [2]string{"not before", exactly(a.Before, zone)},
			[2]string{"branch", fmt.Sprintf("%s, from %s of %s", a.Branch, abbreviated(a.Base), a.Target)}, [2]string{"worktree", a.Worktree})
	}
	if b := s.Beat; b != nil {
		facts = append(facts, [2]string{"heartbeat", strings.TrimRight(elapsed(b.At, 0, now)+" ago  "+b.Note, " ")})
	}
	facts = append(facts, [2]string{"program", crewRun(s.Run)}, [2]string{"pull request", string(m.PullRequest)})
	if r := s.Review; r != nil {
		facts = append(facts, [2]string{"review", fmt.Sprintf("round %d, %s, %s", r.Round, abbreviated(r.Head), m.Review)}, [2]string{"decided", strings.TrimRight(r.By+"  "+r.Text, " ")})
	}
	if q := s.Queued; q != nil {
		facts = append(facts, [2]string{"queued", "for " + q.Target + ", priority " + strconv.Itoa(q.Priority)})
	}
	writeFacts(w, facts)
}

func writeFacts(w io.Writer, facts [][2]string) {
	for _, fact := range facts {
		if fact[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", fact[0], Printable(fact[1]))
		}
	}
}

func crewRun(r *crew.RunStatus) string {
	switch {
	case r == nil:
		return ""
	case r.Exit != nil && r.Exit.Signal != "":
		return "ended by signal " + r.Exit.Signal
	case r.Exit != nil:
		return fmt.Sprintf("ended with code %d", r.Exit.Code)
	case r.Alive:
		return "runs"
	}
	return "its runner was killed"
}

// abbreviated shortens the name of a commit.
func abbreviated(commit string) string { return commit[:min(len(commit), 12)] }

// CrewReview writes a review and what it is about.
func CrewReview(w io.Writer, r *crew.Reviewed) {
	behind := ""
	if r.Diff.Behind {
		behind = "yes: it has to be rebased before it can be approved"
	}
	writeFacts(w, [][2]string{
		{"member", r.ID}, {"state", string(r.State)}, {"review", r.Decision},
		{"round", fmt.Sprintf("%d of %d", r.Review.Round, r.MaxRounds)}, {"head", r.Review.Head},
		{"branch", r.Diff.Branch}, {"target", r.Diff.Target}, {"behind", behind},
		{"decided", strings.TrimRight(r.Review.By+"  "+r.Review.Text, " ")}, {"uncommitted", strings.Join(r.Diff.Dirty, ", ")},
	})
	fmt.Fprintln(w, PrintableLines(r.Diff.Stat))
	if r.Checks == nil {
		return
	}
	for _, one := range r.Checks.List {
		line := fmt.Sprintf("gate %s  %s  %s  %s", one.Gate, one.State, Duration(time.Duration(one.Seconds*float64(time.Second))), one.Reason)
		fmt.Fprintln(w, Printable(strings.TrimRight(line, " ")))
	}
}

// CrewQueue lists what waits to land.
func CrewQueue(list []crew.Entry) [][]string {
	rows := [][]string{{"TARGET", "MEMBER", "PRIORITY", "SEQ"}}
	for _, e := range list {
		rows = append(rows, []string{e.Target, e.Member, strconv.Itoa(e.Priority), strconv.FormatInt(e.Sequence, 10)})
	}
	return rows
}

// CrewFindings lists what patrol has found.
func CrewFindings(list []crew.Finding) [][]string {
	rows := [][]string{{"MEMBER", "STATE", "WHAT", "DONE", "WHY"}}
	for _, f := range list {
		done, why := "no", f.Text
		if f.Done {
			done = "yes"
		}
		if f.Error != "" {
			why += ": " + f.Error
		}
		rows = append(rows, []string{f.Member, string(f.State), cmp.Or(string(f.Event), f.Action), done, why})
	}
	return rows
}

// CrewMessages lists messages.
func CrewMessages(list []crew.Message) [][]string {
	rows := [][]string{{"AT", "FROM", "TYPE", "TASK", "BODY"}}
	for _, m := range list {
		rows = append(rows, []string{m.TS, m.From, m.Type, m.Task, strings.ReplaceAll(m.Body, "\n", " ")})
	}
	return rows
}
