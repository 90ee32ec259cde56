package runner

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// A folder is the temporary folder of one attempt, for its user's eyes only.
type folder struct {
	path   string
	input  string // PAWL_INPUT
	out    string // PAWL_OUTPUT
	script string // of run
}

func makeFolder(parent string, t *Task) (*folder, error) {
	path, err := os.MkdirTemp(parent, "pawl-")
	if err != nil {
		return nil, err
	}
	f := &folder{
		path:   path,
		input:  filepath.Join(path, "input.json"),
		out:    filepath.Join(path, "output.json"),
		script: filepath.Join(path, "run.sh"),
	}
	if err := f.fill(t); err != nil {
		f.remove(t.Log)
		return nil, err
	}
	return f, nil
}

func (f *folder) fill(t *Task) error {
	input := t.Input
	if input == nil {
		input = []byte("{}")
	}
	if err := os.WriteFile(f.input, input, 0o600); err != nil {
		return err
	}
	if t.Work.Kind != workflow.KindRun {
		return nil
	}
	return os.WriteFile(f.script, []byte(t.Work.Script), 0o600)
}

func (f *folder) remove(log *Log) {
	if err := os.RemoveAll(f.path); err != nil {
		log.Notef("the folder of the attempt was not removed: %v", err)
	}
}

// result reads what was written to PAWL_OUTPUT, at most limit bytes. It is not
// written if the file is missing or empty.
func (f *folder) result(limit int) (s source, written bool, failure *pawl.Failure) {
	// Not to wait for a writer, should it be a pipe.
	file, err := os.OpenFile(f.out, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, false, nil
	}
	if err != nil {
		return source{}, false, permanent("invalid_output", "PAWL_OUTPUT cannot be read: %v", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return source{}, false, permanent("invalid_output", "PAWL_OUTPUT is not a regular file any more")
	}
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return source{}, false, permanent("invalid_output", "PAWL_OUTPUT cannot be read: %v", err)
	}
	s = source{name: "PAWL_OUTPUT", bytes: b[:min(len(b), limit)], over: len(b) > limit, limit: limit}
	return s, len(b) > 0, nil
}
