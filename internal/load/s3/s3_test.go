package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
	"github.com/pawl-dev/pawl/internal/load/s3"
)

func TestMain(m *testing.M) {
	code := m.Run()
	s3test.Remove()
	os.Exit(code)
}

// contents is what tests upload.
func contents(n int) s3.Body {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return func(at int64, n int) []byte { return b[at : at+int64(n)] }
}

// get returns what a get yields.
func get(c *s3.Client, key string, offset, n, want int64) ([]byte, error) {
	var all []byte
	got, err := c.Get(key, offset, n, want, make([]byte, 64<<10), func(at int64, b []byte) error {
		if at != offset+int64(len(all)) {
			return fmt.Errorf("a piece at %d, want %d", at, offset+int64(len(all)))
		}
		all = append(all, b...)
		return nil
	})
	if err == nil && got != int64(len(all)) {
		err = fmt.Errorf("got %d bytes in pieces, and %d in all", len(all), got)
	}
	return all, err
}

// TestOperations: all operations on a store that checks signatures by the SDK of Amazon, with and without TLS,
// hashed contents, and the key of a session; with keys that have to be encoded (L9).
func TestOperations(t *testing.T) {
	t.Parallel()
	plain := s3test.Start(t)
	secure := s3test.Start(t, "-tls", filepath.Join(t.TempDir(), "ca.pem"))
	for name, c := range map[string]*s3.Client{
		"plain":  plain.Client(t),
		"hashed": plain.Client(t, func(c *s3.Config) { c.SignPayload = true }),
		"session": plain.Client(t, func(c *s3.Config) {
			c.Credentials, _ = s3.NewCredentials(s3test.SessionID, s3test.Secret, s3test.Token)
		}),
		"TLS": secure.Client(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operate(t, c, name+"/a b+c&d=e%2F~é/")
		})
	}
}

// TestHostStyle: all operations on a store that knows the bucket by the name of the host alone, over HTTP and TLS, whose
// certificate is of that name (L9).
func TestHostStyle(t *testing.T) {
	t.Parallel()
	const base = "example.com" // as the certificate has it
	for name, s := range map[string]*s3test.Server{
		"plain": s3test.Start(t, "-hosts"),
		"TLS":   s3test.Start(t, "-hosts", "-tls", filepath.Join(t.TempDir(), "ca.pem")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, port, _ := strings.Cut(s.Address(), ":")
			c := s.Client(t, func(c *s3.Config) {
				c.Endpoint, c.HostStyle = strings.Replace(c.Endpoint, s.Address(), base+":"+port, 1), true
			})
			s3.DialTo(c, s.Address())
			operate(t, c, "a b+c&d=e%2F~é/")
			wrong := s.Client(t, func(c *s3.Config) {
				c.Endpoint, c.HostStyle, c.Bucket = strings.Replace(c.Endpoint, s.Address(), base+":"+port, 1), true, "other"
			})
			s3.DialTo(wrong, s.Address())
			if _, err := wrong.Head("bench/key"); s3.KindOf(err) != s3.NotFound {
				t.Errorf("another bucket: %v", err)
			}
		})
	}
}

// TestRetries: a request that has failed in a way that may pass is tried again as often as the store says, is counted, and
// yields what it would have; one that is refused for good is not (L9).
func TestRetries(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	for name, trouble := range map[string]s3test.Trouble{"reset": s3test.Reset, "slow down": s3test.SlowDown, "half": s3test.Half} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var left atomic.Int64
			url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
				if left.Add(-1) >= 0 {
					return trouble
				}
				return s3test.None
			})
			c := s3test.Client(t, url, func(c *s3.Config) { c.Retries = 2 })
			key, body := "retries/"+name, contents(6<<20)
			if err := c.Put(key, 1<<20, body); err != nil || c.Retried != 0 {
				t.Fatal(err, c.Retried)
			}
			calls := map[string]func() error{"get": func() error {
				got, err := c.Get(key, 5, 1<<19, 1<<19, make([]byte, 1<<19), nil)
				if err == nil && got != 1<<19 {
					err = fmt.Errorf("got %d bytes", got)
				}
				return err
			}}
			if trouble != s3test.Half {
				calls["put"] = func() error { return c.Put(key+"2", 1<<20, body) }
				calls["head"] = func() error { _, err := c.Head(key); return err }
				calls["list"] = func() error { _, err := c.List("retries/", "", true, 10); return err }
				calls["parts"] = func() error { return c.Put(key+"3", 6<<20, body) }
				calls["delete"] = func() error { return c.Delete(key + "2") }
			}
			for call, f := range calls {
				c.Retried = 0
				left.Store(2)
				if err := f(); err != nil || c.Retried != 2 {
					t.Errorf("%s: %d retries, %v", call, c.Retried, err)
				}
				c.Retried = 0
				left.Store(3)
				if err := f(); err == nil || c.Retried != 2 {
					t.Errorf("%s: %d retries of a store in more trouble, %v", call, c.Retried, err)
				}
				left.Store(0)
			}
			c.Retried = 0
			if _, err := c.Head("retries/none"); s3.KindOf(err) != s3.NotFound || c.Retried != 0 {
				t.Errorf("what is not there: %d retries, %v", c.Retried, err)
			}
		})
	}
}

// TestStop: once it is said that there is no time, nothing is tried again, also in the middle of a pause, and neither are
// the other parts of an object of which one has failed for good (L9).
func TestStop(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Has("uploads"):
			_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
			return
		case q.Get("partNumber") == "1":
			w.WriteHeader(http.StatusForbidden)
			return
		}
		tries.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	c := s3test.Client(t, server.URL+"/bench", func(c *s3.Config) { c.Retries, c.PartsAtOnce = 10, 3 })
	const most = 4
	c.Stop = func() bool { return tries.Load() >= most }
	if _, err := c.Head("key"); s3.KindOf(err) != s3.Throttled || tries.Load() != most || c.Retried != most-1 {
		t.Errorf("%d tries and %d retries: %v", tries.Load(), c.Retried, err)
	}
	asked := 0
	tries.Store(0)
	c.Stop = func() bool { asked++; return asked > 1 } // the pause has begun
	if _, err := c.Head("key"); s3.KindOf(err) != s3.Throttled || tries.Load() != 1 {
		t.Errorf("%d tries with a pause that is ended: %v", tries.Load(), err)
	}
	c.Stop = nil
	tries.Store(0)
	if err := c.Put("large", 15<<20, contents(15<<20)); s3.KindOf(err) != s3.Denied || tries.Load() > 8 {
		t.Errorf("%d tries of the other parts: %v", tries.Load(), err)
	}
	tries.Store(0)
	if _, err := s3.StoreOf(c).Within(time.Minute).Client().Head("key"); s3.KindOf(err) != s3.Throttled || tries.Load() != 1 {
		t.Errorf("%d tries within a limit: %v", tries.Load(), err)
	}
	if c.Stop != nil {
		t.Error("an upload has left its own Stop")
	}
	if err := s3test.Client(t, server.URL+"/bench").ConnectParts(t.Context(), time.Second); err != nil {
		t.Error("without parts at once:", err)
	}
}

// TestFirst: the time to the first byte of a content ends with that byte, though the rest comes later (L9).
func TestFirst(t *testing.T) {
	t.Parallel()
	const size, later = 1 << 20, 400 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(make([]byte, 1)) // a client that is gone has its error
		w.(http.Flusher).Flush()
		time.Sleep(later) // as a slow store
		_, _ = w.Write(make([]byte, size-1))
	}))
	t.Cleanup(server.Close)
	c := s3test.Client(t, server.URL+"/bench")
	began := time.Now()
	if _, err := get(c, "key", 0, -1, size); err != nil {
		t.Fatal(err)
	}
	if rest := time.Since(began) - c.First; c.First == 0 || rest < later/2 {
		t.Errorf("the first byte took %v, and the rest %v more; want %v", c.First, rest, later)
	}
}

// TestPartsAtOnce: parts of one upload are sent at the same time, no more of them than the store says, and the object is
// whole; the first error ends it, and leaves no upload (L9).
func TestPartsAtOnce(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	const most, size = 3, 5*(5<<20) + 7
	var flying, peak, parts atomic.Int64
	two, fails := make(chan struct{}), atomic.Bool{}
	url := s.Proxy(t, func(r *http.Request) s3test.Trouble {
		if r.URL.Query().Get("partNumber") == "" {
			return s3test.None
		}
		if fails.Load() && r.URL.Query().Get("partNumber") == "3" {
			return s3test.SlowDown
		}
		n := flying.Add(1)
		defer flying.Add(-1)
		peak.Store(max(peak.Load(), n))
		if parts.Add(1) == 2 {
			close(two)
		}
		<-two // else the parts were sent one after the other
		return s3test.None
	})
	c := s3test.Client(t, url, func(c *s3.Config) { c.PartsAtOnce, c.SignPayload = most, true })
	body := contents(size)
	if err := c.Put("large", size, body); err != nil {
		t.Fatal(err)
	}
	if p := peak.Load(); p < 2 || p > most || parts.Load() != 6 {
		t.Errorf("%d parts, %d of them at once", parts.Load(), p)
	}
	if got, err := get(c, "large", 0, -1, size); err != nil || !bytes.Equal(got, body(0, size)) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	fails.Store(true)
	if err := c.Put("failed", size, body); s3.KindOf(err) != s3.Throttled {
		t.Error(err)
	}
	if all := s3test.Uploads(t, c); len(all) > 0 {
		t.Errorf("uploads are left: %v", all)
	}
	c.Close()
	fails.Store(false)
	if err := c.Put("again", size, body); err != nil {
		t.Error(err)
	}
}

// TestCutOff: once a part of an object has failed for good, none is waited for that the store does not read, does not respond
// to, or whose response it does not end, and the upload is aborted (L9).
func TestCutOff(t *testing.T) {
	t.Parallel()
	const part = 32 << 20 // more than the system buffers
	var aborted atomic.Bool
	var begun sync.WaitGroup
	begun.Add(3)
	over, gone, cut := make(chan struct{}), make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Has("uploads"):
			_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
		case r.Method == http.MethodDelete:
			aborted.Store(true)
			w.WriteHeader(http.StatusNoContent)
		case q.Get("partNumber") == "1":
			begun.Done()
			<-over
		case q.Get("partNumber") == "2":
			_, _ = io.Copy(io.Discard, r.Body)
			begun.Done()
			<-r.Context().Done() // the connection is closed
			close(gone)
		case q.Get("partNumber") == "3":
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Length", "1")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush() // the client sees it, or the connection is lost
			begun.Done()
			<-r.Context().Done()
			close(cut)
		default:
			_, _ = io.Copy(io.Discard, r.Body)
			begun.Wait()
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	c := s3test.Client(t, server.URL+"/bench", func(c *s3.Config) {
		c.PartSize, c.PartsAtOnce, c.Retries, c.Timeout = part, 4, 10, time.Hour
	})
	piece := make([]byte, s3.Piece)
	if err := c.Put("large", 4*part, func(_ int64, n int) []byte { return piece[:n] }); s3.KindOf(err) != s3.Denied {
		t.Error(err)
	}
	<-gone
	<-cut
	if !aborted.Load() {
		t.Error("the upload is not aborted")
	}
}

// TestCircles: a list whose places repeat is given up, however many there are, and one that is only long is not (L9).
func TestCircles(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	c := s3test.Client(t, s.Proxy(t, func(*http.Request) s3test.Trouble { return s3test.Circle }))
	var walk s3.Walk
	var err error
	pages := 0
	for next := ""; err == nil; pages++ {
		var p s3.Page
		if p, err = c.List("", next, true, 1); err != nil {
			t.Fatal(err)
		}
		next, err = p.Next, walk.On(c, p.Next)
	}
	if s3.KindOf(err) != s3.Mismatch || pages > 6 {
		t.Errorf("after %d pages: %v", pages, err)
	}
	for _, circle := range []int{3, 100, 1000} {
		var walk s3.Walk
		n := 0
		for ; walk.On(c, fmt.Sprint(n%circle)) == nil; n++ {
		}
		if n < circle || n > 4*circle {
			t.Errorf("a circle of %d is found after %d", circle, n)
		}
	}
	walk = s3.Walk{}
	for n := range 10_000 {
		if err := walk.On(c, fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func operate(t *testing.T, c *s3.Client, prefix string) {
	for _, size := range []int{0, 1, 16 << 10, 16<<10 + 1, 1 << 20, 6 << 20} { // the last one in parts
		key, body := fmt.Sprint(prefix, size), contents(size)
		if err := c.Put(key, int64(size), body); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Head(key); err != nil || n != int64(size) {
			t.Errorf("%d bytes: %d, %v", size, n, err)
		}
		if got, err := get(c, key, 0, -1, int64(size)); err != nil || !bytes.Equal(got, body(0, size)) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
		if size < 2 {
			continue
		}
		from, n := int64(size/3), int64(size/2)
		if got, err := get(c, key, from, n, n); err != nil || !bytes.Equal(got, body(from, int(n))) {
			t.Errorf("%d bytes from %d: got %d, %v", n, from, len(got), err)
		}
	}
	list(t, c, prefix)
	if err := errors.Join(c.Delete(prefix+"1"), c.Delete(prefix+"1")); err != nil {
		t.Error(err)
	}
	if _, err := c.Head(prefix + "1"); s3.KindOf(err) != s3.NotFound {
		t.Error(err)
	}
	if all, _, err := c.Uploads(prefix, s3.Upload{}); err != nil || len(all) > 0 {
		t.Errorf("uploads that are neither complete nor aborted: %v, %v", all, err)
	}
}

// list lists the objects of operate, in pages.
func list(t *testing.T, c *s3.Client, prefix string) {
	s3test.Put(t, c, prefix+"below/1", "x")
	for _, flat := range []bool{false, true} {
		var got []string
		for next, first := "", true; first || next != ""; first = false {
			p, err := c.List(prefix, next, flat, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Keys) > 2 {
				t.Errorf("a page of %d", len(p.Keys))
			}
			got, next = append(got, p.Keys...), p.Next
		}
		want := []string{"0", "1", "1048576", "16384", "16385", "6291456"}
		if !flat {
			want = append(want, "below/1")
		}
		for i := range want {
			want[i] = prefix + want[i]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("flat %v: %s", flat, diff)
		}
	}
}

// TestUploads: all uploads that are under way are listed, over pages, and those of other prefixes are not (L9).
func TestUploads(t *testing.T) {
	t.Parallel()
	c := s3test.Start(t).Client(t)
	want := map[s3.Upload]bool{}
	for i := range 1100 { // a page has 1000
		key := fmt.Sprintf("ours/%d", i/2)
		id, err := s3.Create(c, key)
		if err != nil {
			t.Fatal(err)
		}
		want[s3.Upload{Key: key, ID: id}] = true
	}
	if _, err := s3.Create(c, "theirs/1"); err != nil {
		t.Fatal(err)
	}
	got, pages := map[s3.Upload]bool{}, 0
	for after := (s3.Upload{}); pages == 0 || after.Key != ""; pages++ {
		page, next, err := c.Uploads("ours/", after)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range page {
			got[u] = true
		}
		after = next
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 2 {
		t.Errorf("%d uploads in %d pages", len(got), pages)
	}
	for u := range want {
		if err := c.Abort(u.Key, u.ID); err != nil {
			t.Fatal(err)
		}
	}
	if left := s3test.Uploads(t, c); len(left) != 1 || left[0].Key != "theirs/1" {
		t.Errorf("left: %v", left)
	}
}

// TestRefusals: what a store refuses has its code, no secret is in an error though the store quotes them, and the
// next request is as good as any (L9).
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	other, _ := s3.NewCredentials(s3test.SessionID, s3test.Secret, "another-token")
	for name, test := range map[string]struct {
		client *s3.Client
		kind   s3.Kind
		code   string
	}{
		"no such bucket": {s.Client(t, func(c *s3.Config) { c.Bucket = "other" }), s3.NotFound, "NoSuchBucket"},
		"another token":  {s.Client(t, func(c *s3.Config) { c.Credentials = other }), s3.Denied, "SignatureDoesNotMatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				err := test.client.Put("key", 1<<20, contents(1<<20))
				var e *s3.Error
				if !errors.As(err, &e) || e.Kind != test.kind || e.Code != test.code {
					t.Error(err)
				}
				for _, text := range []string{s3test.Secret, s3test.SessionID, "another-token"} {
					if strings.Contains(err.Error(), text) {
						t.Errorf("%q is in an error: %v", text, err)
					}
				}
			}
		})
	}
	store := s3.StoreOf(s.Client(t, func(c *s3.Config) { c.Credentials = other }))
	for _, v := range []any{other, &other, struct{ C s3.Credentials }{other}, struct{ c s3.Credentials }{other}, store, *store, s3.SignerOf(store.Client())} {
		if text := fmt.Sprintf("%v %+v %#v %s", v, v, v, v); strings.Contains(text, "s3cr3t") || strings.Contains(text, "token") {
			t.Errorf("%T: %s", v, text)
		}
	}
}

// TestTroubles: whatever happens to a request, it ends with an error of the right kind, and the one after it succeeds
// (L9).
func TestTroubles(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	for name, test := range map[string]struct {
		trouble s3test.Trouble
		kind    s3.Kind
		gets    bool // it happens to contents only
	}{
		"stall":     {s3test.Stall, s3.TimedOut, false},
		"reset":     {s3test.Reset, s3.Connection, false},
		"hangup":    {s3test.Hangup, s3.Connection, false},
		"slow down": {s3test.SlowDown, s3.Throttled, false},
		"half":      {s3test.Half, s3.Connection, true},
		"short":     {s3test.Short, s3.Mismatch, true},
		"whole":     {s3test.Whole, s3.Mismatch, true},
		"long":      {s3test.Long, s3.Mismatch, true},
		"shifted":   {s3test.Shifted, s3.Mismatch, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var on atomic.Bool
			url := s.Proxy(t, func(*http.Request) s3test.Trouble {
				if on.Load() {
					return test.trouble
				}
				return s3test.None
			})
			c := s3test.Client(t, url)
			store := s3.StoreOf(c)
			long := store.Timeout
			key, body := name, contents(6<<20)
			calls := map[string]func() error{
				"get": func() error { _, err := get(c, key, 5, 1<<19, 1<<19); return err },
				"put": func() error { return c.Put(key, 1<<20, body) }, "parts": func() error { return c.Put(key, 6<<20, body) },
				"head": func() error { _, err := c.Head(key); return err }, "delete": func() error { return c.Delete("other") },
				"list": func() error { _, err := c.List("", "", true, 10); return err },
			}
			if err := calls["put"](); err != nil {
				t.Fatal(err)
			}
			for call, f := range calls {
				if test.gets && call != "get" {
					continue
				}
				on.Store(true)
				if test.trouble == s3test.Stall {
					store.Timeout = 300 * time.Millisecond
				}
				if err := f(); s3.KindOf(err) != test.kind {
					t.Errorf("%s: %v", call, err)
				}
				on.Store(false)
				store.Timeout = long
				if err := f(); err != nil {
					t.Errorf("%s after the trouble: %v", call, err)
				}
			}
		})
	}
}

// TestServerGone: a connection that the store has closed meanwhile is replaced, and a store that is gone is an error
// at once.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	c := s.Client(t)
	s3test.Put(t, c, "key", "x")
	s.Kill()
	if err := c.Delete("key"); s3.KindOf(err) != s3.Connection {
		t.Error(err)
	}
	again := s3test.Start(t, "-listen", s.Address())
	if _, err := c.Head("key"); s3.KindOf(err) != s3.NotFound {
		t.Error(err)
	}
	again.Kill()
	s3test.Start(t, "-listen", s.Address())
	if _, err := c.Head("key"); s3.KindOf(err) != s3.NotFound {
		t.Errorf("on a connection of the server before: %v", err)
	}
}

// TestUntrusted: a certificate that nobody vouches for is refused.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t, "-tls", filepath.Join(t.TempDir(), "ca.pem"))
	if _, err := s.Client(t, func(c *s3.Config) { c.CA = nil }).Head("key"); s3.KindOf(err) != s3.Connection || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// TestCredentials: credentials come from values or a profile of a file, and anything else is an error.
func TestCredentials(t *testing.T) {
	t.Parallel()
	file := "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n\n[ other ]\naws_access_key_id = C\naws_secret_access_key = D\naws_session_token = E=F\n[half]\naws_access_key_id = G\n"
	want, _ := s3.NewCredentials("C", "D", "E=F")
	if got, err := s3.SharedCredentials(file, "other"); err != nil || !s3.Same(got, want) {
		t.Error(err)
	}
	for _, profile := range []string{"half", "none"} {
		if _, err := s3.SharedCredentials(file, profile); err == nil {
			t.Errorf("%s: no error", profile)
		}
	}
	if _, err := s3.NewCredentials("", "", ""); !errors.Is(err, s3.ErrNoCredentials) {
		t.Error(err)
	}
	if _, err := s3.NewCredentials("A", "B\r\nX-Other: 1", ""); err == nil {
		t.Error("a secret with a line break is taken")
	}
}

// TestLocation: URLs of buckets, and what is none.
func TestLocation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]s3.Location{
		"https://S3.example.com:443/bench/": {Endpoint: "https://s3.example.com", Bucket: "bench"},
		"http://[::1]:9000/bench/a/b":       {Endpoint: "http://[::1]:9000", Bucket: "bench", Prefix: "a/b"},
		"https://h/bench/team%2541/a b%3Fé": {Endpoint: "https://h", Bucket: "bench", Prefix: "team%41/a b?é"},
		"https://h/bench?path_style=false":  {Endpoint: "https://h", Bucket: "bench", HostStyle: true},
	} {
		got, err := s3.ParseLocation(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
		if again, err := s3.ParseLocation(got.URL()); err != nil || again != got {
			t.Errorf("%s: %v %v", got.URL(), again, err)
		}
	}
	for _, bad := range []string{"", "bench", "s3://bench", "ftp://host/bench", "https://host", "https://host/BENCH", "https://u:secret@host/bench", "https://host/bench?x=1", "https://host/bench/../other", "https://host/bench/a//b", "https:///bench", "https://ho st/bench"} {
		if l, err := s3.ParseLocation(bad); err == nil {
			t.Errorf("%q: %+v", bad, l)
		} else if strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}
