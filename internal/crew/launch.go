package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pawl-dev/pawl"
)

// readyEnv has the number of the file to which a runner reports.
const readyEnv = "PAWL_CREW_READY"

// A readiness is what a runner reports: that the member works, or why it does not.
type readiness struct {
	Kind    pawl.Kind `json:"kind"`
	Message string    `json:"message"` // empty: it works
	Hint    string    `json:"hint"`
}

// runnerLog is what the runners of a member print, in the folder of its runs.
const runnerLog = "runner.log"

// Launch starts a runner as a process of its own, which goes on when this one has ended, and returns once
// the member works. The runner is a program that calls Run, and Ready.
func (c *Crew) Launch(ctx context.Context, id string, argv []string) (*Member, error) {
	m, err := c.Load(id)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Dir, runsDir, m.ID)
	if err := c.Disk.MakeDir(dir); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, runnerLog), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	runner := exec.Command(argv[0], argv[1:]...)
	runner.Dir, runner.Env = c.Repo.Root, append(os.Environ(), readyEnv+"=3")
	runner.Stdout, runner.Stderr, runner.ExtraFiles = log, log, []*os.File{w}
	runner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = runner.Start()
	_ = w.Close() // the runner has it
	if err != nil {
		return nil, err
	}
	go func() { _ = runner.Wait() }() // so that it is no zombie while this process lives
	stop := context.AfterFunc(ctx, func() { _ = r.Close() })
	defer stop()
	text, err := io.ReadAll(r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var said readiness
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	switch {
	case err != nil:
		return nil, &pawl.Error{Kind: pawl.Internal, Message: fmt.Sprintf("the runner of member %s has ended at once: %s", id, lastLine(log.Name()))}
	case said.Message != "":
		return nil, &pawl.Error{Kind: said.Kind, Message: said.Message, Hint: said.Hint}
	}
	return c.Settle(ctx, id)
}

// ready is the file to which this process reports, if Launch has started it. Its children do not get it.
var ready = func() *os.File {
	fd, err := strconv.Atoi(os.Getenv(readyEnv))
	if err != nil {
		return nil
	}
	_ = os.Unsetenv(readyEnv)
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "ready")
}()

// Ready reports to Launch that the member works or, with an error, why it does not. Only the first report
// counts, and it does nothing in a process that Launch has not started.
func Ready(cause error) {
	if ready == nil {
		return
	}
	said := readiness{}
	if cause != nil {
		said.Kind, said.Message = pawl.KindOf(cause), cause.Error()
		var e *pawl.Error
		if errors.As(cause, &e) {
			said.Hint = e.Hint
		}
	}
	text, _ := json.Marshal(said) // of strings and a number
	_, _ = ready.Write(text)      // who waits for it may be gone
	_ = ready.Close()
}
