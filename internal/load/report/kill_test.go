package report

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKilled: a writer that is killed leaves whole folders, whatever it was doing, and nothing
// beside them but what it was working in (L7).
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rounds, each = 5, 3
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "PAWL_TEST_RESULTS="+filepath.Join(dir, fmt.Sprint(round)), "TMPDIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for seen := 0; seen < each && lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "wrote ") {
				seen++
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		entries, err := os.ReadDir(filepath.Join(dir, fmt.Sprint(round)))
		if err != nil || len(entries) < each {
			t.Fatal(entries, err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if _, err := Read(filepath.Join(dir, fmt.Sprint(round), e.Name())); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestKilledWriter is the program that TestKilled kills: it writes folders until then.
func TestKilledWriter(t *testing.T) {
	dir := os.Getenv("PAWL_TEST_RESULTS")
	if dir == "" {
		return // it is not that program
	}
	run, _ := model{seed: 1, agents: 2, seconds: 3, config: config}.run(t)
	for i := 0; ; i++ {
		if _, err := write(t, filepath.Join(dir, fmt.Sprint(i)), run); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("wrote", i)
	}
}
