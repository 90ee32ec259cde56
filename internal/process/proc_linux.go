package process

import (
	"bytes"
	"iter"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A stat is the part of /proc/PID/stat that is needed.
type stat struct {
	pid, parent, group int
	state              byte
	born               uint64 // start time, in clock ticks since boot
}

// runs reports whether the process runs; a zombie does not.
func (s stat) runs() bool { return s.state != 'Z' && s.state != 'X' }

// stillRuns reports whether the same process runs now.
func (s stat) stillRuns() bool {
	now, ok := statOf(s.pid)
	return ok && now.born == s.born && now.runs()
}

// stats iterates over the processes that this one can see.
func stats() iter.Seq[stat] {
	return func(yield func(stat) bool) {
		var f procFile
		for pid := range pids() {
			s, ok := f.stat(pid)
			if ok && !yield(s) {
				return
			}
		}
	}
}

// pids iterates over all pids. It reads /proc in chunks, since there may be many.
func pids() iter.Seq[int] {
	return func(yield func(int) bool) {
		walks.Add(1)
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(256)
			for _, name := range names {
				pid, notNumber := strconv.Atoi(name)
				if notNumber == nil && !yield(pid) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

// statOf returns false if there is no such process.
func statOf(pid int) (stat, bool) { return new(procFile).stat(pid) }

// A procFile reads files of /proc into one buffer, one after another: that is most of the
// cost of a walk. The zero value is ready.
type procFile struct{ buf []byte }

// read returns the contents of a file, valid until the next call, or nil if it cannot be
// read.
func (f *procFile) read(pid int, name string) []byte {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	if f.buf == nil {
		f.buf = make([]byte, 8<<10)
	}
	for size := 0; ; {
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, f.buf[size:]) })
		if err != nil {
			return nil
		}
		if size += n; n == 0 {
			return f.buf[:size]
		}
		if size == len(f.buf) {
			f.buf = append(f.buf, make([]byte, size)...)
		}
	}
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}

func (f *procFile) stat(pid int) (stat, bool) {
	text := f.read(pid, "stat")
	end := bytes.LastIndexByte(text, ')') // the name of the program may hold anything
	if end < 0 {
		return stat{}, false
	}
	s, at := stat{pid: pid}, 0
	for field := range bytes.FieldsSeq(text[end+1:]) {
		switch at++; at {
		case 1:
			s.state = field[0]
		case 2:
			s.parent, _ = strconv.Atoi(string(field))
		case 3:
			s.group, _ = strconv.Atoi(string(field))
		case 20:
			born, err := strconv.ParseUint(string(field), 10, 64)
			s.born = born
			return s, err == nil
		}
	}
	return stat{}, false
}
