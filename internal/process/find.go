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

// Find answers the file of a program: a name with a slash as it stands relative to
// dir, any other as found along the search path that the program itself will see.
// Entries of the path that are not absolute are passed over. The error wraps
// fs.ErrNotExist, or fs.ErrPermission if what is there cannot be executed.
func Find(name, dir, searchPath string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, checkProgram(name, path)
	}
	barred := ""
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
			barred = path
		}
	}
	if barred != "" {
		return "", notExecutable(name, barred)
	}
	return "", notFound("%q was not found in %s", name, shortPath(searchPath))
}

// shortPath names a search path: by how many folders it has if it is long.
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
