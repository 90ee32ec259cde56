package main

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echoed returns a connection through a proxy to a server that sends back what
// it is sent.
func echoed(t *testing.T) (*proxy, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	p, err := newProxy(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, dialed(t, p)
}

func dialed(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// say sends a byte, and returns what comes back within the time.
func say(t *testing.T, c net.Conn, within time.Duration) error {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

const (
	moment = 30 * time.Millisecond
	ages   = 20 * time.Second
)

func TestProxy(t *testing.T) {
	t.Parallel()
	p, c := echoed(t)
	if err := say(t, c, ages); err != nil {
		t.Fatal(err)
	}
	p.set(weather{hold: true})
	if err := say(t, c, moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("through a black hole: %v", err)
	}
	p.set(weather{})
	if err := say(t, c, ages); err != nil {
		t.Errorf("after a black hole: %v", err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("what was held in a black hole: %v", err)
	}
	p.cut()
	if err := say(t, c, ages); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("on a connection that was cut: %v", err)
	}
	if err := say(t, dialed(t, p), ages); err != nil {
		t.Errorf("on a new connection: %v", err)
	}
}

func TestADeafConnectionIsCutInTheEnd(t *testing.T) {
	t.Parallel()
	p, c := echoed(t)
	p.set(weather{deaf: true})
	if err := say(t, c, moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deaf: %v", err)
	}
	p.set(weather{})
	if err := say(t, c, ages); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("what was lost is not missed: %v", err)
	}
}
