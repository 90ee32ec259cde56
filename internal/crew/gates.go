package crew

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The states of a Check.
const (
	CheckPassed = "passed"
	CheckFailed = "failed"
	CheckError  = "error" // it could not be run, or took too long: that says nothing of the tree
)

// A Check is the result of a gate.
type Check struct {
	Gate     string  `json:"gate"`
	State    string  `json:"state"` // passed, failed or error
	Advisory bool    `json:"advisory,omitempty"`
	Seconds  float64 `json:"seconds"`
	Reason   string  `json:"reason,omitempty"`
	Log      string  `json:"log"` // a file with what it has printed
}

// Checks are the results of the gates on a tree.
type Checks struct {
	Tree   string  `json:"tree"`
	Config string  `json:"config"` // digest of the gates
	List   []Check `json:"checks"`
}

// Refusal returns the first check that keeps a tree from landing, or nil.
func (c *Checks) Refusal() *Check {
	for i, one := range c.List {
		if one.State != CheckPassed && !one.Advisory {
			return &c.List[i]
		}
	}
	return nil
}

// A GateError says that a gate refuses a tree.
type GateError struct{ Gate, Reason string }

func (e *GateError) Error() string { return "gate " + e.Gate + " has failed: " + e.Reason }

// err returns a *GateError if a check refuses a tree, and an error of kind Unavailable if a gate could not
// be run: that is no refusal (C12).
func (c *Check) err() error {
	switch {
	case c == nil:
		return nil
	case c.State == CheckFailed:
		return &GateError{c.Gate, c.Reason}
	}
	return &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf("gate %s could not be run: %s", c.Gate, c.Reason), Hint: "what it has printed is in " + c.Log}
}

// digest identifies gates, as results depend on them.
func digest(gates []Gate) string {
	text, _ := json.Marshal(gates) // of strings and numbers
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// A trial is a tree that is tested for a member, by the gates of the target.
type trial struct {
	member *Member
	a      *Assignment
	commit string // that has the tree
	base   string // the head of the target
	gates  []Gate
}

// Check runs the gates on what a member has submitted, and returns their results. Those of an earlier
// call count if all have passed.
func (c *Crew) Check(ctx context.Context, id string) (*Checks, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := c.trialOf(ctx, m)
	if err != nil {
		return nil, err
	}
	return c.try(ctx, t)
}

// trialOf returns the trial of what a member has submitted.
func (c *Crew) trialOf(ctx context.Context, m *Member) (*trial, error) {
	if m.State != lifecycle.MemberInReview && m.State != lifecycle.MemberApproved && (m.State != lifecycle.MemberStale || m.Review != reviewPending) {
		return nil, pawl.Errorf(pawl.Conflict, "member %s is %s: it has submitted nothing to review", m.ID, m.State)
	}
	r, err := c.Review(m)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, missingReview(m)
	}
	a, err := c.Assignment(m)
	if err != nil {
		return nil, err
	}
	base, config, err := c.Repo.target(ctx, a.Target)
	if err != nil {
		return nil, err
	}
	return &trial{m, a, r.Head, base, config.Gates}, nil
}

// gated returns an error unless what a member has submitted has passed the gates. It runs none.
func (c *Crew) gated(ctx context.Context, t *trial) error {
	if len(t.gates) == 0 {
		return nil
	}
	tree, err := c.Repo.tree(ctx, t.commit)
	if err != nil {
		return err
	}
	have, err := c.Checked(t.member)
	switch {
	case err != nil:
		return err
	case have == nil || have.Tree != tree || have.Config != digest(t.gates):
		return &pawl.Error{Kind: pawl.Conflict, Message: "the gates of " + t.a.Target + " have not run on " + short(t.commit), Hint: "pawl crew review " + t.member.ID + " runs them"}
	}
	return have.Refusal().err()
}

const gatesLock = "gates.lock"

func (c *Crew) checksFile(m *Member) string {
	return filepath.Join(c.runDir(m.ID, m.Epoch), "checks.json")
}

// Checked returns the last results of the gates for a member's assignment, or nil.
func (c *Crew) Checked(m *Member) (*Checks, error) {
	text, err := readFile(c.checksFile(m), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := new(Checks)
	return list, json.Unmarshal(text, list)
}

// try runs the gates on a tree, in a worktree that is thrown away. A tree that has passed the same gates
// before is not tested again.
func (c *Crew) try(ctx context.Context, t *trial) (*Checks, error) {
	lock, err := durable.Acquire(ctx, filepath.Join(c.runDir(t.member.ID, t.member.Epoch), gatesLock))
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	tree, err := c.Repo.tree(ctx, t.commit)
	if err != nil {
		return nil, err
	}
	now := &Checks{Tree: tree, Config: digest(t.gates)}
	if len(t.gates) == 0 {
		return now, nil
	}
	if before, err := c.Checked(t.member); err != nil || before.passed(now) {
		return before, err
	}
	dir := filepath.Join(c.Trees, ".gates", fmt.Sprintf("%s.%d", t.member.ID, t.member.Epoch))
	if _, err := process.Sweep(ctx, c.mark("PAWL_GATES", t.member)); err != nil { // what is left of gates whose process was killed
		return nil, err
	}
	if err := c.Repo.Checkout(ctx, dir, t.commit); err != nil {
		return nil, err
	}
	now.List, err = c.runGates(ctx, t, dir)
	if err := errors.Join(err, c.Repo.Discard(context.WithoutCancel(ctx), dir)); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return nil, err
	}
	return now, c.Disk.Publish(c.checksFile(t.member), append(text, '\n'))
}

// passed reports whether these are the results of the same gates on the same tree, and all of them say
// something of it.
func (c *Checks) passed(now *Checks) bool {
	return c != nil && c.Tree == now.Tree && c.Config == now.Config && c.Refusal() == nil &&
		!slices.ContainsFunc(c.List, func(one Check) bool { return one.State == CheckError })
}

// runGates runs the gates in a worktree, until one refuses it.
func (c *Crew) runGates(ctx context.Context, t *trial, dir string) (list []Check, err error) {
	for _, g := range t.gates {
		one := Check{Gate: g.Name, Advisory: g.Advisory, State: CheckPassed, Log: filepath.Join(c.runDir(t.member.ID, t.member.Epoch), "gate-"+g.Name+".log")}
		begun := time.Now()
		err := c.command(ctx, g.Command, dir, one.Log, append(c.environment(t.member, t.a), "PAWL_GATE="+g.Name, "PAWL_COMMIT="+t.commit, "PAWL_BASE="+t.base), c.mark("PAWL_GATES", t.member))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		one.Seconds = time.Since(begun).Round(time.Millisecond).Seconds()
		var failed *commandError
		switch {
		case errors.As(err, &failed) && !failed.broken:
			one.State, one.Reason = CheckFailed, err.Error()
		case err != nil:
			one.State, one.Reason = CheckError, err.Error()
		}
		if list = append(list, one); one.State != CheckPassed && !one.Advisory {
			break
		}
	}
	return list, nil
}

// tempFailure is the exit code by which a command says that it could not do its work (EX_TEMPFAIL of
// sysexits.h).
const tempFailure = 75

// A commandError says how a command failed.
type commandError struct {
	how    string
	last   string // line that it printed
	broken bool   // it says nothing of what it was run on
}

func (e *commandError) Error() string {
	if e.last == "" {
		return e.how
	}
	return e.how + ": " + e.last
}

// command runs a command of the configuration, and what it has left running is ended with it. What it
// prints goes to a file.
func (c *Crew) command(ctx context.Context, cmd Command, dir, log string, env []string, mark string) error {
	if err := os.Remove(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out := process.OpenLog(process.LogConfig{Path: log, MaxSize: runLog, MaxFiles: 1})
	defer out.Close()
	run, err := process.Start(process.Spec{Path: "/bin/sh", Args: []string{"sh", "-c", cmd.Run}, Dir: dir, Env: append(foreign(), env...),
		Mark: mark, Stdout: out, Stderr: out})
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, cmd.Timeout)
	defer cancel()
	select {
	case <-run.Done():
	case <-within.Done():
		run.Stop(context.Background(), syscall.SIGTERM, stopGrace)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &commandError{how: fmt.Sprintf("it took longer than %s", cmd.Timeout), broken: true}
	}
	switch e := run.Exit(); {
	case e.Signal != 0:
		return &commandError{how: "it was ended by signal " + e.Signal.String(), last: lastLine(log)}
	case e.Code != 0:
		return &commandError{how: fmt.Sprintf("it has ended with code %d", e.Code), last: lastLine(log), broken: e.Code == tempFailure}
	}
	return nil
}

// lastLine returns the last line of a log that is not empty, or what could be read of it.
func lastLine(path string) string {
	const most = 300
	var b bytes.Buffer
	_ = process.Tail(&b, path, 20) // nothing depends on it
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	return strings.ToValidUTF8(line[:min(len(line), most)], "?")
}
