package process

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestWalksAreShared: a walk begins after all who share it have asked, and those who
// ask while one is under way share the next.
func TestWalksAreShared(t *testing.T) { // S10
	t.Parallel()
	begun, goOn := make(chan map[int]bool), make(chan bool)
	s := shared[int, int]{walk: func(questions map[int]bool) int {
		begun <- questions
		<-goOn
		return len(questions)
	}}
	var asked sync.WaitGroup
	answers := make(chan int, 4)
	ask := func(q int) { asked.Go(func() { answers <- s.request(q) }) }
	ask(1)
	if got := <-begun; len(got) != 1 {
		t.Errorf("the first walk is for %v", got)
	}
	for q := 2; q <= 4; q++ {
		ask(q)
	}
	for waiting := 0; waiting < 3; runtime.Gosched() {
		s.mu.Lock()
		if s.next != nil {
			waiting = len(s.next.questions)
		}
		s.mu.Unlock()
	}
	goOn <- true
	if got := <-begun; len(got) != 3 || got[1] {
		t.Errorf("the second walk is for %v", got)
	}
	goOn <- true
	asked.Wait()
	close(answers)
	for range 4 {
		if a := <-answers; a != 1 && a != 3 {
			t.Errorf("%d questions were answered at once", a)
		}
	}
}

// TestManyStops: what it costs to stop programs at once does not grow with the square of
// their number, nor do they have a thread each. It runs by itself, as it counts.
func TestManyStops(t *testing.T) { // S10, S14
	const n = 300
	dir := t.TempDir()
	all := make([]*Process, n)
	for i := range all {
		s := Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Env: []string{}, Mark: fmt.Sprintf("PAWL_TEST=%s//%d", dir, i)}
		all[i] = start(t, s)
	}
	if now := threads(t); now > n/2 {
		t.Errorf("%d threads for %d programs", now, n)
	}
	before := walks.Load()
	var stops sync.WaitGroup
	for _, p := range all {
		stops.Go(func() {
			if p.Stop(t.Context(), syscall.SIGTERM, patience) {
				t.Error("it was killed")
			}
		})
	}
	stops.Wait()
	made := walks.Load() - before
	t.Logf("%d walks over /proc", made)
	if made < 3 || made > n/3 {
		t.Errorf("%d walks over /proc for %d stops; want some for all of them", made, n)
	}
}

func threads(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "Threads:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
