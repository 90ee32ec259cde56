package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Find returns the path of a program. A name with a slash is relative to dir; any other
// is searched in searchPath, the PATH that the program itself will have. Entries of it
// that are not absolute are skipped. The error wraps fs.ErrNotExist, or
// fs.ErrPermission if what is there cannot be executed.
func Find(name, dir, searchPath string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, checkProgram(name, path)
	}
	denied := ""
	for _, folder := range filepath.SplitList(searchPath) {
		path := filepath.Join(folder, name)
		if !filepath.IsAbs(path) {
			continue
		}
		err := checkProgram(name, path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = path
		}
	}
	if denied != "" {
		return "", notExecutable(name, denied)
	}
	return "", notFound("%q was not found in %s", name, shortPath(searchPath))
}

// shortPath describes a search path; a long one by its number of folders.
func shortPath(searchPath string) string {
	if len(searchPath) > 80 {
		return fmt.Sprintf("the %d folders of PATH", len(filepath.SplitList(searchPath)))
	}
	return fmt.Sprintf("PATH %q", searchPath)
}

func checkProgram(name, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return notFound("%q was not found: %s does not exist", name, path)
	case err != nil:
		return notExecutable(name, err.Error())
	case info.IsDir():
		return notExecutable(name, path+" is a folder")
	case info.Mode()&0o111 == 0:
		return notExecutable(name, fmt.Sprintf("%s has mode %v", path, info.Mode()))
	}
	return nil
}

func notFound(format string, args ...any) error {
	return &fault{fmt.Sprintf(format, args...), fs.ErrNotExist}
}

func notExecutable(name, why string) error {
	return &fault{fmt.Sprintf("%q is not executable: %s", name, why), fs.ErrPermission}
}
