package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// maxExplained is how many unfinished jobs are explained in full.
const maxExplained = 3

// explain adds to the error of a run the information to investigate it: why the remaining jobs
// do not end, their trails, and the location of the logs.
func (r *run) explain(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var b strings.Builder
	if errors.Is(err, errStuck) {
		jobs, _ := r.store.Jobs(ctx, store.JobFilter{States: unfinished, Limit: maxExplained})
		for _, j := range jobs {
			id := j.ID.Public(pawl.JobPrefix)
			for _, args := range [][]string{{"job", "why", id}, {"job", "show", id}, {"job", "history", id}} {
				fmt.Fprintf(&b, "$ pawl %s\n%s\n", strings.Join(args, " "), r.pawl(ctx, args...))
			}
		}
		fmt.Fprintf(&b, "$ pawl jobs --stuck\n%s\n", r.pawl(ctx, "jobs", "--stuck"))
	}
	trail := filepath.Join(r.dir, "trail.jsonl")
	if err := os.WriteFile(trail, r.pawl(ctx, "audit", "export"), 0o600); err == nil {
		fmt.Fprintf(&b, "the whole trail: %s\n", trail)
	}
	logs, _ := filepath.Glob(filepath.Join(r.dir, "*.log"))
	fmt.Fprintf(&b, "logs of the processes: %s", strings.Join(logs, " "))
	return fmt.Errorf("seed %d: %w\n%s", r.seed, err, b.String())
}

// pawl returns the output of a command.
func (r *run) pawl(ctx context.Context, args ...string) []byte {
	out, err := exec.CommandContext(ctx, r.config.binary, append([]string{"--database", r.database.direct()}, args...)...).CombinedOutput()
	if err != nil {
		out = append(out, err.Error()...)
	}
	return bytes.TrimSpace(out)
}
