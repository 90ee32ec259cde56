package worker

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// The streams of a Log.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Notes  = "pawl" // what Pawl itself says
)

// LogConfig configures a Log. Zero fields have the default.
type LogConfig struct {
	Step  pawl.StepKey
	Claim int

	Head  int           // bytes of each stream kept from its beginning, and shown live; default 512 KiB
	Tail  int           // bytes of each stream kept from its end, written at the end; default 512 KiB
	Chunk int           // bytes of the largest chunk, and how many waiting ones are written at once; default 64 KiB
	Every time.Duration // how long a byte waits to be written, at most; default 200 ms

	// Sink stores chunks. It is called by one goroutine, returns soon after its context
	// has ended, and must not keep the chunks. A batch that fails is passed again,
	// unchanged: step, claim, stream and offset identify a chunk that is stored
	// already. nil keeps nothing.
	Sink func(ctx context.Context, batch []pawl.Chunk) error

	// Tee gets all output as it comes, without limits, one call at a time. A Tee that
	// blocks delays the program that writes. nil is none.
	Tee func(stream string, p []byte)

	Now func() time.Time // default time.Now
}

func (c LogConfig) withDefaults() LogConfig {
	if c.Head <= 0 {
		c.Head = 512 << 10
	}
	if c.Tail <= 0 {
		c.Tail = 512 << 10
	}
	if c.Chunk <= 0 {
		c.Chunk = 64 << 10
	}
	if c.Every <= 0 {
		c.Every = 200 * time.Millisecond
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// A Log collects what one attempt prints, bounded (T8). Of each stream the head is
// written to the sink as it comes and the tail at the end; what lies between is
// dropped, and a chunk in its place says so. The sink never delays the writers, and its
// errors do not reach them: what waits for it is bounded by the heads.
//
// It may be written from several goroutines. A nil Log drops everything.
type Log struct {
	config LogConfig
	flush  flusher

	teeing sync.Mutex // held while Tee is called

	mu      sync.Mutex         // guards what follows
	streams map[string]*stream // nil until something is written
	pending queue
	last    int64 // the time of the last chunk
	closed  bool
}

// A stream is what was written to one stream of a log.
type stream struct {
	name string
	size int64 // bytes written
	tail ring  // of those past the head
}

// NewLog returns a Log, whose owner must Close it.
func NewLog(c LogConfig) *Log {
	l := &Log{config: c.withDefaults()}
	l.pending.limit = l.config.Chunk
	return l
}

// Stream returns the writer of a stream: Stdout, Stderr or Notes. Its Write
// never fails; what comes after Close is dropped.
func (l *Log) Stream(name string) io.Writer { return logWriter{l, name} }

// Notef adds a line of text from Pawl itself.
func (l *Log) Notef(format string, args ...any) {
	line := strings.TrimSuffix(fmt.Sprintf(format, args...), "\n") + "\n"
	l.write(Notes, []byte(line))
}

// closeEmpty closes the log if nothing was written that is to be kept, and
// reports whether.
func (l *Log) closeEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams != nil {
		return false
	}
	l.closed = true
	return true
}

// Close writes what is left, the tails included, and waits for the sink, at most
// until ctx ends. An error says how many bytes the sink did not take. Closing
// again does nothing.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	already := l.closed
	l.closed = true
	if !already {
		l.finish()
	}
	l.mu.Unlock()
	if already {
		return nil
	}
	return l.flush.stop(ctx)
}

type logWriter struct {
	log    *Log
	stream string
}

func (w logWriter) Write(p []byte) (int, error) {
	w.log.write(w.stream, p)
	return len(p), nil
}

func (l *Log) write(name string, p []byte) {
	if l == nil || len(p) == 0 {
		return
	}
	if l.config.Tee != nil {
		l.tee(name, p)
	}
	if l.config.Sink != nil {
		l.keep(name, p)
	}
}

func (l *Log) tee(name string, p []byte) {
	l.teeing.Lock()
	defer l.teeing.Unlock()
	l.config.Tee(name, p)
}

func (l *Log) keep(name string, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.flush.log == nil {
		l.flush.start(l)
	}
	s := l.stream(name)
	room := int(max(0, min(int64(l.config.Head)-s.size, int64(len(p)))))
	if room > 0 {
		l.pending.add(name, s.size, p[:room], l.stamp)
		l.flush.wake(l.pending.bytes >= l.config.Chunk)
	}
	_, _ = s.tail.Write(p[room:]) // never fails
	s.size += int64(len(p))
}

// finish queues the tails.
func (l *Log) finish() {
	for _, name := range []string{Stdout, Stderr, Notes} {
		if s := l.streams[name]; s != nil {
			l.addTail(s)
		}
	}
}

func (l *Log) addTail(s *stream) {
	tail := s.tail.bytes()
	from := s.size - int64(len(tail))
	head := min(s.size, int64(l.config.Head))
	if cut := from - head; cut > 0 {
		l.pending.putWhole(s.name, head, fmt.Appendf(nil, "\n... %s bytes cut ...\n", grouped(cut)), l.stamp)
	}
	l.pending.put(s.name, from, tail, l.stamp)
}

func (l *Log) stream(name string) *stream {
	s := l.streams[name]
	if s == nil {
		if l.streams == nil {
			l.streams = make(map[string]*stream)
		}
		s = &stream{name: name, tail: ring{limit: l.config.Tail}}
		l.streams[name] = s
	}
	return s
}

// stamp returns the time of a new chunk. No two are the same, so time alone gives their
// order.
func (l *Log) stamp() int64 {
	l.last = max(l.last+1, pawl.Micros(l.config.Now()))
	return l.last
}

// grouped writes n with a comma between thousands.
func grouped(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
