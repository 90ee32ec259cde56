package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Transactions get their numbers before they commit, and commit in another order. So a place in
// the feed is no number but a snapshot: which transactions were over. What a later statement
// sees and the snapshot does not was committed between the two (as in PgQ). Nobody waits for
// transactions that are open, however long, and none of them is missed.
//
// A token is less than the snapshot that it was made in: it ends with the last commit that the
// snapshot saw in the feed. Numbers behind that commit may be given again after a crash of the
// server, to transactions that write to the feed; numbers up to it are not, since it is on disk.

// newFed writes a row of the feed in a transaction of the store. feedJoined does the same in a
// user's, which may have written one before.
var newFed = inserting("new_fed", "feed", columns("bigint at, bytea rows"), 1)

const feedJoined = "insert into feed (n, at, rows) select count(*), $1::bigint, decode($2::text, 'hex') from feed where xid = pg_current_xact_id()"

// The first row of these has the snapshot, the time, and whether the server is a standby; the
// others are of the feed. Rows from the snapshot's xmax on are those of another server whose
// dump was restored here.
const (
	feedNow = "with t as materialized (select pg_current_snapshot() as s) " +
		"select s::text, " + clock + ", (select xid from feed where xid < pg_snapshot_xmax(s) order by xid desc limit 1), null::bytea, pg_is_in_recovery() from t"

	feedBetween = "with t as materialized (select pg_current_snapshot() as s) " +
		"(select s::text, " + clock + ", null::xid8, null::bytea, pg_is_in_recovery() from t) union all " +
		"(select null, at, xid, rows, false from feed where xid = any($1::text[]::xid8[])) union all " +
		"(select null, at, xid, rows, false from feed where xid >= $2::text::xid8 and xid < (select pg_snapshot_xmax(s) from t)" +
		" order by xid, n fetch first ($3::bigint) rows with ties)"
)

// A fed is a row of the feed.
type fed struct {
	xid  uint64
	at   int64
	rows store.FeedRows
}

// Since reads the feed; see store.Feed.
func (db *DB) Since(ctx context.Context, after store.FeedToken, limit int) (batch *store.FeedBatch, err error) {
	err = db.again(ctx, func() (bool, error) {
		conn, err := db.lookups.Acquire(ctx)
		if err != nil {
			return false, connectError(err)
		}
		defer conn.Release()
		batch, err = db.since(ctx, conn, after, limit)
		return false, err
	})
	return batch, err
}

func (db *DB) since(ctx context.Context, conn *pgxpool.Conn, after store.FeedToken, limit int) (*store.FeedBatch, error) {
	r := feedReading{after: after, limit: limit}
	var err error
	if after.Epoch == 0 {
		err = db.queryOn(ctx, conn, "ask where the feed is", feedNow, r.row)
	} else {
		open := make([]string, len(after.Open))
		for i, n := range after.Open {
			open[i] = strconv.FormatUint(n, 10)
		}
		err = db.queryOn(ctx, conn, "read the feed", feedBetween, r.row, open, strconv.FormatUint(after.Next, 10), int64(limit))
	}
	if err == nil {
		err = r.err
	}
	if err != nil {
		return nil, err
	}
	if r.standby {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "this database is a standby, which has no feed of events", Hint: "use the server that it follows"}
	}
	epoch, err := db.epoch(ctx, conn)
	if err != nil {
		return nil, err
	}
	reason := r.gap(epoch)
	if reason == store.GapOld {
		if reason, err = db.forgotten(ctx, conn, after.At); err != nil {
			return nil, err
		}
	}
	switch {
	case after.Epoch == 0:
		return &store.FeedBatch{Token: r.begin(epoch), All: true}, nil
	case reason != "":
		now, err := db.since(ctx, conn, store.FeedToken{}, limit)
		if err != nil {
			return nil, err
		}
		return nil, &store.GapError{Reason: reason, Now: now.Token}
	}
	batch := &store.FeedBatch{Token: r.next(), All: r.behind < limit}
	batch.Events, err = db.fedEvents(ctx, conn, r.found)
	return batch, err
}

// A feedReading is the result of feedBetween, or of feedNow.
type feedReading struct {
	after   store.FeedToken
	limit   int
	now     int64
	xmax    uint64
	open    []uint64 // the transactions under way
	last    uint64   // the highest number found, or 0
	behind  int      // rows from after.Next on
	standby bool
	found   []fed
	err     error
}

// row reads a row of the result.
func (r *feedReading) row(c *cursor) {
	first := !c.null()
	snapshot, at, xid, rows := c.word(), c.num(), uint64(c.num()), c.blob()
	standby := c.flag()
	if c.err != nil {
		return
	}
	r.last = max(r.last, xid)
	if first {
		r.now, r.standby = at, standby
		r.xmax, r.open, r.err = readSnapshot(snapshot)
		return
	}
	if xid >= r.after.Next {
		r.behind++
	}
	r.found = append(r.found, fed{xid, at, rows})
}

// readSnapshot reads the text of a pg_snapshot, xmin:xmax:xip,xip.
func readSnapshot(s string) (xmax uint64, open []uint64, err error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return 0, nil, fmt.Errorf("snapshot %q: want three parts", s)
	}
	if xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil || parts[2] == "" {
		return xmax, nil, err
	}
	for p := range strings.SplitSeq(parts[2], ",") {
		n, err := strconv.ParseUint(p, 10, 64)
		if err != nil {
			return 0, nil, err
		}
		open = append(open, n)
	}
	return xmax, open, nil
}

// gap returns why the feed does not go on from the token, or "".
func (r *feedReading) gap(epoch uint64) string {
	switch {
	case r.after.Epoch != epoch, r.after.Next > r.xmax:
		return store.GapOther
	case r.after.At < r.now-store.FeedMemory.Microseconds():
		return store.GapOld
	}
	return ""
}

// forgotten returns GapOld if rows behind a token that was made at a time may be deleted, or "".
// They are kept for longer than FeedMemory while a webhook is behind. It is asked after the rows
// were read: forgetFeed raises the horizon before it deletes.
func (db *DB) forgotten(ctx context.Context, conn *pgxpool.Conn, at int64) (reason string, err error) {
	reason = store.GapOld
	err = db.queryOn(ctx, conn, "ask since when the feed is whole", "select coalesce(min(at), 0) from feed_horizon", func(c *cursor) {
		if first := c.num(); c.err == nil && first != 0 && first <= at {
			reason = ""
		}
	})
	return reason, err
}

// begin returns the place of now.
func (r *feedReading) begin(epoch uint64) store.FeedToken {
	r.after = store.FeedToken{Epoch: epoch}
	return r.next()
}

// next returns the place behind what was found.
func (r *feedReading) next() store.FeedToken {
	t := store.FeedToken{Epoch: r.after.Epoch, At: r.now, Next: max(r.after.Next, r.last+1)}
	if r.last == 0 {
		t.Next = r.after.Next
	}
	if r.behind >= r.limit && r.after.At > 0 {
		t.At = r.after.At // what is behind a page is no younger than what was behind the token
	}
	for _, n := range r.open {
		if n < t.Next {
			t.Open = append(t.Open, n)
		}
	}
	slices.Sort(t.Open)
	return t
}

// The entries that a row of the feed names, with what they are about. The first column is the
// place of the row in the list.
var (
	fedEntries = "select u.i, j.uuid, j.workspace, j.workflow, j.definition, " + names("a", trailColumns) +
		" from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) as u(i, job, ord, seq)" +
		" cross join lateral (select * from audit where audit.job = u.job and audit.ord = u.ord and audit.seq = u.seq) a" +
		" cross join lateral (select uuid, workspace, workflow, definition from job where job.id = u.job) j"
	fedOther = fedLongLived()
)

// longNamed says where entities of a kind that lives long have their workspace and their name;
// o is their record.
var longNamed = map[string]struct{ workspace, name string }{
	kindWorker: {"o.workspace", "name"}, kindSchedule: {"o.workspace", "name"}, kindPause: {"o.workspace", "queue"},
	kindToken: {"''::text", "name"}, kindWebhook: {"o.workspace", "name"},
}

func fedLongLived() map[string]string {
	all := map[string]string{}
	for kind, of := range longNamed {
		all[kind] = fmt.Sprintf("select u.i, o.uuid, %[3]s, o.%[4]s, u.id, %[2]s from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as u(i, id, seq)"+
			" cross join lateral (select * from %[1]s_audit where %[1]s_audit.%[1]s = u.id and %[1]s_audit.seq = u.seq) a"+
			" cross join lateral (select * from %[1]s where %[1]s.id = u.id) o", kind, names("a", entryColumns[2:]), of.workspace, of.name)
	}
	return all
}

// fedEvents reads the entries that rows of the feed name.
func (db *DB) fedEvents(ctx context.Context, on querier, found []fed) ([]store.Event, error) {
	jobs := &[4][]int64{}
	others := map[string]*[4][]int64{}
	for i := range found {
		err := found[i].rows.Each(func(k store.EntityKey, seq int64) {
			keys := jobs
			if fedOther[k.Kind] != "" {
				if keys = others[k.Kind]; keys == nil {
					keys = &[4][]int64{}
					others[k.Kind] = keys
				}
			}
			for j, v := range [...]int64{int64(i), int64(k.Job), int64(k.Ord), seq} {
				keys[j] = append(keys[j], v)
			}
		})
		if err != nil && db.faults.New(fmt.Sprint("feed ", found[i].xid)) {
			db.log.Error("row of the feed left out", "transaction", found[i].xid, "error", err)
		}
	}
	var events []store.Event
	commit := func(e store.Event, i int64) {
		e.Commit = found[i].xid
		events = append(events, e)
	}
	if err := db.fedJobs(ctx, on, jobs, commit); err != nil {
		return nil, err
	}
	for kind, keys := range others {
		if err := db.fedOthers(ctx, on, kind, keys, commit); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(events, func(a, b store.Event) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Commit, b.Commit)) })
	return events, nil
}

func (db *DB) fedJobs(ctx context.Context, on querier, keys *[4][]int64, f func(store.Event, int64)) error {
	if len(keys[0]) == 0 {
		return nil
	}
	return db.queryOn(ctx, on, "read events of jobs", fedEntries, func(c *cursor) {
		i, of := c.num(), store.Event{}
		c.fixed(of.Job[:])
		of.Workspace, of.Name, of.Definition = c.text(), c.text(), rowkey.Definition(c.num())
		job := rowkey.Job(c.num())
		c.entries(func(ord pawl.Ord, entry audit.Entry) {
			e := of
			e.Entry = store.Entry{EntityKey: jobKey(job, ord), Entry: entry}
			e.Entity = public(e.EntityKey, of.Job)
			f(e, i)
		})
	}, keys[0], keys[1], keys[2], keys[3])
}

func (db *DB) fedOthers(ctx context.Context, on querier, kind string, keys *[4][]int64, f func(store.Event, int64)) error {
	return db.queryOn(ctx, on, "read events of a "+kind, fedOther[kind], func(c *cursor) {
		i := c.num()
		if e := c.longEvent(kind); c.err == nil {
			f(e, i)
		}
	}, keys[0], keys[1], keys[3])
}

// longEvent reads an entry of an entity of a kind that lives long, with what it is about.
func (c *cursor) longEvent(kind string) (e store.Event) {
	var id pawl.ID
	c.fixed(id[:])
	e.Workspace, e.Name = c.text(), c.text()
	e.EntityKey = store.EntityOf(kind, c.num())
	e.Entry.Entry = c.entry()
	e.Entity = public(e.EntityKey, id)
	return e
}

// What distinguishes one feed from another: the cluster, its history (each promotion of a
// standby begins another one), and the table, which a restored dump makes anew. A role that may
// not ask for the cluster takes the start of the server instead, so that a restart is a gap.
const (
	feedHistory = "pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), (select oid from pg_database where datname = current_database()), 'feed'::regclass::oid"
	feedCluster = "select concat_ws(' ', (select system_identifier from pg_control_system()), substr(" + feedHistory + ")"
	feedStart   = "select concat_ws(' ', " + startOfServer + ", substr(" + feedHistory + ")"
)

// epoch returns the epoch of the feed. A connection cannot see it change.
func (db *DB) epoch(ctx context.Context, conn *pgxpool.Conn) (uint64, error) {
	const key = "pawl epoch"
	data := conn.Conn().PgConn().CustomData()
	if known, ok := data[key].(uint64); ok {
		return known, nil
	}
	id, err := oneText(ctx, conn.Conn(), feedCluster)
	if code(err) == codeNoRight {
		id, err = oneText(ctx, conn.Conn(), feedStart)
	}
	if err != nil {
		return 0, queryError("ask which database this is", err)
	}
	sum := sha256.Sum256([]byte(id))
	epoch := max(binary.BigEndian.Uint64(sum[:8]), 1)
	data[key] = epoch
	return epoch, nil
}

func oneText(ctx context.Context, conn *pgx.Conn, sql string) (s string, err error) {
	err = conn.QueryRow(ctx, sql).Scan(&s)
	return s, err
}

// forgetFeed deletes the rows of transactions that were over FeedMemory ago, or longer while a
// webhook is behind: every token that is still good has seen them. It notes at most every ten
// minutes which are over by now.
func (db *DB) forgetFeed(ctx context.Context) error {
	const batch = 10_000
	kept, err := db.feedKept(ctx)
	if err != nil {
		return err
	}
	for _, sql := range []string{
		// Of another server, whose dump was restored here: its numbers are still to come.
		"delete from feed where xid >= pg_snapshot_xmax(pg_current_snapshot())",
		"delete from feed_horizon where oldest > pg_snapshot_xmin(pg_current_snapshot()) or at < (select max(at) from feed_horizon where at <= " + clock + " - $1::bigint)",
		"insert into feed_horizon select " + clock + ", pg_snapshot_xmin(pg_current_snapshot())" +
			" where not exists (select from feed_horizon where at > " + clock + " - 600000000) on conflict do nothing",
	} {
		var args []any
		if strings.Contains(sql, "$1") {
			args = append(args, kept.Microseconds())
		}
		if _, err := db.pool.Exec(ctx, sql, args...); err != nil {
			return queryError("forget what was committed long ago", err)
		}
	}
	for {
		done, err := db.pool.Exec(ctx, "delete from feed f using (select xid, n from feed where xid < (select oldest from feed_horizon where at <= "+clock+" - $1::bigint order by at limit 1)"+
			" order by xid limit $2) d where f.xid = d.xid and f.n = d.n", kept.Microseconds(), batch)
		if err != nil {
			return queryError("forget what was committed long ago", err)
		}
		if done.RowsAffected() < batch {
			return nil
		}
	}
}
