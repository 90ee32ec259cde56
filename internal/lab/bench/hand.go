package bench

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/load/histogram"
)

// A Task says what one process of a deployment does.
type Task struct {
	System   string  `json:"system"`
	Role     Role    `json:"role"`
	URL      string  `json:"url"`
	Capacity int     `json:"capacity,omitempty"` // of a worker
	Jobs     int     `json:"jobs,omitempty"`     // of a submitter
	Rate     float64 `json:"rate,omitempty"`     // jobs in a second; 0: one batch after the other
	Payload  int     `json:"payload,omitempty"`  // bytes of the input and of the output
	Kinds    int     `json:"kinds,omitempty"`    // workflows, of which jobs are made in turn
	Batch    int     `json:"batch,omitempty"`    // up to how many jobs one submission has
	HTTP     bool    `json:"http,omitempty"`     // of a server: it serves clients
	Server   string  `json:"server,omitempty"`   // URL of a server to submit to; "": the database
	Active   bool    `json:"active,omitempty"`   // of a worker: it evaluates, too
}

// A Role is a kind of process.
type Role string

// The roles.
const (
	Server    Role = "server"
	Worker    Role = "worker"
	Submitter Role = "submitter"
)

// A Part is a process of a system, from within.
type Part interface {
	// Go does the work of a submitter, or begins that of a worker.
	Go(ctx context.Context) error
	Close() error
}

// A Served is a part that clients use.
type Served interface {
	Part
	ServerURL() string // "" if it serves none
}

// A Hand counts what a process does, and tells the one that has started it.
type Hand struct {
	ran     atomic.Int64
	mu      sync.Mutex
	latency histogram.Histogram
}

// Began counts a step that begins. due is when its job was due, in nanoseconds since the Unix
// epoch; 0 if nobody has said, and negative if that is not measured.
func (h *Hand) Began(due int64) {
	h.ran.Add(1)
	if due <= 0 {
		return
	}
	late := time.Now().UnixNano() - due
	h.mu.Lock()
	h.latency.Record(late)
	h.mu.Unlock()
}

// The lines between the processes: of a hand, and of the one that has started it. The input of a
// hand ends when it has to.
const (
	lineReady   = "ready"   // and the URL of a server
	lineRan     = "ran"     // and how many steps
	lineDone    = "done"    // what a submitter had to submit is submitted
	lineLatency = "latency" // and a histogram: the sum, the least, the greatest, the buckets in base64
	lineGo      = "go"
	lineTell    = "tell" // the latency until now
)

// reports is how often a hand tells how much it has done.
const reports = 5 * time.Millisecond

// Play opens a part and does what the lines of in say.
func (h *Hand) Play(ctx context.Context, in io.Reader, out io.Writer, open func(context.Context, *Hand) (Part, error)) (err error) {
	part, err := open(ctx, h)
	if err != nil {
		return err
	}
	url := ""
	if s, ok := part.(Served); ok {
		url = s.ServerURL()
	}
	fmt.Fprintln(out, lineReady, url)
	orders := bufio.NewScanner(in)
	if orders.Scan() && orders.Text() == lineGo {
		if err = part.Go(ctx); err == nil {
			fmt.Fprintln(out, lineDone)
			h.report(out, orders)
		}
	}
	if e := part.Close(); err == nil {
		err = e
	}
	return err
}

// report tells how much was done, and at what latency if that is asked for, until the orders end.
func (h *Hand) report(out io.Writer, orders *bufio.Scanner) {
	tell, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for orders.Scan() {
			tell <- struct{}{}
		}
	}()
	tick := time.NewTicker(reports)
	defer tick.Stop()
	for told := int64(0); ; {
		select {
		case <-tick.C:
		case <-tell:
			h.mu.Lock()
			l := &h.latency
			fmt.Fprintln(out, lineLatency, l.Sum(), l.Min(), l.Max(), base64.StdEncoding.EncodeToString(l.AppendBuckets(nil)))
			h.mu.Unlock()
		case <-over:
			return
		}
		if n := h.ran.Load(); n != told {
			fmt.Fprintln(out, lineRan, n)
			told = n
		}
	}
}

// warmUp is the time for which jobs submitted at a rate are not measured: what each process does
// once, such as connecting and preparing statements, would decide the highest percentiles of a few
// seconds. A fifth of the jobs at most are left out.
const warmUp = 500 * time.Millisecond

// Pace submits the jobs of a task in batches: one after the other, or with a rate those that are
// due. submit gets the times at which they were due, each 0 without a rate, and negative of
// those in the warm-up.
func Pace(ctx context.Context, t Task, submit func(due []int64) error) error {
	begun, cold := time.Now(), min(int(t.Rate*warmUp.Seconds()), t.Jobs/5)
	for done := 0; done < t.Jobs; {
		n := min(t.Batch, t.Jobs-done)
		if t.Rate > 0 {
			now := time.Since(begun).Seconds()
			n = min(n, int(now*t.Rate)+1-done)
			if n <= 0 {
				if err := pause(ctx, time.Duration(float64(done)/t.Rate*float64(time.Second))-time.Since(begun)); err != nil {
					return err
				}
				continue
			}
		}
		due := make([]int64, n)
		for i := range due {
			if t.Rate > 0 {
				due[i] = begun.Add(time.Duration(float64(done+i) / t.Rate * float64(time.Second))).UnixNano()
			}
			if done+i < cold {
				due[i] = -due[i]
			}
		}
		if err := submit(due); err != nil {
			return err
		}
		done += n
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(max(d, time.Nanosecond)): // what was rounded down is over then
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
