package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Confirm asks the person at a terminal a question and reports whether the reply is yes. If
// ctx ends first, it returns the error of ctx.
func Confirm(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprintf(out, "%s? [y/N] ", question)
	lines := make(chan string, 1) // 1: nothing receives after ctx has ended
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
