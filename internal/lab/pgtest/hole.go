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

// A Hole is a proxy between a handle and its server. It can swallow data, which neither side
// notices.
type Hole struct {
	// Close closes the hole and all connections through it.
	Close func()

	target string
	deaf   atomic.Bool // new connections are swallowed too

	mu    sync.Mutex        // guards links
	links [][2]*atomic.Bool // which directions are lost: from the handle, and from the server
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

// Swallow drops all data sent from now on over the existing connections.
func (h *Hole) Swallow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		l[0].Store(true)
		l[1].Store(true)
	}
}

// Mute drops only the data from the server.
func (h *Hole) Mute() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		l[1].Store(true)
	}
}

// Deafen sets whether data over new connections is dropped as well.
func (h *Hole) Deafen(on bool) { h.deaf.Store(on) }
