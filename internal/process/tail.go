package process

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
)

// Tail writes the last n lines of the log at path, including its rotated files, oldest
// first; all lines if n is negative. A log that does not exist is empty. Another process
// may be writing it.
func Tail(w io.Writer, path string, n int) error {
	parts := openParts(path)
	defer closeParts(parts)
	if len(parts) == 0 {
		return nil
	}
	if err := seekTail(&parts, n); err != nil {
		return err
	}
	for _, f := range slices.Backward(parts) {
		if _, err := io.Copy(w, f); err != nil {
			return err
		}
	}
	return nil
}

// openParts opens the files of a log, newest first. One that is rotated meanwhile would be
// found again under its next name, and is left out.
func openParts(path string) []*os.File {
	var parts []*os.File
	var infos []os.FileInfo
	open := func(i int) {
		f, err := os.Open(logName(path, i))
		if err != nil {
			return
		}
		info, err := f.Stat()
		if err != nil || slices.ContainsFunc(infos, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			f.Close()
			return
		}
		parts, infos = append(parts, f), append(infos, info)
	}
	open(0)
	for _, i := range rotatedFiles(path) {
		open(i)
	}
	return parts
}

func closeParts(parts []*os.File) {
	for _, f := range parts {
		f.Close()
	}
}

// seekTail seeks the files to where the last n lines begin, and closes and removes those
// that are older.
func seekTail(parts *[]*os.File, n int) error {
	if n < 0 {
		return nil
	}
	c := &lineCounter{left: n}
	for i, f := range *parts {
		offset, err := c.back(f)
		if err != nil {
			return err
		}
		if offset >= 0 {
			closeParts((*parts)[i+1:])
			*parts = (*parts)[:i+1]
			_, err = f.Seek(offset, io.SeekStart)
			return err
		}
	}
	return nil
}

// A lineCounter counts lines backwards.
type lineCounter struct {
	left  int  // lines still to find
	begun bool // something was read
}

// back returns the offset in f of the first of the lines, or -1 if it is in an older file.
func (c *lineCounter) back(f *os.File) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for at := end; at > 0; {
		block := buf[:min(int64(len(buf)), at)]
		at -= int64(len(block))
		if _, err := f.ReadAt(block, at); err != nil {
			return 0, err
		}
		if i := c.find(block); i >= 0 {
			return at + int64(i), nil
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return -1, err
}

// find returns the index in the block of the first of the lines, or -1.
func (c *lineCounter) find(block []byte) int {
	end := len(block)
	if !c.begun {
		c.begun = true
		if c.left == 0 {
			return end
		}
		if block[end-1] == '\n' {
			end-- // of the last line
		}
	}
	for {
		end = bytes.LastIndexByte(block[:end], '\n')
		if end < 0 {
			return -1
		}
		if c.left--; c.left == 0 {
			return end + 1
		}
	}
}

// A contextReader reports io.EOF once its context has ended.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (b contextReader) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, io.EOF
	}
	return b.Reader.Read(p)
}
