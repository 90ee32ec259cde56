package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/store"
)

// A staff is what runs in a process that stays, beside its work.
type staff struct {
	role    string // engine.RoleServer or RoleDev
	version string // of the program
	engine  *engine.Engine
	store   store.Store
	sockets string // the folder of sockets
	port    *port  // nil: the process answers no HTTP
	log     *slog.Logger
	deaf    func(error) // is called if there is no socket, which keeps nobody from working
}

// run runs f while the parts of a managed engine, and what answers about this process, run
// beside it as services. They end after f.
func (s *staff) run(ctx context.Context, f func(context.Context) error) error {
	m := metrics.New(s.version)
	var components []server.Component
	for _, p := range s.engine.Parts() {
		components = append(components, componentOf(p))
	}
	var host *server.Host
	name := fmt.Sprintf("%s-%d", s.role, os.Getpid())
	if socket, err := openSocket(s.sockets, name, s.log, func() control.Host { return host }); err != nil {
		s.deaf(err)
	} else {
		defer socket.close()
		components = append(components, socket.component())
	}
	if s.port != nil {
		defer s.port.close()
		components = append(components, s.port.component())
	}
	var err error
	if host, err = server.New(server.Config{Name: name, Components: components, Hooks: m.Hooks(), Log: s.log}); err != nil {
		return err
	}
	m.Watch(host.Stats, host.Counts)
	if s.port != nil {
		s.port.answer(m, func(ctx context.Context) []string { return append(unready(ctx, s.store), host.Unready()...) })
	}
	defer attended(ctx, host, s.log)()
	return f(ctx)
}

// attended has a host run until end is called.
func attended(ctx context.Context, host *server.Host, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		report, err := host.Run(ctx)
		if err != nil {
			log.Error("the parts of this process are not supervised", "error", err)
		}
		for _, left := range report.Left {
			log.Warn("a part of this process has not ended", "service", left.ID, "why", left.Why)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func componentOf(p engine.Part) server.Component {
	return server.Component{Name: p.Name, Doc: p.Doc, Run: p.Run, Every: p.Every, StuckAfter: p.Patience,
		Progress: func() server.Progress { return server.Progress(p.Seen()) }}
}

// unready says what is wrong with the database, if anything keeps this process from
// using it. A database that hangs may hold up who asked it for longer than ctx.
func unready(ctx context.Context, s store.Store) []string {
	answer := make(chan []string, 1) // 1: nobody may wait any more
	go func() { answer <- faults(ctx, s) }()
	select {
	case reasons := <-answer:
		return reasons
	case <-ctx.Done():
		return []string{"the database does not answer"}
	}
}

func faults(ctx context.Context, s store.Store) []string {
	switch err := fits(ctx, s); {
	case pawl.KindOf(err) == pawl.Conflict:
		return []string{err.Error()}
	case err != nil:
		return []string{"the database cannot be reached: " + err.Error()}
	}
	return nil
}
