package sdk

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// languages are what each test is run with.
var languages = []*Language{Python, Node}

// each runs a test with the worker of each language, against a server of its own.
func each(t *testing.T, test func(t *testing.T, s *site, l *Language)) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server()
			test(t, s, l)
		})
	}
}

var build struct {
	once sync.Once
	dir  string
	err  error
}

// TestMain runs more tests at once than there are cores: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(build.dir)
	os.Exit(code)
}

// pawl returns the program, built once.
func pawl(t *testing.T) string {
	t.Helper()
	build.once.Do(func() {
		if build.dir, build.err = os.MkdirTemp("", "pawl-sdk-"); build.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", build.dir, "github.com/pawl-dev/pawl/cmd/pawl")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			build.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	must(t, build.err)
	return filepath.Join(build.dir, "pawl")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A site has a database, servers on it, and a file that handlers write to.
type site struct {
	t       *testing.T
	dir     string
	address string // of the server
	via     string // the URL that workers use
	flags   []string
	env     []string // of workers
	client  *http.Client
	token   string   // of the test
	serving *process // the server
}

func newSite(t *testing.T) *site {
	dir, err := os.MkdirTemp("", "pawl-") // the path of a socket has to be short
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return &site{t: t, dir: dir, address: l.Addr().String(), via: "http://" + l.Addr().String(), client: http.DefaultClient}
}

func (s *site) database() string { return filepath.Join(s.dir, "pawl.db") }

// A process runs until the test ends, at the latest.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (s *site) start(argv, env []string) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: exec.Command(argv[0], argv[1:]...), log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), append([]string{"PAWL_RUNTIME_DIR=" + filepath.Join(s.dir, "run"), "XDG_STATE_HOME=" + s.dir}, env...)...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = p.log, p.log, s.dir
	must(s.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // its state is read
		close(p.done)
	}()
	s.t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.kill()
		if s.t.Failed() {
			s.t.Logf("%v:\n%s", argv, p.log)
		}
	})
	return p
}

func (p *process) signal(n syscall.Signal) { _ = p.cmd.Process.Signal(n) } // it may be gone already

// kill ends the process by signal 9.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// ends waits for the end of the process, and checks its exit code.
func (p *process) ends(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Fatalf("the process does not end\n%s", p.log)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d\n%s", got, code, p.log)
	}
}

// server starts a server, and waits until it answers.
func (s *site) server() {
	s.t.Helper()
	argv := append([]string{pawl(s.t), "server", "--database", s.database(), "--silence", "2s", "--listen", s.address}, s.flags...)
	s.serving = s.start(argv, nil)
	until(s.t, "the server is ready", func() bool {
		r, err := s.client.Get(s.scheme() + s.address + "/readyz")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

func (s *site) scheme() string {
	if len(s.flags) > 0 {
		return "https://"
	}
	return "http://"
}

// worker starts a worker, and waits until it is registered.
func (s *site) worker(l *Language, args ...string) *process {
	s.t.Helper()
	p := s.begin(l, args...)
	until(s.t, "the worker is registered", func() bool {
		select {
		case <-p.done:
			s.t.Fatalf("the worker has ended\n%s", p.log)
		default:
		}
		return strings.Contains(p.log.String(), " serves ")
	})
	return p
}

// begin starts a worker.
func (s *site) begin(l *Language, args ...string) *process {
	s.t.Helper()
	argv, env, err := l.Worker(args...)
	must(s.t, err)
	return s.start(argv, append(append(env, "PAWL_SERVER="+s.via), s.env...))
}

// until waits for something to become true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// call sends a request and decodes its answer.
func (s *site) call(method, path string, body, into any) {
	s.t.Helper()
	b, err := json.Marshal(body)
	must(s.t, err)
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.scheme()+s.address+path, bytes.NewReader(b))
	must(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := s.client.Do(r)
	must(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(s.t, err)
	if answer.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	if into != nil {
		must(s.t, json.Unmarshal(text, into))
	}
}

// A job is what the tests look at.
type job struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Output json.RawMessage `json:"output"`
	Error  *struct {
		Class     string          `json:"class"`
		Message   string          `json:"message"`
		Permanent bool            `json:"permanent"`
		Metadata  json.RawMessage `json:"metadata"`
	} `json:"error"`
	Steps []struct {
		ID       string `json:"id"`
		Key      string `json:"key"`
		Status   string `json:"status"`
		Attempts int    `json:"attempts"`
		Claims   int    `json:"claims"`
	} `json:"steps"`
}

// submit submits the steps of a workflow, and returns the job's id.
func (s *site) submit(steps string) string {
	s.t.Helper()
	var done struct {
		ID string `json:"id"`
	}
	s.call("POST", "/api/jobs", map[string]any{"source": "name: test\n" + steps}, &done)
	return done.ID
}

// one submits a job of one step with a handler.
func (s *site) one(handler, with string, more ...string) string {
	s.t.Helper()
	return s.submit(fmt.Sprintf("steps: [{id: a, handler: %s, with: %s%s}]\noutput: ${{ steps.a.output }}\n", handler, with, strings.Join(append([]string{""}, more...), ", ")))
}

func (s *site) job(id string) (j job) {
	s.t.Helper()
	s.call("GET", "/api/jobs/"+id, nil, &j)
	return j
}

// ended waits for a job, and checks how it has ended.
func (s *site) ended(id, status string) (j job) {
	s.t.Helper()
	for j = s.job(id); j.Status == "PENDING" || j.Status == "RUNNING"; {
		s.call("GET", "/api/jobs/"+id+"?wait=ended", nil, &j)
	}
	if j.Status != status {
		s.t.Fatalf("job %s is %s, want %s: %+v", id, j.Status, status, j.Error)
	}
	return j
}

// claimed returns the claims of the steps of a job, as "step claim".
func (s *site) claimed(id string) (claims []string) {
	s.t.Helper()
	cursor := ""
	for {
		var page struct {
			Items []struct {
				Entity   string          `json:"entity"`
				Event    string          `json:"event"`
				Actor    string          `json:"actor"`
				Metadata json.RawMessage `json:"metadata"`
			} `json:"items"`
			Next string `json:"next"`
		}
		s.call("GET", "/api/jobs/"+id+"/history?limit=100"+cursor, nil, &page)
		for _, m := range page.Items {
			var told struct {
				Claim int `json:"claim"`
			}
			if m.Event == "claim" && strings.HasPrefix(m.Actor, "w_") { // others are the engine's own, of steps that wait
				must(s.t, json.Unmarshal(m.Metadata, &told))
				claims = append(claims, fmt.Sprint(m.Entity, " ", told.Claim))
			}
		}
		if page.Next == "" {
			return claims
		}
		cursor = "&cursor=" + page.Next
	}
}

func (s *site) file() string { return filepath.Join(s.dir, "notes") }

// with returns the input of handlers that note what they do.
func (s *site) with(seconds float64) string {
	return fmt.Sprintf("{file: %s, seconds: %v}", s.file(), seconds)
}

// notes returns the lines that handlers have noted.
func (s *site) notes() []string {
	b, err := os.ReadFile(s.file())
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// noted returns how many notes end with a word.
func (s *site) noted(word string) (n int) {
	for _, line := range s.notes() {
		if strings.HasSuffix(line, " "+word) {
			n++
		}
	}
	return n
}

// waitFor waits for so many notes that end with a word.
func (s *site) waitFor(word string, n int) {
	s.t.Helper()
	until(s.t, fmt.Sprintf("%d notes of %s", n, word), func() bool { return s.noted(word) >= n })
}
