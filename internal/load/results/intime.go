package results

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	maxReading = 8                // runs and lists that are read at once, and likewise what is in runs, and runs that are ended
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
// there is no slot for it. It goes on then, and keeps its slot. A panic of it is an error of kind pawl.Internal.
func inTime[T any](f *Folder, slots chan struct{}, read func(*progress) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	late := time.NewTimer(f.slow)
	defer late.Stop()
	select {
	case slots <- struct{}{}:
	case <-late.C:
		return none, &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf("%d earlier reads of the folder of load runs have not ended", cap(slots)), Hint: "its file system may hang, or is slow"}
	}
	begun, p, done := time.Now(), &progress{}, make(chan result, 1)
	go func() {
		defer func() { <-slots }()
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = &pawl.Error{Kind: pawl.Internal, Message: "reading load runs has met a fault of the program", Err: fmt.Errorf("panic: %v", v)}
			}
			done <- r
		}()
		r.v, r.err = read(p)
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
			return none, &pawl.Error{Kind: pawl.Unavailable, Message: "the folder of load runs cannot be read in time", Hint: "its file system may hang"}
		}
		late.Reset(left)
	}
}
