package process

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// maxRest bounds what is taken out of a pipe that somebody still writes to.
const maxRest = 1 << 20

// maxRead is the most that is taken at once.
const maxRead = 32 << 10

// pipes carry what a process prints. Their readers are bounded by finish, so a
// process that outlives its parent and keeps them open holds up nobody.
type pipes struct {
	stdout, stderr *pipe
}

// A pipe is one of them, with the goroutine that reads it. nil is none.
type pipe struct {
	r, w *os.File
	done chan struct{} // closed when the reader has ended
	cut  bool          // before its end; read after done
}

func openPipes(stdout, stderr io.Writer) (*pipes, error) {
	p := &pipes{}
	var err error
	if p.stdout, err = openPipe(stdout); err != nil {
		return nil, err
	}
	if p.stderr, err = openPipe(stderr); err != nil {
		p.stdout.started()
		p.stdout.finish()
		return nil, err
	}
	return p, nil
}

// openPipe makes a pipe whose reader hands what it reads to w.
func openPipe(w io.Writer) (*pipe, error) {
	if w == nil {
		return nil, nil
	}
	p := &pipe{done: make(chan struct{})}
	var err error
	if p.r, p.w, err = os.Pipe(); err != nil {
		return nil, err
	}
	go p.pump(w)
	return p, nil
}

// writer answers the end that a program gets.
func (p *pipe) writer() io.Writer {
	if p == nil {
		return nil
	}
	return p.w
}

// pump hands what is read to w, which never fails, until the other ends are
// closed or the deadline of finish has passed.
func (p *pipe) pump(w io.Writer) {
	defer close(p.done)
	buf := make([]byte, 1<<10) // most print little, and there may be thousands
	for {
		n, err := p.r.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.cut = !p.rest(w, buf)
		}
		if err != nil {
			return
		}
		if n == len(buf) && n < maxRead {
			buf = make([]byte, maxRead)
		}
	}
}

// rest hands on what is in the pipe already: a slow writer is no reason to lose
// it. It answers false if somebody may still write to the pipe.
func (p *pipe) rest(w io.Writer, buf []byte) (end bool) {
	_ = p.r.SetReadDeadline(time.Time{})
	raw, err := p.r.SyscallConn()
	for total := 0; err == nil && total < maxRest; {
		n, failed := 0, error(nil)
		err = raw.Read(func(fd uintptr) bool {
			n, failed = syscall.Read(int(fd), buf)
			return true // without waiting
		})
		switch {
		case failed == syscall.EINTR:
			continue
		case failed != nil || n <= 0:
			return failed == nil
		}
		total += n
		_, _ = w.Write(buf[:n])
	}
	return false
}

// started closes this process's writing end, once the child has its own.
func (p *pipe) started() {
	if p != nil {
		p.w.Close()
	}
}

// finish waits for the reader and answers false if somebody still holds the pipe open.
func (p *pipe) finish() bool {
	if p == nil {
		return true
	}
	<-p.done
	p.r.Close()
	return !p.cut
}

// started closes this process's writing ends.
func (p *pipes) started() {
	p.stdout.started()
	p.stderr.started()
}

// finish waits until both are read to their end, or for d, and ends the readers.
// It answers false if somebody still holds one open.
func (p *pipes) finish(d time.Duration) bool {
	deadline := time.Now().Add(d)
	for _, one := range []*pipe{p.stdout, p.stderr} {
		if one != nil {
			_ = one.r.SetReadDeadline(deadline)
		}
	}
	out, err := p.stdout.finish(), p.stderr.finish()
	return out && err
}
