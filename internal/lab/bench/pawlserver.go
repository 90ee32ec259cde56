package bench

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
)

// An httpServer serves the HTTP API of an engine at a free port of the loopback interface.
type httpServer struct {
	url     string
	service *api.Service
	server  *http.Server
}

func serve(e *engine.Engine) (*httpServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	s := &httpServer{url: "http://" + listener.Addr().String(), service: api.New(api.Config{Engine: e, Program: "bench", Schema: 1, Now: time.Now, Log: log, Events: e.Feed()})}
	s.server = &http.Server{Handler: api.Guard(s.service, api.GuardConfig{Log: log}), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError)}
	go s.server.Serve(listener) // until close
	return s, nil
}

func (s *httpServer) close() {
	_ = s.server.Close() // of connections that nobody uses any more
	s.service.Close()
}
