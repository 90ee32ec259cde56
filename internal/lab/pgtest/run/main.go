// Command run runs a command with a temporary PostgreSQL cluster, whose URL is in
// PAWL_TEST_POSTGRES:
//
//	go run ./internal/lab/pgtest/run [-durable] -- go test ./...
//
// It installs PostgreSQL with apt-get if it is missing and the user may. It removes the
// cluster when the command has ended, also by a signal, and exits with the command's exit
// code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// failed is the exit code for failures of this program itself; few other programs use it.
const failed = 125

func main() { os.Exit(run()) }

func run() int {
	durable := flag.Bool("durable", false, "write every commit to the disk, as in production")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: run [-durable] -- COMMAND [ARGUMENT...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		return 2
	}
	code, err := with(*durable, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return failed
	}
	return code
}

// with runs the command beside a cluster, unless the environment names one.
func with(durable bool, args []string) (int, error) {
	signals := make(chan os.Signal, 4) // a few, until the command receives them
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if os.Getenv(pgtest.Variable) != "" {
		return command(args, os.Environ(), signals)
	}
	if err := pgtest.Install(os.Stderr); err != nil {
		return 0, err
	}
	cluster, err := pgtest.Start(context.Background(), durable)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "error: stop postgres:", err)
		}
	}()
	return command(args, append(os.Environ(), pgtest.Variable+"="+cluster.URL), signals)
}

// command runs a program, forwards signals to it, and returns its exit code.
func command(args, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			return exitCode(err)
		}
	}
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
