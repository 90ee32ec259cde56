package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Append adds a line, which must end with a line feed, in one write, and returns its place. The
// caller holds the lock of the file and has called Mend. If it fails, the line is taken back;
// if even that fails, Mend will.
func (d Disk) Append(path string, line []byte) (at int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	created := errors.Is(err, fs.ErrNotExist)
	if created {
		err = d.do(OpCreate, path, func() (err error) {
			f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if at, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	err = d.do(OpAppend, path, func() error { _, err := f.Write(line); return err })
	if err == nil {
		err = d.do(OpSync, path, f.Sync)
	}
	if err == nil && created {
		err = d.do(OpSyncDir, filepath.Dir(path), func() error { return syncDir(filepath.Dir(path)) })
	}
	if err != nil {
		return 0, errors.Join(err, d.cut(f, path, at))
	}
	return at, nil
}

// TakeBack removes the lines of a file from a place on. The caller holds its lock.
func (d Disk) TakeBack(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return d.cut(f, path, at)
}

func (d Disk) cut(f *os.File, path string, at int64) error {
	if err := d.do(OpTruncate, path, func() error { return f.Truncate(at) }); err != nil {
		return err
	}
	return d.do(OpSync, path, f.Sync)
}

// Mend cuts off an incomplete last line, which the death of its writer left, and keeps it in a
// file of its own beside this one, with .torn- and its place in the name. The caller holds the lock of the file. It returns what it cut
// off, nil if nothing.
func (d Disk) Mend(path string) (torn []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return nil, err
	}
	tail, err := lastLines(f, size, 0)
	if err != nil || len(tail) == 0 {
		return nil, err
	}
	if err := d.Publish(fmt.Sprintf("%s.torn-%d", path, size-int64(len(tail))), tail); err != nil {
		return nil, err
	}
	return tail, d.cut(f, path, size-int64(len(tail)))
}

// LastLine returns the last complete line of a file, with its line feed, and its place. A file
// that is empty or missing has none. What follows the last line feed is ignored.
func LastLine(path string) (line []byte, at int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, err
	}
	text, err := lastLines(f, size, 1)
	if err != nil {
		return nil, 0, err
	}
	at = size - int64(len(text))
	return text[:bytes.LastIndexByte(text, '\n')+1], at, nil
}

// lastLines returns the end of a file: its last complete lines, as many as asked for, and what
// follows them.
func lastLines(f io.ReaderAt, size int64, complete int) ([]byte, error) {
	for chunk := int64(4 << 10); ; chunk *= 4 {
		at := max(0, size-chunk)
		text := make([]byte, size-at)
		if _, err := f.ReadAt(text, at); err != nil && err != io.EOF {
			return nil, err
		}
		begin := len(text)
		for range complete + 1 {
			if begin = bytes.LastIndexByte(text[:begin], '\n'); begin < 0 {
				break
			}
		}
		if begin >= 0 || at == 0 {
			return text[begin+1:], nil
		}
	}
}
