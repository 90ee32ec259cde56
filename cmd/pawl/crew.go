package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/files"
)

const crewLong = `A crew is several coding agents, or scripts, that work on one git repository at the same time.
Each member has a worktree and a branch of its own for each task. What it submits is reviewed;
what is approved lands on the target branch, one at a time, as the commit that was tested.

There is no server and no database: the crew is the folder .worker-state in the main worktree,
and git. docs/crew.md is the manual, docs/crew-files.md describes the files.

A command works on the repository of the current folder, which may be any of its worktrees.
--repo names another; without it PAWL_CREW does, which the program of a member has. A command
that takes a MEMBER takes PAWL_WORKER if none is named, which such a program has, too. With
--json, the same as -o json, what is printed to stdout is JSON of one shape for each command.

Exit codes: 0 ok, 1 failed, 2 usage or invalid input, 3 not found, 4 not allowed (such as
approving one's own work), 5 conflict (a change that the state does not allow), 6 busy, 7 a
gate has failed, 8 a conflict with the target, 9 refused, since work would be lost, 10 a person
has to decide, 130 interrupted.`

// A crewApp has what all commands of a crew need.
type crewApp struct {
	*app
	repo string // a folder in the repository; empty: that of PAWL_CREW, or the current one
	json bool
}

func newCrew(a *app) *cobra.Command {
	k := &crewApp{app: a}
	c := group(&cobra.Command{
		Use: "crew", Short: "Let coding agents work on branches of their own, and land what is approved", Long: crewLong,
		Example: "  pawl crew init\n  pawl crew spawn auth -- ./agent.sh\n  pawl crew run auth login-page -f task.md\n  pawl crew list",
	})
	c.PersistentFlags().StringVar(&k.repo, "repo", "", "a folder in the repository; default that of PAWL_CREW, or the current one")
	c.PersistentFlags().BoolVar(&k.json, "json", false, "the same as -o json")
	c.AddCommand(k.newInit(), k.newDoctor(), k.newPrompt(), k.newHook(),
		k.newSpawn(), k.newAssign(), k.newStart(), k.newRun(), k.newHeartbeat(),
		k.newSubmit(), k.newFail(), k.newCancel(), k.newRetry(), k.newReset(), k.newRecycle(),
		k.newReview(), k.newDiff(), k.newApprove(), k.newRequestChanges(), k.newMerge(), k.newQueue(),
		k.newPatrol(), k.newList(), k.newShow(), k.newHistory(), k.newLog(), k.newWatch(), k.newSend(), k.newInbox())
	return c
}

// folder returns a folder in the repository of the crew.
func (k *crewApp) folder() string {
	switch dir := k.getenv("PAWL_CREW"); {
	case k.repo != "":
		return k.repo
	case dir != "":
		return filepath.Dir(dir)
	}
	return "."
}

// place returns the folder in the repository, and that of worktrees.
func (k *crewApp) place() (dir, state string, err error) {
	if state, err = k.stateHome("set XDG_STATE_HOME", "worktrees are"); err != nil {
		return "", "", err
	}
	if dir, err = filepath.Abs(k.folder()); err == nil {
		if _, err = os.Stat(dir); err != nil {
			err = files.Error(dir, err)
		}
	}
	return dir, state, err
}

// open opens the crew.
func (k *crewApp) open(ctx context.Context) (*crew.Crew, error) {
	dir, state, err := k.place()
	if err != nil {
		return nil, err
	}
	return crew.Find(ctx, dir, state)
}

// on runs f on the crew, with the arguments of a command.
func (k *crewApp) on(f func(ctx context.Context, cr *crew.Crew, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cr, err := k.open(c.Context())
		if err != nil {
			return err
		}
		return f(c.Context(), cr, args)
	}
}

// bind adds the flag --output to a command; --json is the same as one of its values.
func (k *crewApp) bind(c *cobra.Command, form *string, what string) {
	bindForm(k.app, c, form, what)
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if k.json && c.Flags().Changed("output") && *form != formJSON {
			return usage("", "--json and --output %s: want one of them", *form)
		}
		if k.json {
			*form = formJSON
		}
		return run(c, args)
	}
}

// member returns the member that a command is about: its argument, or who runs it.
func (k *crewApp) member(args []string) (string, error) {
	id := optional(args)
	if id == "" {
		id = k.getenv("PAWL_WORKER")
	}
	if id == "" {
		return "", usage("list them with: pawl crew list", "name a MEMBER; only in the program of a member there is a default, PAWL_WORKER")
	}
	return id, nil
}

// A crewChange has the flags of a command that changes a member.
type crewChange struct {
	reason  string
	version int64
}

func (o *crewChange) bind(c *cobra.Command) {
	bindReason(c, &o.reason)
	c.Flags().Int64Var(&o.version, "expect-version", 0, "change nothing unless the member has this version; 0 is any")
}

// caller returns who changes a member. The program of a member is that member, and what it does to
// itself is about its own assignment only.
func (k *crewApp) caller(id string, o crewChange) (crew.Caller, error) {
	by := crew.Caller{Actor: k.actor(), Reason: o.reason, Version: o.version}
	if o.version < 0 {
		return by, usage("", "--expect-version %d: want 0 or more", o.version)
	}
	worker := k.getenv("PAWL_WORKER")
	if worker == "" {
		return by, nil
	}
	by.Actor = crew.ActorOf(worker)
	epoch, err := k.epoch()
	if id == worker {
		by.Epoch = epoch
	}
	return by, err
}

// epoch returns the epoch of the assignment that the caller works on, or 0.
func (k *crewApp) epoch() (int64, error) {
	text := k.getenv("PAWL_EPOCH")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, usage("", "PAWL_EPOCH %q: want a whole number from 1 on", text)
	}
	return n, nil
}

// completeMembers offers the members to the shell.
func (k *crewApp) completeMembers(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	cr, err := k.open(c.Context())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	board, err := cr.Board()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var words []string
	for _, row := range console.CrewRows(board, cr.Now())[1:] {
		words = append(words, row[0]+"\t"+row[1])
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// Exit codes that only a crew has.
const (
	codeGateFailed    = 7
	codeMergeConflict = 8
	codeWouldLose     = 9
	codePending       = 10
)

// landingCodes are the exit codes for work that has not landed.
var landingCodes = map[string]int{crew.Conflict: codeMergeConflict, crew.GateFailed: codeGateFailed, crew.HeadMoved: codePending, crew.Gone: codeConflict}

// crewCode returns the exit code of an error of a crew, or 0 if it is none.
func crewCode(err error) int {
	var loss *crew.LossError
	var gate *crew.GateError
	var clash *crew.ConflictError
	var back *crew.ReturnedError
	switch {
	case errors.As(err, &loss):
		return codeWouldLose
	case errors.As(err, &gate):
		return codeGateFailed
	case errors.As(err, &clash):
		return codeMergeConflict
	case errors.As(err, &back):
		return landingCodes[back.State]
	case errors.Is(err, durable.ErrHeld):
		return codeUnavailable
	}
	return 0
}
