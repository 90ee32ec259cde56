package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// LogConfig configures a LogFile.
type LogConfig struct {
	Path     string
	MaxSize  int64 // of one file, in bytes, before it is rotated; 0: no limit
	MaxFiles int   // rotated files that are kept, as Path.1 (the newest), Path.2 and so on
}

// A LogFile writes to a file and rotates it. A Write neither fails nor waits for space
// on the disk: what cannot be written is counted, a line in the file says so as soon as
// possible, and every Write tries again. The file never grows beyond MaxSize. If
// another program removed or renamed it, it is created again.
//
// A LogFile is safe for concurrent use. A path must have one LogFile at a time.
type LogFile struct {
	config LogConfig

	mu           sync.Mutex    // guards what follows
	file         *os.File      // nil: not open
	size         int64         // of file
	midLine      bool          // the last byte written is no newline
	err          error         // of the last Write
	lost         int64         // bytes not written since the last successful write
	lostErr      error         // why the first of them was lost
	number       int           // of file; increases with each new file
	rotatedKnown bool          // rotated includes the files of earlier processes
	rotated      []int         // the numbers of Path.1, Path.2, ...; 0: it does not exist
	changed      chan struct{} // closed when there is more to read; nil: no reader waits
	closed       bool
	write        func(*os.File, []byte) (int, error)
}

// OpenLog returns a LogFile that appends to the file at the path. The file is created by
// the first Write.
func OpenLog(c LogConfig) *LogFile {
	if c.MaxSize <= 0 {
		c.MaxSize = math.MaxInt64
	}
	return &LogFile{config: c, write: (*os.File).Write}
}

// findRotated finds the files that earlier processes rotated. It is called as late as
// possible: thousands of logs in one folder would each read the whole folder when opened.
func (l *LogFile) findRotated() {
	if l.rotatedKnown {
		return
	}
	l.rotatedKnown = true
	for _, i := range rotatedFiles(l.config.Path) {
		l.rotated = append(l.rotated, make([]int, i-len(l.rotated))...)
		l.rotated[i-1] = -i // older than the first one of this process
	}
}

// Err returns why the last Write could not be written, or nil.
func (l *LogFile) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close closes the file, and ends Follow. Later writes are discarded.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.closeFile()
	l.wakeReaders()
	return nil
}

// Write implements io.Writer. It never fails.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(p) == 0 {
		return len(p), nil
	}
	l.err = l.prepare()
	rest := p
	for len(rest) > 0 && l.err == nil {
		var n int
		n, l.err = l.writeSome(rest)
		rest = rest[n:]
	}
	if len(rest) > 0 && l.lost == 0 {
		l.lostErr = l.err
	}
	l.lost += int64(len(rest))
	l.wakeReaders()
	return len(p), nil
}

// prepare opens the file if need be, and writes the note about lost bytes.
func (l *LogFile) prepare() error {
	if err := l.check(); err != nil {
		return err
	}
	if l.lost == 0 {
		return nil
	}
	note := fmt.Appendf(nil, "[pawl: %d bytes were lost: %v]\n", l.lost, l.lostErr)
	if l.midLine {
		note = append([]byte("\n"), note...)
	}
	if int64(len(note)) > l.config.MaxSize-l.size && l.size > 0 {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	size, midLine := l.size, l.midLine
	if n, err := l.append(note); err != nil {
		if n > 0 && l.file.Truncate(size) == nil {
			l.size, l.midLine = size, midLine
		}
		return err
	}
	l.lost = 0
	return nil
}

// check makes sure that file is the one at the path.
func (l *LogFile) check() error {
	if l.file == nil {
		return l.open()
	}
	there, err := os.Stat(l.config.Path)
	own, ownErr := l.file.Stat()
	if err == nil && ownErr == nil && os.SameFile(there, own) {
		if own.Size() < l.size { // it was truncated
			l.number++
		}
		l.size = own.Size()
		return nil
	}
	l.closeFile()
	return l.open()
}

// open opens the file, and creates its folder if need be.
func (l *LogFile) open() error {
	// O_NONBLOCK: it may be a pipe without a reader.
	const flags = os.O_APPEND | os.O_CREATE | os.O_WRONLY | syscall.O_NONBLOCK
	file, err := os.OpenFile(l.config.Path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(l.config.Path), 0o700); err == nil {
			file, err = os.OpenFile(l.config.Path, flags, 0o600)
		}
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", l.config.Path)
	}
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	l.number++
	l.midLine = l.size > 0 && !endsLine(l.config.Path, l.size)
	return nil
}

func endsLine(path string, size int64) bool {
	file, err := os.Open(path)
	if err != nil {
		return true
	}
	defer file.Close()
	var last [1]byte
	_, err = file.ReadAt(last[:], size-1)
	return err != nil || last[0] == '\n'
}

func (l *LogFile) closeFile() {
	if l.file != nil {
		l.file.Close() // an error of Close recovers nothing
		l.file = nil
	}
}

// writeSome writes as much of p as fits into the file, up to the end of a line if there is
// one.
func (l *LogFile) writeSome(p []byte) (int, error) {
	room := max(l.config.MaxSize-l.size, 0)
	if int64(len(p)) > room {
		p = p[:room]
		if end := bytes.LastIndexByte(p, '\n'); end >= 0 {
			p = p[:end+1]
		} else if !l.midLine && l.size > 0 {
			p = nil // the line begins in the next file
		}
	}
	if len(p) == 0 {
		return 0, l.rotate()
	}
	return l.append(p)
}

func (l *LogFile) append(p []byte) (int, error) {
	n, err := l.write(l.file, p)
	l.size += int64(n)
	if n > 0 {
		l.midLine = p[n-1] != '\n'
	}
	return n, err
}

// rotate renames the file and opens a new one. If it fails half way, the next call
// continues from there.
func (l *LogFile) rotate() error {
	if l.config.MaxFiles <= 0 {
		if err := remove(l.config.Path); err != nil {
			return err
		}
		l.closeFile()
		return l.open()
	}
	slot, err := l.freeSlot()
	if err != nil {
		return err
	}
	for i := slot; i > 0; i-- {
		if err := os.Rename(l.name(i-1), l.name(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if i == 1 {
			l.rotated[0] = l.number
		} else {
			l.rotated[i-1], l.rotated[i-2] = l.rotated[i-2], 0
		}
	}
	l.closeFile()
	return l.open()
}

// freeSlot returns the lowest free index for a rotated file, and removes files beyond
// MaxFiles.
func (l *LogFile) freeSlot() (int, error) {
	l.findRotated()
	for i := len(l.rotated); i > l.config.MaxFiles; i-- {
		if err := remove(l.name(i)); err != nil {
			return 0, err
		}
		l.rotated = l.rotated[:i-1]
	}
	if i := slices.Index(l.rotated, 0); i >= 0 {
		return i + 1, nil
	}
	if len(l.rotated) < l.config.MaxFiles {
		l.rotated = append(l.rotated, 0)
		return len(l.rotated), nil
	}
	l.rotated[len(l.rotated)-1] = 0
	return len(l.rotated), remove(l.name(len(l.rotated)))
}

func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// name returns the path of the i-th rotated file, or of the current one for 0.
func (l *LogFile) name(i int) string { return logName(l.config.Path, i) }

func logName(path string, i int) string {
	if i == 0 {
		return path
	}
	return path + "." + strconv.Itoa(i)
}

// rotatedFiles returns the indexes of the rotated files of a path, newest first.
func rotatedFiles(path string) []int {
	var found []int
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		rest, ok := bytes.CutPrefix([]byte(e.Name()), []byte(filepath.Base(path)+"."))
		i, err := strconv.Atoi(string(rest))
		if ok && err == nil && i > 0 && strconv.Itoa(i) == string(rest) {
			found = append(found, i)
		}
	}
	slices.Sort(found)
	return found
}

// wakeReaders wakes the calls of Follow that wait for more.
func (l *LogFile) wakeReaders() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
