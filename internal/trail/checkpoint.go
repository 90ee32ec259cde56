package trail

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Checkpoint is an open checkpoint whose header has been read. The caller closes it.
type Checkpoint struct {
	*store.CheckpointReader
	io.Closer
}

// OpenCheckpoint reads the header of a checkpoint. If that fails it closes the file and
// returns an error of kind Invalid that names the file.
func OpenCheckpoint(f io.ReadCloser, name string) (*Checkpoint, error) {
	r, err := store.ReadCheckpoint(bufio.NewReader(f))
	if err != nil {
		return nil, errors.Join(&pawl.Error{Kind: pawl.Invalid, Message: name + ": " + err.Error()}, f.Close())
	}
	return &Checkpoint{r, f}, nil
}

// Current opens a checkpoint of the present state of a store, in an unlinked temporary file.
func Current(ctx context.Context, s store.Store) (*Checkpoint, error) {
	f, err := os.CreateTemp("", "pawl-checkpoint-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	b := bufio.NewWriter(f)
	_, err = store.WriteCheckpoint(ctx, s, time.Now(), b, "")
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return OpenCheckpoint(f, f.Name())
}
