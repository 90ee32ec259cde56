package crew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/health"
)

// Examine reports what is wrong with the crew of the repository that a folder is in, and what to do.
func Examine(ctx context.Context, dir, state string) []health.Finding {
	found := []health.Finding{examineGit(ctx)}
	if found[0].Severity == health.Problem {
		return found
	}
	c, err := Find(ctx, dir, state)
	if err != nil {
		return append(found, judged("crew", "", err, "", "problem if there is none", "pawl crew init makes one"))
	}
	found = append(found,
		judged("crew", "", nil, c.Dir, "problem if there is none", ""),
		judged("locks", c.Dir, durable.Selftest(ctx, c.Dir), "a second process is kept out", "problem if they do not exclude a second process", "put the repository on a local disk"),
		c.examineExclude(),
		c.examineConfig(ctx),
	)
	found = append(found, c.examineMembers(ctx)...)
	found = append(found, c.examineLeftovers()...)
	return append(found, c.examineTrees(ctx)...)
}

// judged returns a finding that is a problem if there is an error.
func judged(check, subject string, err error, measured, threshold, cure string) health.Finding {
	f := health.Finding{Check: check, Severity: health.OK, Subject: subject, Measured: measured, Threshold: threshold}
	if err != nil {
		f.Severity, f.Measured, f.Cure = health.Problem, strings.ReplaceAll(err.Error(), "\n", "; "), cure
		var e *pawl.Error
		if errors.As(err, &e) && e.Hint != "" {
			f.Cure = e.Hint
		}
	}
	return f
}

func examineGit(ctx context.Context) health.Finding {
	version, err := GitVersion(ctx)
	if err == nil {
		err = CheckGit(ctx)
	}
	return judged("git", "", err, version, "problem if it is older than "+leastGit, "install a newer git")
}

func (c *Crew) examineExclude() health.Finding {
	f := health.Finding{Check: "exclude", Severity: health.OK, Measured: "git ignores " + FolderName, Threshold: "warning if git does not ignore " + FolderName}
	text, err := os.ReadFile(filepath.Join(c.Repo.dir, "info", "exclude"))
	if err != nil || !slices.Contains(strings.Split(string(text), "\n"), "/"+FolderName+"/") {
		f.Severity, f.Measured, f.Cure = health.Warning, "git does not ignore "+FolderName, "pawl crew init"
	}
	return f
}

// examineConfig reads the configuration of the branch that is checked out, on which work lands by default.
func (c *Crew) examineConfig(ctx context.Context) health.Finding {
	branch, err := c.Repo.CurrentBranch(ctx)
	var config *Config
	if err == nil {
		_, config, err = c.Repo.target(ctx, branch)
	}
	measured := ""
	if err == nil {
		measured = fmt.Sprintf("%d gates, approval by %s, merge by %s", len(config.Gates), config.Approval, config.Strategy)
	}
	return judged("config", branch, err, measured, "problem if its "+ConfigFile+" is not valid", "commit a valid "+ConfigFile)
}

// examineMembers settles every member and reads its whole history.
func (c *Crew) examineMembers(ctx context.Context) (found []health.Finding) {
	ids, err := c.Members()
	if err != nil {
		return []health.Finding{judged("members", "", err, "", "problem if they cannot be read", "see the message")}
	}
	for _, id := range ids {
		m, err := c.Settle(ctx, id)
		rows := 0
		if err == nil {
			err = c.History(id, func(*audit.Entry) error { rows++; return nil })
		}
		measured := ""
		if err == nil {
			measured = fmt.Sprintf("%s, version %d, %d rows of history", m.State, m.Version, rows)
		}
		found = append(found, judged("member", id, err, measured, "problem if its state is not what its history leads to",
			"pawl crew patrol --fix puts what was changed aside; a damaged history needs a backup"))
		if err == nil && m.Attention != "" {
			found = append(found, health.Finding{Check: "attention", Severity: health.Warning, Subject: id, Measured: string(m.Attention), Threshold: "warning if a member needs a person", Cure: "pawl crew show " + id})
		}
	}
	return found
}

// examineLeftovers names what writers have left that were killed.
func (c *Crew) examineLeftovers() (found []health.Finding) {
	_ = filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".torn-") {
			found = append(found, health.Finding{Check: "torn_line", Severity: health.Warning, Subject: path, Measured: "an incomplete line, of a writer that was killed",
				Threshold: "warning if there is one", Cure: "nothing has used it; remove the file when it tells you nothing"})
		}
		return nil // what cannot be read is found otherwise
	})
	return found
}

// examineTrees names what patrol would remove.
func (c *Crew) examineTrees(ctx context.Context) (found []health.Finding) {
	left, err := c.leftovers(ctx)
	if err != nil {
		return []health.Finding{judged("worktrees", "", err, "", "problem if they cannot be listed", "see the message")}
	}
	for _, l := range left {
		f := health.Finding{Check: "worktree", Severity: health.Warning, Subject: l.member, Measured: l.text, Threshold: "warning if a worktree is of no assignment that goes on", Cure: "pawl crew patrol --fix"}
		if l.a == nil {
			f.Cure = "look what it has, and remove it"
		}
		found = append(found, f)
	}
	return found
}
