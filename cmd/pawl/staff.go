package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/server"
)

// staffed runs f while the parts of a managed engine, and what answers about this
// process, run beside it as services. They end after f.
func (a *app) staffed(ctx context.Context, l *ledger, s *service, f func(context.Context) error) error {
	m := metrics.New(version())
	var components []server.Component
	for _, p := range l.engine.Parts() {
		components = append(components, componentOf(p))
	}
	var host *server.Host
	name := fmt.Sprintf("%s-%d", s.role, os.Getpid())
	if socket := a.openSocket(name, func() control.Host { return host }); socket != nil {
		defer socket.close()
		components = append(components, socket.component())
	}
	var http *port
	if s.listen != "" {
		var err error
		if http, err = openPort(s.listen, a.log); err != nil {
			return err
		}
		defer http.close()
		components = append(components, http.component())
	}
	var err error
	if host, err = server.New(server.Config{Name: name, Components: components, Hooks: m.Hooks(), Log: a.log}); err != nil {
		return err
	}
	m.Watch(host.Stats, host.Counts)
	if http != nil {
		http.answer(m, func(ctx context.Context) []string { return append(l.unready(ctx), host.Unready()...) })
		http.announce(a.stderr)
	}
	defer a.attended(ctx, host)()
	return f(ctx)
}

// attended has a host run until end is called.
func (a *app) attended(ctx context.Context, host *server.Host) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		report, err := host.Run(ctx)
		if err != nil {
			a.log.Error("the parts of this process are not supervised", "error", err)
		}
		for _, left := range report.Left {
			a.log.Warn("a part of this process has not ended", "service", left.ID, "why", left.Why)
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
func (l *ledger) unready(ctx context.Context) []string {
	answer := make(chan []string, 1) // 1: nobody may wait any more
	go func() { answer <- l.fault(ctx) }()
	select {
	case reasons := <-answer:
		return reasons
	case <-ctx.Done():
		return []string{"the database does not answer"}
	}
}

func (l *ledger) fault(ctx context.Context) []string {
	switch err := l.moved(ctx); {
	case pawl.KindOf(err) == pawl.Conflict:
		return []string{err.Error()}
	case err != nil:
		return []string{"the database cannot be reached: " + err.Error()}
	}
	return nil
}
