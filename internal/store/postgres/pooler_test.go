package postgres

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// TestAPoolerIsRefused: behind a pooler a session may be another one with each transaction, so
// the database is not opened there, and nothing is made in it.
func TestAPoolerIsRefused(t *testing.T) {
	t.Parallel()
	server := pgtest.URL(t)
	_, err := Open(t.Context(), Config{URL: pooler(t, server)})
	var refused *pawl.Error
	if !errors.As(err, &refused) || refused.Kind != pawl.Invalid || !strings.Contains(refused.Message, "connection pooler") || refused.Hint == "" {
		t.Fatalf("opening through a pooler: %v: want a refusal of kind Invalid with a hint", err)
	}
	s, err := OpenSchema(t.Context(), Config{URL: server})
	if err != nil {
		t.Fatal(err)
	}
	if v, _, err := s.Version(t.Context()); err != nil || v != 0 {
		t.Fatalf("the schema has version %d, %v: want none", v, err)
	}
}

// pooler returns the url of a server that passes everything on, but announces processes of its
// own, as poolers do: BackendKeyData is the message K with 12 bytes.
func pooler(t *testing.T, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var links sync.WaitGroup
	t.Cleanup(func() { l.Close(); links.Wait() })
	links.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			links.Go(func() { pooled(client, target) })
		}
	})
	u.Host = l.Addr().String()
	return u.String()
}

func pooled(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client); server.Close() }()
	for {
		header := make([]byte, 5)
		if _, err := io.ReadFull(server, header); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if header[0] == 'K' {
			binary.BigEndian.PutUint32(body, binary.BigEndian.Uint32(body)^0x5555)
		}
		if _, err := client.Write(append(header, body...)); err != nil {
			return
		}
	}
}
