package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Where a target's configuration has `forge: github`, its branch at the remote origin is the one that counts:
// what is submitted is pushed, and has a pull request; before work lands, the local branch is brought up to
// the remote one; and what lands is pushed first, if the remote branch has not moved.

const (
	remoteName = "origin"
	ghName     = "gh"
	forgeTime  = 2 * time.Minute // for one command that goes over the network
)

// gh runs the command line of GitHub in the repository, and returns what it prints.
func (c *Crew) gh(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, forgeTime)
	defer cancel()
	p := exec.CommandContext(ctx, ghName, args...)
	p.Dir, p.Env = c.Repo.Root, append(os.Environ(), "GH_PROMPT_DISABLED=1", "NO_COLOR=1")
	out, err := p.Output()
	var failed *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", ghMissing(err)
	case errors.As(err, &failed):
		return "", &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf("gh %s %s: %s", args[0], args[1], strings.TrimSpace(string(failed.Stderr)))}
	}
	return strings.TrimSpace(string(out)), err
}

func ghMissing(err error) error {
	if err == nil {
		return nil
	}
	return &pawl.Error{Kind: pawl.Invalid, Message: ConfigFile + " has forge: github, and the program gh cannot be found", Hint: "install it from https://cli.github.com, and sign in with: gh auth login"}
}

// overNetwork runs a git command that goes over the network.
func (r *Repo) overNetwork(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, forgeTime)
	defer cancel()
	if _, err := r.git(ctx, args...); err != nil {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the remote " + remoteName, Err: err}
	}
	return nil
}

// propose pushes a commit to the branch of an assignment, and returns the URL of its pull request, which it
// makes if there is none.
func (c *Crew) propose(ctx context.Context, m *Member, a *Assignment, head string) (string, error) {
	if err := c.Repo.overNetwork(ctx, "push", "--quiet", "--force", remoteName, head+":refs/heads/"+a.Branch); err != nil {
		return "", err
	}
	out, err := c.gh(ctx, "pr", "list", "--head", a.Branch, "--base", a.Target, "--state", "open", "--limit", "1", "--json", "url")
	if err != nil {
		return "", err
	}
	var open []struct{ URL string }
	if err := json.Unmarshal([]byte(out), &open); err != nil {
		return "", &pawl.Error{Kind: pawl.Unavailable, Message: "gh pr list does not print JSON", Err: err}
	}
	if len(open) > 0 {
		return open[0].URL, nil
	}
	out, err = c.gh(ctx, "pr", "create", "--head", a.Branch, "--base", a.Target, "--title", title(m, a), "--body", a.Prompt)
	lines := strings.Split(out, "\n")
	return lines[len(lines)-1], err
}

func title(m *Member, a *Assignment) string { return fmt.Sprintf("%s (%s)", a.Task, m.ID) }

// settleRequest closes the pull request of work that has landed, unless the forge has seen that itself, and
// removes the branch of the remote.
func (c *Crew) settleRequest(ctx context.Context, m *Member, a *Assignment, commit string) error {
	if m.PullRequest == "" {
		return nil
	}
	out, err := c.gh(ctx, "pr", "view", string(m.PullRequest), "--json", "state")
	if err != nil {
		return err
	}
	var now struct{ State string }
	if err := json.Unmarshal([]byte(out), &now); err != nil {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "gh pr view does not print JSON", Err: err}
	}
	if now.State == "OPEN" {
		if _, err := c.gh(ctx, "pr", "close", string(m.PullRequest), "--comment", "Landed on "+a.Target+" as "+commit); err != nil {
			return err
		}
	}
	_ = c.Repo.overNetwork(ctx, "push", "--quiet", remoteName, "--delete", "refs/heads/"+a.Branch) // the forge may have removed it
	return nil
}

// catchUp brings a target up to its branch at the remote. If it has commits of its own, a person has to
// decide.
func (r *Repo) catchUp(ctx context.Context, target string) error {
	ref := "refs/remotes/" + remoteName + "/" + target
	if err := r.overNetwork(ctx, "fetch", "--quiet", "--no-tags", remoteName, "+refs/heads/"+target+":"+ref); err != nil {
		return err
	}
	there, err := r.Commit(ctx, ref)
	if err != nil {
		return err
	}
	_, here, err := r.branch(ctx, target)
	if err != nil || here == there {
		return err
	}
	switch behind, err := r.contains(ctx, there, here); {
	case err != nil:
		return err
	case !behind:
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("%s has commits that %s does not have", target, remoteName), Hint: "push them, or move the branch back"}
	}
	return r.Land(ctx, &Candidate{Target: target, Old: here, Commit: there})
}

// push makes a candidate the head of its target at the remote, if that has not moved.
func (r *Repo) push(ctx context.Context, c *Candidate) error {
	ref := "refs/heads/" + c.Target
	err := r.overNetwork(ctx, "push", "--quiet", "--force-with-lease="+ref+":"+c.Old, remoteName, c.Commit+":"+ref)
	if err == nil {
		return nil
	}
	if moved := r.catchUp(ctx, c.Target); moved != nil {
		return errors.Join(err, moved)
	}
	if _, now, e := r.branch(ctx, c.Target); e == nil && now != c.Old {
		return fmt.Errorf("%s: %w", remoteName, ErrMoved)
	}
	return err
}
