package console

import (
	"errors"
	"io"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/document"
)

// Complain writes an error and its hint. Mistakes in a file are written one by one, each as
// FILE:LINE:COLUMN. For nil it writes nothing.
func Complain(w io.Writer, err error) {
	var problems document.Problems
	switch {
	case err == nil:
	case errors.As(err, &problems):
		for _, p := range problems {
			hint := p.Hint
			p.Hint = ""
			Say(w, "error", p.String())
			Say(w, "hint", hint)
		}
	default:
		Say(w, "error", err.Error())
		Say(w, "hint", Hint(err))
	}
}

// Hint returns the hint of the first error in the chain that has one.
func Hint(err error) string {
	for e := (*pawl.Error)(nil); errors.As(err, &e); err = e.Err {
		if e.Hint != "" {
			return e.Hint
		}
		if e.Err == nil {
			break
		}
	}
	return hostHint(err)
}

// hostHint returns the hint for a supervisor or a server that already runs, or does not run.
func hostHint(err error) string {
	var taken *control.TakenError
	var gone *control.GoneError
	switch {
	case errors.As(err, &taken) && taken.Role == "supervisor":
		return "see it with: pawl service list --host " + taken.Name + "; for another file, give another --name"
	case errors.As(err, &taken):
		return "see it with: pawl service list --host " + taken.Name
	case errors.As(err, &gone):
		return "list what runs with: pawl service list"
	}
	return ""
}
