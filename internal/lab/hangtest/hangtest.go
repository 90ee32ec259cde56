//go:build linux

// Package hangtest starts processes whose files hang: a system call on one does not return, as that of a network file
// system whose server is gone, and its thread waits in the kernel until the test lets it go on or the process is killed.
// No rights are needed but to read the memory of these processes, and no file system is mounted: the kernel asks the test about each such call (seccomp_unotify(2)).
package hangtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Process is a process whose files hang from Hang until Release.
type Process struct {
	*exec.Cmd
	listener int // the kernel's questions come from it

	mu    sync.Mutex // guards the fields below
	paths []string   // what hangs, with what is beneath it
	held  []uint64   // calls that hang
}

// A notification is struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	call       int32
	_          uint32
	_          uint64
	arguments  [6]uint64
}

// A response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	fault int32
	flags uint32
}

// byName are the calls that have a folder and a name beneath it; byFile are those that have an open file.
var (
	byName = []uint32{unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_UNLINKAT}
	byFile = []uint32{unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_GETDENTS64}
)

// Start starts a command, which is killed when the test ends.
func Start(t *testing.T, c *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: c, listener: -1}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks it: the thread, whose calls are asked about, ends with the goroutine
		var err error
		if p.listener, err = listen(); err == nil {
			go p.serve()
			err = c.Start()
		}
		started <- err
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
	if err := readable(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return p
}

// readable returns an error unless the memory of a process that was started may be read, which has the names that its
// calls are about.
func readable(pid int) error {
	var b [1]byte
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
	if err == nil || errors.Is(err, unix.EFAULT) || errors.Is(err, unix.ESRCH) { // it may have ended
		return nil
	}
	return fmt.Errorf("read the memory of a process (process_vm_readv): %w; set kernel.yama.ptrace_scope to 0 or 1, or run the test outside of the sandbox that refuses it", err)
}

// listen has the kernel ask about calls of this thread, and of the processes that it starts.
func listen() (int, error) {
	asked := append(append([]uint32{}, byName...), byFile...)
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, call := range asked {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(asked) - i)})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_USER_NOTIF})
	all := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("renounce privileges: %w", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&all)))
	switch errno {
	case 0:
	case unix.EBUSY:
		return -1, fmt.Errorf("install a filter of system calls: %w; another program is asked about the calls of this one already: run the test outside of its sandbox", errno)
	default:
		return -1, fmt.Errorf("install a filter of system calls: %w; it needs Linux 5.5 or newer with seccomp, and no sandbox without it, such as gVisor", errno)
	}
	unix.CloseOnExec(int(fd))
	return int(fd), nil
}

// serve tells the kernel which calls go on, until no process is left.
func (p *Process) serve() {
	defer unix.Close(p.listener)
	for {
		ready := []unix.PollFd{{Fd: int32(p.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) || ready[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			return
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			continue
		}
		var n notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno == unix.ENOENT || errno == unix.EINTR {
			continue // a signal has ended the call meanwhile
		} else if errno != 0 {
			return
		}
		path := pathOf(&n)
		p.mu.Lock()
		if p.hangs(path) {
			p.held = append(p.held, n.id)
		} else {
			p.goOn(n.id)
		}
		p.mu.Unlock()
	}
}

// hangs reports whether what is at a path hangs. The process is locked.
func (p *Process) hangs(path string) bool {
	return slices.ContainsFunc(p.paths, func(at string) bool { return path == at || strings.HasPrefix(path, at+"/") })
}

// goOn lets a call go on, unless it is over.
func (p *Process) goOn(id uint64) {
	r := response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(p.listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
}

// pathOf returns the path that a call is about; empty if the process is gone.
func pathOf(n *notification) string {
	for _, call := range byFile {
		if uint32(n.call) == call {
			return link(n.pid, fmt.Sprintf("fd/%d", int32(n.arguments[0])))
		}
	}
	name := text(int(n.pid), uintptr(n.arguments[1]))
	if filepath.IsAbs(name) {
		return name
	}
	if folder := int32(n.arguments[0]); folder != unix.AT_FDCWD {
		return filepath.Join(link(n.pid, fmt.Sprintf("fd/%d", folder)), name)
	}
	return filepath.Join(link(n.pid, "cwd"), name)
}

func link(pid uint32, of string) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, of)) // of a file that is not open any more there is none
	return path
}

// text returns the text at an address of a process: as much of it as is in the page, which is enough for tests.
func text(pid int, at uintptr) string {
	const page = 4096
	b := make([]byte, page-at%page)
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
	if err != nil {
		return ""
	}
	before, _, _ := bytes.Cut(b[:n], []byte{0})
	return string(before)
}

// Hang has files, and folders with what is in them, hang from now on. Their paths have no symbolic links.
func (p *Process) Hang(paths ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths = append(p.paths, paths...)
}

// Hanging returns how many calls hang, or did until a signal ended them.
func (p *Process) Hanging() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// Release lets everything go on.
func (p *Process) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.held {
		p.goOn(id)
	}
	p.paths, p.held = nil, nil
}
