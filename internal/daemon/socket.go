package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/server"
)

// roleServer is the role of a process whose services are its own parts.
const roleServer = "server"

// A socket lets other programs ask this process about its parts. It is one of the parts.
type socket struct {
	dir, name string
	log       *slog.Logger
	host      func() control.Host
	opened    atomic.Pointer[control.Listener] // open, and not served yet
}

// openSocket opens the socket of a process in a folder of sockets. It calls host when the
// socket is served.
func openSocket(dir, name string, log *slog.Logger, host func() control.Host) (*socket, error) {
	s := &socket{dir: dir, name: name, log: log, host: host}
	l, err := s.listen()
	if err != nil {
		return nil, err
	}
	s.opened.Store(l)
	return s, nil
}

func (s *socket) listen() (*control.Listener, error) {
	return control.Listen(s.dir, control.About{Name: s.name, Role: roleServer})
}

func (s *socket) component() server.Component {
	return server.Component{Name: "socket", Doc: "serves pawl service", Run: s.run, Optional: true}
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
		_ = l.Close() // it never served a request
	}
}
