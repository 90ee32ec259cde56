package grpcjs

import (
	"context"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/load/agent"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

// The client, and what reads .proto files for it.
var packages = []string{"@grpc/grpc-js@1.14.7", "@grpc/proto-loader@0.8.1"}

// The test binary is the engine, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(workload.Main(ctx, nil, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// An outcome is what the client has seen of a run.
type outcome struct {
	Seen    []string // the states, without repetition
	Code    string   // of the error
	Message string
	Totals  []string // the operations that have totals
	Same    bool     // the result that was fetched is the one that was announced
}

// TestAnotherClient: a client made from the .proto file drives a whole run, an abort and an
// error (L1).
func TestAnotherClient(t *testing.T) {
	t.Parallel()
	address, root := serve(t)
	dir := t.TempDir()
	script, err := os.ReadFile("testdata/drive.js")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "drive.js"), script, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	npm := exec.CommandContext(t.Context(), npm(t), append([]string{"install", "--no-audit", "--no-fund", "--prefix", dir}, packages...)...)
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	proto, err := filepath.Abs("../../../proto/pawl/load/v1/load.proto")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	drive := exec.CommandContext(ctx, "node", filepath.Join(dir, "drive.js"), address, proto)
	drive.Stderr = os.Stderr
	out, err := drive.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got map[string]outcome
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]outcome{
		"whole":   {Seen: strings.Fields("ACKNOWLEDGE PREPARING READY RUNNING COMPLETED"), Totals: []string{"read"}, Same: true},
		"aborted": {Seen: strings.Fields("ACKNOWLEDGE PREPARING READY RUNNING ABORTED"), Message: "enough", Totals: []string{"read"}, Same: true},
		"failed": {Seen: strings.Fields("ACKNOWLEDGE ERROR"), Code: "ERROR_CODE_CONFIG_INVALID", Totals: []string{}, Same: true,
			Message: `target "/nowhere" is in no root of the agent: ` + root},
	}
	for name, o := range want {
		o.Seen = without(o.Seen, "PREPARING")
		g := got[name]
		g.Seen = without(g.Seen, "PREPARING") // a short preparation may give way to READY
		if diff := cmp.Diff(o, g); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			t.Errorf("%s is left, %v", path, err)
		}
		return nil
	})
}

// without returns the states without one, and without repetition and acknowledgements between.
func without(states []string, one string) (rest []string) {
	for _, s := range states {
		if s != one && (len(rest) == 0 || s != "ACKNOWLEDGE" && rest[len(rest)-1] != s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// serve serves an agent until the test ends.
func serve(t *testing.T) (address, root string) {
	t.Helper()
	root = t.TempDir()
	a, err := agent.New(agent.Config{ID: "a1", StateDir: t.TempDir(), Roots: []agent.Root{{Path: root}}, Engine: []string{os.Args[0], "engine"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Serve(ctx, l, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		a.Close()
	})
	return l.Addr().String(), root
}

// npm returns the path of npm, which is installed first if there is none.
func npm(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("npm"); err == nil {
		return path
	}
	for _, args := range [][]string{{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "npm"}} {
		if out, err := exec.CommandContext(t.Context(), "apt-get", args...).CombinedOutput(); err != nil {
			t.Fatalf("npm is missing; run: sudo apt-get install -y --no-install-recommends npm\n%v\n%s", err, out)
		}
	}
	path, err := exec.LookPath("npm")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
