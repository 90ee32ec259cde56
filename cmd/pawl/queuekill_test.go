package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestPausesOutliveKilledServers: a pause of a queue that was acknowledged stands, and so does
// its end, when the server that acknowledged it is killed with signal 9 at once, and for a
// server and a worker that were started before: a second later no step begins any more (K6).
func TestPausesOutliveKilledServers(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		killPausers(t, "sqlite://"+filepath.Join(t.TempDir(), "pawl.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		killPausers(t, pgtest.URL(t))
	})
}

func killPausers(t *testing.T, database string) {
	t.Helper()
	f := newFleet(t, database)
	want := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	begun := filepath.Join(f.dir, "begun")
	for name, steps := range map[string]string{
		"slow":   "{id: a, queue: slow, run: 'echo >> " + begun + "'}",
		"marker": "{id: a, run: 'true'}",
	} {
		file := filepath.Join(f.dir, name+".yaml")
		if err := os.WriteFile(file, []byte("name: "+name+"\nsteps: ["+steps+"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.say("workflow", "register", file)
	}
	f.start("worker", "--queue", "slow", "--queue", "default", "--listen", "none")
	server, spare := f.serve(), f.serve()
	for round := range 2 {
		key := fmt.Sprint("pause-", round)
		if round == 0 { // it is acknowledged
			want(server.pause(key))
			f.kill(server)
		} else { // it may be committed, or not
			answered := make(chan error, 1)
			go func() { answered <- server.pause(key) }()
			f.kill(server)
			<-answered
			want(spare.pause(key))
		}
		for known := time.Now().Add(time.Second); time.Now().Before(known); { // then other processes know of it
			want(f.over(spare, "submit", "marker", "--wait"))
		}
		want(f.over(spare, "submit", "slow"))
		want(f.over(spare, "submit", "marker", "--wait")) // the worker has looked for steps since
		if n := lines(t, begun); n != round {
			t.Errorf("round %d: %d steps have begun, want the %d of before the pause", round, n, round)
		}
		server = f.serve()
		want(f.over(spare, "queue", "resume", "slow"))
		f.kill(spare)
		f.until("what has waited runs", func() bool { return lines(t, begun) == round+1 })
		spare = f.serve()
	}
	var trail []pawl.Transition
	f.parse(&trail, "queue", "history", "slow", "-o", "json")
	pauses := 0
	for _, m := range trail {
		if m.To == lifecycle.QueuePaused {
			pauses++
		}
	}
	if pauses != 2 {
		t.Errorf("the trail has %d pauses, want 2: %+v", pauses, trail)
	}
	f.say("audit", "verify")
}

// An answering process is a server with its URL.
type answering struct {
	*exec.Cmd
	url string
}

// serve starts a server, and waits until it responds.
func (f *fleet) serve() *answering {
	f.t.Helper()
	address := freeAddress(f.t)
	s := &answering{f.start("server", "--listen", address), "http://" + address}
	f.until("the server answers", func() bool { return f.over(s, "jobs") == nil })
	return s
}

// pause pauses the queue slow.
func (s *answering) pause(key string) error {
	r, err := http.NewRequest(http.MethodPost, s.url+"/api/queues/slow/pause", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s %s: %w", resp.Status, body, err)
	}
	return nil
}

// over runs a command over a server.
func (f *fleet) over(s *answering, args ...string) error {
	out, err := exec.Command(f.bin, append([]string{"--server", s.url}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return nil
}

// kill ends a server with signal 9, if it was not ended before.
func (f *fleet) kill(s *answering) {
	_ = s.Process.Kill()
	_ = s.Wait()
}

func lines(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}
