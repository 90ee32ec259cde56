package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/workflow"
)

// OpenChild reads the file of a child workflow. The path is absolute or relative to the folder
// of the parent's file. It comes from the author of the parent, so a pipe is refused: a read
// of it could block forever.
func OpenChild(from, path string) (string, []byte, error) {
	known := path
	if !filepath.IsAbs(path) {
		known = filepath.Join(filepath.Dir(from), path)
	}
	if info, err := os.Stat(known); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return known, nil, pawl.Errorf(pawl.Invalid, "cannot read %s: it is not a regular file", console.Shell(known))
	}
	src, err := Read(known, workflow.MaxSource)
	return known, src, err
}

// Read reads a file of at most limit bytes. It reads one byte more, so that a caller with the
// same limit detects a longer file.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, Error(path, err)
	}
	return b, nil
}

// Open opens a file for reading. It refuses anything but a regular file before opening it,
// because opening a pipe without a writer could block forever. The exceptions are files that
// the caller has open already, such as <(...) and /dev/stdin, and /dev/null.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !isOpen(path) {
		return nil, pawl.Errorf(pawl.Invalid, "cannot read %s: it is %s, and not a regular file", console.Shell(path), sort(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Error(path, err)
	}
	return f, nil
}

// isOpen reports whether reading a path waits for nothing but the caller.
func isOpen(path string) bool {
	return path == "/dev/stdin" || path == os.DevNull || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// sort names the type of a file that is not regular.
func sort(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "something else"
}

// Error returns the error for a file that cannot be read.
func Error(path string, err error) error {
	var detail *fs.PathError
	if errors.As(err, &detail) {
		err = detail.Err
	}
	return pawl.Errorf(KindOf(err), "cannot read %s: %v", console.Shell(path), err)
}

// KindOf returns the kind of an error from the file system.
func KindOf(err error) pawl.Kind {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pawl.NotFound
	case errors.Is(err, fs.ErrPermission):
		return pawl.Refused
	}
	return pawl.Invalid
}

// FolderOf returns the absolute folder of a workflow file, where its commands start.
func FolderOf(path string) (string, error) { return Folder(filepath.Dir(path)) }

// Folder returns the absolute path of a folder. It refuses a path that cannot be stored as
// text.
func Folder(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the folder %s: %w", dir, err)
	}
	if !utf8.ValidString(abs) {
		return "", pawl.Errorf(pawl.Invalid, "the name of the folder %q is not text in UTF-8", abs)
	}
	return abs, nil
}

// Replace writes a file, whole or not at all: write fills a new file in the same folder, which
// replaces the old one once it is on disk.
func Replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".pawl-*")
	if err != nil {
		return Error(path, err)
	}
	defer os.Remove(f.Name()) // no longer there after success
	b := bufio.NewWriter(f)
	if err = write(b); err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return Error(path, err)
	}
	return nil
}
