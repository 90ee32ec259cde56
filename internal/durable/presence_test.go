package durable_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// TestWhile ends what works on a folder or a file that is removed, is replaced, or whose folder is gone.
func TestWhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(dir string) error
		says string
	}{
		"the file is removed":   {func(dir string) error { return os.Remove(filepath.Join(dir, "file")) }, "/file was removed"},
		"its folder is removed": {os.RemoveAll, "was removed"},
		"its folder is moved": {func(dir string) error {
			if err := os.Rename(dir, dir+"2"); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600) // a file is in its place
		}, "was"},
		"the file is replaced": {func(dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "file"))
		}, "/file was replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			file := filepath.Join(dir, "file")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			err := durable.While(t.Context(), func(ctx context.Context) error {
				if err := tt.lose(dir); err != nil {
					return err
				}
				<-ctx.Done()
				return errors.New("a consequence")
			}, dir, file)
			if gone := (*durable.GoneError)(nil); !errors.As(err, &gone) || pawl.KindOf(err) != pawl.Unavailable || !strings.Contains(err.Error(), tt.says) || gone.Ending == nil {
				t.Errorf("%v, want a GoneError of kind Unavailable that says %q, and how the work ended", err, tt.says)
			}
		})
	}
}

// TestWhileAllIsThere returns what the function returns, also if what it worked on goes after it.
func TestWhileAllIsThere(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
	if err := durable.While(t.Context(), func(context.Context) error { return fault }, t.TempDir()); !errors.Is(err, fault) {
		t.Errorf("%v, want %v", err, fault)
	}
	if err := durable.While(t.Context(), func(context.Context) error { t.Error("it was run"); return nil }, "/nonexistent/folder"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

// TestWatch: a folder that is missing in two checks in a row is not reported as gone, and another folder
// in its place is not reported as the same one.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "dir")
		do := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		do(os.Mkdir(dir, 0o700))
		p, err := durable.Seen(dir)
		do(err)
		defer p.Close()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var mu sync.Mutex
		var changes []error
		go p.Watch(ctx, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, err)
		})
		look := func(times, want int) {
			t.Helper()
			time.Sleep(time.Duration(times) * time.Second)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(changes) != want {
				t.Fatalf("changes %v, want %d", changes, want)
			}
		}
		time.Sleep(time.Second / 2) // between two looks from here on
		for range 2 {
			do(os.Rename(dir, dir+".away"))
			look(2, 0)
			do(os.Rename(dir+".away", dir))
			look(1, 0)
		}
		do(os.Rename(dir, dir+".away"))
		look(3, 1)
		do(os.Mkdir(dir, 0o700))
		look(5, 1)
		do(os.Remove(dir))
		do(os.Rename(dir+".away", dir))
		look(1, 2)
		do(os.Remove(dir))
		do(os.Mkdir(dir, 0o700)) // which may not get the number of the one that is removed
		look(3, 3)
		mu.Lock()
		defer mu.Unlock()
		gone := (*durable.GoneError)(nil)
		if !errors.As(changes[0], &gone) || gone.Replaced || changes[1] != nil || !errors.As(changes[2], &gone) || !gone.Replaced {
			t.Errorf("changes %v, want removed, back, replaced", changes)
		}
	})
}
