package process

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// maxDrain limits what is read from a pipe that another process may still write to.
const maxDrain = 1 << 20

// maxRead is the largest read.
const maxRead = 32 << 10

// pipes carry the output of a program. Their readers are bounded by finish, so a process
// that outlives the program and keeps them open blocks nothing.
type pipes struct {
	stdout, stderr *pipe
}

// A pipe is one of them, with the goroutine that reads it. nil means none.
type pipe struct {
	r, w *os.File
	done chan struct{} // closed when the reader has ended
	cut  bool          // it was not read to its end; read after done
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

// openPipe creates a pipe whose reader copies it to w.
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

// writer returns the end for the program.
func (p *pipe) writer() io.Writer {
	if p == nil {
		return nil
	}
	return p.w
}

// pump copies the pipe to w, which never fails, until all writers have closed it or the
// deadline of finish has passed.
func (p *pipe) pump(w io.Writer) {
	defer close(p.done)
	buf := make([]byte, 1<<10) // small: most programs print little, and there may be thousands
	for {
		n, err := p.r.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.cut = !p.drain(w, buf)
		}
		if err != nil {
			return
		}
		if n == len(buf) && n < maxRead {
			buf = make([]byte, maxRead)
		}
	}
}

// drain copies what is in the pipe already, so that a slow w does not lose it. It
// returns false if another process may still write to the pipe.
func (p *pipe) drain(w io.Writer, buf []byte) (end bool) {
	_ = p.r.SetReadDeadline(time.Time{})
	raw, err := p.r.SyscallConn()
	for total := 0; err == nil && total < maxDrain; {
		n, failed := 0, error(nil)
		err = raw.Read(func(fd uintptr) bool {
			n, failed = syscall.Read(int(fd), buf)
			return true // do not wait
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

// started closes this process's copy of the writing end, once the program has its own.
func (p *pipe) started() {
	if p != nil {
		p.w.Close()
	}
}

// finish waits for the reader, and returns false if another process still holds the pipe
// open.
func (p *pipe) finish() bool {
	if p == nil {
		return true
	}
	<-p.done
	p.r.Close()
	return !p.cut
}

// started closes this process's copies of the writing ends.
func (p *pipes) started() {
	p.stdout.started()
	p.stderr.started()
}

// finish waits until both pipes are read to their end, or for d, and ends the readers. It
// returns false if another process still holds one open.
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
