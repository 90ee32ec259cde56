package postgres

import (
	"errors"
	"fmt"
	neturl "net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
)

// here returns the place of now in the feed.
func here(t *testing.T, db *DB) store.FeedToken {
	t.Helper()
	b, err := db.Since(t.Context(), store.FeedToken{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return b.Token
}

// after returns how many events there are after a place.
func after(t *testing.T, db *DB, token store.FeedToken) int {
	t.Helper()
	b, err := db.Since(t.Context(), token, 100)
	if err != nil || !b.All {
		t.Fatalf("%+v, %v", b, err)
	}
	return len(b.Events)
}

// TestFeedOfARestoredDump: rows with numbers of another server, which are still to come here,
// are not read, hide nothing, and are deleted.
func TestFeedOfARestoredDump(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 1, 1)
	for _, sql := range []string{
		"insert into feed (xid, n, at, rows) select '18446744073709551000'::xid8, n, at, rows from feed",
		"insert into feed_horizon values (0, '18446744073709551000')", // it would delete everything
	} {
		if _, err := db.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	begun := here(t, db)
	submit(t, db, 1, 1)
	if n := after(t, db, begun); n != 3 {
		t.Errorf("%d events, want those of one job", n)
	}
	for range 2 {
		if err := db.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var foreign int
	if err := db.pool.QueryRow(t.Context(), "select count(*) from feed where xid >= pg_snapshot_xmax(pg_current_snapshot())").Scan(&foreign); err != nil || foreign != 0 {
		t.Errorf("%d rows of another server are left, %v", foreign, err)
	}
}

// TestFeedOfAnUnprivilegedRole: without the right to ask for the cluster the feed works, and has
// another epoch.
func TestFeedOfAnUnprivilegedRole(t *testing.T) {
	t.Parallel()
	admin := fresh(t)
	begun := here(t, admin)
	role := fmt.Sprintf("feed_%d", begun.At)
	u, err := neturl.Parse(admin.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"create role " + role + " login",
		"grant usage, create on schema public to " + role,
		"grant all on all tables in schema public to " + role,
		"grant all on all sequences in schema public to " + role,
		"revoke execute on function pg_control_system() from public",
		"alter table audit owner to " + role, "alter table log owner to " + role,
	} {
		if _, err := admin.pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	u.User = neturl.User(role)
	db := open(t, u.String())
	own := here(t, db)
	if own.Epoch == begun.Epoch {
		t.Error("the epoch is that of a role that may ask for the cluster")
	}
	submit(t, db, 1, 1)
	if n := after(t, db, own); n != 3 {
		t.Errorf("%d events, want those of one job", n)
	}
	var gap *store.GapError
	if _, err := db.Since(t.Context(), begun, 1); !errors.As(err, &gap) {
		t.Errorf("a place of the other role: %v, want a gap", err)
	}
}

// TestFeedAfterAPromotion: a standby that was promoted has another history, and so another feed.
func TestFeedAfterAPromotion(t *testing.T) {
	t.Parallel()
	primary, err := pgtest.Start(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Stop() }) // it is dead by then
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	db := open(t, primary.URL)
	begun := here(t, db)
	submit(t, db, 1, 1)
	primary.Kill()
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	db = open(t, standby.URL)
	var gap *store.GapError
	if _, err := db.Since(t.Context(), begun, 10); !errors.As(err, &gap) || gap.Reason != store.GapOther {
		t.Fatalf("a place of the primary: %v, want a gap", err)
	}
	submit(t, db, 1, 1)
	if n := after(t, db, gap.Now); n != 3 {
		t.Errorf("%d events after the gap, want those of one job", n)
	}
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		xmax uint64
		open []uint64
	}{
		"10:10:": {10, nil}, "10:20:10,14,15": {20, []uint64{10, 14, 15}}, "4294967296:4294967300:4294967299": {4294967300, []uint64{4294967299}},
	} {
		xmax, open, err := readSnapshot(text)
		if err != nil || xmax != want.xmax || cmp.Diff(want.open, open) != "" {
			t.Errorf("%s: %d, %v, %v", text, xmax, open, err)
		}
	}
	for _, bad := range []string{"", "1:2", "1:x:", "1:2:x"} {
		if _, _, err := readSnapshot(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
