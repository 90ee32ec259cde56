package buf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	tool  = "@bufbuild/buf@1.73.0"
	proto = "../../../proto"
	// descriptor is what other programs rely on: the protocol as it was published last. A change
	// that they survive is published with: npx @bufbuild/buf@1.73.0 build -o descriptor.binpb
	descriptor = "descriptor.binpb"
)

// run runs the tool in a folder and returns what it prints.
func run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), npx(t), append([]string{"--yes", tool}, args...)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestProtocol: the protocol passes the standard rules, and programs that were made for the
// published one still work (L1).
func TestProtocol(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"lint"}, {"breaking", "--against", descriptor}} {
		if out, err := run(t, proto, args...); err != nil {
			t.Errorf("buf %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestBreakingIsFound: the check finds a field that has another type and one that is gone, and
// takes a new one.
func TestBreakingIsFound(t *testing.T) {
	t.Parallel()
	published, err := filepath.Abs(filepath.Join(proto, descriptor))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, new, want string }{
		"another type": {"int64 coordinated_start_time_ns = 4;", "uint64 coordinated_start_time_ns = 4;", "coordinated_start_time_ns"},
		"gone":         {"  string reason = 5;\n  // ACKNOWLEDGE", "  // ACKNOWLEDGE", "was deleted"},
		"new":          {"  string reason = 5;\n  // ACKNOWLEDGE", "  string reason = 5;\n  string comment = 99;\n  // ACKNOWLEDGE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(proto)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "pawl", "load", "v1", "load.proto")
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.Replace(b, []byte(test.old), []byte(test.new), 1)
			if bytes.Equal(changed, b) {
				t.Fatalf("the protocol has no %q", test.old)
			}
			if err := os.WriteFile(file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := run(t, dir, "breaking", "--against", published)
			if (err == nil) != (test.want == "") || !strings.Contains(out, test.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// npx returns the path of npx, which is installed first if there is none.
func npx(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("npx"); err == nil {
		return path
	}
	for _, args := range [][]string{{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "npm"}} {
		if out, err := exec.CommandContext(t.Context(), "apt-get", args...).CombinedOutput(); err != nil {
			t.Fatalf("npx is missing; run: sudo apt-get install -y --no-install-recommends npm\n%v\n%s", err, out)
		}
	}
	path, err := exec.LookPath("npx")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
