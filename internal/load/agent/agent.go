package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

const (
	lockTime   = 5 * time.Second  // for the engine of an agent that was killed to end
	quitTime   = 30 * time.Second // until connections are cut when the agent ends
	sweepEvery = time.Hour
	maxMessage = 4 << 20 // bytes of a message that is received
)

// An Agent serves runs, one at a time.
type Agent struct {
	config    Config
	lock      *durable.Lock
	engines   []string      // those that work here
	stopping  chan struct{} // closed when the agent is being stopped
	monotonic func() int64
	launch    func(workload.Job) (engine, error)
	limits    limits

	epochs atomic.Uint64

	mu      sync.Mutex // guards what follows
	current *session   // whose run is on; nil: none
	run     string     // its id
	newest  *session   // the last one that has begun
	view    *loadpb.RunView
	viewed  *session // whose run the view shows
}

// limits are those of a result.
type limits struct {
	intervals int
	bytes     int64
}

// New returns an agent. The error is of kind Invalid for what is wrong with the Config, and of
// kind Conflict if another agent has the state folder. Close frees the folder.
func New(c Config) (*Agent, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	a := &Agent{config: c, stopping: make(chan struct{}), monotonic: systemMonotonic, engines: workload.Engines(), limits: limits{spec.MaxIntervals, spec.MaxResult}}
	for _, dir := range []string{a.trails(), a.results(), filepath.Join(c.StateDir, "runs")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the state folder cannot be used", Err: err}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	lock, err := durable.Acquire(ctx, filepath.Join(c.StateDir, "lock"))
	if errors.Is(err, durable.ErrHeld) {
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "another agent, or the engine of one that was killed, uses the state folder " + c.StateDir,
			Hint: "give each agent a --state-dir of its own"}
	}
	if err != nil {
		return nil, err
	}
	a.lock = lock
	a.launch = func(job workload.Job) (engine, error) { return launch(c.Engine, lock.File(), job) }
	return a, nil
}

// Close frees the state folder, unless an engine that nothing ends still has it. Serve has returned,
// or was never called.
func (a *Agent) Close() { a.lock.HandOver() }

func (a *Agent) now() time.Time { return a.config.Clock() }

func (a *Agent) trails() string  { return filepath.Join(a.config.StateDir, "trail") }
func (a *Agent) results() string { return filepath.Join(a.config.StateDir, "results") }

func (a *Agent) folder(run string) string   { return filepath.Join(a.config.StateDir, "runs", run) }
func (a *Agent) manifest(run string) string { return filepath.Join(a.folder(run), "manifest") }
func (a *Agent) jobFile(run string) string  { return filepath.Join(a.folder(run), "job.json") }

// keep stores what the engine of a run is told, for an agent that has to clean up after this one.
func (a *Agent) keep(job workload.Job) error {
	if err := os.Mkdir(a.folder(job.RunID), 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(job)
	if err != nil {
		return err
	}
	if err := (durable.Disk{}).Publish(a.jobFile(job.RunID), b); err != nil {
		return err
	}
	return syncDir(filepath.Dir(a.folder(job.RunID)))
}

// forget removes what keep has stored, once the run has been cleaned up.
func (a *Agent) forget(run string) {
	if err := os.RemoveAll(a.folder(run)); err != nil {
		a.config.Log.Warn("the job of a run cannot be removed", "run", run, "error", err)
	}
}

// begin gives the agent to a run. It returns the number of the session or, if another run is on,
// the id of that.
func (a *Agent) begin(s *session, run string) (other string, epoch uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		return a.run, 0
	}
	a.current, a.run, a.newest = s, run, s
	return "", a.epochs.Add(1)
}

// end makes the agent free for the next run.
func (a *Agent) end(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == s {
		a.current, a.run = nil, ""
	}
}

// Serve cleans up after an agent that was killed, and then serves a listener until ctx ends.
// A run that is on is ended then, and Serve returns when what it had created is deleted or its engine
// makes no progress. TLS is nil where only this machine reaches the listener.
// Serve is called once.
func (a *Agent) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	if err := CheckListener(l.Addr(), config, a.config.Token); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := a.mend(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	a.sweep()
	s, healthy := a.server(config)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.attend(ctx)
		healthy.Shutdown()
		close(a.stopping)
		stopped := time.AfterFunc(quitTime, s.Stop)
		defer stopped.Stop()
		s.GracefulStop()
	}()
	if ctx.Err() == nil {
		a.config.Ready()
	}
	err := s.Serve(l)
	if ctx.Err() == nil {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	<-done
	return nil
}

// attend sweeps until ctx ends.
func (a *Agent) attend(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.sweep()
		case <-ctx.Done():
			return
		}
	}
}

// server returns the gRPC server with its services.
func (a *Agent) server(config *tls.Config) (*grpc.Server, *health.Server) {
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(100), grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(a.allowUnary), grpc.StreamInterceptor(a.allowStream),
	}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	s, healthy := grpc.NewServer(options...), health.NewServer()
	loadpb.RegisterAgentServiceServer(s, &service{agent: a})
	grpc_health_v1.RegisterHealthServer(s, healthy)
	healthy.SetServingStatus(loadpb.AgentService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	reflection.RegisterV1(s)
	return s, healthy
}
