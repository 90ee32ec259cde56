package contest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// TestCPUOfThisProcess: what a process has used is seen while it runs.
func TestCPUOfThisProcess(t *testing.T) {
	t.Parallel()
	for begun := contest.Used(0).Client; contest.Used(0).Client <= begun; {
		_ = strings.Repeat("work", 1000)
	}
	if contest.Postmaster(os.Getpid()) != 0 {
		t.Error("took this process for a backend of PostgreSQL")
	}
}
