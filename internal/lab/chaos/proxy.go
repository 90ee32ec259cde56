package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A weather is how a proxy treats its traffic.
type weather struct {
	hold  bool          // nothing passes until the weather is fair again
	deaf  bool          // replies of the database are lost; an affected connection is cut when this weather ends
	delay time.Duration // before each piece
	down  bool          // no connection exists, and none is made
}

// A proxy stands between one process and the database, or servers.
type proxy struct {
	targets  []string // in turn, those that can be reached
	next     atomic.Uint64
	listener net.Listener
	loops    sync.WaitGroup

	mu      sync.Mutex // guards what follows
	weather weather
	changed chan struct{} // closed when the weather changes
	links   map[*link]bool
	closed  bool
}

// A link is one connection through a proxy.
type link struct {
	client, server net.Conn
	lossy          bool // data on it was lost
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func newProxy(targets ...string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{targets: targets, listener: l, changed: make(chan struct{}), links: map[*link]bool{}}
	p.loops.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.loops.Go(func() { p.connect(client) })
	}
}

func (p *proxy) connect(client net.Conn) {
	server, err := p.dial()
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	if p.closed || p.weather.down {
		p.mu.Unlock()
		l.cut()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, client, server, false) })
	both.Go(func() { p.pump(l, server, client, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *proxy) dial() (c net.Conn, err error) {
	first := p.next.Add(1)
	for i := range uint64(len(p.targets)) {
		if c, err = net.DialTimeout("tcp", p.targets[(first+i)%uint64(len(p.targets))], time.Second); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// pump carries one direction of a link until either end closes.
func (p *proxy) pump(l *link, from, to net.Conn, answers bool) {
	defer l.cut()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pass(l, answers) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits as the weather requires, and reports whether the piece gets through.
func (p *proxy) pass(l *link, answer bool) bool {
	for {
		p.mu.Lock()
		w, changed, closed := p.weather, p.changed, p.closed
		if answer && w.deaf {
			l.lossy = true
		}
		p.mu.Unlock()
		switch {
		case closed || answer && w.deaf:
			return false
		case w.hold:
			<-changed
		case w.delay > 0:
			time.Sleep(w.delay)
			return true
		default:
			return true
		}
	}
}

// set changes the weather.
func (p *proxy) set(w weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		if l.lossy && !w.deaf || w.down {
			l.cut()
		}
	}
}

// cut closes every connection. New ones get through.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// close ends the proxy and its connections.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.set(weather{})
	p.cut()
	p.loops.Wait()
}
