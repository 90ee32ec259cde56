package workload

import (
	"bufio"
	"context"
	"fmt"
	"io"
)

// Main is the engine process: it reads a Job and then commands from stdin, writes frames to
// stdout and diagnostics to stderr, and returns the exit code when stdin ends.
func Main(_ context.Context, stdin io.Reader, _, stderr io.Writer) int {
	if _, err := readJob(bufio.NewReader(stdin)); err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	fmt.Fprintln(stderr, "the engine is not there yet")
	return 1
}
