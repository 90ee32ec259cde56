package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
)

// TestStuckListsAreShared: those who see the same workspaces share a list for 5 seconds, also while
// it is made; others do not get it, and an error is not kept (J4).
func TestStuckListsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lists := stuckLists{now: time.Now}
		made := 0
		find := func(ctx context.Context, workspace string) {
			t.Helper()
			_, err := lists.of(ctx, workspace, func() ([]pawl.StuckJob, error) {
				made++
				time.Sleep(time.Second)
				return make([]pawl.StuckJob, made), nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		of := func(workspaces ...string) context.Context {
			return access.With(t.Context(), &access.Principal{Workspaces: workspaces})
		}
		if _, err := lists.of(of("a"), "", func() ([]pawl.StuckJob, error) { return nil, errors.New("no database") }); err == nil {
			t.Error("no error")
		}
		for range 3 {
			go find(of("a"), "")
		}
		find(of("a"), "")
		synctest.Wait()
		if made != 1 {
			t.Errorf("4 callers at once have made %d lists", made)
		}
		find(of("a", "b"), "")
		find(of("a"), "a")
		find(t.Context(), "")
		if made != 4 {
			t.Errorf("4 scopes have made %d lists", made)
		}
		find(of("a"), "")
		time.Sleep(5 * time.Second)
		if find(of("a"), ""); made != 5 {
			t.Errorf("after 5 seconds %d lists were made", made)
		}
	})
}
