// Package s3test starts object stores for tests: processes of the program s3server, on this machine, and
// a proxy that does to requests what stores and networks do when they are in trouble.
package s3test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/load/s3"
)

// The credentials that a server takes: a key, and the key of a session, which has the token as well.
const (
	ID, Secret       = "AKIATESTS", "s3cr3t/of+tests"
	SessionID, Token = "ASIATESTS", "t0ken/of+a+session=="
)

// A Server is a process with an empty bucket.
type Server struct {
	URL string // of the bucket
	CA  string // the file of its certificate; empty without TLS
	cmd *exec.Cmd
}

// build builds the program, once.
var build = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	dir, err := os.MkdirTemp("", "pawl-s3server-")
	if err != nil {
		return "", err
	}
	folder.Store(&dir)
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "s3server"), ".")
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "s3server")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build in %s: %w: %s", cmd.Dir, err, out)
	}
	return filepath.Join(dir, "s3server"), nil
})

// Remove removes the program; TestMain calls it when all tests have ended.
func Remove() {
	if dir := folder.Load(); dir != nil {
		_ = os.RemoveAll(*dir) // it is a temporary one
	}
}

// folder has the program; nil if no test has started one.
var folder atomic.Pointer[string]

// Start starts a server with flags, which the program describes. It ends with the test.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cmd: exec.Command(program, flags...)}
	s.cmd.Stderr = os.Stderr
	if i := len(flags) - 1; i > 0 && flags[i-1] == "-tls" {
		s.CA = flags[i]
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.cmd.StdinPipe(); err != nil { // which ends with this process
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server has not started: %v", err)
	}
	s.URL = strings.TrimSpace(line)
	return s
}

// Kill ends the process with SIGKILL. It may be called again.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
}

// Address returns host and port.
func (s *Server) Address() string {
	return strings.Split(s.URL, "/")[2]
}

// Env returns the environment of an agent that may use the server.
func (s *Server) Env() []string {
	env := []string{"AWS_ACCESS_KEY_ID=" + ID, "AWS_SECRET_ACCESS_KEY=" + Secret, "AWS_SESSION_TOKEN="}
	if s.CA != "" {
		env = append(env, "AWS_CA_BUNDLE="+s.CA)
	}
	return env
}

// Client returns a client of the server's bucket, which trusts its certificate.
func (s *Server) Client(t testing.TB, change ...func(*s3.Config)) *s3.Client {
	t.Helper()
	if s.CA != "" {
		ca, err := os.ReadFile(s.CA)
		if err != nil {
			t.Fatal(err)
		}
		change = append([]func(*s3.Config){func(c *s3.Config) { c.CA = ca }}, change...)
	}
	return Client(t, s.URL, change...)
}
