package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// programs is a folder with the programs of all fronts.
type programs string

// The programs of others. Temporal's later releases replace a module in their go.mod, so that
// "go install" refuses them.
const (
	temporalProgram = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
	riverUIProgram  = "riverqueue.com/riverui/cmd/riverui@v0.22.0"
)

// build builds the programs in a folder, each with the versions of its own go.mod. It downloads
// those of others, and does nothing for what is there.
func build(ctx context.Context, dir string) (programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	_, here, _, _ := runtime.Caller(0)
	for _, pkg := range []string{"./cmd/pawl", temporalProgram, riverUIProgram} {
		cmd := exec.CommandContext(ctx, "go", "install", pkg)
		cmd.Dir = filepath.Join(filepath.Dir(here), "../../..")
		cmd.Env = append(os.Environ(), "GOBIN="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go install %s: %w\n%s", pkg, err, out)
		}
	}
	return programs(dir), nil
}

// A program is a process that serves HTTP on this machine, and a client of it.
type program struct {
	url    string
	cmd    *exec.Cmd
	exited chan struct{}
	client *http.Client
}

const (
	connections = 64                    // that a client keeps; requests beyond that wait for one
	startLimit  = time.Minute           // until a program serves
	startPause  = 20 * time.Millisecond // between two requests until then
)

// start starts a program in a folder and waits until it serves a path at the port, which its
// arguments and environment name.
func (p programs) start(ctx context.Context, dir, port, path string, env []string, name string, args ...string) (*program, error) {
	s := &program{url: "http://127.0.0.1:" + port, exited: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(string(p), name), args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = dir, log, log, append(os.Environ(), env...)
	s.cmd.SysProcAttr = dies
	if err := s.launch(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx, path); err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(said)), s.kill())
	}
	return s, nil
}

// launch starts the process from a thread that stays until it has ended: see dies.
func (s *program) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(s.exited)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // it is killed
		}
	}()
	return <-started
}

// ready waits until the process serves a path.
func (s *program) ready(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := s.call(ctx, http.MethodGet, path, "", nil)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("has ended by itself")
		case <-ctx.Done():
			return err
		case <-time.After(startPause):
		}
	}
}

// call sends a request and decodes its reply, unless that is nil. Any status but one of success
// is an error.
func (s *program) call(ctx context.Context, method, path, body string, reply any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, bytes.TrimSpace(text))
	case reply == nil:
		return nil
	}
	return json.Unmarshal(text, reply)
}

// kill ends the process, by signal 9.
func (s *program) kill() error {
	s.client.CloseIdleConnections()
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.exited
	return nil
}

// freePort returns a port of the loopback interface that nobody has now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
