//go:build linux

package workload

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The parts of io_uring(7) that the engine needs; the names are those of its header.
const (
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	featSingleMmap    = 1 << 0
	featExtArg        = 1 << 8
	enterGetEvents    = 1 << 0
	enterExtArg       = 1 << 3
	opRead            = 22
	opWrite           = 23
	offsetSQRing      = 0
	offsetSQEs        = 0x10000000
)

type ringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq, cq                                                                 ringOffsets
}

// ringOffsets has the offsets in a ring, by their names in the submission ring. In that of completions,
// dropped is where the completions are.
type ringOffsets struct {
	head, tail, mask, entries, flags, dropped, array, _ uint32
	_                                                   uint64
}

// A submission is struct io_uring_sqe.
type submission struct {
	op, flags   uint8
	priority    uint16
	fd          int32
	offset      uint64
	address     uint64
	length      uint32
	rwFlags     uint32
	user        uint64
	bufferIndex uint16
	_           uint16
	_           int32
	_           [2]uint64
}

// A completion is struct io_uring_cqe.
type completion struct {
	user   uint64
	result int32
	flags  uint32
}

// waitArgument is struct io_uring_getevents_arg.
type waitArgument struct {
	mask        uint64
	maskSize, _ uint32
	time        uint64
}

// A ring is one io_uring. It belongs to the thread that has made it.
type ring struct {
	fd           int
	rings, sqes  []byte
	submissions  []submission
	completions  []completion
	sqHead       *uint32
	sqTail       *uint32
	cqHead       *uint32
	cqTail       *uint32
	sqMask, mask uint32
	tail, head   uint32 // what this side knows of sqTail and cqHead
	queued       uint32 // since the last enter
	argument     waitArgument
	limit        unix.Timespec
}

// newRing makes a ring of a number of entries.
func newRing(entries int) (*ring, error) {
	p := ringParams{flags: setupSingleIssuer | setupDeferTaskrun}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	if errno == unix.EINVAL { // before Linux 6.1
		p = ringParams{}
		fd, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	}
	if errno != 0 {
		return nil, ringFault(errno)
	}
	r := &ring{fd: int(fd)}
	if p.features&featSingleMmap == 0 || p.features&featExtArg == 0 {
		r.close()
		return nil, ringFault(unix.ENOSYS)
	}
	if err := r.share(&p); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// ringFault says why there is no ring.
func ringFault(errno syscall.Errno) error {
	const hint = "write engine: threads"
	if text, err := os.ReadFile("/proc/sys/kernel/io_uring_disabled"); err == nil && strings.TrimSpace(string(text)) != "0" {
		return invalid("engine", hint, "engine: uring is disabled here: kernel.io_uring_disabled is %s (%w)", strings.TrimSpace(string(text)), errno)
	}
	if errors.Is(errno, unix.ENOMEM) {
		return invalid("depth", "make depth less, or raise the limit of locked memory", "depth: there is not enough locked memory for the rings (%w)", errno)
	}
	return invalid("engine", hint, "engine: uring does not work here (kernel.io_uring_disabled is 0 or not there): %w", errno)
}

// share maps what the kernel and the program share.
func (r *ring) share(p *ringParams) (err error) {
	size := max(int(p.sq.array)+int(p.sqEntries)*4, int(p.cq.dropped)+int(p.cqEntries)*int(unsafe.Sizeof(completion{})))
	const protection, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.rings, err = unix.Mmap(r.fd, offsetSQRing, size, protection, flags); err != nil {
		return fmt.Errorf("map the ring: %w", err)
	}
	if r.sqes, err = unix.Mmap(r.fd, offsetSQEs, int(p.sqEntries)*int(unsafe.Sizeof(submission{})), protection, flags); err != nil {
		return fmt.Errorf("map the ring: %w", err)
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[offset])) }
	r.sqHead, r.sqTail, r.cqHead, r.cqTail = at(p.sq.head), at(p.sq.tail), at(p.cq.head), at(p.cq.tail)
	r.sqMask, r.mask = *at(p.sq.mask), *at(p.cq.mask)
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&r.sqes[0])), p.sqEntries)
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&r.rings[p.cq.dropped])), p.cqEntries)
	array := unsafe.Slice(at(p.sq.array), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	return nil
}

func (r *ring) close() {
	for _, b := range [][]byte{r.rings, r.sqes} {
		if b != nil {
			_ = unix.Munmap(b) // it is one that Mmap has returned
		}
	}
	_ = unix.Close(r.fd)
}

// push queues an operation. There is room for as many as the ring has entries.
func (r *ring) push(op uint8, fd int, b []byte, offset int64, user uint64) {
	s := &r.submissions[r.tail&r.sqMask]
	*s = submission{op: op, fd: int32(fd), offset: uint64(offset), address: uint64(pointer(b)), length: uint32(len(b)), user: user}
	r.tail++
	r.queued++
}

// submit submits what is queued. What the kernel does not take is left to enter.
func (r *ring) submit() {
	if r.queued > 0 {
		_ = r.call(0, 0, nil) // enter has the same error
	}
}

// enter submits what is queued and waits until something is complete, or for at most the given time.
func (r *ring) enter(wait time.Duration) syscall.Errno {
	r.limit = unix.NsecToTimespec(max(int64(wait), 0))
	r.argument.time = uint64(uintptr(unsafe.Pointer(&r.limit)))
	return r.call(1, enterGetEvents|enterExtArg, &r.argument)
}

// call is io_uring_enter(2).
func (r *ring) call(least, flags uintptr, argument *waitArgument) syscall.Errno {
	atomic.StoreUint32(r.sqTail, r.tail)
	size := uintptr(0)
	if argument != nil {
		size = unsafe.Sizeof(*argument)
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.queued), least, flags, uintptr(unsafe.Pointer(argument)), size)
	switch errno {
	case 0:
		r.queued -= uint32(n)
	case unix.ETIME, unix.EINTR, unix.EBUSY, unix.EAGAIN:
		r.queued = r.tail - atomic.LoadUint32(r.sqHead) // some may be submitted
	default:
		return errno
	}
	return 0
}

// pop returns a completion, if there is one.
func (r *ring) pop() (user uint64, result int32, ok bool) {
	if r.head == atomic.LoadUint32(r.cqTail) {
		return 0, 0, false
	}
	c := &r.completions[r.head&r.mask]
	user, result = c.user, c.result
	r.head++
	atomic.StoreUint32(r.cqHead, r.head)
	return user, result, true
}

// checkRing returns why there is no io_uring here.
func checkRing() error {
	r, err := newRing(1)
	if err != nil {
		return err
	}
	r.close()
	return nil
}
