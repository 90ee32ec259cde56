package worker

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// A program dies with the process that runs it, even if that is killed.
func TestCommandDiesWithItsParent(t *testing.T) {
	t.Parallel()
	path, r := namedPipe(t)
	argv := program("host", t.TempDir(), path)
	c := exec.Command(argv[0], argv[1:]...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Errorf("printed %q, %v", line, err)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	wantDead(t, r)
}

// The end of other threads of this process, and of the goroutine's own that runs
// the handler, does not kill the program.
func TestCommandOutlivesThreads(t *testing.T) {
	t.Parallel()
	path, _ := namedPipe(t)
	p := newPrintout(t, "ready")
	ready := p.await["ready"]
	task := newTask(t, script(`echo ready; read line <"$FIFO"; echo "$line"`))
	task.Work.Env = map[string]string{"FIFO": path}
	task.Log = p.Log
	done := make(chan Result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		done <- execute(t, context.Background(), task)
	}()
	<-ready
	endThreads(64)
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.WriteString("go on\n")
	w.Close()
	wantOutput(t, <-done, `"ready\ngo on"`)
}

// endThreads makes n threads at once and ends them all.
func endThreads(n int) {
	var all, ended sync.WaitGroup
	all.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			all.Done()
			all.Wait()
		})
	}
	ended.Wait()
}
