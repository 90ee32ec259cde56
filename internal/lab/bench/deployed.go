package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/load/histogram"
)

// A Deployment is a system as it is deployed: servers, workers and submitters are processes of
// their own.
type Deployment struct {
	Name       string
	Servers    int
	Workers    int
	Capacity   int // of each worker
	Submitters int
	Jobs       int     // of all submitters together
	Rate       float64 // of all submitters together; 0: as fast as they can
	Payload    int
	Kinds      int
	Batch      int  // jobs in one submission; 0: 1000
	Backlog    bool // the workers begin when all is submitted
	Submission bool // what is measured is the submission; the workers begin after it
	HTTP       bool // jobs are submitted by a client of a server
	Active     bool // workers evaluate, too, as in pawl dev: no server is needed

	// Beside begins something that disturbs the measurement; stop ends it. It may be nil.
	Beside func(context.Context) (stop func() error, err error)
}

// Workload returns what a deployment measures: from the moment at which workers find a backlog,
// or submitters begin, to the end of the last job.
func (d Deployment) Workload() Workload {
	return Workload{Name: d.Name,
		Before: func(ctx context.Context, s System, _ Sizes) error { return s.(*Deployed).before(ctx) },
		Measure: func(ctx context.Context, s System, _ Sizes) (Figures, error) {
			return s.(*Deployed).measure(ctx)
		},
		After: func(ctx context.Context, s System) error { return s.(*Deployed).after(ctx) }}
}

// phases returns who goes before the measurement, in it, and after it.
func (d Deployment) phases() (before, measured, after []Role) {
	switch {
	case d.Backlog:
		return []Role{Server, Submitter}, []Role{Worker}, nil
	case d.Submission:
		return []Role{Server}, []Role{Submitter}, []Role{Worker}
	}
	return []Role{Server, Worker}, []Role{Submitter}, nil
}

// A Deployed is a deployment in progress.
type Deployed struct {
	System // of a deployment nothing else is called: it is nil
	Deployment
	command func(Task) *exec.Cmd
	still   func(context.Context) (bool, error)
	closed  func() error
	beside  func() error // ends what disturbs
	server  string       // URL of one that serves HTTP

	hands  []*hand
	ran    atomic.Int64
	ending atomic.Bool
	ended  chan error // of a process that has ended too early
}

// Deploy returns a deployment whose processes command makes, all of one system. still reports
// whether nothing is left to do; it is asked when the workers have begun all jobs. closed is
// called at the end.
func Deploy(d Deployment, command func(Task) *exec.Cmd, still func(context.Context) (bool, error), closed func() error) *Deployed {
	return &Deployed{Deployment: d, command: command, still: still, closed: closed, ended: make(chan error, d.Servers+d.Workers+d.Submitters)}
}

var errEarly = errors.New("too early, by itself")

// PIDs returns the processes.
func (d *Deployed) PIDs() (pids []int) {
	for _, h := range d.hands {
		pids = append(pids, h.cmd.Process.Pid)
	}
	return pids
}

// before starts the processes and, for a backlog, has it submitted.
func (d *Deployed) before(ctx context.Context) (err error) {
	if err := d.startAll(ctx, Server, d.Servers); err != nil {
		return err
	}
	for _, h := range d.hands {
		d.server = h.url
	}
	for role, n := range map[Role]int{Worker: d.Workers, Submitter: d.Submitters} {
		if err := d.startAll(ctx, role, n); err != nil {
			return err
		}
	}
	first, _, _ := d.phases()
	if err := d.order(ctx, first...); err != nil || d.Beside == nil {
		return err
	}
	d.beside, err = d.Beside(ctx)
	return err
}

// startAll starts the processes of a role and waits until they are ready.
func (d *Deployed) startAll(ctx context.Context, role Role, n int) error {
	begun := len(d.hands)
	for i := range n {
		jobs := d.Jobs / n
		if i == 0 {
			jobs += d.Jobs % n
		}
		err := d.start(Task{Role: role, Capacity: d.Capacity, Jobs: jobs, Rate: d.Rate / float64(n), Payload: d.Payload, Kinds: d.Kinds,
			Batch: cmp.Or(d.Batch, 1000), HTTP: d.HTTP, Server: d.server, Active: d.Active})
		if err != nil {
			return err
		}
	}
	for _, h := range d.hands[begun:] {
		if err := d.await(ctx, h.ready); err != nil {
			return err
		}
	}
	return nil
}

// order has the processes of some roles go, and waits until they do or, if they are submitters,
// have done.
func (d *Deployed) order(ctx context.Context, roles ...Role) error {
	for _, role := range roles {
		for _, h := range d.hands {
			if h.role == role {
				fmt.Fprintln(h.orders, lineGo)
			}
		}
		for _, h := range d.hands {
			if h.role != role {
				continue
			}
			if err := d.await(ctx, h.done); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Deployed) measure(ctx context.Context) (f Figures, err error) {
	_, measured, _ := d.phases()
	begun := time.Now()
	if err := d.order(ctx, measured...); err != nil {
		return f, err
	}
	if !d.Submission {
		err = d.drained(ctx)
	}
	f = Figures{Jobs: d.Jobs, Steps: d.Jobs, Seconds: time.Since(begun).Seconds()}
	f.JobRate, f.StepRate = float64(d.Jobs)/f.Seconds, float64(d.Jobs)/f.Seconds
	if err != nil || d.Rate == 0 {
		return f, err
	}
	f.JobRate, f.StepRate = 0, 0
	var all histogram.Histogram
	for _, h := range d.hands {
		if h.role == Worker {
			fmt.Fprintln(h.orders, lineTell)
			if err := d.await(ctx, h.told); err != nil {
				return f, err
			}
			all.Merge(h.latency)
		}
	}
	f.P50, f.P99, f.P999 = millis(all.Quantile(0.5)), millis(all.Quantile(0.99)), millis(all.Quantile(0.999))
	return f, nil
}

// drained waits until all jobs have ended.
func (d *Deployed) drained(ctx context.Context) error {
	return Poll(ctx, func() (bool, error) {
		select {
		case err := <-d.ended:
			return false, err
		default:
		}
		if d.ran.Load() < int64(d.Jobs) {
			return false, nil
		}
		return d.still(ctx)
	})
}

// after has the rest of the processes go, so that no job is left for the next measurement.
func (d *Deployed) after(ctx context.Context) error {
	_, _, rest := d.phases()
	if len(rest) == 0 {
		return nil
	}
	if err := d.order(ctx, rest...); err != nil {
		return err
	}
	return d.drained(ctx)
}

func millis(ns int64) Millis { return Millis(float64(ns) / 1e6) }

// await waits for an event of a process.
func (d *Deployed) await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case err := <-d.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements System: it ends all processes.
func (d *Deployed) Close() error {
	var err error
	if d.beside != nil {
		err = d.beside()
	}
	return errors.Join(err, d.end(), d.closed())
}

func (d *Deployed) end() (err error) {
	d.ending.Store(true)
	for _, h := range d.hands {
		h.orders.Close()
	}
	for _, h := range d.hands {
		err = errors.Join(err, h.wait())
	}
	return err
}

// A hand is one process of a deployment.
type hand struct {
	role              Role
	cmd               *exec.Cmd
	orders            io.WriteCloser
	ready, done, told chan struct{}
	over              sync.WaitGroup
	stderr            bytes.Buffer
	url               string               // of a server; set before ready
	latency           *histogram.Histogram // set before told
	err               error                // set before over
}

func (d *Deployed) start(t Task) error {
	h := &hand{role: t.Role, cmd: d.command(t), ready: make(chan struct{}), done: make(chan struct{}), told: make(chan struct{})}
	h.cmd.Stderr = &h.stderr
	h.cmd.Env = os.Environ()
	orders, err := h.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := h.cmd.Start(); err != nil {
		return fmt.Errorf("start a %s: %w", t.Role, err)
	}
	h.orders = orders
	d.hands = append(d.hands, h)
	h.over.Go(func() {
		h.err = errors.Join(h.read(out, &d.ran), h.cmd.Wait())
		if h.err == nil && !d.ending.Load() {
			h.err = errEarly
		}
		if h.err != nil {
			h.err = fmt.Errorf("a %s has ended: %w\n%s", h.role, h.err, bytes.TrimSpace(h.stderr.Bytes()))
			d.ended <- h.err
		}
	})
	return nil
}

// read reads the lines of a process to their end.
func (h *hand) read(out io.Reader, ran *atomic.Int64) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	told := int64(0)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case lineReady:
			h.url = rest
			close(h.ready)
		case lineDone:
			close(h.done)
		case lineRan:
			var n int64
			if _, err := fmt.Sscan(rest, &n); err != nil {
				return fmt.Errorf("%q: %w", lines.Text(), err)
			}
			ran.Add(n - told)
			told = n
		case lineLatency:
			if err := h.readLatency(rest); err != nil {
				return fmt.Errorf("%q: %w", lines.Text(), err)
			}
			close(h.told)
		}
	}
	return lines.Err()
}

func (h *hand) readLatency(text string) error {
	var sum uint64
	var least, most int64
	var encoded string
	if n, err := fmt.Sscan(text, &sum, &least, &most, &encoded); n < 3 {
		return err
	}
	buckets, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	h.latency, err = histogram.Decode(sum, least, most, buckets)
	return err
}

// wait waits until the process has ended, and kills it after stopLimit.
func (h *hand) wait() error {
	kill := time.AfterFunc(stopLimit, func() { _ = h.cmd.Process.Kill() })
	h.over.Wait()
	kill.Stop()
	return h.err
}
