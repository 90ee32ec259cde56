package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Environment of a child process: its role and its database.
const (
	roleVariable   = "PAWL_STORETEST_ROLE"
	nameVariable   = "PAWL_STORETEST_NAME"
	commonVariable = "PAWL_STORETEST_COMMON"
)

// Main runs the tests of a package or, in a child process of the suite, the child's role. open
// opens the database of that name.
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m, open)) }
func Main(m interface{ Run() int }, open func(name string) (store.Store, error)) int {
	role := roles[os.Getenv(roleVariable)]
	if role == nil {
		return m.Run()
	}
	if err := child(role, open); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func child(role func(*env) error, open func(string) (store.Store, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := open(os.Getenv(nameVariable))
	if err != nil {
		return err
	}
	return errors.Join(role(&env{st: st, mint: NewMint(), ctx: ctx}), st.Close())
}

// roles are the roles of a child process. It prints a line when it is ready.
var roles = map[string]func(*env) error{
	"write": func(e *env) error { return e.writeRounds(childRounds) },
	"loop":  func(e *env) error { return e.writeRounds(-1) },
	"hold":  holdForLife,
	"retain": func(e *env) error {
		before, err := strconv.ParseInt(os.Getenv(commonVariable), 10, 64)
		if err != nil {
			return err
		}
		return retainRole(e, before)
	},
}

// childRounds is how many transactions a writing child runs.
const childRounds = 100

// writeRounds runs n rounds, or endless rounds.
func (e *env) writeRounds(n int) error {
	key, err := strconv.ParseInt(os.Getenv(commonVariable), 10, 64)
	if err != nil {
		return err
	}
	common := rowkey.Job(key)
	fmt.Println("ready")
	for i := 0; i != n; i++ {
		if err := e.round(e.st, common); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// holdForLife registers a worker, holds its name, and waits to be killed.
func holdForLife(e *env) error {
	var w *pawl.Worker
	err := e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) {
		w = &pawl.Worker{ID: e.mint.ID(f.Now), Workspace: "w"}
		b.AddWorker(w)
	})
	if err != nil {
		return err
	}
	if _, err := e.st.Hold(e.ctx, workerName(w), []byte(`{"child":1}`)); err != nil {
		return err
	}
	fmt.Println(w.Key())
	<-e.ctx.Done()
	return e.ctx.Err()
}

// A process is a child process.
type process struct {
	*env
	cmd   *exec.Cmd
	lines *bufio.Reader
	wait  func() error
}

// start starts a child on this database. It is killed when the test ends.
func (e *env) start(role string, common int64) *process {
	e.Helper()
	p := &process{env: e, cmd: exec.Command(os.Args[0], "-test.run=^$")}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, nameVariable+"="+e.db.Name, commonVariable+"="+decimal(common))
	p.cmd.Stderr = testWriter{e.T}
	out, err := p.cmd.StdoutPipe()
	e.ok(err)
	p.lines = bufio.NewReader(out)
	e.ok(p.cmd.Start())
	p.wait = sync.OnceValue(func() error {
		io.Copy(io.Discard, p.lines)
		return p.cmd.Wait()
	})
	e.Cleanup(p.kill)
	return p
}

// kill kills the child as kill -9 does, and waits for its end.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.wait()
}

// line reads a line that the child prints.
func (p *process) line() string {
	p.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.Fatalf("child: %v", err)
	}
	return strings.TrimSpace(line)
}

// testWriter copies the child's errors to the test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// writersProcesses: three processes write at the same time, this one among them, and none ever
// gets an error that the database is busy.
func writersProcesses(e *env) {
	common := e.add(0, nil)
	children := []*process{e.start("write", int64(common.key())), e.start("write", int64(common.key()))}
	for range childRounds {
		e.ok(e.round(e.st, common.key()))
	}
	for _, c := range children {
		if err := c.wait(); err != nil {
			e.Errorf("child: %v", err)
		}
	}
	e.written(common, 3*childRounds)
}

// writerKilled: a process killed while writing leaves only whole transactions, and no process
// waits for it.
func writerKilled(e *env) {
	common := e.add(0, nil)
	c := e.start("loop", int64(common.key()))
	c.line()
	for e.seq(common.key()) < common.job.Seq+20 {
		e.ok(e.round(e.st, common.key()))
	}
	c.kill()
	e.ok(e.round(e.st, common.key()))
	e.written(common, int(e.seq(common.key())-common.job.Seq))
}

func (e *env) seq(job rowkey.Job) int64 {
	e.Helper()
	j, err := e.st.Job(e.ctx, job)
	e.ok(err)
	return j.Seq
}

// holderKilled: the names of a killed process are free at once, whatever the last beat of its
// worker (J9).
func holderKilled(e *env) {
	c := e.start("hold", 0)
	n, err := strconv.ParseInt(c.line(), 10, 64)
	e.ok(err)
	key, name := rowkey.Worker(n), "worker/"+decimal(n)
	e.held(e.st, name, `{"child":1}`)
	if got := e.observed(e.st)[key].Lock; got != health.Held {
		e.Errorf("its lock is found as %d while its process lives; want %d", got, health.Held)
	}
	c.kill()
	for e.observed(e.st)[key].Lock == health.Held && e.ctx.Err() == nil { // a server may need a moment to see it
		time.Sleep(10 * time.Millisecond)
	}
	e.hold(e.st, name, "")
}
