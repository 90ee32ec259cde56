package s3_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
	"github.com/pawl-dev/pawl/internal/load/s3"
)

// TestTickets: a connection on which tickets have arrived is as good as any, and one that was closed after them is
// replaced.
func TestTickets(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert} // without it the tickets come with the handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := s3test.Client(t, server.URL+"/bench", func(c *s3.Config) { c.CA = ca })
	s3.Tickets(s3.StoreOf(c))
	arrive := func() {
		t.Helper()
		for limit := time.Now().Add(10 * time.Second); !s3.Readable(c); {
			if time.Now().After(limit) {
				t.Fatal("nothing has arrived")
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := c.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	arrive()
	for range 2 {
		if _, err := c.Head("key"); err != nil || made.Load() != 1 {
			t.Errorf("%d connections: %v", made.Load(), err)
		}
	}
	server.CloseClientConnections()
	arrive()
	if _, err := c.Head("key"); err != nil || made.Load() != 2 {
		t.Errorf("%d connections: %v", made.Load(), err)
	}
}
