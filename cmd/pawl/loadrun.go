package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/metrics"
)

const loadRunLong = `Run the load that a FILE describes, and show it while it is on: throughput and latencies of the last
second over all agents, and the state of each agent. Latencies are those of all operations of all
agents together, never averages of percentiles.

Without --agents it starts one agent on this machine, or as many as --local says, and ends them
with the run. They work beneath --root, or in a temporary folder; on an object store beneath --s3,
which has to be given: no file alone decides what credentials are used for ("pawl agent --help").

With --agents it uses agents that run elsewhere; off this machine they want TLS 1.3, and a
certificate (--client-cert, --client-key) or a token (--token-file); --ca has the certificates that
theirs are signed by.

All agents have to be ready before the start time is chosen, and each begins at that time by its own
clock, which is measured just before. The skew of an agent is how long after that time its first and
its last thread have begun. start.policy in the file says how many agents may fail.

The result is a folder (--out): the config, a summary, the statistics of each operation, size and
second, the result of each agent, and the trail of the run. While the run is on, what is known of it
is in a folder beside that, which "pawl server --load" shows and "pawl load run" removes. --metrics
serves the run for Prometheus.

Ctrl-C aborts the run: the agents end it within a second and clean up. A second Ctrl-C does not wait
for them; they clean up by themselves.

Exit codes: 0 ok, 1 the run has failed or a threshold is violated, 2 the file or a flag is wrong, 5
an agent speaks another version, 6 an agent is out of reach or busy, 130 interrupted.`

// A loadRun has the flags of a load run.
type loadRun struct {
	agents   []string
	local    int
	root     string
	stores   []string
	out      string
	id       string
	duration time.Duration
	rate     float64
	metrics  string
	form     string
	json     bool
}

const (
	maxLoadFile = 1 << 20 // bytes, which the protocol allows, too
	maxLocal    = 64
)

func (a *app) newLoadRun() *cobra.Command {
	var o loadRun
	c := &cobra.Command{
		Use: "run FILE", Short: "Run a load on agents, and keep its result", Long: loadRunLong,
		Example: "  pawl load run examples/load/random-read.yaml\n  pawl load run examples/load/objects.yaml --s3 https://s3.example.com/bench/load\n  pawl load run mixed.yaml --local 4 --root /mnt/data --duration 1m\n" +
			"  pawl load run mixed.yaml --agents host1,host2:7296 --ca ca.pem --token-file token --json",
		Args: want(1, 1, "one FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c); err != nil {
				return err
			}
			return a.loadRun(c.Context(), args[0], o)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.agents, "agents", nil, "agents to use, each HOST, HOST:PORT or unix:PATH; the default port is "+controller.DefaultPort)
	f.IntVar(&o.local, "local", 1, "how many agents to start on this machine, 1 to 64, if --agents names none")
	f.StringVar(&o.root, "root", "", "folder that local agents work beneath; default a temporary one, which is removed")
	f.StringArrayVar(&o.stores, "s3", nil, "part of a bucket that local agents may use, as https://HOST/BUCKET/PREFIX; may be repeated")
	f.StringVar(&o.out, "out", "", "new folder for the result; default pawl/load/RUN in XDG_STATE_HOME or ~/.local/state")
	f.StringVar(&o.id, "run-id", "", "id of the run, a ULID; default a new one")
	f.DurationVar(&o.duration, "duration", 0, "length of the load, instead of that in the file")
	f.Float64Var(&o.rate, "rate", 0, "operations per second of each agent, instead of those in the file")
	f.StringVar(&o.metrics, "metrics", "", "serve metrics of the run over HTTP on this loopback address, such as 127.0.0.1:9464; default none")
	f.StringVarP(&o.form, "output", "o", formText, "text: for people; json: a line for each event, as docs/load-running.md describes")
	f.BoolVar(&o.json, "json", false, "the same as -o json")
	return c
}

// check checks the flags.
func (o *loadRun) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	if err := oneOf("output", o.form, formText, formJSON); err != nil {
		return err
	}
	if o.json {
		o.form = formJSON
	}
	if err := checkMetrics(&o.metrics); err != nil {
		return err
	}
	if err := o.checkAgents(c); err != nil {
		return err
	}
	switch {
	case changed("duration") && o.duration <= 0:
		return usage("", "--duration %s: want more than 0", o.duration)
	case changed("rate") && !(o.rate > 0 && o.rate <= math.MaxInt32):
		return usage("", "--rate %v: want more than 0", o.rate)
	case changed("run-id") && !controller.IsID(o.id):
		return usage("", "--run-id %q: want a ULID: 26 digits and capital letters without I, L, O and U, of which the first is 0 to 7", o.id)
	}
	return inRange("--local", o.local, 1, maxLocal)
}

// checkAgents checks the flags that say where agents are. No name of one is a mistake, an empty variable
// say, and does not mean this machine.
func (o *loadRun) checkAgents(c *cobra.Command) error {
	changed := c.Flags().Changed
	switch {
	case changed("agents") && len(o.agents) == 0:
		return usage("without --agents the load runs on this machine", "--agents %q: want HOST, HOST:PORT or unix:PATH, separated by commas", "")
	case len(o.agents) > 0 && (changed("local") || changed("root") || changed("s3")):
		return usage("", "--agents and --local, --root or --s3: want agents that are there, or local ones")
	}
	return nil
}

// load reads the file, with what flags replace in it.
func (o *loadRun) load(path string) ([]byte, *spec.Test, error) {
	src, err := files.Read(path, maxLoadFile)
	if err != nil {
		return nil, nil, err
	}
	test, err := spec.ParseFile(path, src)
	if err != nil {
		return nil, nil, err
	}
	if o.duration == 0 && o.rate == 0 {
		return src, test, nil
	}
	if src, err = o.replace(src, test); err != nil {
		return nil, nil, err
	}
	test, err = spec.ParseFile(path, src)
	return src, test, err
}

// replace returns the file with the values of flags.
func (o *loadRun) replace(src []byte, test *spec.Test) ([]byte, error) {
	var values yaml.MapSlice
	if o.duration > 0 {
		values = append(values, yaml.MapItem{Key: "duration", Value: o.duration.String()}, yaml.MapItem{Key: "count"})
	}
	if o.rate > 0 {
		rate := yaml.MapSlice{{Key: "operations", Value: o.rate}}
		if test.Rate != nil {
			rate = append(rate, yaml.MapItem{Key: "arrival", Value: string(test.Rate.Arrival)})
		}
		values = append(values, yaml.MapItem{Key: "rate", Value: rate})
	}
	return spec.Replace(src, values)
}

// loadRun runs a load and shows it.
func (a *app) loadRun(ctx context.Context, path string, o loadRun) (err error) {
	src, test, err := o.load(path)
	if err != nil {
		return err
	}
	if err := controller.Enough(test, cmp.Or(len(o.agents), o.local)); err != nil {
		return err
	}
	if o.id == "" {
		o.id = controller.NewID(time.Now())
	}
	result, err := a.loadFolder(&o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, result.Close()) }()
	forced, done := a.signals.Second()
	defer done()
	targets, end, err := a.loadAgents(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(forced)) }()
	j, err := journal.Open(journal.Config{Dir: o.out, Info: journal.Info{Run: o.id, Actor: a.actor(), Program: "pawl " + version()}, Config: src, Test: test, Log: a.log})
	if err != nil {
		return err
	}
	defer func() { a.closed(j) }()
	measured, unserved, err := a.loadMetrics(ctx, o)
	if err != nil {
		return err
	}
	defer unserved()
	shown := a.loadShown(o, test)
	run, failed := controller.Run(forced, controller.Config{
		ID: o.id, File: src, Test: test, Agents: targets, Build: "pawl " + version(), Records: result.Records(), Stop: ctx.Done(), Abort: j.Abort(),
		Changed:  func(v controller.View) { j.Changed(v); measured.Changed(v); shown.changed(v) },
		Interval: func(i controller.Interval) { j.Interval(i); measured.Interval(i); shown.interval(i) },
		Moved:    j.Moved, Recorded: j.Recorded, Log: a.log,
	})
	shown.end()
	if forced.Err() != nil {
		fmt.Fprintln(a.stderr, "the agents clean up by themselves")
	}
	if run != nil {
		j.Ended(run)
		failed = a.loadEnded(shown, &o, result, j, run, failed)
	}
	return errors.Join(failed, shown.close())
}

// loadMetrics returns the metrics of a run, which are served until end is called if a flag says where.
func (a *app) loadMetrics(ctx context.Context, o loadRun) (_ *metrics.Load, end func(), err error) {
	m := metrics.New(version())
	l, end := m.Load(), func() {}
	if o.metrics != "" {
		end, err = a.agentMetrics(ctx, o.metrics, m)
	}
	return l, end, err
}

// closed closes the journal of a run.
func (a *app) closed(j *journal.Journal) {
	if err := j.Close(); err != nil {
		a.log.Warn("the journal of the run is not complete", "error", err)
	}
}

// loadFolder begins the folder for the result, which does not exist yet and can be written, and
// makes its path absolute.
func (a *app) loadFolder(o *loadRun) (*report.Folder, error) {
	given := o.out
	if o.out == "" {
		state, err := a.stateHome("name a folder with --out", "results are")
		if err != nil {
			return nil, err
		}
		o.out = filepath.Join(state, "pawl", "load", o.id)
	}
	dir, err := filepath.Abs(o.out)
	if err != nil {
		return nil, err
	}
	o.out = dir
	if _, err := os.Lstat(dir); err == nil {
		return nil, usage("name another one", "--out %s: want a folder that does not exist yet", console.Shell(cmp.Or(given, dir)))
	}
	f, err := report.NewFolder(dir)
	if err != nil {
		return nil, &pawl.Error{Kind: files.KindOf(err), Message: "the result could not be written", Err: err, Hint: "name another folder with --out"}
	}
	return f, nil
}

// loadAgents returns the agents of a run, and what ends those that it has started.
func (a *app) loadAgents(ctx context.Context, o loadRun) ([]controller.Target, func(context.Context) error, error) {
	if len(o.agents) == 0 {
		return a.localAgents(ctx, o)
	}
	credentials, err := a.loadCredentials(ctx)
	if err != nil {
		return nil, nil, err
	}
	targets, err := controller.Targets(o.agents, credentials)
	return targets, func(context.Context) error { return nil }, err
}

// loadCredentials reads what the flags name. PAWL_TOKEN is for a server, and not for agents.
func (a *app) loadCredentials(ctx context.Context) (c controller.Credentials, err error) {
	if (a.cert == "") != (a.key == "") {
		return c, usage("", "--client-cert and --client-key: want both, or none")
	}
	if c, err = readCredentials(a.ca, a.cert, a.key); err == nil && a.tokenFile != "" {
		c.Token, err = a.token(ctx)
	}
	c.Hint = "name them with --client-cert and --client-key, or with --token-file"
	return c, err
}

// readCredentials reads the files that are named.
func readCredentials(ca, cert, key string) (c controller.Credentials, err error) {
	for _, f := range []struct {
		name string
		to   *[]byte
	}{{ca, &c.CA}, {cert, &c.Cert}, {key, &c.Key}} {
		if f.name == "" {
			continue
		}
		if *f.to, err = files.Read(f.name, maxCA); err != nil {
			return c, err
		}
	}
	if ca != "" && !x509.NewCertPool().AppendCertsFromPEM(c.CA) {
		return c, pawl.Errorf(pawl.Invalid, "%s: want at least one certificate in PEM", ca)
	}
	if cert != "" {
		if _, err := tls.X509KeyPair(c.Cert, c.Key); err != nil {
			return c, &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("certificate %s with key %s", cert, key), Err: err}
		}
	}
	return c, nil
}

// localAgents starts agents on this machine.
func (a *app) localAgents(ctx context.Context, o loadRun) (_ []controller.Target, end func(context.Context) error, err error) {
	root := ""
	if o.root != "" {
		if root, err = folder("--root", o.root); err != nil {
			return nil, nil, err
		}
	}
	if _, err := a.stores(o.stores); err != nil {
		return nil, nil, err
	}
	return controller.LocalAgents(ctx, o.local, ownProgram(), root, o.stores, a.log)
}

// ownProgram returns the path of this program.
func ownProgram() string {
	self, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return self
}

// folder returns the absolute path of a folder that exists.
func folder(flag, name string) (string, error) {
	switch info, err := os.Stat(name); {
	case err != nil:
		return "", files.Error(name, err)
	case !info.IsDir():
		return "", usage("", "%s %s: want a folder", flag, console.Shell(name))
	}
	return filepath.Abs(name)
}

// loadEnded keeps the result of a run, and says how it has ended. Of a load that never began there
// is nothing to keep.
func (a *app) loadEnded(shown *loadShown, o *loadRun, result *report.Folder, j *journal.Journal, run *report.Run, failed error) error {
	keep := result.Write
	if run.Started.IsZero() {
		o.out, keep = "", report.Evaluate
	}
	r, err := keep(run)
	if err != nil { // what was measured is at least shown
		unwritten := o.unwritten(err, j.Path())
		if errors.Is(failed, context.Canceled) { // the exit code says so, and nothing else is printed of an interrupted command
			complain(a.stderr, unwritten)
		}
		failed, o.out = errors.Join(failed, unwritten), ""
		if r, err = report.Evaluate(run); err != nil {
			j.Kept(run, "")
			return failed
		}
	}
	j.Kept(run, o.out)
	err = shown.summary(r, o.out)
	if err == nil && failed == nil && len(r.Summary.Violations) > 0 {
		err = exit{codeFailed}
	}
	return errors.Join(failed, err)
}

// unwritten returns the error of a result that cannot be written, and where else there is something.
func (o *loadRun) unwritten(err error, journal string) error {
	var hints []string
	if journal != "" {
		hints = append(hints, "what was measured while it ran is in "+console.Shell(journal))
	}
	if len(o.agents) > 0 {
		hints = append(hints, "the agents keep their results for 24 hours: FetchResult of run "+o.id+" returns them")
	}
	return &pawl.Error{Kind: pawl.KindOf(err), Message: "the result is not written", Err: err, Hint: strings.Join(hints, "; ")}
}
