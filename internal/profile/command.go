package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	// CommandTime is how long a token command may take. A person may have to type something.
	CommandTime = time.Minute

	maxSecret = 4 << 10 // bytes of its output
)

// Secret runs a token command with /bin/sh and returns what it prints, without space around it.
// Its stderr goes to the given writer. No error has what it printed.
func Secret(ctx context.Context, command string, limit time.Duration, stderr io.Writer) (string, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := &bounded{most: maxSecret}
	c := exec.CommandContext(within, "/bin/sh", "-c", command)
	c.Stdout, c.Stderr, c.WaitDelay = out, stderr, time.Second
	err := c.Run()
	var ended *exec.ExitError
	switch secret := strings.TrimSpace(out.kept.String()); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case within.Err() != nil:
		return "", pawl.Errorf(pawl.Unavailable, "token_command: it took longer than %s", limit)
	case out.more:
		return "", pawl.Errorf(pawl.Invalid, "token_command: it printed more than %d bytes: want the secret of a token, alone", maxSecret)
	case errors.As(err, &ended):
		return "", pawl.Errorf(pawl.Refused, "token_command: it ended with %s", ended.ProcessState)
	case err != nil:
		return "", fmt.Errorf("token_command: %w", err)
	case secret == "":
		return "", pawl.Errorf(pawl.Refused, "token_command: it printed nothing: want the secret of a token")
	default:
		return secret, nil
	}
}

// bounded keeps so many bytes of what is written, and takes all.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom would take all
	most int
	more bool
}

func (b *bounded) Write(p []byte) (int, error) {
	kept := p[:min(len(p), b.most-b.kept.Len())]
	b.more = b.more || len(kept) < len(p)
	_, _ = b.kept.Write(kept) // a buffer takes all
	return len(p), nil
}
