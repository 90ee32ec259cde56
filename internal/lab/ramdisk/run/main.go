// Command run runs a command with TMPDIR in memory if 4 GiB are free there, unless TMPDIR is set:
//
//	go run ./internal/lab/ramdisk/run -- go test ./...
//
// It removes the folder when the command has ended, also by a signal, and exits with the command's
// exit code. The next run removes it if this one was killed.
package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/lab/ramdisk"
)

// room is the least room in memory, in bytes. `make check` uses half of it.
const room = 4 << 30

func main() {
	if len(os.Args) < 3 || os.Args[1] != "--" {
		fmt.Fprintln(os.Stderr, "usage: run -- COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	err := run(os.Args[2:])
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(125) // few other programs use it
	}
}

// run runs a command, which ends before the folder is removed.
func run(args []string) (err error) {
	signals := make(chan os.Signal, 4) // a few, until the command receives them
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	dir, err := ramdisk.New("pawl-check-*", room)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	rename(dir, args)
	if err := os.Chmod(dir.Path, 0o711); err != nil { // as root, tests run programs as other users
		return err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir.Path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{dir.File()} // it uses the folder if this process is killed
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	return cmd.Wait()
}

// rename gives the folder a name that a command has each time in the same working folder, but for
// runs of it beside each other: the results of tests that go test caches depend on TMPDIR.
func rename(dir *durable.Scratch, args []string) {
	here, _ := os.Getwd()
	sum := crc32.ChecksumIEEE(fmt.Appendf(nil, "%q", append(slices.Clone(args), here)))
	for n := range 10 {
		path := filepath.Join(filepath.Dir(dir.Path), fmt.Sprintf("pawl-check-%08x-%d", sum, n))
		if os.Rename(dir.Path, path) == nil { // else it is in use
			dir.Path = path
			return
		}
	}
}
