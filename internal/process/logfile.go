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

// LogConfig says where a LogFile is kept.
type LogConfig struct {
	Path     string
	MaxSize  int64 // bytes of one file before it is set aside; 0: no limit
	MaxFiles int   // that are set aside, as Path.1 (the newest), Path.2 and so on; the oldest is removed
}

// A LogFile keeps what is written to it in a file. A Write neither fails nor waits
// for the disk to have room: what cannot be kept is counted, a line in the file says
// so as soon as there can be one, and every Write tries anew. The file never grows
// beyond MaxSize. If it was removed or set aside by somebody else, it is made again.
//
// A LogFile is safe for use from several goroutines. A path is for one at a time.
type LogFile struct {
	config LogConfig

	mu      sync.Mutex    // guards what follows
	file    *os.File      // nil: not open
	size    int64         // of file
	midLine bool          // what was written last does not end in a newline
	trouble error         // of the last Write
	lost    int64         // bytes, since the last one that was kept
	why     error         // the first of them was lost
	number  int           // of file, in the order of making
	found   bool          // aside says what was set aside before this process
	aside   []int         // the numbers of Path.1, Path.2, ...; 0: it does not exist
	changed chan struct{} // closed when there is more to read; nil: nobody waits
	closed  bool
	write   func(*os.File, []byte) (int, error)
}

// OpenLog returns a LogFile that goes on where an earlier one with this path has ended.
// The file is made when there is something to keep.
func OpenLog(c LogConfig) *LogFile {
	if c.MaxSize <= 0 {
		c.MaxSize = math.MaxInt64
	}
	return &LogFile{config: c, write: (*os.File).Write}
}

// earlier finds what was set aside before, once there is need of it: thousands of logs
// in one folder would each read all of it when they are opened.
func (l *LogFile) earlier() {
	if l.found {
		return
	}
	l.found = true
	for _, i := range asides(l.config.Path) {
		l.aside = append(l.aside, make([]int, i-len(l.aside))...)
		l.aside[i-1] = -i // older than the first one of this process
	}
}

// Err answers why what was written last could not be kept, or nil.
func (l *LogFile) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Close closes the file, and ends Follow. What is written later is discarded.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.shut()
	l.tell()
	return nil
}

// Write keeps p. It answers its length, and no error.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(p) == 0 {
		return len(p), nil
	}
	l.trouble = l.ready()
	rest := p
	for len(rest) > 0 && l.trouble == nil {
		var n int
		n, l.trouble = l.some(rest)
		rest = rest[n:]
	}
	if len(rest) > 0 && l.lost == 0 {
		l.why = l.trouble
	}
	l.lost += int64(len(rest))
	l.tell()
	return len(p), nil
}

// ready opens the file if need be, and notes what was lost.
func (l *LogFile) ready() error {
	if err := l.check(); err != nil {
		return err
	}
	if l.lost == 0 {
		return nil
	}
	note := fmt.Appendf(nil, "[pawl: %d bytes were not kept: %v]\n", l.lost, l.why)
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

// check sees to it that what is written goes to the file of that name.
func (l *LogFile) check() error {
	if l.file == nil {
		return l.open()
	}
	there, err := os.Stat(l.config.Path)
	own, ownErr := l.file.Stat()
	if err == nil && ownErr == nil && os.SameFile(there, own) {
		if own.Size() < l.size { // somebody has emptied it
			l.number++
		}
		l.size = own.Size()
		return nil
	}
	l.shut()
	return l.open()
}

// open opens the file, and its folder if there is none.
func (l *LogFile) open() error {
	// Not to wait for a reader, should it be a pipe.
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

func (l *LogFile) shut() {
	if l.file != nil {
		l.file.Close() // what it says does not bring anything back
		l.file = nil
	}
}

// some writes as much of p as fits into one file, up to the end of a line if there is one.
func (l *LogFile) some(p []byte) (int, error) {
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

// rotate sets the file aside and begins a new one. If it fails half way, the next
// one goes on with what there is.
func (l *LogFile) rotate() error {
	if l.config.MaxFiles <= 0 {
		if err := remove(l.config.Path); err != nil {
			return err
		}
		l.shut()
		return l.open()
	}
	gap, err := l.gap()
	if err != nil {
		return err
	}
	for i := gap; i > 0; i-- {
		if err := os.Rename(l.name(i-1), l.name(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if i == 1 {
			l.aside[0] = l.number
		} else {
			l.aside[i-1], l.aside[i-2] = l.aside[i-2], 0
		}
	}
	l.shut()
	return l.open()
}

// gap answers the first name that is free to set a file aside, and removes what is too old.
func (l *LogFile) gap() (int, error) {
	l.earlier()
	for i := len(l.aside); i > l.config.MaxFiles; i-- {
		if err := remove(l.name(i)); err != nil {
			return 0, err
		}
		l.aside = l.aside[:i-1]
	}
	if i := slices.Index(l.aside, 0); i >= 0 {
		return i + 1, nil
	}
	if len(l.aside) < l.config.MaxFiles {
		l.aside = append(l.aside, 0)
		return len(l.aside), nil
	}
	l.aside[len(l.aside)-1] = 0
	return len(l.aside), remove(l.name(len(l.aside)))
}

func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// name answers the name of the file set aside i-th, of the current one for 0.
func (l *LogFile) name(i int) string { return logName(l.config.Path, i) }

func logName(path string, i int) string {
	if i == 0 {
		return path
	}
	return path + "." + strconv.Itoa(i)
}

// asides answers which files of a path were set aside, the newest first.
func asides(path string) []int {
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

// tell wakes those who wait for more.
func (l *LogFile) tell() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
