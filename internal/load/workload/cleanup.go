//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// maxErrors is how many errors a report has.
const maxErrors = 10

// renamed is the suffix of a file between two renames.
const renamed = ".r"

// Clean deletes what the manifest of a job lists and nothing else, as far as it can, and calls
// progress each second, which counts what was looked for. What another agent still has in a shared folder is no error.
func Clean(ctx context.Context, job Job, progress func(*loadpb.Progress)) (*loadpb.CleanupReport, error) {
	if strings.Contains(job.Root, "://") {
		return cleanObjects(ctx, job, progress)
	}
	c := &cleaner{ctx: ctx, job: job, report: &loadpb.CleanupReport{}, files: make(chan string, 1024)}
	var workers sync.WaitGroup
	for range 4 { // more would wait for the same folders
		workers.Go(c.work)
	}
	stop := each(time.Second, func() { progress(c.progress()) })
	ok, err := readManifest(job.Manifest, c.begin, c.line)
	close(c.files)
	workers.Wait()
	if ok && err == nil {
		if err = c.finish(); err == nil && c.root != nil {
			c.root.unmake(c.targetName)
		}
	}
	stop()
	if c.run != nil {
		c.run.close()
		c.target.close()
	}
	if c.root != nil {
		c.root.close()
	}
	return c.report, err
}

// A cleaner deletes files from several goroutines, and folders when all files are gone.
type cleaner struct {
	ctx         context.Context
	job         Job
	agent       int
	root        *folder
	target, run *folder
	gone        bool // the folder of the run is not there
	targetName  string
	runName     string
	files       chan string
	seen        atomic.Uint64 // files and folders, there or not

	mu     sync.Mutex
	report *loadpb.CleanupReport
}

func (c *cleaner) begin(h manifestHead) error {
	if h.RunID != c.job.RunID || h.Root != c.job.Root {
		return fmt.Errorf("the manifest %s is of the run %s in %s, not of %s in %s", c.job.Manifest, h.RunID, h.Root, c.job.RunID, c.job.Root)
	}
	root, err := openRoot(h.Root)
	if err != nil {
		return err
	}
	c.root = root
	c.agent, c.targetName, c.runName = h.AgentIndex, h.Target, h.RunID
	if _, there, err := root.has(path.Join(h.Target, h.RunID)); err != nil || !there {
		c.gone = err == nil
		return errors.Join(err, sameDevice(root, h.Device))
	}
	if c.target, err = root.open(h.Target); err != nil {
		return err
	}
	if c.run, err = c.target.open(h.RunID); err != nil {
		c.target.close()
	}
	return err
}

// sameDevice returns an error if a root is on another file system than it was, so that what is not
// there may be on that one. Where files are there, they count: the number of a file system may change.
func sameDevice(root *folder, was uint64) error {
	now, err := root.device()
	if err == nil && now != was {
		err = fmt.Errorf("the run is not in %s, which is on another file system than when it was created there: is it mounted?", root.name)
	}
	return err
}

func (c *cleaner) line(kind byte, name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	switch {
	case c.gone, kind == 'd', kind == 'm': // when all files are gone
	default:
		c.files <- name
	}
	return nil
}

func (c *cleaner) work() {
	for name := range c.files {
		parent, base, err := c.run.in(name)
		if err == nil {
			if err := c.unlink(parent, base); err != nil {
				c.left(err)
			}
			parent.close()
		} else if c.seen.Add(1); classOf(err) != notFound {
			c.left(err)
		}
	}
}

// unlink deletes a file, which a rename may have left with another name. Without an error it is gone.
func (c *cleaner) unlink(parent *folder, base string) error {
	c.seen.Add(1)
	err := unix.Unlinkat(parent.fd, base, 0)
	if err == unix.ENOENT {
		err = unix.Unlinkat(parent.fd, base+renamed, 0)
	}
	switch err {
	case nil:
		c.mu.Lock()
		c.report.DeletedFiles++
		c.mu.Unlock()
	case unix.ENOENT:
	default:
		return pathFault("delete", filepath.Join(parent.name, base), err)
	}
	return nil
}

// rmdir deletes a folder if it is empty. Without an error it is gone.
func (c *cleaner) rmdir(parent *folder, base string) error {
	c.seen.Add(1)
	switch err := unix.Unlinkat(parent.fd, base, unix.AT_REMOVEDIR); err {
	case nil:
		c.mu.Lock()
		c.report.DeletedFolders++
		c.mu.Unlock()
	case unix.ENOENT:
	default:
		return pathFault("delete the folder", filepath.Join(parent.name, base), err)
	}
	return nil
}

func (c *cleaner) deleted() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report.DeletedFiles + c.report.DeletedFolders
}

func (c *cleaner) left(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.LeftFiles++
	if len(c.report.Errors) < maxErrors {
		c.report.Errors = append(c.report.Errors, err.Error())
	}
}

// finish deletes what operations have made, and then the folders, the last made first.
func (c *cleaner) finish() error {
	if c.gone {
		return nil
	}
	_, err := readManifest(c.job.Manifest, func(manifestHead) error { return nil }, func(kind byte, name string) error {
		if kind == 'm' {
			c.sweep(name)
		}
		return c.ctx.Err()
	})
	if err != nil {
		return err
	}
	return readBackwards(c.job.Manifest, func(kind byte, name string) error {
		if kind != 'd' {
			return nil
		}
		if err := c.folder(name); err != nil {
			c.left(err)
		}
		return c.ctx.Err()
	})
}

// folder deletes a folder of the manifest; one that is not empty has things of others.
func (c *cleaner) folder(dir string) error {
	parent, base := c.target, c.runName
	if dir != "." {
		var err error
		if parent, base, err = c.run.in(dir); err != nil {
			c.seen.Add(1)
			if classOf(err) == notFound {
				return nil
			}
			return err
		}
		defer parent.close()
	}
	err := c.rmdir(parent, base)
	if err != nil && classOf(err) == exists {
		return nil
	}
	return err
}

// sweep deletes what operations of the agent have made in a folder.
func (c *cleaner) sweep(dir string) {
	c.seen.Add(1)
	f, err := c.run.open(dir)
	if err != nil {
		if classOf(err) != notFound {
			c.left(err)
		}
		return
	}
	defer f.close()
	for c.ctx.Err() == nil {
		names, err := c.entries(f)
		if err != nil {
			c.left(pathFault("list", f.name, err))
			return
		}
		var failed []error
		before := c.deleted()
		for _, name := range names {
			remove := c.unlink
			if name[0] == 'd' {
				remove = c.rmdir
			}
			if err := remove(f, name); err != nil {
				failed = append(failed, err)
			}
		}
		if c.deleted() == before { // it would be the same again
			for _, err := range failed {
				c.left(err)
			}
			return
		}
	}
}

// entries returns names of what operations have made in a folder: at most 10,000 at a time, so that
// memory has a limit. They are gone when it reads again.
func (c *cleaner) entries(f *folder) (made []string, err error) {
	fd, err := openBeneath(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), f.name)
	defer d.Close()
	for len(made) < 10_000 {
		names, err := d.Readdirnames(1000)
		if err == io.EOF {
			return made, nil
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if madeBy(name, c.agent) {
				made = append(made, name)
			}
		}
	}
	return made, nil
}

// madeBy reports whether a name is one that operations of an agent make.
func madeBy(name string, agent int) bool {
	parts := strings.Split(strings.TrimSuffix(name, renamed), ".")
	if len(parts) != 3 || parts[0] != "c"+strconv.Itoa(agent) && parts[0] != "d"+strconv.Itoa(agent) {
		return false
	}
	for _, p := range parts[1:] {
		if _, err := strconv.ParseUint(p, 10, 64); err != nil {
			return false
		}
	}
	return true
}

func (c *cleaner) progress() *loadpb.Progress {
	return &loadpb.Progress{Phase: "cleanup", Done: c.seen.Load()}
}

// each calls f from another goroutine at an interval, until it is stopped, which waits for the last call.
func each(interval time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		over.Wait()
	})
}
