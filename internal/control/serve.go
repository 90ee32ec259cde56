package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	maxBody    = 64 << 10 // bytes of a request's body
	maxID      = 255      // bytes of a service's id
	maxActor   = 255      // bytes
	headerTime = 10 * time.Second
	bodyTime   = 10 * time.Second
	idleTime   = time.Minute
	closeTime  = 2 * time.Second // for requests to end when Serve does
)

// Serve serves requests for the host until ctx ends, and closes the listener. Followers of
// logs end with ctx; other requests have 2 seconds. If the socket is removed, it is
// created again.
func (l *Listener) Serve(ctx context.Context, h Host, log *slog.Logger) error {
	s := &http.Server{
		Handler:           (&server{host: h, about: l.about, log: log}).routes(),
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxBody,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(ctx, serverKey{}, ctx) },
		ConnContext: withPeer,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error)
	serve := func(socket net.Listener) { ended <- s.Serve(socket) }
	go serve(l.socket)
	tick := time.NewTicker(l.checkInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return errors.Join(err, l.Close())
		case <-tick.C:
			socket, err := l.recreate()
			if err != nil {
				log.Warn("the socket was removed, and could not be created again yet", "path", l.path, "error", err)
			} else if socket != nil {
				<-ended // of the one that was removed
				go serve(socket)
			}
		case <-ctx.Done():
			shut(s)
			<-ended
			return l.Close()
		}
	}
}

// shut lets requests end for a short while.
func shut(s *http.Server) {
	over, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if s.Shutdown(over) != nil {
		_ = s.Close() // requests that have not ended by now are cut off
	}
}

// serverKey is the context key of the server's context.
type serverKey struct{}

// peerKey is the context key of the error of checkPeer.
type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, checkPeer(c))
}

// A server serves requests for a host.
type server struct {
	host  Host
	about About
	log   *slog.Logger
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /v1/host":                  s.hello,
		"GET /v1/services":              s.services,
		"GET /v1/services/{id}":         s.service,
		"GET /v1/services/{id}/history": s.history,
		"GET /v1/services/{id}/offers":  s.offers,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, f) })
	}
	mux.HandleFunc("POST /v1/services/{id}/order", func(w http.ResponseWriter, r *http.Request) { s.instruct(w, r, s.order) })
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, r *http.Request) { s.instruct(w, r, s.reload) })
	mux.HandleFunc("GET /v1/services/{id}/logs", s.logs)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, pawl.Errorf(pawl.NotFound, "there is no %s %.100q", r.Method, r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err, _ := r.Context().Value(peerKey{}).(error); err != nil {
			s.refuse(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, f func(*http.Request) (any, error)) {
	v, err := f(r)
	if err == nil {
		err = write(w, http.StatusOK, "application/json", v)
	}
	if err != nil {
		s.refuse(w, r, err)
	}
}

func write(w http.ResponseWriter, status int, kind string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone
	return nil
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	s.log.Debug("a request was refused", "method", r.Method, "path", r.URL.Path, "error", err)
	_ = write(w, p.Status, problemType, p)
}

// An instruction is the body of an order or a reload.
type instruction struct {
	Verb      Verb   `json:"verb,omitempty"`
	Actor     string `json:"actor"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// instruct reads the body of a request, with a limit on time and size, and calls f.
func (s *server) instruct(w http.ResponseWriter, r *http.Request, f func(*http.Request, instruction) (any, error)) {
	s.answer(w, r, func(r *http.Request) (any, error) {
		var t instruction
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(time.Now().Add(bodyTime))
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&t); err != nil {
			return nil, &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("the body is not JSON of at most %d bytes", maxBody), Err: err}
		}
		_ = c.SetReadDeadline(time.Time{})
		if t.Actor == "" || len(t.Actor) > maxActor {
			return nil, pawl.Errorf(pawl.Invalid, "actor has %d bytes: want 1 to %d", len(t.Actor), maxActor)
		}
		// A client that disconnects must not cancel an order that is half done.
		return f(r.WithContext(r.Context().Value(serverKey{}).(context.Context)), t)
	})
}

func (t instruction) change() pawl.Change {
	return pawl.Change{Actor: t.Actor, Reason: t.Reason, RequestID: t.RequestID}
}

func (s *server) hello(*http.Request) (any, error) { return s.about, nil }

func (s *server) services(*http.Request) (any, error) {
	all := s.host.Services()
	if all == nil {
		all = []Service{}
	}
	return all, nil
}

// idOf returns the id in the path of a request.
func idOf(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if len(id) > maxID {
		return "", pawl.Errorf(pawl.Invalid, "the id of the service has %d bytes: want %d at most", len(id), maxID)
	}
	return id, nil
}

func (s *server) service(r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	return s.host.Service(id)
}

func (s *server) history(r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	moves, err := s.host.History(r.Context(), id)
	if moves == nil {
		moves = []pawl.Transition{}
	}
	return moves, err
}

// offers says which orders would have an effect.
func (s *server) offers(r *http.Request) (any, error) {
	id, err := idOf(r)
	if err == nil {
		_, err = s.host.Service(id)
	}
	if err != nil {
		return nil, err
	}
	all := make([]Offer, len(Verbs))
	for i, v := range Verbs {
		all[i] = Offer{Verb: v, OK: true}
		if err := s.host.Check(id, v); err != nil {
			all[i] = Offer{Verb: v, WhyNot: err.Error()}
		}
	}
	return all, nil
}

func (s *server) order(r *http.Request, t instruction) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	switch t.Verb {
	case Start, Stop, Restart:
	default:
		return nil, pawl.Errorf(pawl.Invalid, "verb %.100q: want start, stop or restart", t.Verb)
	}
	if err := s.host.Order(r.Context(), id, Order{Verb: t.Verb, Change: t.change()}); err != nil {
		return nil, err
	}
	return s.host.Service(id)
}

func (s *server) reload(r *http.Request, t instruction) (any, error) {
	differences, err := s.host.Reload(r.Context(), t.change())
	if differences == nil {
		differences = []Difference{}
	}
	return differences, err
}

// logs streams what a service has printed. The header is sent at once, since it may take
// long until anything is printed; an error after that is sent in the trailer.
func (s *server) logs(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r)
	if err == nil {
		_, err = s.service(r)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	out := flusher{w, http.NewResponseController(w)}
	_ = out.c.Flush()
	err = s.host.Logs(r.Context(), r.PathValue("id"), q, out)
	if err != nil && r.Context().Err() == nil {
		text, _ := json.Marshal(problemOf(err)) // strings and a number: it cannot fail
		w.Header().Set(http.TrailerPrefix+problemTrailer, string(text))
	}
}

const problemTrailer = "Pawl-Problem"

func queryOf(r *http.Request) (LogQuery, error) {
	v := r.URL.Query()
	q := LogQuery{Tail: -1, Follow: v.Get("follow") == "true"}
	if text := v.Get("tail"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < -1 {
			return q, pawl.Errorf(pawl.Invalid, "tail %.100q: want a whole number, or -1 for all", text)
		}
		q.Tail = n
	}
	return q, nil
}

// A flusher sends each write at once.
type flusher struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}
