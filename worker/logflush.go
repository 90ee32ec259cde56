package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// Limits of writing to a sink.
const (
	batchChunks = 4 // chunks of full size in one call
	lastTries   = 3 // of a batch once the log is closed; before that there is no limit
)

// A flusher is the goroutine that passes the chunks of a log to its sink.
type flusher struct {
	log     *Log
	kick    chan struct{} // something waits
	full    chan struct{} // a chunk's worth waits
	closing chan struct{}
	done    chan struct{}
	cancel  context.CancelFunc

	// Of the goroutine; to be read after done.
	lost int64       // bytes that were given up
	err  error       // why
	mark *pawl.Chunk // says what was lost; nil if nothing was, or if it was written
}

// start starts the goroutine. It is called with the first byte, since most steps print
// nothing.
func (f *flusher) start(l *Log) {
	f.log = l
	f.kick, f.full = make(chan struct{}, 1), make(chan struct{}, 1)
	f.closing, f.done = make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.run(ctx)
}

// wake signals that something waits to be written. It never blocks.
func (f *flusher) wake(full bool) {
	poke(f.kick)
	if full {
		poke(f.full)
	}
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// stop writes the rest, and waits for the goroutine to end.
func (f *flusher) stop(ctx context.Context) error {
	if f.log == nil {
		return nil // never started
	}
	defer f.cancel()
	defer context.AfterFunc(ctx, f.cancel)()
	close(f.closing)
	<-f.done
	if f.lost > 0 {
		return fmt.Errorf("%s bytes of log lost: %w", grouped(f.lost), f.err)
	}
	return nil
}

func (f *flusher) run(ctx context.Context) {
	defer close(f.done)
	for more := true; more; {
		more = f.wait()
		for batch := f.batch(); len(batch) > 0; batch = f.batch() {
			f.write(ctx, batch)
		}
	}
}

// wait returns when it is time to write: a chunk's worth waits, or something has waited
// for Every. It returns false when the log is closed.
func (f *flusher) wait() bool {
	select {
	case <-f.kick:
	case <-f.closing:
		return false
	}
	timer := time.NewTimer(f.log.config.Every)
	defer timer.Stop()
	select {
	case <-f.full:
	case <-timer.C:
	case <-f.closing:
		return false
	}
	return true
}

// write passes a batch to the sink, unchanged, until it is accepted; once the log is
// closed, at most lastTries times.
func (f *flusher) write(ctx context.Context, batch []pawl.Chunk) {
	offer := batch
	if f.mark != nil {
		offer = append([]pawl.Chunk{*f.mark}, batch...)
	}
	for tries := lastTries; tries > 0; {
		err := f.log.config.Sink(ctx, offer)
		if err == nil {
			f.mark = nil
			return
		}
		f.err = err
		if f.closed() {
			tries--
		}
		if tries > 0 {
			f.rest(ctx)
		}
	}
	f.giveUp(batch)
}

func (f *flusher) closed() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// rest waits for Every, or until ctx ends.
func (f *flusher) rest(ctx context.Context) {
	timer := time.NewTimer(f.log.config.Every)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// giveUp drops a batch. The mark, in the place of the first chunk that was lost, is
// written with the next batch.
func (f *flusher) giveUp(batch []pawl.Chunk) {
	for _, c := range batch {
		f.lost += int64(len(c.Data))
	}
	if f.mark == nil {
		first := batch[0]
		f.mark = &first
	}
	f.mark.Data = fmt.Appendf(nil, "\n... %s bytes lost ...\n", grouped(f.lost))
}

// batch takes what is to be written next.
func (f *flusher) batch() []pawl.Chunk {
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.pending.take(batchChunks * l.config.Chunk)
	for i := range batch {
		batch[i].StepKey, batch[i].Claim = l.config.Step, l.config.Claim
	}
	return batch
}
