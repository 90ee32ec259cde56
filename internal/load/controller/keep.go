package controller

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// maxKept is how many intervals wait for a slow disk: some for each of many agents.
const maxKept = 1024

// A keeper writes the intervals of agents into files as they come. What an agent has sent counts if
// its result does not come. One goroutine waits for the disk; add never does.
type keeper struct {
	dir   string
	begun func(agent int, file string) // called with each new file; nil: nothing is
	queue chan kept
	done  chan struct{}
	files map[int]*keptFile // of the goroutine, until done
}

// kept is an interval of an agent.
type kept struct {
	agent    int
	interval *loadpb.Interval
}

// A keptFile has the intervals of an agent.
type keptFile struct {
	*os.File
	size int64
	err  error // why the rest is missing
}

func newKeeper(dir string, begun func(agent int, file string)) *keeper {
	k := &keeper{dir: dir, begun: begun, queue: make(chan kept, maxKept), done: make(chan struct{}), files: map[int]*keptFile{}}
	go func() {
		defer close(k.done)
		for one := range k.queue {
			k.write(one)
		}
	}()
	return k
}

// add keeps an interval, and reports whether there was room for it.
func (k *keeper) add(agent int, i *loadpb.Interval) bool {
	select {
	case k.queue <- kept{agent, i}:
		return true
	default:
		return false
	}
}

func (k *keeper) write(one kept) {
	f := k.files[one.agent]
	if f == nil {
		f = &keptFile{}
		k.files[one.agent] = f
		f.File, f.err = os.OpenFile(filepath.Join(k.dir, fmt.Sprintf("%d.live", one.agent)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if f.err == nil && k.begun != nil {
			k.begun(one.agent, f.Name())
		}
	}
	if f.err == nil {
		f.err = f.add(one.interval)
	}
}

func (f *keptFile) add(i *loadpb.Interval) error {
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Interval{Interval: i}}); err != nil {
		return err
	}
	if f.size+int64(b.Len()) > spec.MaxResult {
		return fmt.Errorf("there are more than %d bytes", spec.MaxResult)
	}
	if _, err := f.Write(b.Bytes()); err != nil {
		_ = f.Truncate(f.size) // else its last record is torn, which the report says
		return err
	}
	f.size += int64(b.Len())
	return nil
}

// stop returns when all is written.
func (k *keeper) stop() {
	close(k.queue)
	<-k.done
	for _, f := range k.files {
		if f.File != nil {
			if err := f.Close(); f.err == nil {
				f.err = err
			}
		}
	}
}

// take returns the file of an agent, "" if nothing was kept, and why the rest is missing. It is for
// after stop.
func (k *keeper) take(agent int) (path string, err error) {
	f := k.files[agent]
	if f == nil {
		return "", nil
	}
	if f.size == 0 {
		return "", f.err
	}
	return f.Name(), f.err
}
