package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
)

// write writes a file in a folder of the test, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRead: one byte more than the limit is read, so that the caller sees that there is more.
func TestRead(t *testing.T) {
	t.Parallel()
	path := write(t, "file", "12345")
	for limit, want := range map[int64]string{3: "1234", 5: "12345", 9: "12345"} {
		if b, err := Read(path, limit); err != nil || string(b) != want {
			t.Errorf("limit %d: %q, %v: want %q", limit, b, err, want)
		}
	}
}

// TestUnreadable: an error has a kind, the path, and what is wrong. A pipe without a writer
// is not waited for.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		kind pawl.Kind
		text string
	}{
		filepath.Join(dir, "none"): {pawl.NotFound, "cannot read %s: no such file or directory"},
		dir:                        {pawl.Invalid, "cannot read %s: it is a directory, and not a regular file"},
		pipe:                       {pawl.Invalid, "cannot read %s: it is a named pipe, and not a regular file"},
	} {
		_, err := Read(path, 10)
		if text := fmt.Sprintf(want.text, path); err == nil || err.Error() != text || pawl.KindOf(err) != want.kind {
			t.Errorf("%v, of kind %v: want %s, of kind %v", err, pawl.KindOf(err), text, want.kind)
		}
	}
}

// TestReplace: a file is there as a whole, or as it was.
func TestReplace(t *testing.T) {
	t.Parallel()
	path := write(t, "file", "old")
	failed := errors.New("failed")
	for _, tt := range []struct {
		err  error
		want string
	}{{failed, "old"}, {nil, "new"}} {
		err := Replace(path, func(w io.Writer) error {
			if _, err := io.WriteString(w, "new"); err != nil {
				return err
			}
			return tt.err
		})
		b, readErr := os.ReadFile(path)
		if !errors.Is(err, tt.err) || readErr != nil || string(b) != tt.want {
			t.Errorf("%v, %v, and the file is %q: want %v and %q", err, readErr, b, tt.err, tt.want)
		}
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
			t.Errorf("%v, %v: want the file alone", left, err)
		}
	}
}

// TestKindsOfFiles: a file of the other kind is refused with the command for it.
func TestKindsOfFiles(t *testing.T) {
	t.Parallel()
	const steps, services = "name: nightly\nsteps: [{id: a, command: [ls]}]\n", "services:\n  web: {command: [sleep, \"1\"]}\n"
	flow, shop := write(t, "nightly.yaml", steps), write(t, "shop.yaml", services)
	if def, err := ReadWorkflow(flow); err != nil || def.Name != "nightly" {
		t.Errorf("%v, %v", def, err)
	}
	if f, err := ParsePrograms(shop, []byte(services)); err != nil || len(f.Programs) != 1 {
		t.Errorf("%v, %v", f, err)
	}
	var e *pawl.Error
	if _, err := ReadWorkflow(shop); !errors.As(err, &e) || e.Hint != "keep them running with: pawl supervise "+shop {
		t.Errorf("%v: want a hint of pawl supervise", err)
	}
	if _, err := ParsePrograms(flow, []byte(steps)); !errors.As(err, &e) || e.Hint != "run it with: pawl run "+flow {
		t.Errorf("%v: want a hint of pawl run", err)
	}
	for path, want := range map[string]string{flow: "nightly, sha256:", shop: "shop, 1 service"} {
		if what, err := Check(path); err != nil || !strings.HasPrefix(what, want) {
			t.Errorf("%q, %v: want %q", what, err, want)
		}
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	if dir, err := FolderOf("/var/x/nightly.yaml"); dir != "/var/x" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
	if _, err := Folder("/var/\xff"); pawl.KindOf(err) != pawl.Invalid || err == nil {
		t.Errorf("a folder that is not text: %v", err)
	}
}
