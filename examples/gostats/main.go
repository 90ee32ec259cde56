// Gostats counts the lines and the declarations of the Go standard library. It
// is the program whose subcommands the steps of gostats.yaml run, one small
// piece of work each:
//
//	gostats list GOROOT              the packages, one import path per line
//	gostats count GOROOT PACKAGE     the numbers of one package, as JSON
//	gostats release GOROOT           the release of that Go; fails twice on purpose
//	gostats total -top N             adds up what count and release have put out
//	gostats report OUT               writes OUT/report.md
//	gostats chart OUT                writes OUT/chart.svg
//
// Every subcommand may be repeated at any time: those that only print change
// nothing, and those that write a file replace it in one go.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// The exit codes. The workflow's `permanent_exit_codes` names the second.
const (
	exitFailed    = 1
	exitUsage     = 2  // trying again would not help
	exitTemporary = 75 // trying again may help; EX_TEMPFAIL of sysexits.h
)

// A call is one run of a subcommand.
type call struct {
	args   []string
	env    func(string) string
	stdout io.Writer
}

var commands = map[string]func(call) error{
	"list":    list,
	"count":   count,
	"release": release,
	"total":   total,
	"report":  report,
	"chart":   chart,
}

func main() {
	if err := run(call{os.Args[1:], os.Getenv, os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, "gostats:", err)
		os.Exit(exitCode(err))
	}
}

func run(c call) error {
	if len(c.args) == 0 {
		return usage("want a subcommand: list, count, release, total, report or chart")
	}
	command := commands[c.args[0]]
	if command == nil {
		return usage("there is no subcommand %q; there are list, count, release, total, report and chart", c.args[0])
	}
	c.args = c.args[1:]
	return command(c)
}

// A usageError is a fault of whoever called.
type usageError struct{ error }

func usage(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// A temporaryError may be gone at the next attempt.
type temporaryError struct{ error }

func exitCode(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[temporaryError](err); ok {
		return exitTemporary
	}
	return exitFailed
}

// exactly returns the arguments of a subcommand that takes no flags.
func exactly(c call, names ...string) ([]string, error) {
	if len(c.args) != len(names) {
		return nil, usage("want %d arguments %v, got %d", len(names), names, len(c.args))
	}
	return c.args, nil
}
