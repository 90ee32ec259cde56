package crew

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
)

//go:embed pages
var pages embed.FS

var taskPage = template.Must(template.New("task.md").Funcs(template.FuncMap{"short": short, "trim": strings.TrimSpace}).ParseFS(pages, "pages/task.md"))

// Guide returns a page for the program that works for a member: its task, its branch, and what it
// may do.
func (c *Crew) Guide(id string) (string, error) {
	s, err := c.Status(id)
	if err != nil {
		return "", err
	}
	if s.Assignment == nil {
		return "", pawl.Errorf(pawl.Conflict, "member %s has no task: it is %s", id, s.Member.State)
	}
	var b strings.Builder
	err = taskPage.Execute(&b, struct {
		*Status
		Why string
	}{s, s.why()})
	return b.String(), err
}

// why returns why work has come back, or nothing.
func (s *Status) why() string {
	_, returned := backEvents[string(s.Member.Attention)]
	if r := s.Review; !returned && s.Member.Review == reviewChanges && r != nil {
		return r.By + " has requested changes: " + r.Text
	}
	return string(s.Member.LastError)
}

// sectionBegin and sectionEnd enclose what Pawl writes in files of others.
const (
	sectionBegin = "<!-- pawl crew: begin. What is between these lines is replaced by pawl crew init --agents-md -->"
	sectionEnd   = "<!-- pawl crew: end -->"
)

// WriteGuides writes what agents have to know into AGENTS.md and into a skill, where the common agent
// programs look, in the main worktree. What others have written there stays. It returns the files that it has changed.
func (r *Repo) WriteGuides() (changed []string, err error) {
	section, err := pages.ReadFile("pages/section.md")
	if err != nil {
		return nil, err
	}
	head, err := pages.ReadFile("pages/skill.md")
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ path, head string }{
		{"AGENTS.md", ""},
		{".agents/skills/pawl-crew/SKILL.md", string(head)},
		{".claude/skills/pawl-crew/SKILL.md", string(head)},
	} {
		wrote, err := writeSection(filepath.Join(r.Root, filepath.FromSlash(f.path)), f.head, string(section))
		if err != nil {
			return changed, err
		}
		if wrote {
			changed = append(changed, f.path)
		}
	}
	return changed, nil
}

// writeSection replaces the section in a file, or adds it at the end; a new file begins with head.
// It reports whether the file has changed.
func writeSection(path, head, section string) (bool, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	next, err := withSection(string(text), head, section)
	if err != nil {
		return false, &pawl.Error{Kind: pawl.Conflict, Message: path + ": " + err.Error(), Hint: "remove the line that is left of it"}
	}
	if next == string(text) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	return true, durable.Disk{}.Publish(path, []byte(next))
}

func withSection(text, head, section string) (string, error) {
	section = sectionBegin + "\n" + strings.TrimSpace(section) + "\n" + sectionEnd
	before, rest, begun := strings.Cut(text, sectionBegin)
	_, after, ended := strings.Cut(rest, sectionEnd)
	switch {
	case begun && ended:
		return before + section + after, nil
	case begun || strings.Contains(text, sectionEnd):
		return "", errors.New("only one of the two lines that enclose the section of Pawl is there")
	case text == "":
		return head + section + "\n", nil
	}
	return strings.TrimRight(text, "\n") + "\n\n" + section + "\n", nil
}

// Unsubmitted returns what is left to do for a member that has not submitted its work on an assignment, or
// nothing; epoch 0 is the present one.
func (c *Crew) Unsubmitted(ctx context.Context, id string, epoch int64) (string, error) {
	m, err := c.Load(id)
	if err != nil || m.State != lifecycle.MemberWorking || epoch != 0 && epoch != m.Epoch {
		return "", err
	}
	a, err := c.Assignment(m)
	if err != nil {
		return "", err
	}
	tree, err := c.Repo.Inspect(ctx, a.Worktree, a.Base)
	if err != nil {
		return "", err
	}
	if err := tree.submittable(a); err != nil {
		return err.Error(), nil
	}
	return "all is committed", nil
}
