package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// A killer is a receiver. While it has a message for which it is armed, it waits for the server
// to be killed.
type killer struct {
	t      *testing.T
	url    string
	hit    chan struct{} // it has that message
	killed chan struct{} // the server is gone

	mu      sync.Mutex
	n, stop int
	path    string           // at which alone it takes messages
	last    map[string]int64 // of each entity
	doubles int
}

func newKiller(t *testing.T) *killer {
	k := &killer{t: t, hit: make(chan struct{}), killed: make(chan struct{}), last: map[string]int64{}}
	s := httptest.NewServer(k)
	t.Cleanup(s.Close)
	k.url = s.URL
	return k
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m struct{ Data pawl.Event }
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil || r.Header.Get("webhook-id") != fmt.Sprintf("%s_%d", m.Data.Entity, m.Data.Sequence) {
		k.t.Errorf("received %s: %v", body, err)
	}
	k.mu.Lock()
	if r.URL.Path != k.path {
		k.t.Errorf("received at %s, after the webhook was moved to %s", r.URL.Path, k.path)
	}
	switch last := k.last[m.Data.Entity]; {
	case m.Data.Sequence <= last:
		k.doubles++
	case m.Data.Sequence > last+1:
		k.t.Errorf("%s: %d comes after %d", m.Data.Entity, m.Data.Sequence, last)
	default:
		k.last[m.Data.Entity] = m.Data.Sequence
	}
	k.n++
	stop := k.n == k.stop
	k.mu.Unlock()
	if stop {
		k.hit <- struct{}{}
		<-k.killed
	}
	w.WriteHeader(http.StatusNoContent) // nobody is there to see it, if the server was killed
}

// arm makes it stop with the message that comes after so many others.
func (k *killer) arm(after int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop = k.n + after
}

// move makes it take messages at another path from now on, and returns the URL.
func (k *killer) move(path string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.path = path
	return k.url + path
}

// missing returns how many rows of an exported trail it has not received.
func (k *killer) missing(export string) (missing, rows int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for line := range strings.Lines(export) {
		var row struct {
			Entity   string `json:"entity"`
			Sequence int64  `json:"sequence"`
		}
		if json.Unmarshal([]byte(line), &row) != nil || !strings.HasPrefix(row.Entity, "j_") && !strings.HasPrefix(row.Entity, "st_") {
			continue
		}
		rows++
		if k.last[row.Entity] < row.Sequence {
			missing++
		}
	}
	return missing, rows
}

// TestKilledServersDeliverAll: a server that is killed with signal 9 between a delivery and the
// write of its place loses nothing: another one takes over and sends the rest, each entity in
// order (K5, K6). Its webhook was moved to another URL just before: then what is left comes there.
func TestKilledServersDeliverAll(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		killDeliverers(t, "sqlite://"+filepath.Join(t.TempDir(), "pawl.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		killDeliverers(t, pgtest.URL(t))
	})
}

func killDeliverers(t *testing.T, database string) {
	t.Helper()
	f, k := newFleet(t, database), newKiller(t)
	file := filepath.Join(f.dir, "w.yaml")
	if err := os.WriteFile(file, []byte("name: w\nsteps: [{id: a, sleep: 1ms}, {id: b, sleep: 1ms, needs: [a]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.say("workflow", "register", file)
	f.say("webhook", "create", "w", k.move("/"), "--machine", "job,step")
	var keys []string // of each server: the last ones have another key in front
	for i, lines := range []string{"a", "ba", "ba"} {
		keys = append(keys, filepath.Join(f.dir, fmt.Sprint("keys", i)))
		text := ""
		for _, c := range lines {
			text += strings.Repeat(fmt.Sprintf("%x", c), 32) + "\n"
		}
		if err := os.WriteFile(keys[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := f.start("server", "--listen", "none", "--secret-key-file", keys[0])
	for i, after := range []int{3, 17} {
		k.arm(after)
		for range 4 {
			f.say("submit", "w")
		}
		<-k.hit
		spare := f.start("server", "--listen", "none", "--secret-key-file", keys[i+1])
		f.say("webhook", "update", "w", "--url", k.move(fmt.Sprint("/", after)))
		_ = server.Process.Kill()
		_ = server.Wait()
		k.killed <- struct{}{}
		server = spare
	}
	f.until("all jobs have ended", func() bool { return strings.Count(f.say("jobs", "-o", "json"), `"COMPLETED"`) == 8 })
	rows := 0
	f.until("everything in the trails is received", func() bool {
		missing, n := k.missing(f.say("audit", "export"))
		rows = n
		return missing == 0
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	t.Logf("%d rows, %d messages, %d of them again", rows, k.n, k.doubles)
	f.say("audit", "verify")
	if history := f.say("webhook", "history", "w"); strings.Count(history, " encrypt ") != 2 || strings.Contains(history, " block ") {
		t.Errorf("the secret was not encrypted with each of the two keys once:\n%s", history)
	}
}

// TestWebhookExamples: the receivers of the manual take what is signed with their secret, and
// nothing else.
func TestWebhookExamples(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sqlite://"+filepath.Join(t.TempDir(), "pawl.db"))
	built := filepath.Join(f.dir, "receiver")
	if out, err := exec.Command("go", "build", "-o", built, "../../examples/webhook").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, command := range map[string][]string{"go": {built}, "python": {"python3", "../../examples/webhook/receiver.py"}} {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Fatalf("this test needs %s: apt-get install %[1]s", command[0])
		}
		address, file := freeAddress(t), filepath.Join(f.dir, name+".secret")
		f.say("webhook", "create", name, "http://"+address+"/", "--out", file)
		c := exec.Command(command[0], append(command[1:], file, address)...)
		var errs bytes.Buffer
		c.Stderr = &errs
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		f.running = append(f.running, c)
		f.until(name+" listens", func() bool {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
		if out := f.say("webhook", "test", name); !strings.HasPrefix(out, "delivered: the receiver responded with 204") {
			t.Errorf("%s: %s%s", name, out, errs.String())
		}
		f.say("webhook", "rotate", name, "--out", file+".new")
		f.say("webhook", "test", name) // the former secret still signs
		other := f.say("webhook", "create", name+"-other", "http://"+address+"/", "--out", file+".other")
		out, err := exec.Command(f.bin, "--database", f.url, "webhook", "test", name+"-other").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "the receiver responded with 401 Unauthorized") {
			t.Errorf("%s with another secret: %v, %s%s", name, err, out, other)
		}
	}
	verifyInShell(t, f)
}

// verifyInShell checks a message with the script.
func verifyInShell(t *testing.T, f *fleet) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatal("this test needs openssl: apt-get install openssl")
	}
	type message struct {
		header http.Header
		body   []byte
	}
	got := make(chan message, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- message{r.Header, body}
	}))
	defer s.Close()
	secret := strings.TrimSpace(f.say("webhook", "create", "shell", s.URL))
	f.say("webhook", "rotate", "shell", "--out", filepath.Join(f.dir, "new"))
	f.say("webhook", "test", "shell")
	m := <-got
	verify := func(body []byte) error {
		c := exec.Command("sh", "../../examples/webhook/verify.sh", secret, m.header.Get("webhook-id"), m.header.Get("webhook-timestamp"), m.header.Get("webhook-signature"))
		c.Stdin = bytes.NewReader(body)
		return c.Run()
	}
	if err := verify(m.body); err != nil {
		t.Errorf("the right body: %v", err)
	}
	if verify(append(m.body, ' ')) == nil {
		t.Error("another body has the same signature")
	}
}
