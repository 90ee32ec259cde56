package sdk

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A proxy passes requests to a server. While it is bad it loses requests, loses answers after
// the server has acted, sends a request twice, and is slow; while it is down it answers nothing.
type proxy struct {
	*httptest.Server
	to string

	mu     sync.Mutex
	random *rand.Rand
	bad    bool
	down   bool
}

// through puts a proxy between the server and its workers.
func (s *site) through(seed uint64) *proxy {
	p := &proxy{to: "http://" + s.address, random: rand.New(rand.NewPCG(seed, 1))}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	p.Start()
	s.t.Cleanup(p.Close)
	s.via = p.URL
	return p
}

func (p *proxy) set(bad, down bool) {
	p.mu.Lock()
	p.bad, p.down = bad, down
	p.mu.Unlock()
	if down {
		p.CloseClientConnections()
	}
}

func (p *proxy) roll(n int) (rolled int, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.bad {
		return n, p.down
	}
	return p.random.IntN(n), p.down
}

// A reply is what the server has answered.
type reply struct {
	*http.Response
	body []byte
}

// pass sends a request to the server. Without an answer it is nil.
func (p *proxy) pass(ctx context.Context, r *http.Request, body []byte) *reply {
	to, err := http.NewRequestWithContext(ctx, r.Method, p.to+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil
	}
	to.Header = r.Header.Clone()
	answer, err := http.DefaultClient.Do(to)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil
	}
	return &reply{answer, text}
}

// unread sends a request whose answer nobody gets, while the client goes on.
func (p *proxy) unread(r *http.Request, body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	go func() {
		defer cancel()
		p.pass(ctx, r, body)
	}()
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	n, down := p.roll(20)
	switch {
	case down, n == 0: // it is lost on its way
		panic(http.ErrAbortHandler)
	case n == 1: // so is the answer
		p.pass(r.Context(), r, body)
		panic(http.ErrAbortHandler)
	case n == 2: // and so, while the server goes on with it
		p.unread(r, body)
		panic(http.ErrAbortHandler)
	case n == 3: // it is sent twice, one after the other
		p.pass(r.Context(), r, body)
	case n == 4: // and at the same time
		p.unread(r, body)
	case n == 5:
		wait, _ := p.roll(50)
		<-time.After(time.Duration(wait) * time.Millisecond)
	case n == 6:
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	answer := p.pass(r.Context(), r, body)
	if _, down := p.roll(1); answer == nil || down {
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(answer.body) // the client may be gone
}

var _ http.Handler = (*proxy)(nil)

// TestABadProxy: with a proxy that loses, repeats and delays, every job ends, and every claim in
// the trails has run exactly once: none is stuck, and no step runs past its fence (T3, T5).
func TestABadProxy(t *testing.T) {
	each(t, func(t *testing.T, s *site, l *Language) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		p := s.through(seed)
		workers := []*process{s.worker(l, "--silence", "30"), s.worker(l, "--silence", "30")}
		p.set(true, false)
		var ids []string
		for range 20 {
			ids = append(ids, s.submit("steps:\n"+
				"  - {id: a, handler: slow, with: "+s.with(0)+"}\n"+
				"  - {id: b, needs: [a], foreach: \"${{ [1, 2, 3] }}\", handler: slow, with: "+s.with(0.01)+"}\n"+
				"  - {id: c, needs: [b], handler: slow, with: "+s.with(0)+"}\n"))
		}
		claimed := map[string]int{}
		for _, id := range ids {
			s.ended(id, "COMPLETED")
			for _, c := range s.claimed(id) {
				claimed[c]++
			}
		}
		p.set(false, false)
		for _, w := range workers {
			w.signal(syscall.SIGINT)
			w.ends(0)
		}
		s.once(claimed)
	})
}

// once checks that what has run is what was claimed, once for each claim.
func (s *site) once(claimed map[string]int) {
	s.t.Helper()
	ran := map[string]int{}
	for _, line := range s.notes() {
		if claim, is := strings.CutSuffix(line, " begin"); is {
			ran[claim]++
		}
	}
	for claim, n := range ran {
		if n != 1 || claimed[claim] == 0 {
			s.t.Errorf("claim %s has run %d times, and is %d times in the trails", claim, n, claimed[claim])
		}
	}
	for claim := range claimed {
		if ran[claim] == 0 {
			s.t.Errorf("claim %s has not run", claim)
		}
	}
	s.t.Logf("%d claims", len(ran))
}
