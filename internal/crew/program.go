package crew

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl"
)

const programsDir = "programs"

func (c *Crew) program(id string) string { return filepath.Join(c.Dir, programsDir, id+".json") }

// SetProgram sets the program that works for a member when nothing else is named.
func (c *Crew) SetProgram(id string, argv []string) error {
	if err := CheckID(id); err != nil {
		return err
	}
	text, err := json.Marshal(map[string][]string{"argv": argv})
	if err != nil {
		return err
	}
	if err := c.Disk.MakeDir(filepath.Join(c.Dir, programsDir)); err != nil {
		return err
	}
	return c.Disk.Publish(c.program(id), append(text, '\n'))
}

// ProgramOf returns the program that works for a member.
func (c *Crew) ProgramOf(id string) (argv []string, err error) {
	if _, err := c.Load(id); err != nil {
		return nil, err
	}
	text, err := readFile(c.program(id), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "member " + id + " has no program", Hint: "name it after --, here or for pawl crew spawn"}
	}
	if err != nil {
		return nil, err
	}
	var p struct{ Argv []string }
	if err := json.Unmarshal(text, &p); err != nil || len(p.Argv) == 0 {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: c.program(id) + " is not JSON with an argv", Err: err}
	}
	return p.Argv, nil
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
// for all that there is room for.
func (c *Crew) OutputOf(id string, epoch int64, lines int) (o *Output, err error) {
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
