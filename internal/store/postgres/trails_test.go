package postgres

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
)

// TestNothingIsOpenWhileTrailsAreRead: who reads trails may pause for as long as it
// likes, for no transaction waits for it: neither is it ended as idle (25P03), nor
// does its snapshot keep dead rows from being vacuumed.
func TestNothingIsOpenWhileTrailsAreRead(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 3, 1)
	errOpen := errors.New("a transaction is open")
	n := 0
	err := db.Trails(t.Context(), 0, func(store.TrailOf) error {
		n++
		var open int
		err := db.pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and (xact_start is not null or backend_xmin is not null) and application_name = current_setting('application_name')").Scan(&open)
		if err == nil && open > 0 {
			err = errOpen
		}
		return err
	})
	if err != nil || n == 0 {
		t.Errorf("%d trails, %v", n, err)
	}
}
