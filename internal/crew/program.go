package crew

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/process"
)

const agentsDir = "agents"

func (c *Crew) agent(id string) string { return filepath.Join(c.Dir, agentsDir, id+".json") }

// An Agent is what works for a member when nothing else is named: a profile, or a program.
type Agent struct {
	Profile string   `json:"profile,omitempty"`
	Argv    []string `json:"argv,omitempty"`
}

// SetAgent sets what works for a member.
func (c *Crew) SetAgent(id string, a Agent) error {
	if err := CheckID(id); err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := c.Disk.MakeDir(filepath.Join(c.Dir, agentsDir)); err != nil {
		return err
	}
	return c.Disk.Publish(c.agent(id), append(text, '\n'))
}

// AgentOf returns what works for a member.
func (c *Crew) AgentOf(id string) (a Agent, err error) {
	if _, err := c.Load(id); err != nil {
		return a, err
	}
	text, err := readFile(c.agent(id), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return a, &pawl.Error{Kind: pawl.Invalid, Message: "member " + id + " has no program", Hint: "name it after --, here or for pawl crew spawn"}
	}
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil || (a.Profile == "") == (len(a.Argv) == 0) {
		return a, &pawl.Error{Kind: pawl.Invalid, Message: c.agent(id) + " is not JSON with either a profile or an argv", Err: err}
	}
	return a, nil
}

// Check returns an error if a program is in no folder of PATH, before a member works for it. One whose name
// has a slash may be in the worktree, which need not exist yet.
func (p *Program) Check() error {
	if strings.Contains(p.Argv[0], "/") {
		return nil
	}
	if _, err := process.Find(p.Argv[0], "", os.Getenv("PATH")); err != nil {
		return p.missing(err)
	}
	return nil
}

func (p *Program) missing(err error) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: "the program " + p.Argv[0] + " cannot be run",
		Hint: "install it, or run another one: pawl crew start MEMBER -- COMMAND", Err: err}
}

const promptFile = "prompt.md"

// ProgramFor returns the program of a member for its assignment. Profiles are searched in a folder, too.
func (c *Crew) ProgramFor(m *Member, folder string) (Program, error) {
	a, err := c.AgentOf(m.ID)
	if err != nil || a.Profile == "" {
		return Program{Argv: a.Argv}, err
	}
	p, err := FindProfile(folder, a.Profile)
	if err != nil {
		return Program{}, err
	}
	page, err := c.Guide(m.ID)
	if err != nil {
		return Program{}, err
	}
	run, err := c.RunOf(m.ID, m.Epoch)
	if err != nil {
		return Program{}, err
	}
	file := filepath.Join(c.runDir(m.ID, m.Epoch), promptFile)
	scope := Scope{Prompt: page, PromptFile: file, Session: c.session(m.ID, m.Epoch), GitDir: c.Repo.dir, CrewDir: c.Dir}
	return p.Program(scope, run.Launched), c.Disk.Publish(file, []byte(page))
}

// An Output is the end of what the program of an assignment has printed.
type Output struct {
	ID     string `json:"worker_id"`
	Epoch  int64  `json:"epoch"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// maxOutput is how much of each stream an Output has at most, in bytes.
const maxOutput = 1 << 20

// OutputOf returns what the program of an assignment has printed: the last lines of each stream, 0
// for all that there is room for. Epoch 0 is the newest assignment that has had a program.
func (c *Crew) OutputOf(id string, epoch int64, lines int) (o *Output, err error) {
	m, err := c.Load(id)
	if err != nil {
		return nil, err
	}
	if epoch == 0 {
		for epoch = m.Epoch; epoch > 1; epoch-- {
			if r, err := c.RunOf(id, epoch); err != nil {
				return nil, err
			} else if r.Launched {
				break
			}
		}
	}
	o = &Output{ID: id, Epoch: epoch}
	dir := c.runDir(id, epoch)
	if o.Stdout, err = tail(filepath.Join(dir, "stdout.log"), lines); err != nil {
		return nil, err
	}
	o.Stderr, err = tail(filepath.Join(dir, "stderr.log"), lines)
	return o, err
}

// tail returns the last lines of a file, at most maxOutput bytes. A file that is missing is empty.
func tail(path string, lines int) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	text := make([]byte, min(size, maxOutput))
	if _, err := f.ReadAt(text, size-int64(len(text))); err != nil && err != io.EOF {
		return "", err
	}
	if lines == 0 {
		return string(text), nil
	}
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; lines > 0 && at >= 0; lines-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return string(text[at+1:]), nil
}
