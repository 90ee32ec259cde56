package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/age"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/doctor"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/signals"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/tracing"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

const serverLong = `Run an engine until Ctrl-C or SIGTERM. It evaluates what workers leave to it, fires
deadlines and schedules, releases the steps of dead workers, and maintains the database.
It runs no steps; "pawl worker" does. Any number of servers can run on one database:
there is no leader, and each may be killed at any moment.

--silence is how long a worker may be silent before it counts as dead and its steps go
to others: 6s by default, at least 2s, and at least three times the --beat of the
workers. --retention removes what ended longer ago than that, like "pawl prune".

The server serves the HTTP API, metrics for Prometheus and its readiness, to this machine
only: at 127.0.0.1:7295, or at a free port if another process has that one. --listen none
gives it no port, and --listen another address. If other machines reach that, the server
needs --tls-cert and --tls-key, and whoever uses it a token: see "pawl help token". With
--auth required, programs of this machine need one, too. The parts of the server are
services: see "pawl service list".

With --crew DIR, a folder in a repository, the server tends the crew of that repository: it
patrols, starts the programs of members that have a task, runs the gates, and lands what is
approved and waits. The API then shows the crew, and takes assignments and approvals.

With --load DIR the API shows the load runs whose results are in that folder, such as those of
"pawl load run --out DIR/NAME", and those that are on. It compares them, and ends those that are
on. --load-agent ADDRESS adds an agent to those that it shows. Off this machine agents want a
certificate or a token: PAWL_LOAD_CERT and PAWL_LOAD_KEY, or PAWL_LOAD_TOKEN_FILE, name the files,
and PAWL_LOAD_CA has the certificates that those of agents are signed by.

With --secret-key-file FILE the secrets of webhooks are encrypted in the database. The file has a
key on each line, 32 bytes in base64 or hexadecimal: "openssl rand -base64 32" makes one. The first
encrypts, and all decrypt, so a new key goes to the front, and the old one stays until "pawl doctor"
says that no secret is encrypted with it. With the line "plain" in front the keys only decrypt, and
secrets are stored as they are again. Without its key nothing is sent to a webhook. The file is
refused if other users can read it, or its group can write it.`

func newServer(a *app) *cobra.Command {
	s := &service{role: health.RoleServer}
	c := &cobra.Command{
		Use: "server", Short: "Run an engine, without a worker, until Ctrl-C", Long: serverLong,
		Example: "  pawl server --database postgres://pawl@db.example/pawl\n  pawl server --silence 15s --name rack1\n  pawl server --listen 0.0.0.0:7295 --tls-cert pawl.crt --tls-key pawl.key",
		Args:    want(0, 0, "no argument"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.serve(c, s) },
	}
	s.bindName(c)
	s.bindEngine(c)
	a.bindSecretKey(c)
	s.bindCrew(c)
	s.bindLoad(c)
	return c
}

const devLong = `Run an engine and a worker in this process until Ctrl-C. Jobs that are submitted to the
same database and workspace, for example with "pawl submit", run here.

--capacity is how many steps run at once, 10 by default. --queue names a queue to serve,
by default the queue "default"; it may be repeated. --retention removes what ended longer
ago, like "pawl prune".

The process serves the HTTP API, metrics for Prometheus and its readiness, to this machine
only: at 127.0.0.1:7295, or at a free port if another process has that one. --listen,
--auth, --tls-cert and --tls-key are those of "pawl server".

Ctrl-C or SIGTERM interrupts the running steps, which become pending again for the next
worker; the exit code is 0. A second Ctrl-C exits at once.`

func newDev(a *app) *cobra.Command {
	s := &service{role: health.RoleDev}
	c := &cobra.Command{
		Use: "dev", Short: "Run an engine and a worker until Ctrl-C", Long: devLong,
		Example: "  pawl dev\n  pawl dev --capacity 50 --queue default --queue billing",
		Args:    want(0, 0, "no argument"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.serve(c, s) },
	}
	s.bindName(c)
	s.bindWorker(c)
	s.bindEngine(c)
	a.bindSecretKey(c)
	s.bindCrew(c)
	s.bindLoad(c)
	return c
}

// A service is how a long-lived process describes itself, and how it works.
type service struct {
	role      string // health.RoleServer, RoleWorker or RoleDev
	name      string
	silence   time.Duration // after which a worker counts as dead
	retention age.Age       // for ended entities
	capacity  int
	queues    []string
	drain     time.Duration // how long running steps may take to end
	beat      time.Duration // how often its worker sends a beat
	isolation string        // for all steps of its worker: run or stop
	floor     float64       // of memory and disk, in percent
	folders   workdir       // for the jobs that its worker runs
	listen    string        // the address for HTTP; empty: the default; noPort: none
	auth      string        // who needs a token: those of other machines, or all
	tlsCert   string        // the file of the port's certificate; empty: no TLS
	tlsKey    string
	clientCA  string // the file of the certificates that those of clients are signed by; empty: they show none
	login     login
	crew      string            // a folder in the repository of a crew; empty: none
	load      string            // a folder of load runs; empty: none
	agents    []string          // the addresses of load agents
	spans     *tracing.Exporter // nil: none are exported
}

const (
	minBeat  = 100 * time.Millisecond
	maxBeat  = time.Minute
	maxDrain = 24 * time.Hour
	maxFloor = 90

	beatsInSilence = 3 // for a worker whose beat interval is given
)

func (s *service) bindName(c *cobra.Command) {
	c.Flags().StringVar(&s.name, "name", "", "its name, for people; default host/pid")
}

func (s *service) bindEngine(c *cobra.Command) {
	c.Flags().DurationVar(&s.silence, "silence", health.Silence, "how long a worker may be silent before its steps go to others, 2s or more")
	bindRetention(c, &s.retention)
	bindListen(c, &s.listen, "an address", daemon.DefaultAddress+", or a free port if that is taken")
	c.Flags().StringVar(&s.auth, "auth", authLocal, "who needs a token: local, only callers from other machines; required, all")
	c.Flags().StringVar(&s.tlsCert, "tls-cert", "", "the file of the certificate, in PEM, to serve HTTPS; it is read again when it changes")
	c.Flags().StringVar(&s.tlsKey, "tls-key", "", "the file of its key, in PEM")
	c.Flags().StringVar(&s.clientCA, "tls-client-ca", "", "the file of the certificates that sign those of clients, in PEM; see \"pawl help token create\"")
	s.login.bind(c)
}

func (a *app) bindSecretKey(c *cobra.Command) {
	c.Flags().StringVar(&a.secretKey, "secret-key-file", "", "file with the keys that encrypt secrets in the database (env PAWL_SECRET_KEY_FILE)")
}

func (s *service) bindWorker(c *cobra.Command) {
	c.Flags().IntVar(&s.capacity, "capacity", 10, "steps that run at once, 1 to 1000")
	c.Flags().StringArrayVar(&s.queues, "queue", nil, `a queue to serve; may be repeated; default "default"`)
	c.Flags().StringVar(&s.isolation, "on-isolation", string(workflow.IsolationRun), "what happens to running steps when this worker is cut off from the database: run continues them, stop ends them before other workers get them")
	s.folders.bind(c)
	c.Flags().Float64Var(&s.floor, "floor", 5, "percentage of free memory and disk below which the worker pauses itself; 0: never")
}

// check returns an error if the value of a flag is invalid.
func (s *service) check(c *cobra.Command) error {
	has := func(name string) bool { return c.Flags().Lookup(name) != nil }
	given := c.Flags().Changed
	switch {
	case has("capacity") && (s.capacity < 1 || s.capacity > 1000):
		return usage("", "--capacity %d: want 1 to 1000", s.capacity)
	case given("silence") && s.silence < health.MinSilence:
		return usage("", "--silence %s: want %s or more", s.silence, health.MinSilence)
	case s.role == health.RoleWorker && s.silence > health.MaxSilence:
		return usage("", "--silence %s: want %s to %s", s.silence, health.MinSilence, health.MaxSilence)
	case has("drain-timeout") && (s.drain < 0 || s.drain > maxDrain):
		return usage("", "--drain-timeout %s: want 0s to %s", s.drain, maxDrain)
	case given("beat") && (s.beat < minBeat || s.beat > maxBeat):
		return usage("", "--beat %s: want %s to %s", s.beat, minBeat, maxBeat)
	case has("floor") && (s.floor < 0 || s.floor > maxFloor):
		return usage("", "--floor %g: want 0 to %d", s.floor, maxFloor)
	case s.checkIsolation() != nil:
		return s.checkIsolation()
	case s.checkAccess() != nil:
		return s.checkAccess()
	case checkListen(s.listen, s.tlsCert != "", listenHint(c)) != nil:
		return checkListen(s.listen, s.tlsCert != "", listenHint(c))
	case console.Printable(s.name) != s.name:
		return usage("", "--name %q: want text without control characters", s.name)
	}
	for _, q := range s.queues {
		if !workflow.IsID(q) {
			return usage("", "--queue %q: want an id: a-z first, then a-z, 0-9 and _", q)
		}
	}
	return nil
}

// The values of --auth.
const (
	authLocal    = "local"
	authRequired = "required"
)

// checkAccess returns an error if the flags for tokens and TLS do not fit together.
func (s *service) checkAccess() error {
	switch {
	case s.auth != "" && s.auth != authLocal && s.auth != authRequired:
		return usage("", "--auth %q: want %s or %s", s.auth, authLocal, authRequired)
	case (s.tlsCert == "") != (s.tlsKey == ""):
		return usage("", "--tls-cert and --tls-key: want both, or none")
	case s.clientCA != "" && s.tlsCert == "":
		return usage("", "--tls-client-ca: want --tls-cert and --tls-key, too")
	case s.listen == noPort && (s.tlsCert != "" || s.auth == authRequired || s.login.Issuer != ""):
		return usage("", "--listen %s: want a port for --tls-cert, --oidc-issuer and --auth %s", noPort, authRequired)
	}
	return s.login.check()
}

// listenHint says how a process may listen on an address that other machines reach.
func listenHint(c *cobra.Command) string {
	if c.Flags().Lookup("tls-cert") == nil {
		return "to serve other machines, put a proxy in front of it"
	}
	return "serve HTTPS with: " + c.CommandPath() + " --tls-cert FILE --tls-key FILE; or let a proxy on this machine do so, with --auth required"
}

// checkIsolation returns an error if a worker that is cut off could not stop in time.
func (s *service) checkIsolation() error {
	stop := s.isolation == string(workflow.IsolationStop)
	switch {
	case s.isolation != "" && !stop && s.isolation != string(workflow.IsolationRun):
		return usage("", "--on-isolation %q: want %s or %s", s.isolation, workflow.IsolationRun, workflow.IsolationStop)
	case stop && s.reckoned() < health.IsolationSilence:
		return usage("that time has to hold two beats, and 2s to end a step",
			"--silence %s: with --on-isolation stop want %s or more", s.reckoned(), health.IsolationSilence)
	case s.silence > 0 && s.beat > s.silence/beatsInSilence:
		return usage("", "--beat %s: want a third of --silence %s, or less", s.beat, s.silence)
	}
	return nil
}

// reckoned returns the silence after which the process's own worker counts as dead.
func (s *service) reckoned() time.Duration {
	return cmp.Or(s.silence, max(health.Silence, beatsInSilence*s.beat))
}

// beats returns the interval between a worker's beats, short enough for its silence.
func (s *service) beats() time.Duration {
	return cmp.Or(s.beat, health.Beat(s.reckoned()))
}

// serve runs a long-lived process, until its context ends or the schema has a version that
// this program does not work on.
func (a *app) serve(c *cobra.Command, s *service) (err error) {
	if err := s.check(c); err != nil {
		return err
	}
	ctx, node := c.Context(), daemon.Node(s.role, s.name, version())
	a.silence = s.reckoned()
	if s.spans, err = tracing.FromEnv(os.Getenv, version(), a.log); err != nil {
		return err
	}
	defer s.spans.Close()
	if a.server != "" {
		return a.serveFar(ctx, s, node)
	}
	config := engine.Config{Spans: s.spans, Managed: true, Deliver: true, Silence: s.silence, Retention: time.Duration(s.retention)}
	switch s.role {
	case health.RoleServer:
		config.Node = node
	case health.RoleWorker:
		config.Managed, config.Passive = false, true
	}
	l, err := a.openEngine(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	defer s.spans.Close() // it may still read the database
	defer signals.IgnoreClosedPipes()()
	m := s.metrics()
	work := func(ctx context.Context) error { return a.work(ctx, l, s, node, m) }
	switch s.role {
	case health.RoleWorker:
		if s.listen != "" && s.listen != noPort {
			end, err := a.serveState(ctx, l, s.listen, m)
			if err != nil {
				return err
			}
			defer end()
		}
		return a.guarded(ctx, l, work)
	case health.RoleServer:
		fmt.Fprintf(a.stderr, "server %s evaluates; database %s; stop with Ctrl-C\n", node.Name, l.database)
		work = func(ctx context.Context) error {
			<-ctx.Done()
			fmt.Fprintf(a.stderr, "server %s has stopped\n", node.Name)
			return nil
		}
	}
	return a.staffed(ctx, l, s, m, func(ctx context.Context) error { return a.guarded(ctx, l, work) })
}

// work runs a worker until ctx ends, and then drains it for as long as running steps may take.
func (a *app) work(ctx context.Context, l *ledger, s *service, node pawl.Node, m *metrics.Metrics) error {
	handlers := a.handlers(worker.CommandConfig{})
	folder, err := s.folders.of(a, l.database)
	if err != nil {
		return err
	}
	followed, err := l.client.Schedules.Followed(ctx) // before this process counts as one that follows schedules
	if err != nil {
		return err
	}
	room := []string{os.TempDir()}
	if f := l.database.Folder(); f != "" {
		room = append(room, f)
	}
	work := a.workOf(l.engine, s, node, m, handlers, folder, room)
	return terminated(work.Run(ctx, func(id string) {
		a.introduce(id, handlers, s.capacity)
		fmt.Fprintf(a.stderr, "database %s; stop with Ctrl-C\n", l.database)
		if !followed {
			console.Say(a.stderr, "hint", "no server was found, so deadlines, retries, schedules and expressions wait; start one with: pawl server"+a.given)
		}
	}))
}

// introduce prints what a worker serves.
func (a *app) introduce(id string, handlers map[string]worker.Handler, capacity int) {
	fmt.Fprintf(a.stderr, "worker %s serves %s of workspace %s, %d at once\n",
		id, strings.Join(slices.Sorted(maps.Keys(handlers)), ", "), a.workspace, capacity)
}

// workOf returns the work of the worker of this process. room are the folders that need free
// space beside that of the jobs.
func (a *app) workOf(l worker.Linker, s *service, node pawl.Node, m *metrics.Metrics, handlers map[string]worker.Handler, folder string, room []string) daemon.Work {
	return daemon.Work{Engine: l, Drain: s.drain, Hurried: a.signals.Second, Out: a.stderr, Worker: worker.Config{
		Workspace: a.workspace, Name: node.Name, Actor: a.actor(), Node: node,
		Capacity: s.capacity, Handlers: handlers, Queues: s.queues, Beat: s.beats(), Log: a.log,
		Silence: s.reckoned(), Isolation: workflow.Isolation(s.isolation),
		WorkDir: folder, KeepWorkDirs: s.folders.keep, Middleware: s.middleware(m),
		Scarce: worker.Floor{Percent: s.floor, Folders: append(room, folder)}.Scarce,
	}}
}

// metrics returns the metrics of the process, with those of its traces if it has any.
func (s *service) metrics() *metrics.Metrics {
	m := metrics.New(version())
	if s.spans != nil {
		m.WatchSpans(s.spans.Stats)
	}
	return m
}

// middleware is what goes around the attempts of the worker.
func (s *service) middleware(m *metrics.Metrics) []func(worker.Handler) worker.Handler {
	around := []func(worker.Handler) worker.Handler{m.Worker(s.capacity)}
	if s.spans != nil {
		around = append(around, daemon.Traced(s.spans))
	}
	return around
}

// terminated adds a remedy to the error of a worker that an operator has terminated.
func terminated(err error) error {
	var end *worker.TerminatedError
	if errors.As(err, &end) {
		return &pawl.Error{Kind: pawl.Internal, Message: end.Error(), Hint: "see its moves with: pawl worker history " + end.Worker}
	}
	return err
}

// noPort is the value of --listen for no port.
const noPort = "none"

// bindListen adds the flag --listen to a process that serves HTTP.
func bindListen(c *cobra.Command, address *string, what, byDefault string) {
	c.Flags().StringVar(address, "listen", "", "serve HTTP on "+what+", such as 127.0.0.1:9464, or none: on no port; default "+byDefault)
}

// checkListen returns an error if the flag --listen is invalid.
func checkListen(address string, secure bool, hint string) error {
	if address == "" || address == noPort {
		return nil
	}
	if err := daemon.CheckAddress(address, secure); err != nil {
		if daemon.CheckAddress(address, true) != nil {
			hint = "" // TLS would not help
		}
		return usage(hint, "--listen %q: %s", address, err)
	}
	return nil
}

// What the ports of processes serve.
const (
	servesAPI   = "/api, /openapi.json, /metrics, /healthz and /readyz"
	servesState = "/metrics, /healthz and /readyz"
)

// openPort opens the port at an address that checkListen has accepted, and prints its URL and
// what it serves.
func (a *app) openPort(address string, c *daemon.Certificate, what string, w io.Writer) (*daemon.Port, error) {
	return a.openPortOf("--listen", address, c, what, w)
}

// openPortOf is openPort for an address that another flag names.
func (a *app) openPortOf(flag, address string, c *daemon.Certificate, what string, w io.Writer) (*daemon.Port, error) {
	p, err := daemon.OpenPort(address, c, a.log)
	switch pawl.KindOf(err) {
	case pawl.Unavailable:
		return nil, hinted(err, "another process may use that port: give "+flag+" another one, or port 0 for a free one")
	case pawl.Invalid:
		return nil, usage("", "%s %q: %s", flag, address, err)
	}
	if err == nil {
		present(p, what, w)
	}
	return p, err
}

// present prints the URL of a port and what it serves.
func present(p *daemon.Port, what string, w io.Writer) {
	taken := ""
	if p.Taken != "" {
		taken = "; " + p.Taken + " is taken"
	}
	fmt.Fprintf(w, "%s serves %s%s\n", p.URL(), what, taken)
}

// portOf opens the port of a long-lived process. It returns nil if the process serves no HTTP:
// its user wants none, or nothing can listen on the loopback interface.
func (a *app) portOf(s *service) (*daemon.Port, error) {
	var cert *daemon.Certificate
	if s.tlsCert != "" {
		var err error
		if cert, err = daemon.OpenCertificate(s.tlsCert, s.tlsKey, s.clientCA, a.log); err != nil {
			return nil, usage(console.Hint(err), "--tls-cert: %s", err)
		}
	}
	switch s.listen {
	case noPort:
		return nil, nil
	case "":
		p, err := daemon.OpenDefaultPort(daemon.DefaultAddress, cert, a.log)
		if err != nil {
			a.log.Warn("this process serves no HTTP", "error", err)
			return nil, nil
		}
		present(p, servesAPI, a.stderr)
		return p, nil
	}
	return a.openPort(s.listen, cert, servesAPI, a.stderr)
}

// serveState opens a port for the metrics and the readiness of a worker, until end is called.
func (a *app) serveState(ctx context.Context, l *ledger, address string, m *metrics.Metrics) (end func(), err error) {
	p, err := a.openPort(address, nil, servesState, a.stderr)
	if err != nil {
		return nil, err
	}
	return daemon.ServeState(ctx, p, m, l.engine, l.store)
}

func (s *service) bindCrew(c *cobra.Command) {
	c.Flags().StringVar(&s.crew, "crew", "", "a folder in a repository: tend its crew (see pawl crew), and serve it")
}

// crewOf returns the crew that a process tends, or nil, and what starts the program of a member.
func (a *app) crewOf(ctx context.Context, s *service) (*crew.Crew, func(context.Context, string) error, error) {
	if s.crew == "" {
		return nil, nil, nil
	}
	state, err := a.stateHome("set XDG_STATE_HOME", "worktrees are")
	if err != nil {
		return nil, nil, err
	}
	dir, err := filepath.Abs(s.crew)
	if err != nil {
		return nil, nil, err
	}
	cr, err := crew.Find(ctx, dir, state)
	return cr, func(ctx context.Context, id string) error {
		_, err := cr.Launch(ctx, id, crewRunner(cr, id))
		return err
	}, err
}

// hintFirstToken says how to make the first token, if there is none that may use the server.
func (a *app) hintFirstToken(ctx context.Context, l *ledger) error {
	some := errors.New("there is one")
	err := l.client.Tokens.List(ctx, false, func(v *pawl.TokenView) error {
		if v.SessionOf != nil {
			return nil
		}
		return some
	})
	if err == nil {
		console.Say(a.stderr, "hint", "no token can use this server yet; make the first with: pawl token create NAME --role admin"+a.given)
	}
	if errors.Is(err, some) {
		return nil
	}
	return err
}

// staffed runs f beside the parts of the engine of a long-lived process.
func (a *app) staffed(ctx context.Context, l *ledger, s *service, m *metrics.Metrics, f func(context.Context) error) error {
	p, err := a.portOf(s)
	if err != nil {
		return err
	}
	members, start, err := a.crewOf(ctx, s)
	if err != nil {
		return err
	}
	loads, agents, err := a.loadsOf(s)
	if err != nil {
		return err
	}
	if loads != nil {
		defer loads.Close()
		m.WatchLoads(loads.List)
	}
	required := s.auth == authRequired || s.login.Issuer != "" || s.clientCA != ""
	if p != nil && (required || p.Beyond) {
		if err := a.hintFirstToken(ctx, l); err != nil {
			return err
		}
	}
	return (&daemon.Daemon{Required: required, URL: s.login.URL, Login: s.login.config(), Role: s.role, Version: version(), Metrics: m, Engine: l.engine, Store: l.store, Sockets: control.Dir(a.getenv), Port: p, Log: a.log, Crew: members, Start: start, Loads: loads, LoadAgents: agents,
		Examine: (&doctor.Doctor{
			Diagnose: func(ctx context.Context) []health.Finding { return l.database.Diagnose(ctx, 0, a.log) },
			Open: func(context.Context) (store.Store, *client.Client, func() error, error) {
				return l.store, l.client, func() error { return nil }, nil
			},
		}).Findings,
		Unreachable: func(err error) {
			a.log.Warn("pawl service does not reach this process", "error", err, "hint", console.Hint(err))
		}}).Run(ctx, f)
}

// How often a process checks the version of the schema. On PostgreSQL a hint also comes at
// once.
const (
	guardSQLite   = 2 * time.Second
	guardPostgres = 2 * time.Minute
)

// guarded runs f until the schema has a version that this program does not work on.
func (a *app) guarded(ctx context.Context, l *ledger, f func(context.Context) error) error {
	g := &daemon.Guard{Store: l.store, Migrated: l.engine.Migrated(), Every: guardPostgres, Log: a.log,
		Leave: func(err error) { a.exit(complain(a.stderr, outdated(err))) }}
	if l.database.Postgres == "" {
		g.Every = guardSQLite
	}
	return l.while(ctx, func(ctx context.Context) error { return outdated(g.Run(ctx, f)) })
}

// outdated adds a remedy to the error of a migrated schema.
func outdated(err error) error {
	var moved *daemon.MigratedError
	switch {
	case !errors.As(err, &moved):
		return err
	case moved.Current < moved.Newest:
		return hinted(err, "run pawl migrate up, then start the process again")
	}
	return hinted(err, "start the newer pawl")
}
