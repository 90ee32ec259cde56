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

// A FileJournal keeps trails in one file, as exported lines of package audit: an entry is
// on the disk before Append returns, and audit.VerifyCut checks the file. Concurrent
// Appends share a sync. One process at a time can use it: where the system has flock, the
// file is locked until Close.
//
// It deletes what is older than [Keep] says, and so has at most twice that many entries:
// when it is opened or has grown, it writes the kept entries to a new file, syncs it, and
// renames it over the old one. The kept entries still prove that they are unchanged and
// without a gap. Where a trail was cut off, an [audit.Cut] holds the hash of the last
// deleted entry, by which an earlier copy still proves to be the same trail. Of deleted
// lives only the number of the next one is left.
//
// An entry that cannot be written is an error, and leaves the journal as it was: after
// a full disk it continues once there is space.
type FileJournal struct {
	path string // without symbolic links
	keep Keep

	mu        sync.Mutex
	trails    map[string]*fileTrail // by entity
	lives     map[string]*lives     // by the id of the service
	entries   int                   // on the disk
	needed    int                   // of them that Keep keeps, when that was last counted
	gathering *batch                // or nil
	writing   *batch                // the batch that is being written, or nil
	free      *sync.Cond            // writing is nil again, or a batch has failed

	// Used by the goroutine that writes. file is replaced with mu held.
	file         *os.File
	end          int64 // of what is synced
	torn         bool  // there may be an incomplete write after end
	unsyncedName bool  // the folder was not synced since the file was created
}

// A fileTrail is a trail in the file.
type fileTrail struct {
	cut   *audit.Cut // or nil
	spans []span     // of its entries that are on the disk
	last  audit.Entry
}

// A span is the position of a line, without its newline.
type span struct{ at, size int64 }

type lives struct{ first, last int }

// A batch is the entries of one sync.
type batch struct {
	text  bytes.Buffer
	parts []part
	done  chan struct{}
	err   error
}

// A part is an entry of a batch.
type part struct {
	trail  *fileTrail
	size   int64
	before audit.Entry
}

// OpenFileJournal opens or creates a journal, and checks it. An incomplete last line,
// which a crash has left, is cut off; any other damage is an error that names the line,
// and the file is left as it is. A journal that is open already is an error, too.
func OpenFileJournal(path string) (*FileJournal, error) { return OpenFileJournalKeeping(path, Keep{}) }

// OpenFileJournalKeeping is OpenFileJournal with another Keep than the default.
func OpenFileJournalKeeping(path string, keep Keep) (*FileJournal, error) {
	if err := keep.validate(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &FileJournal{path: path, keep: keep.withDefaults(), file: file, trails: make(map[string]*fileTrail), lives: make(map[string]*lives)}
	j.free = sync.NewCond(&j.mu)
	if err := j.open(); err != nil {
		_ = unlockAndClose(file)
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, nil
}

func (j *FileJournal) open() (err error) {
	if j.path, err = filepath.EvalSymlinks(j.path); err != nil {
		return err
	}
	if err := j.lockFile(); err != nil {
		return err
	}
	if err := j.read(); err != nil {
		return err
	}
	_ = os.Remove(j.path + ".new")      // left by a process that died while it rewrote the file
	j.unsyncedName, j.torn = true, true // the file may be new, and its last line incomplete
	if err := j.repair(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shrink()
	return nil
}

// lockFile locks the file, and checks that the path still names it: it may have been
// replaced between opening and locking.
func (j *FileJournal) lockFile() error {
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
		return fmt.Errorf("%w: the file was changed or is damaged, and is left as it is: restore a copy of it, or move it away to begin without history", err)
	}
	return nil
}

// trail returns the trail of an entity, which may be empty.
func (j *FileJournal) trail(entity string) *fileTrail {
	t := j.trails[entity]
	if t == nil {
		t = &fileTrail{}
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

// join puts an entry into the batch that is being gathered, or returns the batch that has
// it. The first of a batch writes it, once the batch before it is written.
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
	case known && j.gathering == nil:
		return j.writing, nil
	case known:
		return j.gathering, nil
	}
	first := j.gathering == nil
	if first {
		j.gathering = &batch{done: make(chan struct{})}
	}
	b := j.gathering
	b.text.Write(line.Bytes())
	b.parts = append(b.parts, part{t, int64(line.Len()) - 1, t.last})
	t.last = e
	if first {
		j.flush(b)
	}
	return b, nil
}

// flush writes a batch. It is called with mu held, and releases it meanwhile.
func (j *FileJournal) flush(b *batch) {
	for j.writing != nil && j.gathering == b {
		j.free.Wait()
	}
	if j.gathering != b { // it has failed with the batch before it
		return
	}
	j.gathering, j.writing = nil, b
	j.mu.Unlock()
	err := j.write(b)
	j.mu.Lock()
	if err == nil {
		j.written(b)
		close(b.done)
		j.shrink()
	} else {
		j.failed(j.gathering, err) // its entries may follow entries of this one
		j.failed(b, err)
		j.gathering = nil
	}
	j.writing = nil
	j.free.Broadcast()
}

// write is called without mu, by the goroutine that writes.
func (j *FileJournal) write(b *batch) error {
	if err := j.repair(); err != nil {
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

// repair cuts off the rest of a write that failed.
func (j *FileJournal) repair() error {
	if j.torn {
		if err := j.file.Truncate(j.end); err != nil {
			return err
		}
		j.torn = false
	}
	if j.unsyncedName {
		if err := syncFolder(filepath.Dir(j.path)); err != nil {
			return err
		}
		j.unsyncedName = false
	}
	return nil
}

// written records the positions of a batch's entries. It is called with mu held.
func (j *FileJournal) written(b *batch) {
	for _, p := range b.parts {
		p.trail.spans = append(p.trail.spans, span{j.end, p.size})
		j.end += p.size + 1
	}
	j.entries += len(b.parts)
}

// failed takes back the entries of a batch. It is called with mu held.
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

// Close closes the file. It must not be called during an Append.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.writing != nil { // it may still be being rewritten
		j.free.Wait()
	}
	return unlockAndClose(j.file)
}
