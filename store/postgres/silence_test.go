package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/store"
)

// A hole stands between a handle and its server. What it swallows is lost without
// a word to either.
type hole struct {
	target string
	deaf   atomic.Bool // new connections are swallowed too

	close func() // ends it, with all that leads through it

	mu    sync.Mutex // guards links
	links []*atomic.Bool
}

// dig answers a hole and the url that leads through it.
func dig(t *testing.T) (*hole, string) {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{target: u.Host}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var links sync.WaitGroup
	links.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			links.Go(func() { h.link(ctx, c) })
		}
	})
	h.close = sync.OnceFunc(func() { l.Close(); cancel(); links.Wait() })
	t.Cleanup(h.close)
	u.Host = l.Addr().String()
	return h, u.String()
}

func (h *hole) link(ctx context.Context, client net.Conn) {
	server, err := net.Dial("tcp", h.target)
	if err != nil {
		client.Close()
		return
	}
	swallowed := new(atomic.Bool)
	swallowed.Store(h.deaf.Load())
	h.mu.Lock()
	h.links = append(h.links, swallowed)
	h.mu.Unlock()
	end := func() { client.Close(); server.Close() }
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			defer end()
			_, _ = io.Copy(swallower{way[1], swallowed}, way[0]) // either end closes
		})
	}
	both.Wait()
}

type swallower struct {
	io.Writer
	on *atomic.Bool
}

func (s swallower) Write(p []byte) (int, error) {
	if s.on.Load() {
		return len(p), nil
	}
	return s.Writer.Write(p)
}

// swallow loses what is sent from now on over the connections that there are.
func (h *hole) swallow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		l.Store(true)
	}
}

// TestSilentConnections: a connection that says nothing any more holds up no
// transaction for long: it is begun anew on another one, and if there is none it
// ends with a clear word, and nothing was decided (T10).
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	h, url := dig(t)
	db := open(t, url)
	defer h.close() // before the handle is
	submit(t, db, 1, 1)
	h.swallow()
	db.cache.clear()
	db.patience = 5 * time.Second // for the new connection, too
	submit(t, db, 1, 1)

	// What is optimistic may have been committed, and is begun anew by whoever has
	// found out that it was not.
	h.swallow()
	db.patience = 300 * time.Millisecond
	if err := db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &store.Changes{}, nil }); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("an optimistic transaction on a silent connection: %v; want an unknown outcome", err)
	}
	db.patience = 5 * time.Second
	submit(t, db, 1, 1)

	db.cache.clear()
	h.deaf.Store(true)
	h.swallow()
	db.patience = 300 * time.Millisecond
	decided := false
	err := db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { decided = true; return nil, nil })
	var e *pawl.Error
	if !errors.As(err, &e) || e.Kind != pawl.Unavailable || !strings.Contains(err.Error(), "the database does not answer") || e.Hint == "" || decided {
		t.Errorf("decided: %v, %v; want that the database does not answer, with a hint", decided, err)
	}

	h.deaf.Store(false)
	db.patience = time.Minute
	submit(t, db, 1, 1)
	if jobs, err := db.Jobs(t.Context(), store.JobFilter{}); err != nil || len(jobs) != 4 {
		t.Errorf("%d jobs, %v; want 4", len(jobs), err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := db.Do(ended, &store.Query{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}
