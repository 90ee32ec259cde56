package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/private"
)

// Dir returns the folder of this user's sockets: $PAWL_RUNTIME_DIR, else
// $XDG_RUNTIME_DIR/pawl, else pawl-UID in $TMPDIR or /tmp.
func Dir(getenv func(string) string) string {
	if dir := getenv("PAWL_RUNTIME_DIR"); dir != "" {
		return dir
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pawl")
	}
	tmp := getenv("TMPDIR")
	if !filepath.IsAbs(tmp) {
		tmp = "/tmp"
	}
	return filepath.Join(tmp, "pawl-"+strconv.Itoa(os.Geteuid()))
}

const (
	socketEnding = ".sock"
	lockEnding   = ".lock"
)

// maxPath is the longest path of a socket, in bytes. The system's limit is 104 to 108,
// including the byte that ends it.
const maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckName returns an error of kind Invalid for a name that a host, and so its socket,
// cannot have.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return pawl.Errorf(pawl.Invalid, "name %.100q: want 1 to 128 of a-z, A-Z, 0-9, '.', '_' and '-', and a letter or digit first", name)
	}
	return nil
}

// socketOf returns the path of a host's socket.
func socketOf(dir, name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name+socketEnding)
	if len(path) > maxPath {
		return "", &pawl.Error{Kind: pawl.Invalid,
			Message: fmt.Sprintf("the path of the socket is %d bytes long, and the system allows at most %d: %s", len(path), maxPath, path),
			Hint:    "set PAWL_RUNTIME_DIR to a folder with a shorter name, or choose a shorter name"}
	}
	return path, nil
}

// makeFolder creates the folder of the sockets, or checks the one that exists.
func makeFolder(dir string) error { return unfit(private.Make(dir), pawl.Unavailable) }

// checkFolder refuses a folder that other users can enter, or that another user owns: a
// user who can put a socket there can give orders, or impersonate a host. A missing folder
// is fs.ErrNotExist.
func checkFolder(dir string) error { return unfit(private.Check(dir), pawl.Refused) }

const folderHint = "set PAWL_RUNTIME_DIR to another folder"

// unfit converts an error about the folder to a pawl.Error. An error of the system has the
// given kind.
func unfit(err error, kind pawl.Kind) error {
	var refused *private.UnfitError
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return err
	case !errors.As(err, &refused):
		return &pawl.Error{Kind: kind, Message: "the folder of the sockets cannot be used", Hint: folderHint, Err: err}
	}
	hint := folderHint
	if refused.Open {
		hint = "set PAWL_RUNTIME_DIR to a folder for this purpose only; if it is one: chmod 700 " + refused.Dir
	}
	return &pawl.Error{Kind: pawl.Refused, Message: "the folder of the sockets " + refused.Error(), Hint: hint}
}
