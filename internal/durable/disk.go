package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An Op is an operation of a Disk that changes something.
type Op string

// The operations, in the order in which Publish and Append use them.
const (
	OpCreate   Op = "create"   // of a temporary file
	OpWrite    Op = "write"    // of its contents
	OpSync     Op = "sync"     // of a file
	OpRename   Op = "rename"   // of a temporary file to its name
	OpSyncDir  Op = "sync-dir" // of the folder
	OpAppend   Op = "append"   // of a line
	OpTruncate Op = "truncate" // of an incomplete line
)

// A Disk does what this package does, and calls Hook around each operation. The zero Disk is
// the one to use.
type Disk struct {
	// Hook, if not nil, is called before an operation, which it can make fail, and after a
	// successful one.
	Hook func(op Op, path string, after bool) error
}

// do does one operation.
func (d Disk) do(op Op, path string, f func() error) error {
	if d.Hook == nil {
		return f()
	}
	if err := d.Hook(op, path, false); err != nil {
		return &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	if err := f(); err != nil {
		return err
	}
	return d.Hook(op, path, true)
}

// tempMark is in the names of temporary files: ".", the name of the file, tempMark, a number.
const tempMark = ".tmp-"

// tempAge is how old a temporary file is whose writer must be dead.
const tempAge = time.Hour

// Publish replaces a file, or creates it. If it fails, the file has its old contents, unless
// only the last sync failed: then it may have either.
func (d Disk) Publish(path string, data []byte) error {
	if err := d.replace(path, data, true); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	return d.do(OpSyncDir, dir, func() error { return syncDir(dir) })
}

// Replace is Publish for what need not survive a power failure: it does not wait for the disk.
func (d Disk) Replace(path string, data []byte) error { return d.replace(path, data, false) }

func (d Disk) replace(path string, data []byte, sync bool) error {
	dir, name := filepath.Split(path)
	var f *os.File
	if err := d.do(OpCreate, path, func() (err error) {
		f, err = os.CreateTemp(dir, "."+name+tempMark+"*")
		return err
	}); err != nil {
		return err
	}
	temp := f.Name()
	err := d.do(OpWrite, path, func() error { _, err := f.Write(data); return err })
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil && sync {
		err = d.do(OpSync, path, f.Sync)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.do(OpRename, path, func() error { return os.Rename(temp, path) })
	}
	if err != nil {
		_ = os.Remove(temp) // Sweep removes what is left
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Sweep removes the temporary files in a folder whose writers died, and returns their names.
func Sweep(dir string, now time.Time) (swept []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") || !strings.Contains(e.Name(), tempMark) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return swept, err
		}
		if age := now.Sub(info.ModTime()); age < tempAge {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return swept, err
		}
		swept = append(swept, e.Name())
	}
	return swept, nil
}

// MakeDir creates a folder with its parents, each on the disk before it returns.
func (d Disk) MakeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("it is not a folder")}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return fmt.Errorf("%s does not exist", dir)
	}
	if err := d.MakeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.do(OpSyncDir, parent, func() error { return syncDir(parent) })
}
