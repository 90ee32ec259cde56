package console

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// Agent shows a load agent, and its run.
func Agent(w io.Writer, v *loadpb.GetAgentResponse, zone *time.Location) {
	i := v.GetAgent()
	facts := [][2]string{
		{"agent", i.GetId()},
		{"process", fmt.Sprintf("%d on %s", i.GetPid(), i.GetHostname())},
		{"build", i.GetBuild()},
		{"machine", fmt.Sprintf("%d CPUs, %.1f GiB, %s, clock %s", i.GetCpus(), float64(i.GetMemoryBytes())/(1<<30), i.GetKernel(), i.GetClockSource())},
		{"engines", strings.Join(i.GetEngines(), ", ")},
	}
	for _, r := range i.GetRoots() {
		facts = append(facts, [2]string{"root", rootText(r)})
	}
	facts = append(facts, [2]string{"kept results", strings.Join(v.GetKeptRunIds(), ", ")})
	if r := v.GetRun(); r != nil {
		facts = append(facts, runFacts(r, zone)...)
	}
	for _, f := range facts {
		if f[1] != "" {
			fmt.Fprintf(w, "%-13s %s\n", f[0], Printable(f[1]))
		}
	}
	for _, t := range v.GetRun().GetTransitions() {
		fmt.Fprintf(w, "  %s  %s -> %s  %s  %s\n", Stamp(time.Unix(0, t.GetAtNs()), zone), t.GetFrom(), t.GetTo(), Printable(t.GetEvent()), Printable(t.GetReason()))
	}
	if text := v.GetRun().GetEngineStderr(); text != "" {
		fmt.Fprintf(w, "the engine has written to its standard error:\n%s\n", PrintableLines(strings.TrimRight(text, "\n")))
	}
}

func rootText(r *loadpb.Root) string {
	text := fmt.Sprintf("%s, %.1f GiB free", r.GetPath(), float64(r.GetFreeBytes())/(1<<30))
	if n := r.GetLimitBytes(); n > 0 {
		text += ", " + spec.SizeText(int64(n)) + " at most"
	}
	if n := r.GetLimitFiles(); n > 0 {
		text += fmt.Sprintf(", %d files at most", n)
	}
	return text
}

func runFacts(r *loadpb.RunView, zone *time.Location) [][2]string {
	at := func(ns int64) string {
		if ns == 0 {
			return ""
		}
		return exactly(pawl.Timestamp(ns/1000), zone)
	}
	return [][2]string{
		{"run", r.GetRunId()},
		{"state", r.GetState()},
		{"session", fmt.Sprint(r.GetSessionEpoch())},
		{"last message", at(r.GetLastMessageReceivedNs())},
		{"last stats", at(r.GetLastStatsSentNs())},
		{"sequence", fmt.Sprint(r.GetSequence())},
		{"abort reason", r.GetAbortReason()},
		{"error", r.GetError().GetMessage()},
	}
}
