//go:build linux

package workload

import (
	"fmt"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// Numbers of errors that are not the system's.
const (
	errLimit  = syscall.Errno(0x10000 + iota) // of the agent
	errVerify                                 // what was read is not what belongs there
	errRemote                                 // of an object store; objects.err says which
)

// hands are what a thread issues operations with. Nothing here allocates.
type hands struct {
	layout   *layout
	direct   int // alignment; 0 if buffered
	dsync    int // O_DSYNC or 0
	syncCall uintptr
	leaves   [][]int32 // by set: open folders; nil if they are too many
	opened   [][]int32 // by set: open files; nil if they are too many, or change
	appends  [][]int32 // by set: the same for appending
	contents []*content
	pools    []pool
	cursors  []cursor // by operation
	buffer   []byte   // for reading
	rides    [][]byte // for the operations in a ring
	memory   []byte   // that both are in, if there is no object store
	name     []byte   // of a file, ended by 0
	other    []byte   // the name after a rename
	how      unix.OpenHow
	info     unix.Statx_t
	fresh    uint64 // numbers blocks that are not to be verified
	check    check
	flights  *flights // nil without a ring
	objects  *objects // nil without an object store
}

// A check is a comparison that waits until the operation was timed.
type check struct {
	pending bool
	set     int
	file    uint64
	offset  int64
	got     []byte // as far as something was written
	short   bool   // the file ends before that
	err     error
}

// expect notes what an operation has read of a file, of which n bytes were wanted.
func (c *check) expect(at int, f target, offset, n int64, got []byte) {
	want := int(min(n, max(f.size-offset, 0)))
	*c = check{pending: true, set: at, file: f.content, offset: offset, got: got[:min(len(got), want)], short: len(got) < want}
}

// A target is the file of an operation.
type target struct {
	fd      int
	close   bool
	content uint64
	size    int64
}

// issue runs an operation; n is how many bytes were read or written.
func (t *thread) issue(o *operation) (n int64, errno syscall.Errno) {
	if t.objects != nil {
		return t.request(o)
	}
	switch o.kind {
	case spec.Read:
		return t.read(o)
	case spec.Write:
		return t.write(o)
	case spec.Append:
		return t.append(o)
	case spec.Create:
		return t.create(o)
	case spec.Stat:
		return 0, t.stat(o)
	case spec.List:
		return 0, t.list(o)
	case spec.Delete:
		return 0, t.delete(o)
	case spec.Mkdir:
		return 0, t.mkdir(o)
	case spec.Rename:
		return 0, t.rename(o)
	}
	return 0, t.fsync(o)
}

func (t *thread) read(o *operation) (int64, syscall.Errno) {
	file, spot := t.pick(o)
	f, errno := t.open(o, file, unix.O_RDONLY|t.directFlag(), t.opened[o.setAt])
	if errno != 0 {
		return 0, errno
	}
	offset, n := t.place(o, spot, f.size)
	got, errno := pread(f.fd, t.buffer[:n], offset)
	t.done(f)
	if t.verifies {
		t.check.expect(o.setAt, f, offset, n, t.buffer[:got])
	}
	if errno == 0 {
		n = int64(got)
	}
	return n, errno
}

func (t *thread) write(o *operation) (int64, syscall.Errno) {
	file, spot := t.pick(o)
	f, errno := t.open(o, file, unix.O_WRONLY|t.directFlag()|t.dsync, t.opened[o.setAt])
	if errno != 0 {
		return 0, errno
	}
	offset, n := t.place(o, spot, f.size)
	errno = pwrite(f.fd, t.data(o, f.content, offset, n), offset)
	if errno == 0 {
		errno = t.sync(f.fd)
	}
	t.done(f)
	return n, errno
}

// append writes to the end of a file; the offset that pwrite is given does not matter.
func (t *thread) append(o *operation) (int64, syscall.Errno) {
	file, _ := t.pick(o)
	n := o.block.draw(&t.rng)
	if t.limits.bytes < n {
		return n, errLimit
	}
	f, errno := t.open(o, file, unix.O_WRONLY|unix.O_APPEND|t.directFlag()|t.dsync, t.appends[o.setAt])
	if errno != 0 {
		return n, errno
	}
	errno = pwrite(f.fd, t.data(o, f.content, f.size, n), 0)
	if errno == 0 {
		t.limits.bytes -= n
		errno = t.sync(f.fd)
	}
	t.done(f)
	return n, errno
}

// data returns what is written at an offset. Filling a large buffer is no part of the operation.
func (t *thread) data(o *operation, file uint64, offset, n int64) []byte {
	if n <= 1<<16 {
		return t.filled(o, file, offset, n)
	}
	began := t.clock.now()
	b := t.filled(o, file, offset, n)
	t.begin += t.clock.now() - began
	return b
}

func (t *thread) filled(o *operation, file uint64, offset, n int64) []byte {
	c := t.contents[o.setAt]
	if t.verifies {
		return c.at(file, offset, int(n))
	}
	t.fresh++
	return c.freshBlock(int(n), blend(file, t.fresh))
}

func (t *thread) create(o *operation) (int64, syscall.Errno) {
	p := &t.pools[o.setAt]
	size := t.madeSize(o.set, p.tail-p.prepared)
	if t.limits.files < 1 || t.limits.bytes < size {
		return size, errLimit
	}
	return size, t.make(o, size)
}

// make creates the next file of the thread, with its content.
func (t *thread) make(o *operation, size int64) syscall.Errno {
	if t.objects != nil {
		return t.makeObject(o, size)
	}
	p := &t.pools[o.setAt]
	leaf, content, _ := t.address(o.setAt, p.tail)
	folder, temporary, errno := t.leaf(o.setAt, leaf)
	if errno != 0 {
		return errno
	}
	flags := unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | t.dsync
	if t.direct > 0 && size%int64(t.direct) == 0 {
		flags |= unix.O_DIRECT
	}
	fd, errno := t.openat(folder, flags, fileMode)
	if temporary {
		closeFD(folder)
	}
	if errno != 0 {
		return errno
	}
	p.tail++
	t.limits.files--
	t.limits.bytes -= size
	c := t.contents[o.setAt]
	for at := int64(0); at < size && errno == 0; {
		n := min(size-at, int64(c.most))
		errno = pwrite(fd, c.at(content, at, int(n)), at)
		at += n
	}
	if errno == 0 {
		errno = t.sync(fd)
	}
	closeFD(fd)
	return errno
}

func (t *thread) stat(o *operation) syscall.Errno {
	folder, temporary, errno := t.locate(o)
	if errno != 0 {
		return errno
	}
	_, _, errno = unix.RawSyscall6(unix.SYS_STATX, uintptr(folder), pointer(t.name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(&t.info)), 0)
	if temporary {
		closeFD(folder)
	}
	return errno
}

func (t *thread) list(o *operation) syscall.Errno {
	leaf := uint64(0)
	if o.set.leaves > 1 {
		leaf = t.leafOf(o)
	}
	folder, temporary, errno := t.leaf(o.setAt, leaf)
	if errno != 0 {
		return errno
	}
	t.name = append(t.name[:0], ".\x00"...)
	fd, errno := t.openat(folder, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for errno == 0 {
		var n uintptr
		n, _, errno = unix.Syscall(unix.SYS_GETDENTS64, uintptr(fd), pointer(t.buffer), uintptr(len(t.buffer)))
		if n == 0 {
			break
		}
	}
	if fd >= 0 {
		closeFD(fd)
	}
	if temporary {
		closeFD(folder)
	}
	return errno
}

func (t *thread) delete(o *operation) syscall.Errno {
	if errno := t.ensure(o); errno != 0 {
		return errno
	}
	p := &t.pools[o.setAt]
	leaf, _, size := t.address(o.setAt, p.head)
	folder, temporary, errno := t.leaf(o.setAt, leaf)
	if errno != 0 {
		return errno
	}
	_, _, errno = unix.Syscall(unix.SYS_UNLINKAT, uintptr(folder), pointer(t.name), 0)
	if temporary {
		closeFD(folder)
	}
	p.head++ // a file that cannot be deleted is not tried again
	if errno == 0 {
		t.limits.files++
		t.limits.bytes += size
	}
	return errno
}

func (t *thread) mkdir(o *operation) syscall.Errno {
	if t.limits.files < 1 {
		return errLimit
	}
	p := &t.pools[o.setAt]
	folder, temporary, errno := t.leaf(o.setAt, p.folders%o.set.leaves)
	if errno != 0 {
		return errno
	}
	t.name = append(appendMade(t.name[:0], 'd', t.layout.job.AgentIndex, t.index, p.folders), 0)
	p.folders++
	_, _, errno = unix.Syscall(unix.SYS_MKDIRAT, uintptr(folder), pointer(t.name), folderMode)
	if temporary {
		closeFD(folder)
	}
	if errno == 0 {
		t.limits.files--
	}
	return errno
}

// rename gives a file its other name, and with the next rename its own one back: at most one file of a
// thread has its other name.
func (t *thread) rename(o *operation) syscall.Errno {
	if errno := t.ensure(o); errno != 0 {
		return errno
	}
	p := &t.pools[o.setAt]
	number := p.moved - 1
	if p.moved == 0 || number < p.head {
		p.moved = 0
		number = t.number(o)
	}
	leaf, _, _ := t.address(o.setAt, number)
	t.other = append(t.other[:0], t.name...)
	moved := uint64(0)
	if p.moved > 0 {
		t.other = append(t.other[:len(t.other)-len(renamed)-1], 0)
	} else {
		t.other = append(append(t.other[:len(t.other)-1], renamed...), 0)
		moved = number + 1
	}
	folder, temporary, errno := t.leaf(o.setAt, leaf)
	if errno != 0 {
		return errno
	}
	_, _, errno = unix.Syscall6(unix.SYS_RENAMEAT2, uintptr(folder), pointer(t.name), uintptr(folder), pointer(t.other), 0, 0)
	if temporary {
		closeFD(folder)
	}
	if errno == 0 {
		p.moved = moved
	}
	return errno
}

func (t *thread) fsync(o *operation) syscall.Errno {
	file, _ := t.pick(o)
	f, errno := t.open(o, file, unix.O_RDONLY, t.opened[o.setAt])
	if errno == 0 {
		_, _, errno = unix.Syscall(unix.SYS_FSYNC, uintptr(f.fd), 0, 0)
		t.done(f)
	}
	return errno
}

// pick chooses the file of an operation: a prepared one or, in a changing set, one of the thread's own, by
// number; of blocks by popularity it chooses the block as well.
func (t *thread) pick(o *operation) (file, spot uint64) {
	if o.set.changing {
		return 0, 0 // open sees to it that there is one
	}
	switch o.pattern {
	case spec.Sequential:
		return t.advance(o), 0
	case spec.Zipf:
		spot = o.spot(&t.rng)
		return spot / o.perFile, spot % o.perFile
	}
	return t.rng.below(o.set.Count), 0
}

// place returns where in a file an operation begins and how long it is.
func (t *thread) place(o *operation, spot uint64, size int64) (offset, n int64) {
	n = o.block.draw(&t.rng)
	if o.pattern == spec.Sequential && !o.set.changing {
		c := &t.cursors[o.index]
		offset, n = c.at, min(n, c.end-c.at)
		c.at += n
		return offset, t.whole(n)
	}
	if n > size {
		return 0, t.whole(size)
	}
	places := uint64(size-n)/uint64(o.granule) + 1
	if o.pattern == spec.Zipf && !o.set.changing {
		return int64(spot%places) * o.granule, n
	}
	return int64(t.rng.below(places)) * o.granule, n
}

// whole returns the least length that direct I/O takes and that has n bytes.
func (t *thread) whole(n int64) int64 {
	if t.direct == 0 {
		return n
	}
	return (n + int64(t.direct) - 1) / int64(t.direct) * int64(t.direct)
}

// advance returns the file in which a sequence goes on.
func (t *thread) advance(o *operation) uint64 {
	c := &t.cursors[o.index]
	data := (o.kind == spec.Read || o.kind == spec.Write) && !o.whole
	if c.begun && data && c.at < c.end {
		return c.file
	}
	first, stride := t.run.place(t.index)
	files := o.set.Count
	switch {
	case !c.begun || c.file+stride >= files:
		c.file = first % files
	default:
		c.file += stride
	}
	c.begun = true
	c.at, c.end = 0, o.set.size(c.file)
	if t.direct > 0 && c.end > int64(t.direct) {
		c.end -= c.end % int64(t.direct)
	}
	if stride > files { // several threads share a file
		parts := int64((stride-c.file-1)/files + 1)
		part := int64(first / files)
		step := c.end / parts / o.granule * o.granule
		if step >= o.block.most {
			c.at = step * part
			if part < parts-1 {
				c.end = c.at + step
			}
		}
	}
	return c.file
}

// open returns the file of an operation, which is open already or is opened by its name.
func (t *thread) open(o *operation, file uint64, flags int, fds []int32) (f target, errno syscall.Errno) {
	if fds != nil {
		return target{int(fds[file]), false, o.set.content(file), o.set.size(file)}, 0
	}
	var leaf uint64
	if o.set.changing {
		if errno = t.ensure(o); errno != 0 {
			return f, errno
		}
		leaf, f.content, f.size = t.address(o.setAt, t.number(o))
	} else {
		f.content, f.size, leaf = o.set.content(file), o.set.size(file), file%o.set.leaves
		t.name = append(appendFile(t.name[:0], file), 0)
	}
	folder, temporary, errno := t.leaf(o.setAt, leaf)
	if errno != 0 {
		return f, errno
	}
	f.close = true
	f.fd, errno = t.openat(folder, flags, 0)
	if temporary {
		closeFD(folder)
	}
	return f, errno
}

func (t *thread) done(f target) {
	if f.close {
		closeFD(f.fd)
	}
}

// locate finds a file for an operation by name, and leaves its name in t.name.
func (t *thread) locate(o *operation) (folder int, temporary bool, errno syscall.Errno) {
	if !o.set.changing {
		file, _ := t.pick(o)
		t.name = append(appendFile(t.name[:0], file), 0)
		return t.leaf(o.setAt, file%o.set.leaves)
	}
	if errno = t.ensure(o); errno != 0 {
		return -1, false, errno
	}
	leaf, _, _ := t.address(o.setAt, t.number(o))
	return t.leaf(o.setAt, leaf)
}

// ensure creates a file if the thread has none. That is not counted.
func (t *thread) ensure(o *operation) syscall.Errno {
	p := &t.pools[o.setAt]
	if p.head < p.tail {
		return 0
	}
	size := t.madeSize(o.set, p.tail-p.prepared)
	if t.limits.files < 1 || t.limits.bytes < size {
		return errLimit
	}
	errno := t.make(o, size)
	t.begin = t.clock.now()
	return errno
}

// number chooses one of the files that the thread has in a changing set.
func (t *thread) number(o *operation) uint64 {
	p := &t.pools[o.setAt]
	n := p.tail - p.head
	switch o.pattern {
	case spec.Sequential:
		c := &t.cursors[o.index]
		c.file++
		return p.head + c.file%n
	case spec.Zipf:
		return p.tail - 1 - o.ranks.draw(&t.rng)%n // the newest are the most popular
	}
	return p.head + t.rng.below(n)
}

// address returns where the file of a number is, what it is made from and its size, and leaves its name in t.name.
func (t *thread) address(at int, number uint64) (leaf, content uint64, size int64) {
	s, p := t.layout.sets[at], &t.pools[at]
	if number < p.prepared {
		first, stride := t.run.place(t.index)
		file := first + number*stride
		t.name = appendFile(t.name[:0], file)
		leaf, content, size = file%s.leaves, s.content(file), s.size(file)
	} else {
		number -= p.prepared
		t.name = appendMade(t.name[:0], 'c', t.layout.job.AgentIndex, t.index, number)
		leaf, content, size = number%s.leaves, t.madeContent(s, number), t.madeSize(s, number)
		number += p.prepared
	}
	if p.moved == number+1 {
		t.name = append(t.name, renamed...)
	}
	t.name = append(t.name, 0)
	return leaf, content, size
}

func (t *thread) madeContent(s *set, number uint64) uint64 {
	return blend(blend(s.id, uint64(t.layout.job.AgentIndex)<<32|uint64(t.index)<<1|1), number)
}

func (t *thread) madeSize(s *set, number uint64) int64 {
	return s.created.of(blend(t.madeContent(s, number), 1))
}

// leafOf chooses a folder.
func (t *thread) leafOf(o *operation) uint64 {
	switch o.pattern {
	case spec.Sequential:
		c := &t.cursors[o.index]
		c.file++
		return c.file % o.set.leaves
	case spec.Zipf:
		return o.ranks.draw(&t.rng) % o.set.leaves
	}
	return t.rng.below(o.set.leaves)
}

// leaf returns an open folder of a set.
func (t *thread) leaf(at int, leaf uint64) (fd int, temporary bool, errno syscall.Errno) {
	if open := t.leaves[at]; open != nil {
		return int(open[leaf]), false, 0
	}
	t.other = append(t.layout.sets[at].appendLeaf(t.other[:0], leaf), 0)
	t.other, t.name = t.name, t.other
	fd, errno = t.openat(t.run.dir.fd, unix.O_PATH|unix.O_DIRECTORY, 0)
	t.other, t.name = t.name, t.other
	return fd, true, errno
}

func (t *thread) openat(folder, flags int, mode uint64) (int, syscall.Errno) {
	t.how = unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Mode: mode, Resolve: beneath}
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(folder), pointer(t.name), uintptr(unsafe.Pointer(&t.how)), unsafe.Sizeof(t.how), 0, 0)
		if errno == 0 {
			return int(fd), 0
		}
		if errno != unix.EINTR && errno != unix.EAGAIN {
			return -1, errno
		}
	}
}

// sync makes a write durable, as the policy has it.
func (t *thread) sync(fd int) syscall.Errno {
	if t.syncCall == 0 {
		return 0
	}
	_, _, errno := unix.Syscall(t.syncCall, uintptr(fd), 0, 0)
	return errno
}

func (t *thread) directFlag() int {
	if t.direct > 0 {
		return unix.O_DIRECT
	}
	return 0
}

// verify compares what was read, unless reading has failed.
func (t *thread) verify(errno syscall.Errno) syscall.Errno {
	t.check.pending = false
	if errno != 0 {
		return errno
	}
	s := t.layout.sets[t.check.set]
	if t.check.err = t.contents[t.check.set].verify(t.check.got, t.check.file, t.check.offset, s.Blocks != spec.WriteBlocks); t.check.err != nil {
		return errVerify
	}
	if t.check.short {
		t.check.err = fmt.Errorf("the file ends at offset %d, before what was written", t.check.offset+int64(len(t.check.got)))
		return errVerify
	}
	return 0
}

// subject returns what an operation was about, for an error.
func (t *thread) subject(o *operation) string {
	if t.objects != nil {
		return o.set.folder
	}
	return filepath.Join(t.run.dir.name, o.set.folder)
}

// pread reads until the buffer is full or the file ends. A thread that is locked needs no word with the scheduler
// before a system call, and there are processors enough for the other goroutines.
func pread(fd int, b []byte, offset int64) (int, syscall.Errno) {
	for n := 0; ; {
		got, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), pointer(b[n:]), uintptr(len(b)-n), uintptr(offset)+uintptr(n), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return n, errno
		}
		if n += int(got); got == 0 || n == len(b) {
			return n, 0
		}
	}
}

// pwrite writes all of the buffer.
func pwrite(fd int, b []byte, offset int64) syscall.Errno {
	for n := 0; n < len(b); {
		put, _, errno := unix.RawSyscall6(unix.SYS_PWRITE64, uintptr(fd), pointer(b[n:]), uintptr(len(b)-n), uintptr(offset)+uintptr(n), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		n += int(put)
	}
	return 0
}

func closeFD(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// pointer returns the address of what is in a buffer, which its thread keeps.
func pointer(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
