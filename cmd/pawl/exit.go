package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// Exit codes.
const (
	codeOK          = 0
	codeFailed      = 1 // the job, or the check
	codeInvalid     = 2
	codeNotFound    = 3
	codeNotAllowed  = 4
	codeConflict    = 5
	codeUnavailable = 6
	codeTimedOut    = 124
	codeInterrupted = 130
)

// codes are the exit codes of the kinds of errors.
var codes = map[pawl.Kind]int{
	pawl.Internal:    codeFailed,
	pawl.Invalid:     codeInvalid,
	pawl.NotFound:    codeNotFound,
	pawl.Refused:     codeNotAllowed,
	pawl.Conflict:    codeConflict,
	pawl.Unavailable: codeUnavailable,
}

// An exit is the error of a command that has said all there is to say.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func isExit(err error) bool {
	var e exit
	return errors.As(err, &e)
}

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var e exit
	switch {
	case err == nil:
		return codeOK
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, store.ErrNotFound):
		return codeNotFound
	}
	return codes[pawl.KindOf(err)]
}

// complain says what went wrong, in the house's voice, and returns the exit
// code.
func complain(w io.Writer, err error) int {
	var problems workflow.Problems
	switch {
	case err == nil, isExit(err):
	case errors.As(err, &problems):
		complainOf(w, problems)
	default:
		console.Say(w, "error", err.Error())
		console.Say(w, "hint", hintOf(err))
	}
	return codeOf(err)
}

// complainOf says what is wrong with a workflow file, each as FILE:LINE:COLUMN.
func complainOf(w io.Writer, problems workflow.Problems) {
	for _, p := range problems {
		hint := p.Hint
		p.Hint = ""
		console.Say(w, "error", p.String())
		console.Say(w, "hint", hint)
	}
}

// hinted returns an error of a library with what to do on the command line.
func hinted(err error, hint string) error {
	return &pawl.Error{Kind: pawl.KindOf(err), Message: err.Error(), Hint: hint}
}

// hintOf returns the hint of the first error in the chain that has one.
func hintOf(err error) string {
	for e := (*pawl.Error)(nil); errors.As(err, &e); err = e.Err {
		if e.Hint != "" || e.Err == nil {
			return e.Hint
		}
	}
	return ""
}
