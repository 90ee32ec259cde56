package results

import (
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	maxReading = 8                // runs and lists that are read at once, and likewise what is in runs
	slow       = 10 * time.Second // how long a request waits for the file system without progress
)

// A progress records when a read last returned data. Its zero value says that none has.
type progress struct{ last atomic.Pointer[time.Time] }

// made notes progress.
func (p *progress) made() {
	now := time.Now()
	p.last.Store(&now)
}

// since returns for how long there was no progress, of a read that began at a time.
func (p *progress) since(begun time.Time) time.Duration {
	if last := p.last.Load(); last != nil {
		begun = *last
	}
	return time.Since(begun)
}

// inTime returns what read does, or an error of kind pawl.Unavailable if that makes no progress for too long, or
// there is no slot for it. It goes on then, and keeps its slot.
func inTime[T any](f *Folder, slots chan struct{}, read func(*progress) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	late := time.NewTimer(f.slow)
	defer late.Stop()
	hangs := &pawl.Error{Kind: pawl.Unavailable, Message: "the folder of load runs cannot be read in time", Hint: "its file system may hang"}
	select {
	case slots <- struct{}{}:
	case <-late.C:
		return none, hangs
	}
	begun, p, done := time.Now(), &progress{}, make(chan result, 1)
	go func() {
		defer func() { <-slots }()
		v, err := read(p)
		done <- result{v, err}
	}()
	late.Reset(f.slow)
	for {
		select {
		case r := <-done:
			return r.v, r.err
		case <-late.C:
		}
		left := f.slow - p.since(begun)
		if left <= 0 {
			return none, hangs
		}
		late.Reset(left)
	}
}
