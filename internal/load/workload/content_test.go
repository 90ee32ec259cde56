//go:build linux

package workload

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// TestHugePages: buffers of large blocks begin at huge pages, for which the system is asked if it has such, and those of
// others do not (L9).
func TestHugePages(t *testing.T) {
	t.Parallel()
	_, err := os.Stat("/sys/kernel/mm/transparent_hugepage")
	has := err == nil
	for block, huge := range map[int]bool{4 << 10: false, hugeBlock - 1: false, hugeBlock: has, 5 << 20: has} {
		b, err := alignedBuffer(block, block)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < block || len(b)%page != 0 {
			t.Errorf("%d bytes for blocks of %d", len(b), block)
		}
		if got := isAdvised(t, uintptr(unsafe.Pointer(&b[0]))); got != huge {
			t.Errorf("huge pages for blocks of %d: %t", block, got)
		}
		if at := uintptr(unsafe.Pointer(&b[0])); block >= hugeBlock && at%hugePage != 0 {
			t.Errorf("blocks of %d begin at %#x, within a huge page", block, at)
		}
		freeBuffer(b)
	}
}

// TestBuffersOfRings: the buffers of a thread take no more memory than its blocks, but for the rest of a huge page (L9).
func TestBuffersOfRings(t *testing.T) {
	t.Parallel()
	const depth = 9
	for _, block := range []int{page, hugeBlock, 5 << 20} {
		th := &thread{}
		th.layout = &layout{test: &spec.Test{Engine: spec.Uring, Depth: depth}}
		if err := th.allocate(block); err != nil {
			t.Fatal(err)
		}
		if most := (depth+1)*block + hugePage; len(th.memory) > most {
			t.Errorf("%d blocks of %d take %d bytes", depth+1, block, len(th.memory))
		}
		for i, b := range append(th.rides, th.buffer) {
			if len(b) != block || cap(b) != block || uintptr(unsafe.Pointer(&b[0]))%page != 0 {
				t.Errorf("buffer %d for blocks of %d has %d bytes at %p", i, block, len(b), b)
			}
			b[0], b[block-1] = byte(1+i), byte(1+i)
		}
		for i, b := range append(th.rides, th.buffer) {
			if b[0] != byte(1+i) || b[block-1] != byte(1+i) {
				t.Errorf("buffer %d for blocks of %d is in another", i, block)
			}
		}
		freeBuffer(th.memory)
	}
}

// isAdvised reports whether memory at an address is to be in huge pages.
func isAdvised(t *testing.T, at uintptr) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	within := false
	for line := range strings.Lines(string(text)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			within = from <= at && at < to
		}
		if flags, is := strings.CutPrefix(line, "VmFlags:"); is && within {
			return strings.Contains(flags, " hg")
		}
	}
	t.Fatal("the memory is not mapped")
	return false
}
