package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	SelftestChild()
	os.Exit(m.Run())
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPublish: readers see the old or the new contents, whatever fails, and no other file is left
// (C3).
func TestPublish(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	if err := (Disk{}).Publish(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for op, want := range map[Op]string{OpCreate: "old", OpWrite: "old", OpSync: "old", OpRename: "old", OpSyncDir: "new"} {
		if err := (Disk{}).Publish(path, []byte("old")); err != nil {
			t.Fatal(err)
		}
		d := Disk{Hook: func(o Op, _ string, after bool) error {
			if o == op && !after {
				return broken
			}
			return nil
		}}
		if err := d.Publish(path, []byte("new")); !errors.Is(err, broken) {
			t.Errorf("%s: %v", op, err)
		}
		if got := read(t, path); got != want {
			t.Errorf("%s failed, and the file has %q, want %q", op, got, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

// TestPublishers: of many writers at once, the contents of one are there, whole (C3).
func TestPublishers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	var all sync.WaitGroup
	for _, letter := range "abcdefgh" {
		all.Go(func() {
			for range 20 {
				if err := (Disk{}).Replace(path, []byte(strings.Repeat(string(letter), 10_000))); err != nil {
					t.Error(err)
				}
				if got := read(t, path); len(got) != 10_000 || strings.Trim(got, got[:1]) != "" {
					t.Errorf("a mixed file of %d bytes", len(got))
				}
			}
		})
	}
	all.Wait()
}

// TestSweep: temporary files of the dead go after an hour, and nothing else does (C3).
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".a.json.tmp-1", ".b.json.tmp-2", "a.json", ".hidden", "x.tmp-3"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(dir, ".a.json.tmp-1"), time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if swept, err := Sweep(dir, time.Now()); err != nil || !slices.Equal(swept, []string{".a.json.tmp-1"}) {
		t.Errorf("swept %v, %v", swept, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestLines: the last line is found whatever its length, and an incomplete one is kept aside (C6).
func TestLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if line, _, err := LastLine(path); err != nil || len(line) != 0 {
		t.Errorf("of a missing file: %q, %v", line, err)
	}
	if torn, err := (Disk{}).Mend(path); err != nil || torn != nil {
		t.Errorf("mended a missing file: %q, %v", torn, err)
	}
	whole := ""
	for _, size := range []int{0, 1, 4095, 4096, 100_000, 3} {
		line := strings.Repeat("x", size) + "\n"
		at, err := (Disk{}).Append(path, []byte(line))
		if err != nil || at != int64(len(whole)) {
			t.Fatalf("appended at %d, want %d: %v", at, len(whole), err)
		}
		whole += line
		for _, tail := range []string{"", "{", strings.Repeat("y", 9000)} {
			if err := os.WriteFile(path, []byte(whole+tail), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, at, err := LastLine(path); err != nil || string(got) != line || at != int64(len(whole)-len(line)) {
				t.Errorf("%d bytes, then %d: the last line has %d bytes, at %d, %v", size, len(tail), len(got), at, err)
			}
			if torn, err := (Disk{}).Mend(path); err != nil || string(torn) != tail {
				t.Errorf("cut off %d bytes, want %d: %v", len(torn), len(tail), err)
			}
			if got := read(t, path); got != whole {
				t.Errorf("after mending the file has %d bytes, want %d", len(got), len(whole))
			}
		}
	}
}

// TestLocks: one holder at a time, goroutines included, and the file stays (C3).
func TestLocks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.lock")
	var holders atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				lock, err := Acquire(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				holders.Add(-1)
				lock.Release()
			}
		})
	}
	all.Wait()
	lock, err := TryAcquire(path)
	if err != nil || lock == nil {
		t.Fatalf("%v, %v", lock, err)
	}
	defer lock.Release()
	if err := lock.File().Truncate(0); err != nil {
		t.Errorf("the file is not open for writing, as NFS wants it: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Acquire(ctx, path); !errors.Is(err, ErrHeld) {
		t.Errorf("a second holder: %v", err)
	}
	if err := Selftest(t.Context(), filepath.Dir(path)); err != nil {
		t.Errorf("the locks of this file system: %v", err)
	}
}
