package console

import (
	"fmt"
	"io"

	"github.com/pawl-dev/pawl"
)

// Redacted writes what was redacted of a job, or of one step of it, to out, and what is left
// to do to talk.
func Redacted(out, talk io.Writer, r pawl.Redaction, step string) error {
	what := "job " + r.Job
	if step != "" {
		what = "step " + step + " of " + what
	}
	if r.Advice != "" {
		Say(talk, "note", r.Advice)
	}
	_, err := fmt.Fprintf(out, "%s is redacted: %s, %s of the audit trail, %d signals, refused facts and pieces of logs\n",
		what, Plural(r.Records, "record"), Plural(r.Entries, "row"), r.Beside)
	return err
}
