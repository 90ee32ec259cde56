//go:build linux

package workload

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/s3"
)

// storeJob returns a job of one agent, and what it does in a bucket.
func storeJob(t testing.TB, url, config string) Job {
	t.Helper()
	return Job{
		Config: "{name: objects, engine: s3, " + config + "}", RunID: "01RUN", AgentCount: 1, Root: url + "/all of/it",
		Manifest: filepath.Join(t.TempDir(), "manifest"), Access: testAccess,
	}
}

// foreign are objects of others, some of them in the folder of the run.
var foreign = []string{
	"all of/it/load/01RUN", "all of/it/load/01RUN/agent-0/data/0/notes.txt", "all of/it/load/01RUN/agent-0/data/f1/x", "all of/it/load/01RUN/agent-1/data/0/c1.0.0",
	"all of/it/load/01RUN/agent-1/data/f0", "all of/it/load/01RUNS/agent-0/data/f0", "load/01RUN/agent-0/data/f0",
}

// putForeign uploads the objects of others.
func putForeign(t testing.TB, s *s3test.Server) {
	t.Helper()
	c := s.Client(t)
	for _, key := range foreign {
		s3test.Put(t, c, key, "of others")
	}
}

// onlyForeign fails if a bucket has anything but the objects of others.
func onlyForeign(t testing.TB, s *s3test.Server) {
	t.Helper()
	c := s.Client(t)
	want := slices.Sorted(slices.Values(foreign))
	if diff := cmp.Diff(want, s3test.Keys(t, c)); diff != "" {
		t.Errorf("left in the bucket: %s", diff)
	}
	if all := s3test.Uploads(t, c); len(all) > 0 {
		t.Errorf("uploads are left: %v", all)
	}
}

// TestObjects: every operation of a mix is done, verified and counted, by all engines' rules, over HTTP and TLS; what
// was prepared is gone afterwards, and what is of others is there (L9).
func TestObjects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, flag string }{
		"all at once": {"verify: true, jobs: 2, depth: 2, s3: {part_size: 5MiB}", ""},
		"TLS":         {"verify: true", "-tls"},
		"a rate":      {"rate: {operations: 2000, arrival: poisson}, jobs: 3", ""},
		"hashed":      {"verify: true, s3: {sign_payload: true, page: 3, region: eu-west-1}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if test.flag != "" {
				flags = []string{test.flag, filepath.Join(t.TempDir(), "ca.pem")}
			}
			s := s3test.Start(t, flags...)
			job := storeJob(t, s.URL, `
files: [{name: data, count: 24, size: {uniform: {min: 0B, max: 300KiB}}, tree: {width: 3}, compressible: 30}, {name: new, size: {list: [{size: 1KiB, weight: 7}, {size: 6MiB, weight: 1}]}}],
mix: [{operation: read, files: data, weight: 3, block: 4KiB}, {operation: read, files: data, access: sequential}, {operation: read, files: data, access: zipf},
  {operation: write, files: data}, {operation: create, files: new}, {operation: read, files: new, block: 1KiB}, {operation: delete, files: new}, {operation: stat, files: data}, {operation: list, files: data}],
count: 300, interval: 100ms, `+test.config)
			p := start(t, job, s.Env()...)
			prepared := p.prepare()
			if prepared.GetFiles() != 24 || prepared.GetFolders() != 0 {
				t.Error(prepared)
			}
			putForeign(t, s)
			p.run(soon())
			_, started, f := p.finished()
			if f.GetError() != nil || started.GetThreads() == 0 {
				t.Fatal(f.GetError())
			}
			n := uint64(0)
			for _, o := range f.GetTotals() {
				n += o.GetOperations()
				if o.GetService().GetCount() != o.GetOperations() || (o.GetResponse() != nil) != strings.HasPrefix(name, "a rate") {
					t.Errorf("latencies of %v", o)
				}
			}
			if n != 300 || len(f.GetTotals()) < 6 {
				t.Errorf("%d operations: %v", n, f.GetTotals())
			}
			if report := p.clean(); report.GetLeftFiles() > 0 || report.GetDeletedFiles() < 24 {
				t.Error(report)
			}
			onlyForeign(t, s)
		})
	}
}

// TestKilledWithObjects: a new engine deletes what a killed one has created, with uploads that were under way, by the
// manifest alone (L5, L9).
func TestKilledWithObjects(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"while it prepares": false, "while it runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s3test.Start(t)
			var armed atomic.Bool
			caught := make(chan struct{}, 100) // more than requests at once
			var deleted sync.Map               // paths
			url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
				if _, was := deleted.Load(r.URL.Path); was && r.URL.Query().Get("uploadId") != "" {
					t.Errorf("%s was deleted before its upload was aborted, which may become an object between them", r.URL.Path)
				} else if r.Method == http.MethodDelete && r.URL.RawQuery == "" && !armed.Load() {
					deleted.Store(r.URL.Path, true)
				}
				if armed.Load() && r.URL.Query().Get("partNumber") == "2" {
					caught <- struct{}{}
					return s3test.Stall
				}
				return s3test.None
			})
			job := storeJob(t, url, "files: [{name: data, count: 4, size: 6MiB, tree: {width: 2}}], mix: [{operation: create}, {operation: delete}], s3: {part_size: 5MiB}, jobs: 2, interval: 100ms, duration: 1h")
			p := start(t, job, s.Env()...)
			armed.Store(!running)
			if running {
				p.prepare()
				armed.Store(true)
				p.run(soon())
			} else {
				p.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Prepare{Prepare: &enginepb.Prepare{}}})
			}
			<-caught
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.cmd.Wait()
			armed.Store(false)
			if len(s3test.Uploads(t, s.Client(t))) == 0 {
				t.Error("no upload was under way")
			}
			putForeign(t, s)
			p = start(t, job, s.Env()...)
			for range 2 { // again: what is not there is no error
				if report := p.clean(); report.GetLeftFiles() > 0 || report.GetDeletedFiles() == 0 {
					t.Error(report)
				}
				onlyForeign(t, s)
			}
		})
	}
}

// TestStoreTroubles: trouble of the store is counted by its class, and ends nothing within the budget (L9).
func TestStoreTroubles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trouble s3test.Trouble
		class   string
	}{
		"stall":     {s3test.Stall, "timeout"},
		"reset":     {s3test.Reset, "connection"},
		"half":      {s3test.Half, "connection"},
		"slow down": {s3test.SlowDown, "throttled"},
		"wrong":     {s3test.Wrong, "verification"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s3test.Start(t)
			var n atomic.Int64
			url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
				if r.Method == http.MethodGet && r.URL.Query().Get("prefix") == "" && r.URL.Query().Get("uploads") == "" && n.Add(1)%10 == 0 {
					return test.trouble
				}
				return s3test.None
			})
			job := storeJob(t, url, "files: [{name: data, count: 4, size: 64KiB}], mix: [{operation: read}], verify: true, jobs: 2, count: 100, errors: {count: 100}, s3: {timeout: 200ms}, interval: 100ms")
			p := start(t, job, s.Env()...)
			p.prepare()
			p.run(soon())
			_, _, f := p.finished()
			done, _, failed := total(t, f, "read")
			if f.GetError() != nil || done != 90 || failed != 10 || len(f.GetErrorSamples()) == 0 {
				t.Errorf("%d done, %d failed: %v", done, failed, f)
			}
			for _, o := range f.GetTotals() {
				for class := range o.GetErrors() {
					if class != test.class {
						t.Errorf("errors are %v", o.GetErrors())
					}
				}
			}
			for _, e := range f.GetErrorSamples() {
				if strings.Contains(e, s3test.Secret) || strings.Contains(e, s3test.ID) {
					t.Error(e)
				}
			}
			if report := p.clean(); report.GetLeftFiles() > 0 || report.GetDeletedFiles() != 4 {
				t.Error(report)
			}
		})
	}
}

// TestFirstBytesAndRetries: the time to the first byte is a figure of its own, of each read and of nothing else, and never
// longer than the whole; what was tried again is counted, and no error (L9).
func TestFirstBytesAndRetries(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	var n atomic.Int64
	url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
		if r.Method == http.MethodGet && r.URL.Query().Get("prefix") == "" && r.URL.Query().Get("uploads") == "" && n.Add(1)%10 == 0 {
			return s3test.Half
		}
		return s3test.None
	})
	job := storeJob(t, url, "files: [{name: data, count: 4, size: 64KiB}], mix: [{operation: read, weight: 9}, {operation: stat}], verify: true, jobs: 2, count: 100, s3: {retries: 3}, interval: 100ms")
	p := start(t, job, s.Env()...)
	p.prepare()
	p.run(soon())
	_, _, f := p.finished()
	if f.GetError() != nil {
		t.Fatal(f)
	}
	retries := uint64(0)
	for _, o := range f.GetTotals() {
		first := o.GetFirstByte()
		if o.GetOperation() != "read" {
			if first != nil || o.GetRetries() > 0 {
				t.Errorf("%s has %v and %d retries", o.GetOperation(), first, o.GetRetries())
			}
			continue
		}
		retries += o.GetRetries()
		if first.GetCount() != o.GetOperations() || first.GetMinNs() == 0 || first.GetMaxNs() > o.GetService().GetMaxNs() || first.GetSumNs() > o.GetService().GetSumNs() {
			t.Errorf("first bytes %v of %v", first, o.GetService())
		}
	}
	if want := uint64(n.Load() / 10); retries == 0 || retries != want {
		t.Errorf("%d retries, want %d", retries, want)
	}
	if report := p.clean(); report.GetLeftFiles() > 0 {
		t.Error(report)
	}
}

// TestStoreKilled: a store that dies ends the run with an error, and is cleaned up when it is there again, which is not waited for object by
// object (L5, L9).
func TestStoreKilled(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	job := storeJob(t, s.URL, "files: [{name: data, count: 2000, size: 1KiB}], mix: [{operation: read, block: 1KiB}], duration: 1h, interval: 100ms")
	p := start(t, job, s.Env()...)
	p.prepare()
	p.run(soon())
	p.until(func(f *enginepb.EngineFrame) bool { return f.GetInterval() != nil })
	s.Kill()
	_, _, f := p.finished()
	if f.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_IO || !strings.Contains(f.GetError().GetMessage(), "GET /bench/all of/it/load/01RUN/agent-0/data/f") {
		t.Error(f.GetError())
	}
	if report := p.clean(); report.GetLeftFiles() == 0 || len(report.GetErrors()) == 0 || !strings.Contains(report.GetErrors()[0], "out of reach") {
		t.Errorf("cleaned up without a store: %v", report)
	}
	again := s3test.Start(t, "-listen", s.Address())
	c := again.Client(t)
	for i := range 4 {
		s3test.Put(t, c, fmt.Sprintf("all of/it/load/01RUN/agent-0/data/f%d", i), "x")
	}
	putForeign(t, again)
	if report := p.clean(); report.GetLeftFiles() > 0 {
		t.Error(report)
	}
	onlyForeign(t, again)
}

// TestStalledStore: requests that get no response do not keep a run from its end on SIGTERM (L5).
func TestStalledStore(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	var stalls atomic.Bool
	caught := make(chan struct{}, 8)
	url := s.Proxy(t, func(*http.Request) s3test.Trouble {
		if !stalls.Load() {
			return s3test.None
		}
		caught <- struct{}{}
		return s3test.Stall
	})
	job := storeJob(t, url, "files: [{name: data, count: 4, size: 64KiB}], mix: [{operation: read}], jobs: 4, duration: 1h, s3: {timeout: 1h}")
	p := start(t, job, s.Env()...)
	p.prepare()
	stalls.Store(true)
	p.run(0)
	for range 4 {
		<-caught
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, _, f := p.finished(); f.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED {
		t.Error(f)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	stalls.Store(false)
	if report := start(t, job, s.Env()...).clean(); report.GetDeletedFiles() != 4 || report.GetLeftFiles() > 0 {
		t.Error(report)
	}
}

// TestStoppedRetries: a run that is ended while all its operations are between two tries ends in time, and their errors and
// retries are in its figures (L5, L9).
func TestStoppedRetries(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	var busy atomic.Bool
	caught := make(chan struct{}, 100) // more than are tried
	url := s.Proxy(t, func(*http.Request) s3test.Trouble {
		if !busy.Load() {
			return s3test.None
		}
		caught <- struct{}{}
		return s3test.SlowDown
	})
	job := storeJob(t, url, "files: [{name: data, count: 4, size: 64KiB}], mix: [{operation: read}], jobs: 4, duration: 1h, s3: {retries: 10}")
	p := start(t, job, s.Env()...)
	p.prepare()
	busy.Store(true)
	p.run(0)
	for range 4 * 6 { // the next pause is longer than an operation may take to end
		<-caught
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _, f := p.finished()
	failed, retries := uint64(0), uint64(0)
	for _, o := range f.GetTotals() {
		retries += o.GetRetries()
		for _, e := range o.GetErrors() {
			failed += e
		}
	}
	if failed != 4 || retries < 4*4 || f.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED {
		t.Errorf("%d errors and %d retries: %v", failed, retries, f)
	}
	busy.Store(false)
	if report := start(t, job, s.Env()...).clean(); report.GetLeftFiles() > 0 {
		t.Error(report)
	}
}

// TestParts: the buffers and connections of parts are those of loads that upload in parts, and of no others (L9).
func TestParts(t *testing.T) {
	t.Parallel()
	of := func(mix, more string) *layout {
		job := storeJob(t, "http://127.0.0.1:1/bench", "files: [{name: data, count: 4, size: 64MiB}], mix: [{operation: "+mix+"}], s3: {"+more+"}")
		job.Access = func() (c s3.Credentials, _ []byte, err error) {
			c, err = s3.NewCredentials(s3test.ID, s3test.Secret, "")
			return c, nil, err
		}
		l, err := newLayout(job)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	one, _ := of("read", "").buffersOfOne()
	for _, test := range []struct {
		mix, more string
		parts     int
	}{
		{"read", "parts_at_once: 8", 0}, {"stat", "parts_at_once: 8", 0}, {"write", "parts_at_once: 8, part_size: 64MiB", 0}, {"write", "parts_at_once: 8", 8}, {"create", "parts_at_once: 8", 8}, {"write", "", 1},
	} {
		l := of(test.mix, test.more)
		got, _ := l.buffersOfOne()
		if want := one + test.parts*s3.PartBuffers; got != want || l.sendsParts() != (test.parts > 0) {
			t.Errorf("%s with %s: buffers of %d bytes, want %d", test.mix, test.more, got, want)
		}
	}
}

// TestStalledCleanup: a cleanup waits for a stalled store less long than its agent waits for a cleanup that does not go on, whatever
// the file says; a store that is in trouble for a moment is tried again (L5, L9).
func TestStalledCleanup(t *testing.T) {
	t.Parallel()
	job := storeJob(t, "http://127.0.0.1:1/bench", "files: [{name: data, count: 1, size: 1}], mix: [{operation: read}], s3: {timeout: 1h}")
	job.Access = func() (s3.Credentials, []byte, error) {
		c, err := s3.NewCredentials("A", "B", "")
		return c, nil, err
	}
	l, err := cleaningLayout(job)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kind  s3.Kind
		takes time.Duration // each request
		tries int
	}{{s3.TimedOut, l.store.Timeout, 2}, {s3.Throttled, time.Millisecond, cleanTries}, {s3.Denied, time.Millisecond, 1}} {
		synctest.Test(t, func(t *testing.T) {
			c, began, tries := &objectCleaner{layout: l, ctx: t.Context()}, time.Now(), 0
			err := c.try(l.store.Client(), func() error {
				tries++
				time.Sleep(test.takes)
				return &s3.Error{Kind: test.kind}
			})
			if took := time.Since(began); s3.KindOf(err) != test.kind || tries != test.tries || took > 20*time.Second {
				t.Errorf("%d tries in %s: %v", tries, took, err)
			}
		})
	}
}

// TestSharedObjects: each agent uploads its part of a shared set, all read all of it, and each deletes its own (L3, L9).
func TestSharedObjects(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	agents := make([]*process, 2)
	for i := range agents {
		job := storeJob(t, s.URL, "shared: true, verify: true, files: [{name: data, count: 7, size: 10000, tree: {width: 2}}], mix: [{operation: read}, {operation: create}, {operation: list}], duration: 300ms, errors: {count: 0}")
		job.AgentCount, job.AgentIndex = len(agents), i
		agents[i] = start(t, job, s.Env()...)
		if n := agents[i].prepare().GetFiles(); n != uint64(4-i) {
			t.Errorf("agent %d has prepared %d objects", i, n)
		}
	}
	for _, p := range agents {
		p.run(soon())
	}
	for _, p := range agents {
		_, _, f := p.finished()
		if n, _, _ := total(t, f, "read"); f.GetError() != nil || n == 0 {
			t.Error(f)
		}
	}
	c := s.Client(t)
	for i, p := range agents {
		if report := p.clean(); report.GetLeftFiles() > 0 {
			t.Error(report)
		}
		if n := len(s3test.Keys(t, c)); (n == 0) != (i == 1) {
			t.Errorf("%d objects after agent %d has cleaned up", n, i)
		}
	}
}

// TestRefusedObjects: what cannot be run on a store is refused before anything is uploaded, with its reason (L9).
func TestRefusedObjects(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	const files = "files: [{name: data, count: 4, size: 64KiB}], mix: [{operation: read}]"
	stalled := s.Proxy(t, func(*http.Request) s3test.Trouble { return s3test.Stall })
	for name, test := range map[string]struct {
		config string
		change func(*Job)
		env    []string
		code   loadpb.ErrorCode
		text   string
	}{
		"too large":          {files, func(j *Job) { j.LimitBytes = 100 }, s.Env(), loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID, "262144 bytes, and 100 are allowed"},
		"too many":           {files, func(j *Job) { j.LimitFiles = 3 }, s.Env(), loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID, "4 files"},
		"out of its prefix":  {"target: /all of, " + files, nil, s.Env(), loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID, "not beneath"},
		"no credentials":     {files, nil, []string{"AWS_ACCESS_KEY_ID="}, loadpb.ErrorCode_ERROR_CODE_PERMISSION, "AWS_ACCESS_KEY_ID"},
		"other credentials":  {files, nil, append(s.Env(), "AWS_SECRET_ACCESS_KEY=other"), loadpb.ErrorCode_ERROR_CODE_PERMISSION, "SignatureDoesNotMatch"},
		"a stalled store":    {"s3: {timeout: 1h}, timeouts: {prepare: 1s}, " + files, func(j *Job) { j.Root = stalled + "/all of/it" }, s.Env(), loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED, "nothing was sent or received for 750ms"},
		"no bucket":          {files, func(j *Job) { j.Root += "x"; j.Root = strings.Replace(j.Root, "/bench", "/other", 1) }, s.Env(), loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED, "NoSuchBucket"},
		"an id that is used": {files, nil, s.Env(), loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED, "already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := storeJob(t, s.URL, test.config)
			job.RunID = strings.ReplaceAll(name, " ", "-")
			if test.change != nil {
				test.change(&job)
			}
			c := s.Client(t)
			if name == "an id that is used" {
				s3test.Put(t, c, "all of/it/load/"+job.RunID+"/agent-0/x", "of others")
			}
			if e := start(t, job, test.env...).refused(); e.GetCode() != test.code || !strings.Contains(e.GetMessage(), test.text) {
				t.Error(e)
			}
			page, err := c.List("all of/it/load/"+job.RunID+"/agent-0/d", "", false, 1)
			if err != nil || len(page.Keys) > 0 {
				t.Error(page, err)
			}
		})
	}
}

// TestSlowPreparation: a preparation is seen to go on while a large object is on its way, and while it looks for those
// that a shared set may have already: an agent ends one that makes no progress (L5, L9).
func TestSlowPreparation(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	t.Run("a large object", func(t *testing.T) {
		t.Parallel()
		seen := make(chan struct{})
		url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
			if r.URL.Query().Get("partNumber") == "3" {
				<-seen
			}
			return s3test.None
		})
		p := start(t, storeJob(t, url, "files: [{name: data, count: 1, size: 11MiB}], mix: [{operation: read}], s3: {part_size: 5MiB, sign_payload: true}"), s.Env()...)
		p.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Prepare{Prepare: &enginepb.Prepare{}}})
		p.until(func(f *enginepb.EngineFrame) bool {
			return f.GetProgress().GetBytes() >= 10<<20 && f.GetProgress().GetDone() == 0
		})
		close(seen)
		if f := p.until(func(f *enginepb.EngineFrame) bool { return f.GetPrepared() != nil }); f.GetPrepared().GetBytes() != 11<<20 {
			t.Error(f)
		}
		p.clean()
	})
	t.Run("a shared set", func(t *testing.T) {
		t.Parallel()
		var heads atomic.Int64
		uploaded := make(chan struct{}, 10)
		url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
			switch {
			case r.Method == http.MethodHead && heads.Add(1) > 2:
				<-uploaded
			case r.Method == http.MethodHead:
				time.Sleep(gathering) // as a store far away
			case r.Method == http.MethodPut:
				uploaded <- struct{}{}
			}
			return s3test.None
		})
		job := storeJob(t, url, "shared: true, files: [{name: data, count: 4, size: 1KiB}], mix: [{operation: read}]")
		job.RunID = "SHARED"
		p := start(t, job, s.Env()...)
		if n := p.prepare().GetFiles(); n != 4 {
			t.Error(n)
		}
		p.clean()
	})
}

// TestUnlisted: what a store does not list to its end is left, and said to be: nobody may take the run for cleaned up
// (L5, L9).
func TestUnlisted(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	var cuts atomic.Bool
	url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
		if cuts.Load() && r.URL.Query().Get("list-type") != "" {
			return s3test.Endless
		}
		return s3test.None
	})
	p := start(t, storeJob(t, url, "files: [{name: data, count: 4, size: 1KiB}], mix: [{operation: create}, {operation: list}], count: 20, errors: {count: 100}"), s.Env()...)
	p.prepare()
	cuts.Store(true)
	p.run(soon())
	if _, _, f := p.finished(); f.GetError() != nil || len(f.GetErrorSamples()) == 0 {
		t.Error(f)
	}
	if report := p.clean(); report.GetLeftFiles() != 1 || len(report.GetErrors()) != 1 || report.GetDeletedFiles() != 4 {
		t.Error(report)
	}
	cuts.Store(false)
	if report := p.clean(); report.GetLeftFiles() > 0 {
		t.Error(report)
	}
	if keys := s3test.Keys(t, s.Client(t)); len(keys) > 0 {
		t.Errorf("left in the bucket: %v", keys)
	}
}

// TestWaitingRequests: requests that wait for their time take no thread of the system until it is near (L8, L9).
func TestWaitingRequests(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	p := start(t, storeJob(t, s.URL, "files: [{name: data, count: 4, size: 1KiB}], mix: [{operation: read}], jobs: 60, rate: {operations: 100}, duration: 300ms"), s.Env()...)
	p.prepare()
	p.run(soon())
	if _, _, f := p.finished(); f.GetError() != nil {
		t.Error(f)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nThreads:")
	if n, err := strconv.Atoi(strings.Fields(rest)[0]); err != nil || n > 45 {
		t.Errorf("%d threads: %v", n, err)
	}
	p.clean()
}
