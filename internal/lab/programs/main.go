// Command programs measures how long "pawl supervise" takes to start many programs and to stop
// them all, what that costs, and what a running program costs:
//
//	go run ./internal/lab/programs -pawl bin/pawl -n 1000,10000
//
// Each program is a "sleep", run by the real binary from a service file. The start time is
// from the call of the binary until it has reported the last program as running, the stop time
// from SIGTERM until the binary ends. It fails unless the exit code is 0. If the limit of open
// files is too low for one supervisor, several run at once.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/programs/spec"
)

func main() {
	pawl := flag.String("pawl", "bin/pawl", "the binary")
	numbers := flag.String("n", "1000,10000", "how many programs, with commas between")
	flag.Parse()
	fmt.Println("programs supervisors    start  its CPU     stop  its CPU  threads  descriptors   memory")
	for text := range strings.SplitSeq(*numbers, ",") {
		n, err := strconv.Atoi(text)
		if err == nil && n < 1 {
			err = errors.New("want 1 or more")
		}
		if err == nil {
			err = measure(*pawl, n)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "error: %s programs: %v\n", text, err)
			os.Exit(1)
		}
	}
}

// A bench is one supervisor with its programs.
type bench struct {
	n      int
	dir    string
	cmd    *exec.Cmd
	output *bufio.Scanner
	told   []string // the last lines, for an error
}

// A result is the measurement of all supervisors together.
type result struct {
	started, stopped   time.Duration
	starting, stopping time.Duration // processor time
	usage
}

func measure(pawl string, n int) (err error) {
	dir, err := os.MkdirTemp("", "programs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := spread(dir, n)
	defer func() {
		for _, b := range all {
			if b.cmd != nil && b.cmd.ProcessState == nil {
				_ = b.cmd.Process.Kill()
			}
		}
	}()
	var r result
	if r.started, err = together(all, func(b *bench) error { return b.start(pawl) }); err != nil {
		return err
	}
	for _, b := range all {
		u, err := look(b.cmd.Process.Pid)
		if err != nil {
			return err
		}
		r.add(u)
	}
	r.starting = r.cpu
	r.stopped, err = together(all, (*bench).stop)
	for _, b := range all {
		if s := b.cmd.ProcessState; s != nil {
			r.stopping += s.UserTime() + s.SystemTime()
		}
	}
	fmt.Printf("%8d %11d %7.2fs %7.2fs %7.2fs %7.2fs %8d %12d %5d MB\n", n, len(all), r.started.Seconds(), r.starting.Seconds(),
		r.stopped.Seconds(), (r.stopping - r.starting).Seconds(), r.threads, r.files, r.memory>>20)
	return err
}

// each is an upper bound of a supervisor's open files for one program.
const each = 5

// spread returns as many supervisors for n programs as the limit of open files requires.
func spread(dir string, n int) []*bench {
	allow(uint64(n)*each + 1000)
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	most := max(1, min(spec.MaxServices, (int(min(limit.Max, 1<<30))-100)/each))
	supervisors := (n + most - 1) / most
	var all []*bench
	for i := range supervisors {
		all = append(all, &bench{n: (n + i) / supervisors, dir: filepath.Join(dir, strconv.Itoa(i))})
	}
	return all
}

// together calls f for all concurrently, and returns how long that took.
func together(all []*bench, f func(*bench) error) (time.Duration, error) {
	errs := make([]error, len(all))
	began := time.Now()
	var wait sync.WaitGroup
	for i, b := range all {
		wait.Go(func() { errs[i] = f(b) })
	}
	wait.Wait()
	return time.Since(began), errors.Join(errs...)
}

// start starts the supervisor, and returns when all its programs run.
func (b *bench) start(pawl string) error {
	file := filepath.Join(b.dir, "many.yaml")
	err := os.MkdirAll(b.dir, 0o700)
	if err == nil {
		err = os.WriteFile(file, services(b.n), 0o600)
	}
	if err != nil {
		return err
	}
	b.cmd = exec.Command(pawl, "supervise", file, "--state", filepath.Join(b.dir, "state"))
	b.cmd.Env = append(os.Environ(), "PAWL_RUNTIME_DIR="+filepath.Join(b.dir, "run"))
	pipe, err := b.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := b.cmd.Start(); err != nil {
		return err
	}
	b.output = bufio.NewScanner(pipe)
	for running := map[string]bool{}; len(running) < b.n; {
		line, ok := b.line()
		if !ok {
			return b.failed(b.cmd.Wait())
		}
		f := strings.Fields(line)
		switch {
		case len(f) > 2 && f[2] == "running":
			running[f[1]] = true
		case len(f) > 2 && (f[2] == "failed" || f[2] == "backoff"):
			return b.failed(errors.New("a program does not run"))
		}
	}
	return nil
}

// line returns the next line of the supervisor's output.
func (b *bench) line() (string, bool) {
	if !b.output.Scan() {
		return "", false
	}
	b.told = append(b.told[max(0, len(b.told)-9):], b.output.Text())
	return b.output.Text(), true
}

// stop stops the supervisor, and returns when it has ended.
func (b *bench) stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	for ok := true; ok; {
		_, ok = b.line()
	}
	if err := b.cmd.Wait(); err != nil {
		return b.failed(err)
	}
	return nil
}

func (b *bench) failed(err error) error {
	return fmt.Errorf("supervisor: %v; at the end it said:\n%s", err, strings.Join(b.told, "\n"))
}

// services returns a file of n services.
func services(n int) []byte {
	text := []byte("services:\n")
	for i := range n {
		text = fmt.Appendf(text, "  s%d: {command: [sleep, \"1000000\"]}\n", i)
	}
	return text
}

// allow raises the limit of open files of this process, and so of the supervisor, if it may.
func allow(files uint64) {
	var now syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now) == nil && now.Max < files {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files}) // else it says what it lacks
	}
}
