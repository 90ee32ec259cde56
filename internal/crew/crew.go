package crew

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
)

// A Crew is the members of a repository.
type Crew struct {
	*Folder
	Repo  *Repo
	Trees string // the folder of the worktrees, outside of the repository
}

// An Assignment is what a member works on. It is written before the member has it, and never
// changes: the next attempt is another one, of the next epoch.
type Assignment struct {
	Task     string         `json:"task"`
	Attempt  int            `json:"attempt"`
	Target   string         `json:"target"` // the branch on which the work is to land
	Base     string         `json:"base"`   // the commit at which it begins
	Branch   string         `json:"branch"`
	Worktree string         `json:"worktree"`
	Prompt   string         `json:"prompt,omitempty"`
	Request  string         `json:"request,omitempty"` // of the caller, such as the id of a step
	Before   pawl.Timestamp `json:"not_before"`        // it does not begin earlier; null for at once
}

const assignmentFile = "assignment.json"

// Assignment returns the assignment of a member.
func (c *Crew) Assignment(m *Member) (*Assignment, error) {
	a, err := readAssignment(filepath.Join(c.runDir(m.ID, m.Epoch), assignmentFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = pawl.Errorf(pawl.NotFound, "member %s has no assignment of epoch %d", m.ID, m.Epoch)
	}
	return a, err
}

func readAssignment(path string) (*Assignment, error) {
	text, err := readFile(path, maxState)
	if err != nil {
		return nil, err
	}
	a := new(Assignment)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, &pawl.Error{Kind: pawl.Internal, Message: path + " is not JSON", Err: err}
	}
	return a, nil
}

func (c *Crew) writeAssignment(id string, epoch int64, a *Assignment) error {
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	dir := c.runDir(id, epoch)
	if err := c.Disk.MakeDir(dir); err != nil {
		return err
	}
	return c.Disk.Publish(filepath.Join(dir, assignmentFile), append(text, '\n'))
}

// branchOf returns the branch of an attempt, and worktreeOf its worktree (C7).
func branchOf(member, task string, attempt int) string {
	if attempt == 1 {
		return member + "/" + task
	}
	return fmt.Sprintf("%s/%s.%d", member, task, attempt)
}

func (c *Crew) worktreeOf(member, task string, attempt int) string {
	return filepath.Join(c.Trees, member, fmt.Sprintf("%s.%d", task, attempt))
}

// backoff returns how long to wait before an attempt: 10 s before the second, twice as long before
// each further one, and 5 min at most (C1).
func backoff(attempt int) time.Duration {
	const first, most = 10 * time.Second, 5 * time.Minute
	if attempt < 2 {
		return 0
	}
	return min(first<<min(attempt-2, 10), most)
}

// A Caller is who asks for something.
type Caller struct {
	Actor   string // a person or a program; "member:" and an id for one of the crew
	Reason  string
	Request string
	Epoch   int64 // of the assignment that the caller works on; 0: whichever there is
	Version int64 // the member must have this version; 0: any
}

const memberActor = "member:"

// allow returns an error unless a caller may change a member as it is.
func (by *Caller) allow(m *Member) error {
	switch {
	case by.Epoch != 0 && by.Epoch != m.Epoch:
		return pawl.Errorf(pawl.Conflict, "member %s is at epoch %d, and this is of epoch %d: that assignment is over", m.ID, m.Epoch, by.Epoch)
	case by.Version != 0 && by.Version != m.Version:
		return pawl.Errorf(pawl.Conflict, "member %s has version %d, and not %d", m.ID, m.Version, by.Version)
	}
	return nil
}

// move returns the move that a caller makes.
func (by *Caller) move(set func(*Member)) *Move {
	return &Move{Actor: by.Actor, Reason: by.Reason, Request: by.Request, Set: set}
}

// act changes a member for a caller. decide may do what has to be done before the change; if the
// process is killed between the two, it is done again.
func (c *Crew) act(ctx context.Context, id string, by Caller, decide func(*Member) (*Move, error)) (*Member, error) {
	return c.Change(ctx, id, func(m *Member) (*Move, error) {
		if err := by.allow(m); err != nil {
			return nil, err
		}
		return decide(m)
	})
}

// resting reports whether nobody works on the task of a member.
func resting(m *Member) bool { return m.Task == "" || restingStates[m.State] }

func reasonOr(by Caller, or string) text { return text(cmp.Or(by.Reason, or)) }
