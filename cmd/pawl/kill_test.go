package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// killed is a workflow whose steps leave a line each time they run: their key
// and their claim, which is the fence.
const killed = `name: killed
inputs: {round: {type: integer, required: true}, file: {type: string, required: true}}
workers: 4
env: {FILE: "${{ inputs.file }}"}
steps:
  - {id: first, run: 'echo "first $PAWL_CLAIM" >> "$FILE"; sleep 0.02'}
  - id: fan
    needs: [first]
    foreach: "${{ [0, 1, 2, 3, 4, 5] }}"
    parallel: 3
    env: {N: "${{ item }}"}
    run: 'echo "fan$N $PAWL_CLAIM" >> "$FILE"; sleep 0.02; echo "$N"'
  - {id: flaky, needs: [first], retry: {max_attempts: 3, base: 10ms, jitter: none}, run: 'echo "flaky $PAWL_CLAIM" >> "$FILE"; test "$PAWL_ATTEMPT" -ge 2'}
  - {id: last, needs: [fan, flaky], env: {ALL: "${{ toJSON(steps.fan.output) }}"}, run: 'echo "last $PAWL_CLAIM" >> "$FILE"; echo "$ALL"'}
output: ${{ steps.last.output }}
`

// builds is the binary for the tests that kill it.
var builds built

type built struct {
	once sync.Once
	dir  string
	err  error
}

// binary returns the path of the program, which is built once.
func binary(t *testing.T) string {
	t.Helper()
	builds.once.Do(builds.build)
	if builds.err != nil {
		t.Fatal(builds.err)
	}
	return filepath.Join(builds.dir, "pawl")
}

func (b *built) build() {
	if b.dir, b.err = os.MkdirTemp("", "pawl-test-"); b.err != nil {
		return
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(b.dir, "pawl"), ".").CombinedOutput(); err != nil {
		b.err = fmt.Errorf("go build: %w\n%s", err, out)
	}
}

func (b *built) remove() {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

func TestKilledRunsAreResumed(t *testing.T) { // T5, T10, J9, K6
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		killAndResume(t, "sqlite://"+filepath.Join(t.TempDir(), "pawl.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		killAndResume(t, pgtest.URL(t))
	})
}

func killAndResume(t *testing.T, database string) {
	bin, dir := binary(t), t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	file := filepath.Join(dir, "killed.yaml")
	if err := os.WriteFile(file, []byte(killed), 0o600); err != nil {
		t.Fatal(err)
	}
	kills := 0
	for round := range killRounds {
		effects := filepath.Join(dir, fmt.Sprintf("effects-%d", round))
		args := []string{"--database", database, "run", file, "-i", fmt.Sprintf("round=%d", round), "-i", "file=" + effects, "-o", "json"}
		for range 1 + random.IntN(2) {
			if runAndKill(t, bin, args, time.Duration(random.IntN(250))*time.Millisecond) {
				kills++
			}
			args = resumed(args)
		}
		jobs := finish(t, bin, args)
		checkEffects(t, effects, jobs)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d rounds, %d kills", killRounds, kills)
	if kills < killRounds/2 {
		t.Errorf("only %d of the runs were killed before they ended", kills)
	}
	out, err := exec.Command(bin, "--database", database, "audit", "verify").CombinedOutput()
	if err != nil {
		t.Errorf("audit verify: %v\n%s", err, out)
	}
}

func resumed(args []string) []string {
	if args[len(args)-1] == "--resume" {
		return args
	}
	return append(args, "--resume")
}

// runAndKill reports whether the run was still on when it was killed.
func runAndKill(t *testing.T, bin string, args []string, after time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after) // the context kills with signal 9
	defer cancel()
	err := exec.CommandContext(ctx, bin, args...).Run()
	return err != nil && ctx.Err() != nil
}

// finish runs to the end and returns how many jobs the round may have had: a run
// that was killed before its job was stored, or after its job had ended, has
// nothing to resume and is begun anew.
func finish(t *testing.T, bin string, args []string) (jobs int) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() == codeNotFound {
		return 1 + finish(t, bin, args[:len(args)-1])
	}
	if err != nil || !strings.Contains(string(out), `"output": "[\"0\",\"1\",\"2\",\"3\",\"4\",\"5\"]"`) {
		t.Errorf("%s: %v\n%s\n%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return 1
}

// checkEffects checks that each step had its effect, and none twice under one
// claim. A round that was begun anew has a job more, with claims of its own.
func checkEffects(t *testing.T, path string, jobs int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	seen := map[string]int{}
	for _, line := range lines {
		seen[line]++
		step, _, _ := strings.Cut(line, " ")
		seen[step]++
	}
	for _, step := range []string{"first", "fan0", "fan1", "fan2", "fan3", "fan4", "fan5", "flaky", "last"} {
		if seen[step] == 0 {
			t.Errorf("%s had no effect:\n%s", step, text)
		}
	}
	for line, n := range seen {
		if strings.Contains(line, " ") && n > jobs {
			t.Errorf("%q happened %d times in %d jobs:\n%s", line, n, jobs, text)
		}
	}
}
