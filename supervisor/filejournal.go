package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawl-dev/pawl/audit"
)

// A FileJournal keeps trails in one file, as exported lines of package audit: an
// entry is on the disk before Append returns, and audit.VerifyLines checks the
// file. Entries that come at the same time share a sync. It is for one process at a
// time: where the system has flock the file is locked until Close. It only grows.
type FileJournal struct {
	file *os.File

	mu      sync.Mutex
	last    map[string]audit.Entry
	gathers *batch // or nil
	writes  *batch // or nil
	broken  error
	free    *sync.Cond // nobody writes
}

// A batch is what one sync brings to the disk.
type batch struct {
	text bytes.Buffer
	done chan struct{}
	err  error
}

// OpenFileJournal opens a journal, or makes one, and checks it. A last line without
// an end, which a crash has left, is cut off; any other damage is an error that
// names the line. So is a journal that is open already.
func OpenFileJournal(path string) (*FileJournal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &FileJournal{file: file, last: make(map[string]audit.Entry)}
	j.free = sync.NewCond(&j.mu)
	if err = lock(file); err == nil {
		err = j.read()
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path)) // which may be the first to hear of the file
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, nil
}

func (j *FileJournal) read() error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if _, err := audit.VerifyLines(bytes.NewReader(whole)); err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(whole))
	lines.Buffer(nil, audit.MaxLine)
	for lines.Scan() {
		var e audit.Entry
		if err := e.UnmarshalJSON(lines.Bytes()); err != nil {
			return err
		}
		j.last[e.Entity] = e
	}
	if err := j.file.Truncate(int64(len(whole))); err != nil {
		return err
	}
	_, err = j.file.Seek(int64(len(whole)), io.SeekStart)
	return err
}

// Last implements Journal.
func (j *FileJournal) Last(_ context.Context, entity string) (audit.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last[entity], j.broken
}

// Append implements Journal. After a write has failed nobody knows what the disk
// has, and every call answers that error: open the journal anew.
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
	if j.broken != nil {
		return nil, j.broken
	}
	known, err := follows(j.last[e.Entity], e)
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
	j.last[e.Entity] = e
	if first {
		j.flush()
	}
	return b, nil
}

// flush brings the batch to the disk. It is called with the lock, which it gives up
// meanwhile.
func (j *FileJournal) flush() {
	for j.writes != nil {
		j.free.Wait()
	}
	b := j.gathers
	j.gathers, j.writes = nil, b
	err := j.broken
	if err == nil {
		j.mu.Unlock()
		err = j.write(b)
		j.mu.Lock()
	}
	j.writes, j.broken, b.err = nil, err, err
	j.free.Signal()
	close(b.done)
}

func (j *FileJournal) write(b *batch) error {
	if _, err := j.file.Write(b.text.Bytes()); err != nil {
		return err
	}
	return j.file.Sync()
}

// Close closes the file. Entries must not be under way.
func (j *FileJournal) Close() error { return j.file.Close() }
