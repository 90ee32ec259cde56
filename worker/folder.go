package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/private"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/workflow"
)

// folderPattern names the folders of attempts.
const folderPattern = "pawl-attempt-*"

// sweepLimit bounds the wait for processes that were killed to be gone.
const sweepLimit = 5 * time.Second

// A folder is the temporary folder of one attempt, which only its user may enter. It is
// locked for as long as its process lives, so that other processes recognize a folder
// that was left behind. See sweep.
type folder struct {
	path   string
	lock   *os.File // the folder itself
	input  string   // PAWL_INPUT
	out    string   // PAWL_OUTPUT
	script string   // of run
}

func makeFolder(parent string, t *Task) (*folder, error) {
	path, lock, err := lockedFolder(parent)
	if err != nil {
		return nil, err
	}
	f := &folder{
		path:   path,
		lock:   lock,
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

// lockedFolder makes a folder and locks it. If a sweep has removed it in between, it is
// made again.
func lockedFolder(parent string) (path string, lock *os.File, err error) {
	for {
		if path, err = os.MkdirTemp(parent, folderPattern); err != nil {
			return "", nil, err
		}
		if lock, err = os.Open(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", nil, err
		}
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			lock.Close()
			return "", nil, err
		}
		if _, err = os.Stat(path); err == nil {
			return path, lock, nil
		}
		lock.Close()
	}
}

// sweep removes the folders of attempts whose process was killed, after it has
// killed what these attempts left running: they are about to be run again.
func sweep(parent string) {
	if parent == "" {
		parent = os.TempDir()
	}
	paths, err := filepath.Glob(filepath.Join(parent, folderPattern))
	if err != nil {
		return
	}
	for _, path := range paths {
		sweepOne(path)
	}
}

func sweepOne(path string) {
	// Any user who may write to the parent can make links and pipes with such a name.
	lock, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	if info, err := lock.Stat(); err != nil || !private.Own(info) {
		return
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return // its process lives
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	_, _ = process.Sweep(ctx, "PAWL_OUTPUT="+path+"/")
	_ = os.RemoveAll(path) // another sweep tries again
}

func (f *folder) fill(t *Task) error {
	if err := os.WriteFile(f.input, t.Input(), 0o600); err != nil {
		return err
	}
	if t.Work.Kind != workflow.KindRun {
		return nil
	}
	return os.WriteFile(f.script, []byte(t.Work.Script), 0o600)
}

func (f *folder) remove(log *Log) {
	defer f.lock.Close()
	for _, file := range []string{f.input, f.out, f.script} {
		_ = syscall.Unlink(file)
	}
	if syscall.Rmdir(f.path) == nil {
		return // nothing else was in it
	}
	if err := os.RemoveAll(f.path); err != nil {
		log.Notef("the folder of the attempt was not removed: %v", err)
	}
}

// result reads what was written to PAWL_OUTPUT, at most limit bytes. It is not
// written if the file is missing or empty.
func (f *folder) result(limit int) (s source, written bool, failure *pawl.Failure) {
	// O_NONBLOCK: it may be a pipe without a writer.
	file, err := os.OpenFile(f.out, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, false, nil
	}
	if err != nil {
		return source{}, false, permanent("invalid_output", "PAWL_OUTPUT cannot be read: %v", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return source{}, false, permanent("invalid_output", "PAWL_OUTPUT is not a regular file any more")
	}
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return source{}, false, permanent("invalid_output", "PAWL_OUTPUT cannot be read: %v", err)
	}
	if len(b) > limit {
		what := fmt.Sprintf("PAWL_OUTPUT has %d bytes", max(info.Size(), int64(len(b))))
		return source{}, false, pawl.TooLarge(what, limit, "write less to it")
	}
	return source{name: "PAWL_OUTPUT", bytes: b, limit: limit}, len(b) > 0, nil
}
