package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/store"
)

// away is a store that cannot be reached, or is of another version.
type away struct {
	store.Store
	current int
	err     error
}

func (a away) Version(context.Context) (current, newest int, err error) { return a.current, 4, a.err }

func (a away) Fits(context.Context) error {
	if a.err == nil && a.current != 4 {
		return pawl.Errorf(pawl.Conflict, "schema version %d", a.current)
	}
	return a.err
}

// TestReadiness: the reasons are told, one a line (S14).
func TestReadiness(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		store   away
		unready []string
		status  int
		text    string
	}{
		{"ready", away{current: 4}, nil, 200, "ok\n"},
		{"away", away{err: errors.New("connection refused")}, []string{"evaluator is starting"}, 503, "the database cannot be reached: connection refused\nevaluator is starting\n"},
		{"moved", away{current: 5}, nil, 503, "the database was migrated to schema version 5, and this process needs 4: it has stopped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := OpenPort("localhost:0", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			p.Answer(metrics.New("test"), func(ctx context.Context) []string { return append(unready(ctx, tt.store), tt.unready...) })
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			if w.Code != tt.status || w.Body.String() != tt.text {
				t.Errorf("%d %q: want %d %q", w.Code, w.Body, tt.status, tt.text)
			}
		})
	}
}

// deaf is a store that answers nobody, and heeds no context.
type deaf struct {
	store.Store
	over chan struct{}
}

func (d deaf) Fits(context.Context) error {
	<-d.over
	return nil
}

// TestReadinessOfADeafDatabase: who asks gets an answer, whatever the database does (S14).
func TestReadinessOfADeafDatabase(t *testing.T) {
	t.Parallel()
	d := deaf{over: make(chan struct{})}
	defer close(d.over)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reasons := unready(ctx, d); !slices.Equal(reasons, []string{"the database does not respond"}) {
		t.Errorf("reasons %q", reasons)
	}
}

// TestARequestThatNeverEnds holds no connection for ever (K7).
func TestARequestThatNeverEnds(t *testing.T) {
	t.Parallel()
	p, err := OpenPort("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.handler = http.NotFoundHandler()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	c, err := net.Dial("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(time.Minute))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil { // its end, or a reset
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			t.Error("a request without its body is waited for longer than a minute")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAPortThatIsTakenLater is opened again when it is free (S14).
func TestAPortThatIsTakenLater(t *testing.T) {
	t.Parallel()
	p, err := OpenPort("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.handler = http.NotFoundHandler()
	p.close()
	other, err := net.Listen("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.run(t.Context()); err == nil {
		t.Error("a port that another has is served")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	for served := false; !served; {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		if r, err := http.Get("http://" + p.Address); err == nil {
			served = true
			_ = r.Body.Close() // its status is all there is
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if seen := p.component().Progress(); seen.Rounds == 0 || seen.At.IsZero() {
		t.Errorf("seen: %+v", seen)
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:9464": "", "[::1]:0": "", "localhost:65535": "",
		"":                "want a host and a port from 0 to 65535, such as 127.0.0.1:9464",
		"127.0.0.1":       "want a host and a port from 0 to 65535, such as 127.0.0.1:9464",
		"127.0.0.1:65536": "want a host and a port from 0 to 65535, such as 127.0.0.1:9464",
		"127.0.0.1:http":  "want a host and a port from 0 to 65535, such as 127.0.0.1:9464",
		":80":             "want an address of the loopback interface, such as 127.0.0.1:80",
		"192.0.2.1:80":    "want an address of the loopback interface, such as 127.0.0.1:80",
		"db.example:80":   "want an address of the loopback interface, such as 127.0.0.1:80",
	} {
		if err := CheckAddress(address); (err == nil) != (want == "") || err != nil && (err.Error() != want || pawl.KindOf(err) != pawl.Invalid) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}
