package runner

import (
	"errors"
	"io"
	"os"
	"time"
)

// pipes carry what a process prints. Their readers are bounded by finish, so a
// process that outlives its parent and keeps them open holds up nobody.
type pipes struct {
	stdout, stderr *pipe
}

// A pipe is one of them, with the goroutine that reads it.
type pipe struct {
	r, w *os.File
	done chan struct{} // closed when the reader has ended
	cut  bool          // before its end; read after done
}

func openPipes(stdout, stderr io.Writer) (*pipes, error) {
	p := &pipes{}
	var err error
	if p.stdout, err = openPipe(); err != nil {
		return nil, err
	}
	if p.stderr, err = openPipe(); err != nil {
		p.stdout.r.Close()
		p.stdout.w.Close()
		return nil, err
	}
	go p.stdout.pump(stdout)
	go p.stderr.pump(stderr)
	return p, nil
}

func openPipe() (*pipe, error) {
	r, w, err := os.Pipe()
	return &pipe{r: r, w: w, done: make(chan struct{})}, err
}

// pump hands what is read to w, which never fails, until the other ends are
// closed or the deadline of finish has passed.
func (p *pipe) pump(w io.Writer) {
	defer close(p.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.r.Read(buf)
		_, _ = w.Write(buf[:n])
		if err != nil {
			p.cut = errors.Is(err, os.ErrDeadlineExceeded)
			return
		}
	}
}

// started closes this process's writing ends, once the child has its own.
func (p *pipes) started() {
	p.stdout.w.Close()
	p.stderr.w.Close()
}

// finish waits until both are read to their end, or for d, and ends the readers.
// It answers false if somebody still holds one open.
func (p *pipes) finish(d time.Duration) bool {
	deadline := time.Now().Add(d)
	_ = p.stdout.r.SetReadDeadline(deadline)
	_ = p.stderr.r.SetReadDeadline(deadline)
	<-p.stdout.done
	<-p.stderr.done
	p.stdout.r.Close()
	p.stderr.r.Close()
	return !p.stdout.cut && !p.stderr.cut
}
