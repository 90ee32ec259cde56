package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/load/results"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/oidc"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Daemon runs the components of a long-lived process beside its work.
type Daemon struct {
	Role    string // health.RoleServer or RoleDev
	Version string // of the program
	Metrics *metrics.Metrics
	Engine  *engine.Engine
	Store   store.Store
	Sockets string // the folder of sockets
	Port    *Port  // nil: the process serves no HTTP

	// Required: who uses the port needs a token. Otherwise a caller without one has all roles.
	// A port that other machines can reach, people sign in at or clients show certificates to
	// always requires tokens.
	Required bool

	// Login is how people sign in with an identity provider. nil: they do not.
	Login *oidc.Config

	// URL is that by which browsers reach the port, if not its own.
	URL string

	// Crew is tended and served. nil: there is none. Start starts the program of a member.
	Crew  *crew.Crew
	Start func(ctx context.Context, id string) error

	// Loads are the load runs that are served, nil: none; and LoadAgents the agents.
	Loads      *results.Folder
	LoadAgents []api.LoadAgent

	// Examine examines the database, for the API.
	Examine func(context.Context) []health.Finding

	Log         *slog.Logger
	Unreachable func(error) // called if there is no socket; the work goes on without it
}

// Run runs f. Beside it, the parts of a managed engine and the components that report on this
// process run as services. They end after f.
func (d *Daemon) Run(ctx context.Context, f func(context.Context) error) error {
	m := d.Metrics
	var components []server.Component
	for _, p := range d.Engine.Parts() {
		components = append(components, componentOf(p))
	}
	if d.Crew != nil {
		components = append(components, crewComponents(d.Crew, d.Start, d.Log)...)
	}
	var host *server.Host
	name := fmt.Sprintf("%s-%d", d.Role, os.Getpid())
	if socket, err := openSocket(d.Sockets, name, d.Log, func() control.Host { return host }); err != nil {
		d.Unreachable(err)
	} else {
		defer socket.close()
		components = append(components, socket.component())
	}
	if d.Port != nil {
		defer d.Port.close()
		components = append(components, d.Port.component())
	}
	var err error
	if host, err = server.New(server.Config{Name: name, Components: components, Hooks: m.Hooks(), Log: d.Log}); err != nil {
		return err
	}
	m.Watch(host.Stats, host.Counts)
	if d.Port != nil {
		d.Port.Gate = access.New(access.Config{Required: d.Required || d.Port.Beyond || d.Login != nil || d.Port.asksForCertificates(), Sessions: d.Engine, Find: func(ctx context.Context, id pawl.ID) (*pawl.Token, error) {
			return store.FindToken(ctx, d.Store, id)
		}, FindSum: func(ctx context.Context, sum [32]byte) (*pawl.Token, error) {
			return store.FindTokenBySum(ctx, d.Store, sum)
		}})
		config := api.Config{Engine: d.Engine, Gate: d.Port.Gate, Cookie: d.Port.cookie(), Secure: strings.HasPrefix(strings.ToLower(d.URL), "https:"),
			Program: d.Version, Schema: d.Store.Opened(), Now: time.Now, Observe: m.Request, Log: d.Log, Events: d.Engine.Feed(), Examine: d.Examine, Sockets: d.Sockets, Crew: d.Crew, Loads: d.Loads, LoadAgents: d.LoadAgents}
		if d.Port.Login, err = d.login(&config); err != nil {
			return err
		}
		operations := api.New(config)
		defer operations.Close()
		m.WatchDatabase(d.Engine, time.Now)
		m.WatchEvents(d.Engine.Feed().Stats)
		m.WatchWebhooks(d.Engine.WebhookStats)
		d.Port.Answer(m, func(request context.Context) []string {
			reasons := append(unready(request, d.Store, d.Engine), host.Unready()...)
			if ctx.Err() != nil {
				reasons = append(reasons, "the process is ending")
			}
			return reasons
		}, operations)
	}
	defer superviseHost(ctx, host, d.Log)()
	return f(ctx)
}

// login returns the sign-in with an identity provider, or nil, and tells the API of it.
func (d *Daemon) login(c *api.Config) (*oidc.Login, error) {
	if d.Login == nil {
		return nil, nil
	}
	login, err := oidc.New(*d.Login, door{d.Port.Gate, c}, d.Log)
	if err == nil {
		c.Login, c.Secure = login.Path(), login.Secure()
	}
	return login, err
}

// A door is a gate as a login sees it.
type door struct {
	*access.Gate
	api *api.Config
}

// Open opens a session, and returns its cookie.
func (d door) Open(ctx context.Context, person string, p pawl.TokenPlan) (http.Cookie, error) {
	secret, err := d.Gate.Open(ctx, person, p)
	return api.Cookie(d.api.Cookie, secret, d.api.Secure), err
}

// ServeState serves metrics, the health and the readiness of a process that is a client of a
// database, until end is called.
func ServeState(ctx context.Context, p *Port, m *metrics.Metrics, e *engine.Engine, s store.Store) (end func(), err error) {
	m.WatchDatabase(e, time.Now)
	return ServeReadiness(ctx, p, m, func(request context.Context) []string { return unready(request, s, e) })
}

// ServeReadiness is ServeState for a process whose readiness a function finds out.
func ServeReadiness(ctx context.Context, p *Port, m *metrics.Metrics, unready func(context.Context) []string) (end func(), err error) {
	p.Answer(m, func(request context.Context) []string {
		reasons := unready(request)
		if ctx.Err() != nil {
			reasons = append(reasons, "the process is ending")
		}
		return reasons
	}, nil)
	return p.Served(ctx)
}

// superviseHost runs a host until end is called.
func superviseHost(ctx context.Context, host *server.Host, log *slog.Logger) (end func()) {
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
	return server.Component{Name: p.Name, Doc: p.Doc, Run: p.Run, Every: p.Every, StuckAfter: p.StuckAfter,
		Progress: func() server.Progress { return server.Progress(p.Seen()) }}
}

// A writer knows since when each of its commits has failed; zero: they succeed, or none was tried.
type writer interface{ Unstored() time.Time }

// unready says why this process cannot use the database, if it cannot: a database that can be read, but takes
// no commit, is of no more use to jobs than one that is out of reach. A database that hangs may block the
// goroutine that asks it after ctx has ended.
func unready(ctx context.Context, s store.Store, w writer) []string {
	answer := make(chan []string, 1) // 1: the caller may be gone
	go func() { answer <- faults(ctx, s) }()
	select {
	case reasons := <-answer:
		if since := w.Unstored(); len(reasons) == 0 && !since.IsZero() {
			reasons = []string{"each commit has failed since " + since.UTC().Format(time.RFC3339) + "; the log has the reason"}
		}
		return reasons
	case <-ctx.Done():
		return []string{"the database does not respond"}
	}
}

func faults(ctx context.Context, s store.Store) []string {
	switch err := fits(ctx, s); {
	case pawl.KindOf(err) == pawl.Conflict:
		return []string{err.Error()}
	case err != nil:
		return []string{"the database cannot be reached; the log has the reason"} // which has its address, and anybody may ask
	}
	return nil
}
