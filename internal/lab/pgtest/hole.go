package pgtest

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// A Hole stands between a handle and its server. What it swallows is lost without
// a word to either.
type Hole struct {
	// Close ends it, with all that leads through it.
	Close func()

	target string
	deaf   atomic.Bool // new connections are swallowed too

	mu    sync.Mutex        // guards links
	links [][2]*atomic.Bool // what is lost: of the handle's words, and of the server's
}

// Dig returns a hole before the server of a url, and the url that leads through it.
func Dig(t testing.TB, server string) (*Hole, string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	h := &Hole{target: u.Host}
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
	h.Close = sync.OnceFunc(func() { l.Close(); cancel(); links.Wait() })
	t.Cleanup(h.Close)
	u.Host = l.Addr().String()
	return h, u.String()
}

func (h *Hole) link(ctx context.Context, client net.Conn) {
	server, err := net.Dial("tcp", h.target)
	if err != nil {
		client.Close()
		return
	}
	swallowed := [2]*atomic.Bool{new(atomic.Bool), new(atomic.Bool)}
	for _, s := range swallowed {
		s.Store(h.deaf.Load())
	}
	h.mu.Lock()
	h.links = append(h.links, swallowed)
	h.mu.Unlock()
	end := func() { client.Close(); server.Close() }
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	for i, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			defer end()
			_, _ = io.Copy(swallower{way[1], swallowed[i]}, way[0]) // either end closes
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

// Swallow loses what is sent from now on over the connections that there are.
func (h *Hole) Swallow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		l[0].Store(true)
		l[1].Store(true)
	}
}

// Mute loses the answers alone.
func (h *Hole) Mute() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		l[1].Store(true)
	}
}

// Deafen says whether what is sent over new connections is lost as well.
func (h *Hole) Deafen(on bool) { h.deaf.Store(on) }
