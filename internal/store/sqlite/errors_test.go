package sqlite

import (
	"errors"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/store"
)

// TestBusyErrors: only while others keep the file busy it takes commits otherwise.
func TestBusyErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[sqlite.ResultCode]bool{
		sqlite.ResultBusy: true, sqlite.ResultLocked: true,
		sqlite.ResultFull: false, sqlite.ResultIOErr: false, sqlite.ResultReadOnly: false, sqlite.ResultCantOpen: false,
	} {
		var busy *store.BusyError
		if err := translate("commit", code.ToError()); errors.As(err, &busy) != want {
			t.Errorf("%v: busy is %t, want %t", err, !want, want)
		}
	}
}
