package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/agent"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/workload"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/signals"
)

const agentLong = `Run a load agent until Ctrl-C or SIGTERM. It does what a controller ("pawl load run --agents")
tells it: it prepares files, runs operations on them, reports statistics, and deletes what it has
created. It has one run at a time.

A run works beneath a --root and nowhere else. DIR:BYTES:FILES limits what it may have there at
once, such as /mnt/bench:100GiB:1000000. No config makes the agent run a command.

A run on an object store works beneath an --s3 and nowhere else, whatever its file says. With
?path_style=false the bucket is the first part of the name of the host and not in the path. The
credentials are those of the agent's environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
AWS_SESSION_TOKEN, or the profile AWS_PROFILE of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials).
AWS_CA_BUNDLE has the certificates that the store's is signed by, if they are not the system's.

--state-dir is the folder of this agent alone: the trail of each run, which "pawl audit verify
--file DIR/trail" checks, and the results of the last 24 hours, which a controller can fetch
again. Keep it on another disk than the roots. An agent that was killed cleans up when it starts.

The agent serves gRPC, to this machine only at 127.0.0.1:7296, or at a socket with
--listen unix:PATH. At an address that other machines reach, it needs --tls-cert and --tls-key,
speaks TLS 1.3, and takes calls from those who show a certificate that --tls-client-ca has signed,
or the token in --token-file. docs/load-protocol.md has the protocol.

--metrics serves metrics for Prometheus over HTTP, to this machine only.

Ctrl-C ends a run that is on, as if its controller had been lost; its result is kept. The agent
ends when what the run had created is deleted. A second Ctrl-C ends it at once, and the next start
deletes the rest.`

// An agentCommand is the flags of pawl agent.
type agentCommand struct {
	id, listen, state, metrics string
	roots, stores              []string
	cert, key, clientCA        string
}

func newAgent(a *app) *cobra.Command {
	var s agentCommand
	c := &cobra.Command{
		Use: "agent", Short: "Run a load agent until Ctrl-C, or show one", Long: agentLong,
		Example: "  pawl agent --root /mnt/bench\n  pawl agent --s3 'https://s3.example.com/bench/load?bytes=100GiB&objects=1000000'\n  pawl agent --root /mnt/data --listen :7296 --tls-cert a.pem --tls-key a.key --tls-client-ca ca.pem\n  pawl agent show host1",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return a.agent(c.Context(), s)
		},
	}
	f := c.Flags()
	f.StringVar(&s.id, "id", "", "its id, for people and reports; default the name of this machine")
	f.StringVar(&s.listen, "listen", "127.0.0.1:"+controller.DefaultPort, "the address to serve, or unix:PATH")
	f.StringVar(&s.state, "state-dir", "", "the folder for trails and results, of this agent alone; default pawl/agent in $XDG_STATE_HOME")
	f.StringArrayVar(&s.roots, "root", nil, "a folder that runs may use, as DIR, DIR:BYTES or DIR:BYTES:FILES; may be repeated")
	f.StringArrayVar(&s.stores, "s3", nil, "a part of a bucket that runs may use, as https://HOST/BUCKET/PREFIX?bytes=SIZE&objects=NUMBER; may be repeated")
	f.StringVar(&s.metrics, "metrics", "", "serve metrics over HTTP on this loopback address, such as 127.0.0.1:9464; default none")
	f.StringVar(&s.cert, "tls-cert", "", "the file of the certificate, in PEM, to speak TLS; it is read again when it changes")
	f.StringVar(&s.key, "tls-key", "", "the file of its key, in PEM")
	f.StringVar(&s.clientCA, "tls-client-ca", "", "the file of the certificates that sign those of controllers, in PEM")
	c.AddCommand(newAgentShow(a))
	return c
}

// agent runs an agent until ctx ends.
func (a *app) agent(ctx context.Context, s agentCommand) error {
	config, err := a.agentConfig(ctx, s)
	if err != nil {
		return err
	}
	secure, err := a.agentTLS(s, config.Token)
	if err != nil {
		return err
	}
	if err := checkMetrics(&s.metrics); err != nil {
		return err
	}
	defer signals.IgnoreClosedPipes()()
	m := metrics.New(version())
	config.Hooks = m.Agent()
	var l net.Listener
	config.Ready = func() {
		fmt.Fprintf(a.stderr, "agent %s serves %s for %s; stop with Ctrl-C\n", config.ID, addressText(l.Addr()), strings.Join(slices.Concat(s.roots, s.stores), ", "))
	}
	g, err := agent.New(config)
	if err != nil {
		return err
	}
	defer g.Close()
	if l, err = listenAgent(s.listen); err != nil {
		return err
	}
	if s.metrics != "" {
		end, err := a.agentMetrics(ctx, s.metrics, m)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		defer end()
	}
	return durable.While(ctx, func(ctx context.Context) error { return g.Serve(ctx, l, secure) }, config.StateDir)
}

// addressText returns an address as --agents takes it.
func addressText(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}

// agentConfig returns what the flags say.
func (a *app) agentConfig(ctx context.Context, s agentCommand) (c agent.Config, err error) {
	c = agent.Config{ID: s.id, StateDir: s.state, Build: "pawl " + version(), Log: a.log}
	if c.ID == "" {
		if c.ID, err = os.Hostname(); err != nil {
			return c, usage("name it with --id", "this machine has no name: %s", err)
		}
	}
	if c.StateDir == "" {
		state, err := a.stateHome("name the folder with --state-dir", "the state of the agent is")
		if err != nil {
			return c, err
		}
		c.StateDir = filepath.Join(state, "pawl", "agent")
	}
	if c.StateDir, err = filepath.Abs(c.StateDir); err != nil {
		return c, err
	}
	if len(s.roots) == 0 && len(s.stores) == 0 {
		return c, usage("create one with: mkdir -p /tmp/pawl-load; and name it with: pawl agent --root /tmp/pawl-load", "--root is missing: want the folder that runs may use")
	}
	for _, text := range s.roots {
		r, err := parseRoot(text)
		if err != nil {
			return c, err
		}
		c.Roots = append(c.Roots, r)
	}
	if c.Stores, err = a.stores(s.stores); err != nil {
		return c, err
	}
	c.Plan = func(ctx context.Context, job workload.Job) (*loadpb.Plan, []*loadpb.Error) {
		job.Access = a.storeAccess
		return workload.Plan(ctx, job)
	}
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	c.Engine = []string{self, "load-engine"}
	if a.tokenFile != "" {
		c.Token, err = a.token(ctx)
	}
	return c, err
}

// parseRoot reads a --root: DIR, DIR:BYTES or DIR:BYTES:FILES.
func parseRoot(text string) (r agent.Root, err error) {
	const form = "want DIR, DIR:BYTES or DIR:BYTES:FILES, such as /mnt/bench:100GiB:1000000"
	parts := strings.Split(text, ":")
	if parts[0] == "" || len(parts) > 3 {
		return r, usage("", "--root %q: %s", text, form)
	}
	if len(parts) > 1 {
		n, ok := spec.ParseSize(parts[1])
		if !ok {
			return r, usage("", "--root %q: %q is not a size; %s", text, parts[1], form)
		}
		if n == 0 {
			return r, usage("leave it out for no limit", "--root %q: a limit of 0 bytes: want 1 or more", text)
		}
		r.Bytes = uint64(n)
	}
	if len(parts) > 2 {
		if r.Files, err = strconv.ParseUint(parts[2], 10, 63); err != nil {
			return r, usage("", "--root %q: %q is not a number of files; %s", text, parts[2], form)
		}
		if r.Files == 0 {
			return r, usage("leave it out for no limit", "--root %q: a limit of 0 files: want 1 or more", text)
		}
	}
	if r.Path, err = filepath.Abs(parts[0]); err != nil {
		return r, err
	}
	switch info, err := os.Stat(r.Path); {
	case errors.Is(err, fs.ErrNotExist):
		return r, usage("create it with: mkdir -p "+console.Shell(r.Path), "--root %q: %s does not exist", text, r.Path)
	case err != nil:
		return r, usage("", "--root %q: %s", text, err)
	case !info.IsDir():
		return r, usage("", "--root %q: %s is not a folder", text, r.Path)
	}
	return r, nil
}

// agentTLS returns the settings for TLS, nil if there is none.
func (a *app) agentTLS(s agentCommand, token string) (*tls.Config, error) {
	switch {
	case (s.cert == "") != (s.key == ""):
		return nil, usage("", "--tls-cert and --tls-key: want both, or none")
	case s.clientCA != "" && s.cert == "":
		return nil, usage("", "--tls-client-ca: want --tls-cert and --tls-key, too")
	case s.cert == "":
		return nil, nil
	case s.clientCA == "" && token == "":
		return nil, usage("add --tls-client-ca FILE, or --token-file FILE", "--tls-cert: the agent does not know who may use it")
	}
	cert, err := daemon.OpenCertificate(s.cert, s.key, s.clientCA, a.log)
	if err != nil {
		return nil, usage(console.Hint(err), "--tls-cert: %s", err)
	}
	return cert.Strict(s.clientCA != "" && token == ""), nil
}

// listenAgent opens the listener of an agent.
func listenAgent(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenSocket(path)
	}
	if err := daemon.CheckAddress(address, true); err != nil {
		return nil, usage("", "--listen %q: %s", address, err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "cannot listen on " + address, Err: err,
			Hint: "another agent may use that port: give --listen another one, or port 0 for a free one"}
	}
	return l, nil
}

// listenSocket opens a socket that only this user can use, from its beginning on. One that a dead
// process has left is replaced.
func listenSocket(path string) (net.Listener, error) {
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		_ = c.Close() // it was only tried
		fallthrough
	case errors.Is(err, syscall.EAGAIN): // its queue is full
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "another process listens on " + path, Hint: "give --listen another path"}
	case errors.Is(err, syscall.ECONNREFUSED):
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
			_ = os.Remove(path) // listening fails if it stays
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, usage("", "--listen unix:%s: %s", path, err)
	}
	mask := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(mask)
	if err != nil {
		return nil, usage("", "--listen unix:%s: %s", path, err)
	}
	return l, nil
}

// checkMetrics checks the address that --metrics names, and makes it empty if it is for none.
func checkMetrics(address *string) error {
	if *address == noPort {
		*address = ""
	}
	if *address == "" {
		return nil
	}
	if err := daemon.CheckAddress(*address, false); err != nil {
		return usage("", "--metrics %q: want a host and a port of the loopback interface, such as 127.0.0.1:9464: %s", *address, err)
	}
	return nil
}

// agentMetrics serves the metrics of an agent, or of a load run, until end is called.
func (a *app) agentMetrics(ctx context.Context, address string, m *metrics.Metrics) (end func(), err error) {
	p, err := a.openPortOf("--metrics", address, nil, servesState, a.stderr)
	if err != nil {
		return nil, err
	}
	return daemon.ServeReadiness(ctx, p, m, func(context.Context) []string { return nil })
}

const agentShowLong = `Show what an agent is and the run that it has, or the last one, to find out what is wrong: its
state and transitions, when the last message came and the last statistics left, the error or the
reason of the abort, and the end of what the engine has written to its standard error.

AGENT is HOST, HOST:PORT or unix:PATH. Off this machine TLS is used, with --ca for the agent's
certificate, and --client-cert and --client-key or --token-file for this side.`

func newAgentShow(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show AGENT", Short: "Show a load agent and its run", Long: agentShowLong,
		Example: "  pawl agent show 127.0.0.1\n  pawl agent show host1:7296 --ca ca.pem --token-file token -o json",
		Args:    want(1, 1, "an AGENT"),
		RunE: func(c *cobra.Command, args []string) error {
			view, err := a.viewAgent(c.Context(), args[0])
			if err != nil {
				return err
			}
			if form == formText {
				console.Agent(a.stdout, view, a.outZone())
				return nil
			}
			b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(view)
			if err != nil {
				return err
			}
			return console.JSON(a.stdout, json.RawMessage(b))
		},
	}
	bindForm(a, c, &form, "{agent, run, kept_run_ids}")
	return c
}

// viewAgent gets what an agent shows of itself.
func (a *app) viewAgent(ctx context.Context, name string) (*loadpb.GetAgentResponse, error) {
	address, err := controller.Address(name)
	if err != nil {
		return nil, err
	}
	credentials, err := a.loadCredentials(ctx)
	if err != nil {
		return nil, err
	}
	return controller.Inspect(ctx, address, credentials)
}
