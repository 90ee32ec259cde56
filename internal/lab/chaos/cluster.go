package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/sdk"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// Roles of members.
const (
	server = "server"
	worker = "worker"
	dev    = "dev" // both in one process

	far = "far" // of a worker over the servers: its member has the role worker
)

// languages are the roles of workers over the servers that are written with an SDK.
var languages = map[string]*sdk.Language{"python": sdk.Python, "node": sdk.Node}

// A cluster is the system under test: a database and the processes on it, and the harness's
// own connection to the database, which no fault affects.
type cluster struct {
	config   *config
	dir      string
	database database
	members  []*member
	servers  []string // where they serve HTTP, for the workers that are far
	store    store.Store
	engine   *engine.Engine // passive: it submits and reads, and does no work
}

// newCluster makes an empty database and starts the processes of a run.
func newCluster(ctx context.Context, c *config, dir string, db database, roles []string) (_ *cluster, err error) {
	cl := &cluster{config: c, dir: dir, database: db}
	defer func() {
		if err != nil {
			cl.close()
		}
	}()
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return nil, err
	}
	if cl.store, err = db.open(ctx); err != nil {
		return nil, err
	}
	cl.engine = engine.New(engine.Config{Store: cl.store, Passive: true})
	quotas := []pawl.Quota{{Workspace: pawl.DefaultWorkspace, Name: "queue/" + narrow, Slots: narrowSlots}, {Workspace: pawl.DefaultWorkspace, Name: "depth/0", Slots: depthSlots}}
	if err := cl.engine.SetQuotas(ctx, quotas, pawl.Change{Actor: actor}); err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, role := range roles {
		count[role]++
		m, err := cl.member(role, fmt.Sprintf("%s%d", role, count[role]))
		if err != nil {
			return nil, err
		}
		cl.members = append(cl.members, m)
		if err := m.start(); err != nil {
			return nil, err
		}
	}
	return cl, cl.up(ctx)
}

func (cl *cluster) member(role, name string) (*member, error) {
	if role == far || languages[role] != nil {
		return cl.far(role, name)
	}
	p, err := cl.database.proxy()
	if err != nil {
		return nil, err
	}
	argv := []string{cl.config.binary, "--database", cl.database.name(p), "--log-level", "info", role, "--name", name}
	if role != worker {
		listen, err := cl.listen()
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--listen", listen)
	}
	if role != worker && !cl.config.outages {
		argv = append(argv, "--silence", cl.config.silence.String())
	}
	if role != server {
		argv = append(argv, "--capacity", "4", "--queue", workflow.DefaultQueue, "--queue", narrow)
	}
	if role == worker && !cl.config.outages {
		argv = append(argv, "--drain-timeout", "1s", "--beat", (cl.config.silence / 4).String())
	}
	return &member{name: name, role: role, argv: argv, env: cl.env(), dir: cl.dir, host: cl.database.host(), proxy: p}, nil
}

// listen returns where a server serves HTTP: at a free port, if a worker is to find it there.
func (cl *cluster) listen() (string, error) {
	if cl.config.over() == nil {
		return "none", nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	cl.servers = append(cl.servers, l.Addr().String())
	return l.Addr().String(), nil
}

// far returns a worker that reaches the servers, one or another, through a proxy.
func (cl *cluster) far(role, name string) (*member, error) {
	p, err := newProxy(cl.servers...)
	if err != nil {
		return nil, err
	}
	if l := languages[role]; l != nil {
		return cl.foreign(l, name, p)
	}
	argv := []string{cl.config.binary, "--server", "http://" + p.address(), "--log-level", "info", worker, "--name", name,
		"--capacity", "4", "--queue", workflow.DefaultQueue, "--queue", narrow, "--drain-timeout", "1s", "--silence", cl.config.silence.String(),
		"--beat", (cl.config.silence / 4).String()}
	return &member{name: name, role: worker, argv: argv, env: cl.env(), dir: cl.dir, host: cl.database.host(), proxy: p}, nil
}

// foreign returns a worker that is written with the SDK of another language.
func (cl *cluster) foreign(l *sdk.Language, name string, p *proxy) (*member, error) {
	argv, env, err := l.Worker("--scripts", "--name", name, "--capacity", "4", "--queue", workflow.DefaultQueue, "--queue", narrow,
		"--drain-timeout", "1", "--silence", fmt.Sprint(cl.config.silence.Seconds()))
	if err != nil {
		return nil, err
	}
	return &member{name: name, role: worker, argv: argv, env: append(append(env, "PAWL_SERVER=http://"+p.address()), cl.env()...), dir: cl.dir,
		host: cl.database.host(), proxy: p, sign: " serves "}, nil
}

func (cl *cluster) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cl.dir, "TMPDIR=" + filepath.Join(cl.dir, "tmp")}
}

// up waits until every process that should run does, and starts those that do not.
func (cl *cluster) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cl.config.patience, errors.New("not every process has come up"))
	defer cancel()
	for {
		all := true
		for _, m := range cl.members {
			ok, err := m.revive()
			if err != nil {
				return err
			}
			all = all && ok
		}
		if all {
			return nil
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// victim returns the member that a fault hits: of the role if there are any, and one that
// holds a step if the fault wants that and there is one.
func (cl *cluster) victim(ctx context.Context, f fault) *member {
	candidates := cl.of(f.Role)
	if f.Busy {
		var busy []*member
		held, _ := cl.held(ctx) // while the database is away any member will do
		for _, m := range candidates {
			if len(held[m.pid()]) > 0 {
				busy = append(busy, m)
			}
		}
		if len(busy) > 0 {
			candidates = busy
		}
	}
	return candidates[f.Pick%len(candidates)]
}

func (cl *cluster) of(role string) []*member {
	var found []*member
	for _, m := range cl.members {
		if m.role == role {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return cl.members
	}
	return found
}

// stop asks all processes to end, as an operator would, and checks how they ended.
func (cl *cluster) stop() error {
	var errs []error
	for _, m := range cl.members {
		errs = append(errs, m.stop(30*time.Second))
	}
	for _, m := range cl.members {
		errs = append(errs, m.crashed())
	}
	return errors.Join(append(errs, faultsInLogs(cl.dir))...)
}

// close ends everything, in any state.
func (cl *cluster) close() {
	for _, m := range cl.members {
		if m.cmd != nil && m.running() {
			m.signal(syscall.SIGCONT)
			m.kill()
		}
		if m.proxy != nil {
			m.proxy.close()
		}
		m.host.close()
	}
	if cl.engine != nil {
		cl.engine.Close()
	}
	if cl.store != nil {
		_ = cl.store.Close()
	}
}
