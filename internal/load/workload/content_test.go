//go:build linux

package workload

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestHugePages: buffers of large blocks are in huge pages, where the system has them, and those of others are not (L9).
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
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
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
