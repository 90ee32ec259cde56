package api_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

// A copyist is an engine of which only the export is used.
type copyist struct {
	access.Source
	export func(ctx context.Context, w io.Writer) error
}

func (c copyist) ExportTrail(ctx context.Context, _ pawl.ID, w io.Writer) error {
	return c.export(ctx, w)
}

// exportFrom returns the answer to a request for an export, and the error of reading it.
func exportFrom(t *testing.T, url string) (status int, body string, err error) {
	t.Helper()
	r, err := http.Get(url + "/api/audit/export")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }() // it was read
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

func serve(t *testing.T, export func(context.Context, io.Writer) error) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	service := api.New(api.Config{Engine: copyist{export: export}, Program: "test", Now: time.Now, Log: log})
	server := httptest.NewServer(api.Guard(service, api.GuardConfig{Log: log}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestAFaultCutsAStream: an error before the first row is a problem; after it the connection
// ends, so that nobody takes a part for the whole.
func TestAFaultCutsAStream(t *testing.T) {
	t.Parallel()
	gone := &pawl.Error{Kind: pawl.Unavailable, Message: "the database is gone"}
	url := serve(t, func(context.Context, io.Writer) error { return gone })
	if status, body, err := exportFrom(t, url); status != http.StatusServiceUnavailable || err != nil || !strings.Contains(body, "the database is gone") {
		t.Errorf("an error at once: %d %s, %v", status, body, err)
	}
	row := strings.Repeat("x", 100<<10)
	url = serve(t, func(_ context.Context, w io.Writer) error {
		if _, err := io.WriteString(w, row); err != nil {
			return err
		}
		return gone
	})
	status, body, err := exportFrom(t, url)
	if status != http.StatusOK || !errors.Is(err, io.ErrUnexpectedEOF) || body == "" || !strings.HasPrefix(row, body) {
		t.Errorf("an error after a row: %d, %d bytes, %v", status, len(body), err)
	}
}

// TestStreamsAreLimited: more than 8 streams of records at once are refused, and room is made
// by the end of one.
func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	url := serve(t, func(ctx context.Context, _ io.Writer) error {
		select {
		case begun <- struct{}{}:
		case <-end:
			return nil
		}
		<-end
		return nil
	})
	done := make(chan error)
	for range 8 {
		go func() {
			_, _, err := exportFrom(t, url)
			done <- err
		}()
		<-begun
	}
	r, err := http.Get(url + "/api/audit/export")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("the ninth: %d, Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
	}
	close(end)
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if status, _, err := exportFrom(t, url); status != http.StatusOK || err != nil {
		t.Errorf("after they have ended: %d, %v", status, err)
	}
}
