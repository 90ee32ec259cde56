package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Confirm asks a question of somebody at a terminal, and reports whether the answer is yes.
// The error is that of ctx, which ends the wait for an answer.
func Confirm(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprintf(out, "%s? [y/N] ", question)
	lines := make(chan string, 1) // 1: after ctx has ended nothing receives
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			line = ""
		}
		lines <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, ctx.Err()
	case line := <-lines:
		answer := strings.ToLower(strings.TrimSpace(line))
		return answer == "y" || answer == "yes", nil
	}
}
