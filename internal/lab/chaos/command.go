package main

import (
	"bytes"
	"context"
	"os/exec"
	"strings"

	"github.com/pawl-dev/pawl"
)

// kinds are the kinds of errors by the exit codes of pawl. Others may pass.
var kinds = map[int]pawl.Kind{2: pawl.Invalid, 3: pawl.NotFound, 4: pawl.Refused, 5: pawl.Conflict}

// command returns the output of a command of the binary, or its error. It is a process like
// the members, and reads their clock if they share one.
func (cl *cluster) command(ctx context.Context, args ...string) (string, error) {
	var out, trouble bytes.Buffer
	cmd := exec.CommandContext(ctx, cl.config.binary, append([]string{"--database", cl.database.direct()}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = cl.env(), cl.dir, &out, &trouble, attributes()
	exited := make(chan struct{})
	if err := cl.database.clock().start(cmd, exited); err != nil {
		return "", err
	}
	<-exited
	if cmd.ProcessState.Success() {
		return strings.TrimSpace(out.String()), nil
	}
	kind, known := kinds[cmd.ProcessState.ExitCode()]
	if !known {
		kind = pawl.Unavailable
	}
	return "", pawl.Errorf(kind, "pawl %s: %s: %s", strings.Join(args, " "), cmd.ProcessState, bytes.TrimSpace(trouble.Bytes()))
}

// commands is an operator that uses the command line.
type commands struct{ *cluster }

func (c commands) job(ctx context.Context, verb string, id pawl.ID) (string, error) {
	return c.command(ctx, "job", verb, id.Public(pawl.JobPrefix), "--reason", "at random")
}

// Cancel runs pawl job cancel.
func (c commands) Cancel(ctx context.Context, id pawl.ID, _ pawl.Change) (pawl.Receipt, error) {
	_, err := c.job(ctx, "cancel", id)
	return pawl.Receipt{}, err
}

// PauseJob runs pawl job pause.
func (c commands) PauseJob(ctx context.Context, id pawl.ID, _ pawl.Change) (pawl.Receipt, error) {
	_, err := c.job(ctx, "pause", id)
	return pawl.Receipt{}, err
}

// ResumeJob runs pawl job resume.
func (c commands) ResumeJob(ctx context.Context, id pawl.ID, _ pawl.Change) (pawl.Receipt, error) {
	_, err := c.job(ctx, "resume", id)
	return pawl.Receipt{}, err
}

// RetryJob runs pawl job retry. Of the receipt it returns only the id.
func (c commands) RetryJob(ctx context.Context, id pawl.ID, _ pawl.Retry, _ pawl.Change) (pawl.Receipt, error) {
	text, err := c.job(ctx, "retry", id)
	return pawl.Receipt{ID: text}, err
}
