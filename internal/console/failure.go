package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/pawl-dev/pawl"
)

// JobFailure writes why a job did not complete. tail returns the last lines that the failed
// step wrote to its standard error, and whether it printed anything. given are the global
// flags that commands in hints need.
func JobFailure(w io.Writer, v *pawl.JobView, tail func(step string) (lines []string, printed bool), given string) {
	why, step := strings.ToLower(string(v.Status)), ""
	if f := v.Error; f != nil {
		if step = f.Step; step != "" && !strings.HasPrefix(f.Message, "step "+step+":") {
			why += ": step " + step
		}
		if f.Message != why { // "canceled" without a reason has no message of its own
			why += ": " + f.Text()
		}
	}
	Say(w, "error", "job "+v.ID+" "+why)
	if step == "" {
		return
	}
	if command := v.Error.Resolve(v.ID); command != "" {
		Say(w, "hint", "give its output yourself, and continue from there: "+command+given)
	}
	lines, printed := tail(step)
	for _, l := range lines {
		fmt.Fprintf(w, "  | %s\n", Printable(strings.TrimRight(l, "\r")))
	}
	if printed {
		Say(w, "hint", fmt.Sprintf("see all its output with: pawl job logs %s %s%s", v.ID, Shell(step), given))
	}
}
