//go:build unix

package postgres

import (
	"io"
	"net"
	"testing"
	"time"
)

// ends returns both ends of a connection.
func ends(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

// TestAwaitingAnAnswer: it ends with the first byte, which is there to be read, with
// the end of the connection, and when the limit is over.
func TestAwaitingAnAnswer(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	client, server := ends(t)
	if !quiet(client) {
		t.Error("a connection is not quiet before anything was sent")
	}
	awaitAnswer(client, time.Millisecond)
	go server.Write([]byte("x"))
	awaitAnswer(client, never)
	if quiet(client) {
		t.Error("a connection is quiet with a byte to be read")
	}
	b := make([]byte, 1)
	if _, err := io.ReadFull(client, b); err != nil || b[0] != 'x' {
		t.Errorf("read %q, %v; want what was sent", b, err)
	}
	go server.Close()
	awaitAnswer(client, never)
	if _, err := client.Read(b); err != io.EOF {
		t.Errorf("%v; want the end of the connection", err)
	}
	client.Close()
	awaitAnswer(client, never)
}
