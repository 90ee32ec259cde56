package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Jobs are removed by the day, since the trail is partitioned by day, once every job of the
// day has ended before the time and no unfinished job needs one of them. First the records are
// removed, in batches, each in one transaction with the anchor that counts them. While the
// anchor is pending, trails without records, and steps without jobs, are those of removed
// jobs; a transaction may therefore leave steps of the jobs that it removes to the next ones.
// Then the partitions of that day are dropped, and the anchor is no longer pending. Each step
// is a transaction, and any process finds the next one from the database alone.

// Bounds of one step of retention.
const (
	retainJobs    = 200
	retainRecords = 5000 // parts removed with the jobs, of each table; as many trails are read, except those of one job
	retainRows    = 5000 // rows outside of the days
)

// dropWait bounds how long writers may wait behind a partition that is to be dropped while it
// is read. The drop is retried later.
const dropWait = "150ms"

// dayLength is a day in microseconds.
const dayLength = int64(24 * time.Hour / time.Microsecond)

// retentionLock is the advisory lock under which one process at a time removes.
const retentionLock = "hashtextextended(current_schema() || '/retention', 7061776)"

// The condition that an unfinished job needs the job o.
const (
	jobsOpen = "state in ('SUBMITTED', 'PENDING', 'RUNNING')"
	needed   = "(exists (select 1 from job where continues = o.id and continues <> 0 and " + jobsOpen + ")" +
		" or exists (select 1 from job where parent = o.id and parent <> 0 and " + jobsOpen + ")" +
		" or o.parent <> 0 and exists (select 1 from job where id = o.parent and " + jobsOpen + "))"
)

// Whether a job seals its steps: its first row is of version 2.
const sealedJob = `coalesce((select substring(a.seals from 1 for 1) = '\x02' from audit a where a.job = job.id and a.ord = 0 and a.seq = 1), false)`

// Retain does one step of retention; see store.Retention.
func (db *DB) Retain(ctx context.Context, p *store.Policy, from store.Place) (store.Removed, error) {
	from = from.Settled()
	r := &retaining{db: db, policy: p, from: from}
	step := r.longLived
	switch from.Kind {
	case kindJob:
		step = r.jobs
	case kindWorker, kindSchedule, kindToken, kindPause, kindWebhook:
	default:
		return store.Removed{}, pawl.Errorf(pawl.Invalid, "kind %q: want job, worker, schedule, token, webhook or queue_pause", from.Kind)
	}
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		r.tx, r.done = tx, store.Removed{Kind: from.Kind}
		var alone bool
		if err := tx.QueryRow(ctx, "select pg_try_advisory_xact_lock("+retentionLock+"), "+clock).Scan(&alone, &r.now); err != nil {
			return err
		}
		if !alone {
			r.done.Busy, r.done.Done = "another process removes what has ended", true
			return nil
		}
		return step(ctx)
	})
	if code(err) == codeLockTimeout {
		if r.done = store.Past(kindJob); !r.over {
			r.done = store.Removed{Kind: kindJob, Next: r.beyond()}
		}
		r.done.Busy, err = "the trail of "+dayName(r.day)+" is being read or written", nil
	}
	return r.done, queryError("remove what has ended", err)
}

// A retaining is one step.
type retaining struct {
	db     *DB
	tx     pgx.Tx
	policy *store.Policy
	from   store.Place
	now    int64
	day    time.Time // of the jobs
	over   bool      // there are no more days
	done   store.Removed
}

func dayName(day time.Time) string { return day.Format(time.DateOnly) }

// keys returns the keys of the day: the first, and the first of the day after.
func (r *retaining) keys() (from, to int64) {
	return pawl.KeyAt(r.day), pawl.KeyAt(r.day.AddDate(0, 0, 1))
}

// beyond returns the place after the day.
func (r *retaining) beyond() store.Place {
	_, to := r.keys()
	return store.Place{Kind: kindJob, Key: to - 1}
}

// nextDay finds the first day from the place on that has jobs, or trails of removed jobs; the
// last of these may belong to the day of the place.
const nextDay = `select least((select id from job where id > $1 order by id limit 1),
  (select pending from anchor where pending <> 0 and pending >= $1 order by pending limit 1))`

func (r *retaining) jobs(ctx context.Context) error {
	var key *int64
	if err := r.tx.QueryRow(ctx, nextDay, r.from.Key).Scan(&key); err != nil {
		return err
	}
	if key == nil || store.Day(*key)+dayLength > r.policy.Before {
		return r.tidy(ctx) // this day, and every later one, is too recent
	}
	r.day = pawl.Time(store.Day(*key))
	begun, err := r.begun(ctx)
	if err != nil {
		return err
	}
	if begun == 0 {
		if whole, err := r.whole(ctx); err != nil || !whole {
			r.done.Next = r.beyond()
			return err
		}
	}
	if left, err := r.clear(ctx, r.from.Key+1, begun); err != nil || left {
		r.done.Next = r.from
		return err
	}
	return r.batch(ctx)
}

// clear removes the rest of removed jobs with keys in a range, up to a limit for each table,
// and reports whether there was any.
func (r *retaining) clear(ctx context.Context, from, to int64) (left bool, err error) {
	if from > to {
		return false, nil
	}
	for _, table := range []string{"step", "signal", "refusal"} {
		tag, err := r.tx.Exec(ctx, fmt.Sprintf(`delete from %[1]s where ctid = any(array(select ctid from %[1]s
where job between $1 and $2 and not exists (select 1 from job where id = %[1]s.job) order by job limit $3))`, table), from, to, r.db.retainRecords)
		if err != nil {
			return false, err
		}
		left = left || tag.RowsAffected() > 0
	}
	return left, nil
}

// begun returns the key of the last job of the day that was removed, or 0.
func (r *retaining) begun(ctx context.Context) (last int64, err error) {
	from, to := r.keys()
	err = r.tx.QueryRow(ctx, "select coalesce(max(pending), 0) from anchor where pending <> 0 and pending >= $1 and pending < $2", from, to).Scan(&last)
	return last, err
}

// whole reports whether all jobs of the day may be removed.
func (r *retaining) whole(ctx context.Context) (whole bool, err error) {
	from, to := r.keys()
	err = r.tx.QueryRow(ctx, `with open as materialized (select id, parent, continues from `+openJobs+` o)
select not exists (select 1 from open where id >= $1 and id < $2 or continues >= $1 and continues < $2 or parent >= $1 and parent < $2)
and not exists (select 1 from open p where exists (select 1 from job c where c.parent = p.id and c.parent <> 0 and c.id >= $1 and c.id < $2))
and not exists (select 1 from job where id >= $1 and id < $2 and updated_at >= $3 limit 1)`, from, to, r.policy.Before).Scan(&whole)
	return whole, err
}

// batch removes the records of the first jobs of the day or, if there are none left, part of
// the rest of the day's data.
func (r *retaining) batch(ctx context.Context) error {
	ended, any, err := r.ended(ctx)
	if err != nil {
		return err
	}
	if !any {
		return r.drop(ctx)
	}
	if len(ended) == 0 { // another job has begun to need one since the removal began
		r.done.Next = r.beyond()
		return nil
	}
	if err := r.remove(ctx, kindJob, ended); err != nil {
		return err
	}
	left, err := r.clear(ctx, ended[0].key, ended[len(ended)-1].key)
	if r.done.Next = r.from; !left {
		r.done.Next = store.Place{Kind: kindJob, Key: ended[len(ended)-1].key}
	}
	return err
}

// An old entity, with the ends of its trails.
type old struct {
	key, created, ended int64
	sealed              bool // a job that seals its steps
	trails              []audit.Stored
}

// ended returns the first jobs of the day after the place, locked, up to the first one that
// has to stay, and whether there were any.
func (r *retaining) ended(ctx context.Context) (ended []old, any bool, err error) {
	from, to := r.keys()
	from = max(from, r.from.Key+1)
	stay := false
	var keys []int64
	err = r.query(ctx, "select id, created_at, updated_at, "+jobsOpen+", "+sealedJob+", seq, head from job where id >= $1 and id < $2 order by id limit $3 for update", func(c *cursor) {
		o := old{key: c.num(), created: c.num(), ended: c.num()}
		any, stay = true, stay || c.flag() || o.ended >= r.policy.Before
		o.sealed = c.flag()
		if o.trails = append(o.trails, c.stored()); !stay {
			ended, keys = append(ended, o), append(keys, o.key)
		}
	}, from, to, retainJobs)
	if err != nil || len(ended) == 0 {
		return nil, any, err
	}
	// Only now: a transaction that continues a job has locked it.
	err = r.query(ctx, "select o.id from job o where o.id = any($1) and "+needed+" order by o.id limit 1", func(c *cursor) {
		key := c.num()
		for i := range ended {
			if ended[i].key == key {
				ended = ended[:i]
				break
			}
		}
	}, keys)
	if err != nil || len(ended) == 0 {
		return nil, any, err
	}
	ended, err = r.heads(ctx, ended)
	return ended, any, err
}

// heads reads the ends of the trails of steps, and returns those adjacent jobs for which it
// could read all of them: at least the first job.
func (r *retaining) heads(ctx context.Context, ended []old) ([]old, error) {
	n, at := 0, 0 // rows, and where the job of the last one is
	read := func(c *cursor) {
		job := c.num()
		var known bool
		at, known = slices.BinarySearchFunc(ended, job, func(o old, job int64) int { return cmp.Compare(o.key, job) })
		if head := c.stored(); known {
			ended[at].trails = append(ended[at].trails, head)
		}
		n++
	}
	const sql = "select job, seq, head from step where job between $1 and $2 order by job, ord limit $3"
	err := r.query(ctx, sql, read, ended[0].key, ended[len(ended)-1].key, r.db.retainRecords)
	if err != nil || n < r.db.retainRecords {
		return ended, err
	}
	if at > 0 {
		return ended[:at], nil
	}
	ended[0].trails = ended[0].trails[:1] // the job's own
	return ended[:1], r.query(ctx, sql, read, ended[0].key, ended[0].key, math.MaxInt64)
}

func (c *cursor) stored() audit.Stored {
	s := audit.Stored{Seq: c.num()}
	c.fixed(s.Head[:])
	return s
}

// The tables that hold data of an entity, its record last. Parts of a job are cleared.
var parts = map[string][]string{
	kindJob:      {"job where id"},
	kindWorker:   {"worker_audit where worker", "beat where worker", "remote where worker", "worker where id"},
	kindSchedule: {"schedule_audit where schedule", "schedule where id"},
	kindToken:    {"token_audit where token", "token where id"},
	kindPause:    {"queue_pause_audit where queue_pause", "queue_pause where id"},
	kindWebhook:  {"webhook_delivery where webhook", "webhook_place where webhook", "webhook_audit where webhook", "webhook where id"},
}

// remove removes entities and writes the anchors that count them.
func (r *retaining) remove(ctx context.Context, kind string, gone []old) error {
	newest, err := r.newest(ctx, kind)
	if err != nil {
		return err
	}
	var keys []int64
	var a audit.Anchor
	var prev audit.Hash
	for i, o := range gone {
		if i == 0 || a.Day != store.Day(o.key) || o.key <= a.Last {
			if i > 0 {
				if err := r.write(ctx, &a, prev); err != nil {
					return err
				}
				newest = []audit.Anchor{a}
			}
			a, prev = store.NextAnchor(newest, kind, o.key, r.now, r.policy, kind == kindJob)
		}
		entries := a.Entries
		a.Add(o.key, o.created, o.ended, o.sealed, o.trails...)
		keys = append(keys, o.key)
		r.done.Count++
		r.done.Steps += int64(len(o.trails) - 1)
		r.done.Entries += a.Entries - entries
	}
	for _, part := range parts[kind] {
		if _, err := r.tx.Exec(ctx, "delete from "+part+" = any($1)", keys); err != nil {
			return err
		}
	}
	return r.write(ctx, &a, prev)
}

const anchorColumns = "kind, seq, day, count, entries, first_created, last_created, first_ended, last_ended, last, digest, at, actor, reason, hash, sealed"

func (c *cursor) anchor() audit.Anchor {
	a := audit.Anchor{Kind: c.text(), Sequence: c.num(), Day: c.num(), Count: c.num(), Entries: c.num()}
	a.FirstCreated, a.LastCreated, a.FirstEnded, a.LastEnded, a.Last = c.num(), c.num(), c.num(), c.num(), c.num()
	c.fixed(a.Digest[:])
	a.At, a.Actor, a.Reason = c.num(), c.text(), c.text()
	c.fixed(a.Hash[:])
	a.Sealed = c.num()
	return a
}

// newest returns the last two anchors of the kind, the last one first.
func (r *retaining) newest(ctx context.Context, kind string) (newest []audit.Anchor, err error) {
	err = r.query(ctx, "select "+anchorColumns+" from anchor where kind = $1 order by seq desc limit 2", func(c *cursor) {
		newest = append(newest, c.anchor())
	}, kind)
	return newest, err
}

// write seals and stores an anchor. One of jobs is pending.
func (r *retaining) write(ctx context.Context, a *audit.Anchor, prev audit.Hash) error {
	a.Seal(prev)
	pending := int64(0)
	if a.Kind == kindJob {
		pending = a.Last
	}
	_, err := r.tx.Exec(ctx, "insert into anchor ("+anchorColumns+`, pending)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
on conflict (kind, seq) do update set count = excluded.count, entries = excluded.entries, first_created = excluded.first_created,
  last_created = excluded.last_created, first_ended = excluded.first_ended, last_ended = excluded.last_ended, last = excluded.last,
  digest = excluded.digest, at = excluded.at, hash = excluded.hash, sealed = excluded.sealed, pending = excluded.pending`,
		a.Kind, a.Sequence, a.Day, a.Count, a.Entries, a.FirstCreated, a.LastCreated, a.FirstEnded, a.LastEnded, a.Last,
		a.Digest[:], a.At, storable(a.Actor), storable(a.Reason), a.Hash[:], a.Sealed, pending)
	return err
}

// drop removes part of the rest of a day without jobs: its logs, then the rows outside of the
// days, then its trail.
func (r *retaining) drop(ctx context.Context) error {
	from, to := r.keys()
	r.done.Next = r.from
	var late bool // of a slow clock
	if err := r.tx.QueryRow(ctx, "select exists (select 1 from job where id >= $1 and id < $2)", from, to).Scan(&late); err != nil || late {
		r.done.Next.Key = from - 1
		return err
	}
	suffix := "_" + r.day.Format("20060102")
	if there, err := r.there(ctx, "log"+suffix); err != nil || there {
		if err != nil {
			return err
		}
		return r.exec(ctx, "set local lock_timeout = '"+dropWait+"'", "drop table log"+suffix)
	}
	for _, rest := range []string{"log_rest", "audit_rest"} {
		tag, err := r.tx.Exec(ctx, "delete from "+rest+" where ctid = any(array(select ctid from "+rest+" where job >= $1 and job < $2 limit $3))", from, to, retainRows)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
	}
	there, err := r.there(ctx, "audit"+suffix)
	if err != nil {
		return err
	}
	if there {
		if err := r.exec(ctx, "set local lock_timeout = '"+dropWait+"'", "drop table audit"+suffix); err != nil {
			return err
		}
	}
	_, err = r.tx.Exec(ctx, "update anchor set pending = 0 where pending >= $1 and pending < $2", from, to)
	r.done.Next = r.beyond()
	return err
}

// tidy drops a partition of a day without jobs; Maintain makes such partitions for days on
// which nothing happens. A partition of the trail that still has rows is left for verification
// to find.
func (r *retaining) tidy(ctx context.Context) error {
	r.over = true
	var tables []string
	err := r.query(ctx, `select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent in (to_regclass(quote_ident(current_schema()) || '.audit'), to_regclass(quote_ident(current_schema()) || '.log')) order by 1`,
		func(c *cursor) { tables = append(tables, c.text()) })
	for _, table := range tables {
		day, bad := time.Parse("20060102", table[strings.LastIndex(table, "_")+1:])
		if bad != nil || pawl.Micros(day)+dayLength > r.policy.Before || err != nil {
			continue
		}
		r.day = day
		from, to := r.keys()
		var used bool
		err = r.tx.QueryRow(ctx, "select exists (select 1 from job where id >= $1 and id < $2) or $3 and exists (select 1 from audit where job >= $1 and job < $2)",
			from, to, strings.HasPrefix(table, "audit")).Scan(&used)
		if err == nil && !used {
			r.done.Next = r.from
			return r.exec(ctx, "set local lock_timeout = '"+dropWait+"'", "drop table "+table)
		}
	}
	r.done = store.Past(kindJob)
	return err
}

func (r *retaining) there(ctx context.Context, table string) (there bool, err error) {
	err = r.tx.QueryRow(ctx, "select to_regclass(quote_ident(current_schema()) || '.' || $1) is not null", table).Scan(&there)
	return there, err
}

func (r *retaining) exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := r.tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// The entities that have ended, except workers that still hold a step.
var endedLong = map[string]string{
	kindWorker:   "updated_at < $1 and state = any($2) and not exists (" + heldBy("o.id") + ")",
	kindSchedule: "updated_at < $1 and state = any($2)",
	kindToken:    "updated_at < $1 and state = any($2)",
	kindPause:    "updated_at < $1 and state = any($2)",
	kindWebhook:  "updated_at < $1 and state = any($2)",
}

var longEnds = map[string][]string{kindWorker: endsOf(lifecycle.Worker.Ends), kindSchedule: endsOf(lifecycle.Schedule.Ends), kindToken: endsOf(lifecycle.Token.Ends),
	kindPause: endsOf(lifecycle.QueuePause.Ends), kindWebhook: endsOf(lifecycle.Webhook.Ends)}

func endsOf[S ~string](states []S) []string {
	var list []string
	for _, s := range states {
		list = append(list, string(s))
	}
	return list
}

// longLived removes entities of a kind that lives long.
func (r *retaining) longLived(ctx context.Context) error {
	kind := r.from.Kind
	var gone []old
	err := r.query(ctx, "select id, created_at, updated_at, seq, head from "+kind+" o where "+endedLong[kind]+" and id > $3 order by id limit $4 for update", func(c *cursor) {
		o := old{key: c.num(), created: c.num(), ended: c.num()}
		o.trails = append(o.trails, c.stored())
		gone = append(gone, o)
	}, r.policy.Before, longEnds[kind], r.from.Key, retainJobs)
	if err != nil {
		return err
	}
	if len(gone) == 0 {
		r.done = store.Past(kind)
		return nil
	}
	gone = r.bounded(gone)
	r.done.Next = store.Place{Kind: kind, Key: gone[len(gone)-1].key}
	if kind == kindWorker { // notes of those that were killed
		if _, err := r.tx.Exec(ctx, "delete from hold where name in (select 'worker/' || unnest($1::bigint[]))", keysOfOld(gone)); err != nil {
			return err
		}
	}
	return r.remove(ctx, kind, gone)
}

// bounded returns the first entities whose trails have a limited number of entries, at least
// one entity.
func (r *retaining) bounded(gone []old) []old {
	entries := int64(0)
	for i := range gone {
		if entries += gone[i].trails[0].Seq; entries > int64(r.db.retainRecords) && i > 0 {
			return gone[:i]
		}
	}
	return gone
}

func keysOfOld(list []old) []int64 {
	keys := make([]int64, len(list))
	for i := range list {
		keys[i] = list[i].key
	}
	return keys
}

// query passes the rows to row, and fails at the first one that cannot be read.
func (r *retaining) query(ctx context.Context, sql string, row func(*cursor), args ...any) error {
	var fault error
	err := r.db.queryOn(ctx, r.tx, "remove what has ended", sql, func(c *cursor) {
		row(c)
		fault = errors.Join(fault, c.err)
	}, args...)
	if err == nil && fault != nil {
		err = fmt.Errorf("remove what has ended: %w", fault)
	}
	return err
}

// Anchors returns what was removed; see store.Retention.
func (db *DB) Anchors(ctx context.Context) ([]audit.Anchor, error) {
	var anchors []audit.Anchor
	err := db.query(ctx, "read anchors", "select "+anchorColumns+" from anchor order by kind, seq", func(c *cursor) {
		anchors = append(anchors, c.anchor())
	})
	return anchors, err
}
