package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/workflow"
)

// moving is a workflow that a server moves without a worker, in several commits.
const moving = `name: moving
steps:
  - {id: nap, sleep: 20ms}
  - {id: more, needs: [nap], sleep: 20ms}
`

// A follower keeps what a client of a server sees, over all its connections.
type follower struct {
	mu      sync.Mutex
	last    map[string]int64 // the highest sequence seen of each entity
	faults  []string
	seen    int
	doubles int
	gaps    int
	begun   chan struct{}
	over    chan error
}

// follow follows the events of a server until ctx ends.
func follow(ctx context.Context, t *testing.T, url string) *follower {
	t.Helper()
	c, err := client.Open(ctx, url, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{last: map[string]int64{}, begun: make(chan struct{}), over: make(chan error, 1)}
	go func() {
		for e, err := range c.Events(ctx, client.EventFilter{}) {
			if err != nil {
				f.over <- err
				return
			}
			f.take(&e)
		}
	}()
	t.Cleanup(func() { _ = c.Close() })
	select {
	case <-f.begun:
	case err := <-f.over:
		t.Fatal(err)
	}
	return f
}

func (f *follower) take(e *pawl.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch last := f.last[e.Entity]; {
	case e.Type == pawl.EventHello:
		close(f.begun)
	case e.Type == pawl.EventGap:
		f.gaps++
		f.faults = append(f.faults, "a gap: "+e.Gap)
	case e.Sequence <= last:
		f.doubles++
	case e.Sequence > last+1:
		f.faults = append(f.faults, fmt.Sprintf("%s: %d comes after %d", e.Entity, e.Sequence, last))
	default:
		f.last[e.Entity] = e.Sequence
		f.seen++
	}
}

// missing returns how many rows of an exported trail the follower has not seen.
func (f *follower) missing(export []byte) (missing, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for lines := bufio.NewScanner(bytes.NewReader(export)); lines.Scan(); {
		var row struct {
			Entity   string `json:"entity"`
			Sequence int64  `json:"sequence"`
		}
		if json.Unmarshal(lines.Bytes(), &row) != nil || row.Sequence == 0 {
			continue
		}
		rows++
		if f.last[row.Entity] < row.Sequence {
			missing++
		}
	}
	return missing, rows
}

// freeAddress returns an address of the loopback interface that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A storm is a server under load that is killed and comes back at the same address.
type storm struct {
	*fleet
	address string
	server  *exec.Cmd
	jobs    atomic.Int64 // that were accepted
}

func (s *storm) serve() {
	s.t.Helper()
	s.server = s.start("server", "--listen", s.address)
	s.until("the server listens", func() bool {
		conn, err := net.DialTimeout("tcp", s.address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func (s *storm) kill() {
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
}

// after waits until so many further jobs were accepted.
func (s *storm) after(jobs int64) {
	s.t.Helper()
	until := s.jobs.Load() + jobs
	s.until(fmt.Sprint(jobs, " more jobs are accepted"), func() bool { return s.jobs.Load() >= until })
}

// complete waits until the follower has seen every row of the trails, and checks what it saw.
func (s *storm) complete(f *follower) {
	s.t.Helper()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.t.Logf("%d jobs, %d events, %d of them again, %d entities", s.jobs.Load(), f.seen, f.doubles, len(f.last))
		for i, fault := range f.faults[:min(len(f.faults), 10)] {
			s.t.Errorf("fault %d of %d: %s", i+1, len(f.faults), fault)
		}
	}()
	s.until("everything in the trails was seen", func() bool {
		missing, rows := f.missing([]byte(s.say("audit", "export")))
		return missing == 0 && rows > 0
	})
}

// TestEventsOnPostgres: 16 writers, with transactions that are rolled back and one that stays
// open, while the server is killed twice, and PostgreSQL once. A client that connects again sees
// every row of the trails, and those of each entity in order (K5, J3).
func TestEventsOnPostgres(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &storm{fleet: newFleet(t, cluster.URL), address: freeAddress(t)}
	s.say("migrate", "up")
	s.serve()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := follow(ctx, t, "http://"+s.address)
	c, err := local.Open(ctx, cluster.URL, local.Config{Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	def, err := workflow.Parse("moving.yaml", []byte(moving))
	if err != nil {
		t.Fatal(err)
	}
	begin := func() (*pgx.Conn, pgx.Tx, error) {
		conn, err := pgx.Connect(ctx, cluster.URL)
		if err != nil {
			return nil, nil, err
		}
		tx, err := conn.Begin(ctx)
		if err == nil {
			_, err = c.Jobs.SubmitTx(ctx, tx, client.Submission{Workflow: def})
		}
		if err != nil {
			_ = conn.Close(ctx)
		}
		return conn, tx, err
	}
	load, end := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for n := w; load.Err() == nil; n++ {
				if n%3 > 0 {
					if _, err := c.Jobs.Submit(load, def, nil); err == nil {
						s.jobs.Add(1)
					}
					continue
				}
				conn, tx, err := begin()
				if err != nil {
					continue // the database is down
				}
				if n%2 == 0 {
					_ = tx.Rollback(ctx)
				} else if tx.Commit(ctx) == nil {
					s.jobs.Add(1)
				}
				_ = conn.Close(ctx)
			}
		})
	}
	s.after(100)
	s.kill()
	s.after(50)
	s.serve()
	s.after(100)
	cluster.Kill()
	if err := cluster.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	conn, open, err := begin() // it stays open from here to the end
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	s.after(100)
	s.kill()
	s.serve()
	s.after(100)
	end()
	writers.Wait()
	if err := open.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s.complete(seen)
}

// TestEventsOnSQLite does the same with a server that is killed three times.
func TestEventsOnSQLite(t *testing.T) {
	t.Parallel()
	url := filepath.Join(t.TempDir(), "pawl.db")
	s := &storm{fleet: newFleet(t, url), address: freeAddress(t)}
	s.say("migrate", "up")
	s.serve()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := follow(ctx, t, "http://"+s.address)
	c, err := local.Open(ctx, url, local.Config{Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	def, err := workflow.Parse("moving.yaml", []byte(moving))
	if err != nil {
		t.Fatal(err)
	}
	load, end := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for load.Err() == nil {
				if _, err := c.Jobs.Submit(load, def, nil); err == nil {
					s.jobs.Add(1)
				}
			}
		})
	}
	for range 3 {
		s.after(100)
		s.kill()
		s.after(50)
		s.serve()
	}
	s.after(100)
	end()
	writers.Wait()
	s.complete(seen)
}
