package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/server"
)

// roleServer is what a process says of itself whose services are its own parts.
const roleServer = "server"

// A socket lets this process be asked about its parts, as one of them.
type socket struct {
	dir, name string
	log       *slog.Logger
	host      func() control.Host
	opened    atomic.Pointer[control.Listener] // and not served yet
}

// openSocket opens the socket of this process. Nil: there is none, which keeps nobody
// from working. The host is asked for when the socket is served.
func (a *app) openSocket(name string, host func() control.Host) *socket {
	s := &socket{dir: control.Dir(a.getenv), name: name, log: a.log, host: host}
	l, err := s.listen()
	if err != nil {
		a.log.Warn("pawl service does not reach this process", "error", err, "hint", hintOf(err))
		return nil
	}
	s.opened.Store(l)
	return s
}

func (s *socket) listen() (*control.Listener, error) {
	return control.Listen(s.dir, control.About{Name: s.name, Role: roleServer})
}

func (s *socket) component() server.Component {
	return server.Component{Name: "socket", Doc: "answers pawl service", Run: s.run, Optional: true}
}

// run serves until ctx ends.
func (s *socket) run(ctx context.Context) (err error) {
	l := s.opened.Swap(nil)
	if l == nil {
		if l, err = s.listen(); err != nil {
			return err
		}
	}
	return l.Serve(ctx, s.host(), s.log)
}

// close closes a socket that was never served.
func (s *socket) close() {
	if l := s.opened.Swap(nil); l != nil {
		_ = l.Close() // nobody was answered
	}
}
