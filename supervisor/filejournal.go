package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawl-dev/pawl/audit"
)

// A FileJournal keeps trails in one file, as exported lines of package audit: an
// entry is on the disk before Append returns, and audit.VerifyCut checks the file.
// Entries that come at the same time share a sync. It is for one process at a time:
// where the system has flock the file is locked until Close.
//
// It lets go of what is older than [Keep] says, and so has at most twice as many
// entries as that: when it is opened, and when it has grown, it is written anew
// beside itself, synced, and put in its own place. What is left proves that it is as it was
// written, without a gap; where a trail was cut off, an [audit.Cut] has the hash of
// the last entry that is gone, by which a copy that was made before still shows that
// it is the same trail. Of lives that are gone nothing is left but the number of the
// next.
//
// An entry that cannot be written is an error, and leaves the journal as it was: on a
// disk that was full it goes on once there is room.
type FileJournal struct {
	path string // without links
	keep Keep

	mu      sync.Mutex
	trails  map[string]*filed // by entity
	lives   map[string]*lives // by the id of the service
	entries int               // on the disk
	weighed int               // of them that are to be kept, when that was last counted
	gathers *batch            // or nil
	writes  *batch            // or nil: then nobody has the right to write
	free    *sync.Cond        // somebody may write, or a batch has failed

	// Of who writes. The file is replaced with the lock.
	file    *os.File
	end     int64 // of what is on the disk for sure
	torn    bool  // something may be beyond it
	unnamed bool  // the folder may not know the file yet
}

// A filed is a trail in the file.
type filed struct {
	cut   *audit.Cut // or nil
	spans []span     // of its entries that are on the disk
	last  audit.Entry
}

// A span is where a line is, without its end.
type span struct{ at, size int64 }

type lives struct{ first, last int }

// A batch is what one sync brings to the disk.
type batch struct {
	text  bytes.Buffer
	parts []part
	done  chan struct{}
	err   error
}

// A part is an entry of a batch.
type part struct {
	trail  *filed
	size   int64
	before audit.Entry
}

// OpenFileJournal opens a journal, or makes one, and checks it. A last line without
// an end, which a crash has left, is cut off; any other damage is an error that
// names the line, and is left as it is. So is a journal that is open already.
func OpenFileJournal(path string) (*FileJournal, error) { return OpenFileJournalKeeping(path, Keep{}) }

// OpenFileJournalKeeping is OpenFileJournal, where more or less is kept than by
// default.
func OpenFileJournalKeeping(path string, keep Keep) (*FileJournal, error) {
	if err := keep.validate(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &FileJournal{path: path, keep: keep.withDefaults(), file: file, trails: make(map[string]*filed), lives: make(map[string]*lives)}
	j.free = sync.NewCond(&j.mu)
	if err := j.open(); err != nil {
		_ = shut(file)
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, nil
}

func (j *FileJournal) open() (err error) {
	if j.path, err = filepath.EvalSymlinks(j.path); err != nil {
		return err
	}
	if err := j.own(); err != nil {
		return err
	}
	if err := j.read(); err != nil {
		return err
	}
	_ = os.Remove(j.path + ".new") // of a process that died while it wrote the file anew
	j.unnamed, j.torn = true, true // this may be the first to hear of the file, and the last line may have no end
	if err := j.mend(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shrink()
	return nil
}

// own locks the file, if it is still the one of that name: it may have been replaced
// between its opening and its locking.
func (j *FileJournal) own() error {
	if err := lock(j.file); err != nil {
		return err
	}
	mine, err := j.file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(j.path)
	if err == nil && !os.SameFile(mine, named) {
		err = errInUse
	}
	return err
}

var errInUse = errors.New("it is in use, or cannot be locked: want one process at a time")

func (j *FileJournal) read() error {
	text, err := os.ReadFile(j.path)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	_, err = audit.VerifyCut(bytes.NewReader(whole), func(c *audit.Cut, e *audit.Entry, size int) {
		if c != nil {
			j.trail(c.Entity).cut = c
		} else {
			t := j.trail(e.Entity)
			t.spans, t.last = append(t.spans, span{j.end, int64(size)}), *e
			j.entries++
		}
		j.end += int64(size) + 1
	})
	if err != nil {
		return fmt.Errorf("%w: the file was changed or is damaged, and stays as it is: put back a copy of it, or move it away and begin without history", err)
	}
	return nil
}

// trail answers the trail of an entity, which may be empty.
func (j *FileJournal) trail(entity string) *filed {
	t := j.trails[entity]
	if t == nil {
		t = &filed{}
		j.trails[entity] = t
		id, life := lifeOf(entity)
		if l := j.lives[id]; l == nil {
			j.lives[id] = &lives{life, life}
		} else {
			l.first, l.last = min(l.first, life), max(l.last, life)
		}
	}
	return t
}

// Last implements Journal.
func (j *FileJournal) Last(_ context.Context, entity string) (audit.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t := j.trails[entity]; t != nil {
		return t.last, nil
	}
	return audit.Entry{}, nil
}

// Append implements Journal.
func (j *FileJournal) Append(_ context.Context, e audit.Entry) error {
	b, err := j.join(e)
	if b == nil {
		return err
	}
	<-b.done
	return b.err
}

// join puts an entry into the batch that gathers, or answers the one that has it.
// The first of a batch brings it to the disk, when the batch before it is there.
func (j *FileJournal) join(e audit.Entry) (*batch, error) {
	var line bytes.Buffer
	if err := audit.WriteLines(&line, []audit.Entry{e}); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.trail(e.Entity)
	known, err := follows(t.last, e)
	switch {
	case err != nil:
		return nil, err
	case known && j.gathers == nil:
		return j.writes, nil
	case known:
		return j.gathers, nil
	}
	first := j.gathers == nil
	if first {
		j.gathers = &batch{done: make(chan struct{})}
	}
	b := j.gathers
	b.text.Write(line.Bytes())
	b.parts = append(b.parts, part{t, int64(line.Len()) - 1, t.last})
	t.last = e
	if first {
		j.flush(b)
	}
	return b, nil
}

// flush brings a batch to the disk. It is called with the lock, which it gives up
// meanwhile.
func (j *FileJournal) flush(b *batch) {
	for j.writes != nil && j.gathers == b {
		j.free.Wait()
	}
	if j.gathers != b { // it has failed with the one before it
		return
	}
	j.gathers, j.writes = nil, b
	j.mu.Unlock()
	err := j.write(b)
	j.mu.Lock()
	if err == nil {
		j.wrote(b)
		close(b.done)
		j.shrink()
	} else {
		j.failed(j.gathers, err) // which may follow entries of this one
		j.failed(b, err)
		j.gathers = nil
	}
	j.writes = nil
	j.free.Broadcast()
}

// write is called without the lock, by who has the right to write.
func (j *FileJournal) write(b *batch) error {
	if err := j.mend(); err != nil {
		return err
	}
	j.torn = true
	if _, err := j.file.WriteAt(b.text.Bytes(), j.end); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.torn = false
	return nil
}

// mend cuts off what a write has left that failed, so that nothing of it is believed.
func (j *FileJournal) mend() error {
	if j.torn {
		if err := j.file.Truncate(j.end); err != nil {
			return err
		}
		j.torn = false
	}
	if j.unnamed {
		if err := syncFolder(filepath.Dir(j.path)); err != nil {
			return err
		}
		j.unnamed = false
	}
	return nil
}

// wrote notes where the entries of a batch are. It is called with the lock.
func (j *FileJournal) wrote(b *batch) {
	for _, p := range b.parts {
		p.trail.spans = append(p.trail.spans, span{j.end, p.size})
		j.end += p.size + 1
	}
	j.entries += len(b.parts)
}

// failed takes the entries of a batch back. It is called with the lock.
func (j *FileJournal) failed(b *batch, err error) {
	if b == nil {
		return
	}
	for i := len(b.parts) - 1; i >= 0; i-- {
		b.parts[i].trail.last = b.parts[i].before
	}
	b.err = err
	close(b.done)
}

// Close closes the file. Entries must not be under way.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.writes != nil { // it may still be written anew
		j.free.Wait()
	}
	return shut(j.file)
}
