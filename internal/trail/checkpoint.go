package trail

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A checkpoint holds the ends of all trails at one time, as JSON lines that are kept outside
// the database: a header, then the leaves by kind and key, among them the anchors of
// retention. A comparison of two checkpoints shows what was removed from the database or put
// back in between (K6).

// MaxCheckpointLine bounds a line of a checkpoint, in bytes.
const MaxCheckpointLine = 64 << 10

const headPage = 1000

// anchorKind is the prefix of an anchor's kind; the kind that it counts follows.
const anchorKind = "anchor."

// WriteCheckpoint writes a checkpoint. The leaves pass through a temporary file in a folder,
// since the header has their digest. The anchors come first but are read last, so that they
// account for every entity that is missing from the leaves.
func WriteCheckpoint(ctx context.Context, s store.Store, at time.Time, w io.Writer, dir string) (*pawl.Checkpoint, error) {
	spool, err := os.CreateTemp(dir, "pawl-checkpoint-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	head := &header{Version: 1, At: pawl.Timestamp(pawl.Micros(at)), Kinds: make(map[string]int64)}
	buffer := bufio.NewWriter(spool)
	if err := head.entities(ctx, s, json.NewEncoder(buffer)); err != nil {
		return nil, err
	}
	if err := buffer.Flush(); err != nil {
		return nil, err
	}
	anchors, err := head.anchors(ctx, s)
	if err != nil {
		return nil, err
	}
	digest := sha256.New()
	digest.Write(anchors)
	if err := copySpool(digest, spool); err != nil {
		return nil, err
	}
	head.Digest = hex.EncodeToString(digest.Sum(nil))
	if err := json.NewEncoder(w).Encode(head); err != nil {
		return nil, err
	}
	if _, err := w.Write(anchors); err != nil {
		return nil, err
	}
	return (*pawl.Checkpoint)(head), copySpool(w, spool)
}

func copySpool(w io.Writer, spool *os.File) error {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, spool)
	return err
}

// A header is one in the making.
type header pawl.Checkpoint

func (h *header) entities(ctx context.Context, s store.Heads, to *json.Encoder) error {
	for _, kind := range []string{lifecycle.Job.Name, lifecycle.QueuePause.Name, lifecycle.Schedule.Name, lifecycle.Token.Name, lifecycle.Webhook.Name, lifecycle.Worker.Name} {
		for after := int64(-1 << 63); ; {
			page, err := s.Heads(ctx, kind, after, headPage)
			if err != nil {
				return err
			}
			for i := range page {
				if err := to.Encode(&page[i]); err != nil {
					return err
				}
				after = page[i].Key
			}
			h.Kinds[kind] += int64(len(page))
			h.Leaves += int64(len(page))
			if len(page) < headPage {
				break
			}
		}
	}
	return nil
}

func (h *header) anchors(ctx context.Context, s store.Retention) (lines []byte, err error) {
	anchors, err := s.Anchors(ctx)
	for i := range anchors {
		a := &anchors[i]
		l := store.Leaf{Kind: anchorKind + a.Kind, Key: a.Sequence, ID: fmt.Sprintf("anchor %d of %s", a.Sequence, a.Kind), Sequence: a.Sequence, Head: a.Hash,
			Removed: &store.Removals{Day: dayOf(a.Last), Count: a.Count}}
		line, err := json.Marshal(&l)
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, line...), '\n')
		h.Kinds[l.Kind]++
		h.Leaves++
	}
	return lines, err
}

func dayOf(key int64) string { return pawl.Time(store.Day(key)).Format(time.DateOnly) }

// A CheckpointReader reads a checkpoint line by line.
type CheckpointReader struct {
	Head pawl.Checkpoint

	lines  *bufio.Scanner
	digest interface {
		io.Writer
		Sum([]byte) []byte
	}
	n    int64
	last store.Leaf
}

// ReadCheckpoint reads the header of a checkpoint.
func ReadCheckpoint(r io.Reader) (*CheckpointReader, error) {
	c := &CheckpointReader{lines: bufio.NewScanner(r), digest: sha256.New()}
	c.lines.Buffer(nil, MaxCheckpointLine)
	if !c.lines.Scan() {
		return nil, errors.Join(pawl.Errorf(pawl.Invalid, "line 1: want the header of a checkpoint"), c.lines.Err())
	}
	if err := json.Unmarshal(c.lines.Bytes(), &c.Head); err != nil || c.Head.Version != 1 {
		return nil, pawl.Errorf(pawl.Invalid, "line 1: want the header of a checkpoint, of form 1")
	}
	return c, nil
}

// Next returns the next leaf, or nil after the last one. A line that is not a leaf, or that
// contradicts the header, is an error of kind Invalid.
func (c *CheckpointReader) Next() (*store.Leaf, error) {
	if !c.lines.Scan() {
		if err := c.lines.Err(); err != nil {
			return nil, pawl.Errorf(pawl.Invalid, "line %d: %v", c.n+2, err)
		}
		if c.n != c.Head.Leaves || hex.EncodeToString(c.digest.Sum(nil)) != c.Head.Digest {
			return nil, pawl.Errorf(pawl.Invalid, "its %d lines are not those that its header has the digest of", c.n)
		}
		return nil, nil
	}
	c.n++
	c.digest.Write(c.lines.Bytes())
	c.digest.Write([]byte{'\n'})
	var l store.Leaf
	if err := json.Unmarshal(c.lines.Bytes(), &l); err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "line %d: %v", c.n+1, err)
	}
	if c.n > 1 && compareLeaves(&l, &c.last) <= 0 {
		return nil, pawl.Errorf(pawl.Invalid, "line %d: %s comes after %s: want them by kind and key", c.n+1, l.ID, c.last.ID)
	}
	c.last = l
	return &l, nil
}

// compareLeaves orders leaves by kind and key.
func compareLeaves(l, o *store.Leaf) int {
	return cmp.Or(cmp.Compare(l.Kind, o.Kind), cmp.Compare(l.Key, o.Key))
}

// A Checkpoint is an open checkpoint whose header has been read. The caller closes it.
type Checkpoint struct {
	*CheckpointReader
	io.Closer
}

// OpenCheckpoint reads the header of a checkpoint. If that fails it closes the file and
// returns an error of kind Invalid that names the file.
func OpenCheckpoint(f io.ReadCloser, name string) (*Checkpoint, error) {
	r, err := ReadCheckpoint(bufio.NewReader(f))
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
	_, err = WriteCheckpoint(ctx, s, time.Now(), b, "")
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
