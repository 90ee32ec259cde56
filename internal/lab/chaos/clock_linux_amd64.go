package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A program reads its clocks by code that the kernel maps into every process, the
// vDSO. Before a process has read any, its copy of that code is given a
// trampoline: it calls what was there, and adds to the wall clock the seconds
// that a cell behind it holds. Neither the program nor its other clocks know.

// trampoline is the code, with two blanks; behind it comes the cell.
var trampoline = []byte{
	0x57, 0x56, // push rdi; push rsi
	0x48, 0x83, 0xec, 0x08, // sub rsp, 8
	0xe8, 0, 0, 0, 0, // call clock_gettime of the kernel
	0x48, 0x83, 0xc4, 0x08, // add rsp, 8
	0x5e, 0x5f, // pop rsi; pop rdi
	0x85, 0xff, // test edi, edi: zero is the wall clock
	0x75, 0x0a, // jne to the end
	0x48, 0x8b, 0x0d, 4, 0, 0, 0, // mov rcx, [the cell]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

const (
	callAt, called = 7, 11 // of trampoline: the distance to what is called, and from where it counts
	cellSize       = 8
)

// traced has a process that is about to be started stop before its first step.
func traced(cmd *exec.Cmd) { cmd.SysProcAttr.Ptrace = true }

// A clock is the wall clock of one process.
type clock struct {
	mem  *os.File // of that process and no other, also when its number is another's
	cell int64    // where its step is
}

// newClock takes the clock of a process that was traced, steps it, and lets the
// process go on. The thread has to be the one that started it.
func newClock(pid int, step time.Duration) (_ *clock, err error) {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return nil, fmt.Errorf("a process has not stopped to be traced: status %#x: %w", int(status), err)
	}
	defer func() { err = errors.Join(err, syscall.PtraceDetach(pid)) }()
	c := &clock{}
	if c.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if err := errors.Join(c.plant(pid), c.set(step)); err != nil {
		c.close()
		return nil, fmt.Errorf("the clock of a process cannot be stepped: %w", err)
	}
	return c, nil
}

// plant puts the trampoline at the end of the vDSO, and its address where the
// program looks up that of clock_gettime.
func (c *clock) plant(pid int) error {
	base, image, err := c.vdso(pid)
	if err != nil {
		return err
	}
	entry, symbol, err := lookUp(image)
	if err != nil {
		return err
	}
	at := len(image) - len(trampoline) - cellSize
	if len(bytes.Trim(image[at:], "\x00")) > 0 {
		return errors.New("its vDSO has no room for more")
	}
	code := slices.Clone(trampoline)
	binary.LittleEndian.PutUint32(code[callAt:], uint32(int(symbol)-at-called))
	c.cell = base + int64(at+len(code))
	_, err = c.mem.WriteAt(code, base+int64(at))
	return errors.Join(err, c.write(base+entry, uint64(at)))
}

// lookUp returns where the vDSO keeps the address of clock_gettime, and the address.
func lookUp(image []byte) (entry int64, symbol uint64, err error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, 0, err
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	table := f.SectionByType(elf.SHT_DYNSYM)
	if i < 0 || table == nil {
		return 0, 0, errors.New("the vDSO has no clock_gettime")
	}
	const valueAt = 8 // of an entry, of which the first is none
	return int64(table.Offset) + int64(i+1)*elf.Sym64Size + valueAt, symbols[i].Value, nil
}

// vdso reads the code that the kernel has mapped into the process.
func (c *clock) vdso(pid int) (base int64, image []byte, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		var end int64
		if _, err := fmt.Sscanf(line, "%x-%x ", &base, &end); err != nil {
			return 0, nil, err
		}
		image = make([]byte, end-base)
		_, err = c.mem.ReadAt(image, base)
		return base, image, err
	}
	return 0, nil, errors.New("it has no vDSO")
}

// set has the clock be so many whole seconds from the right one. It fails when the
// process has ended.
func (c *clock) set(step time.Duration) error { return c.write(c.cell, uint64(step/time.Second)) }

func (c *clock) write(at int64, value uint64) error {
	_, err := c.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, value), at)
	return err
}

func (c *clock) close() { _ = c.mem.Close() }
