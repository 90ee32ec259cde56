package sqlite

import (
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
)

const (
	doublesLimit = 5 * time.Second // how long trails are checked
	doublesPage  = 1000            // jobs at once
	maxDoubles   = 20              // how many are named
)

const askPage = "SELECT coalesce(min(id), 0), count(*) FROM (SELECT id FROM job WHERE id < ?1 ORDER BY id DESC LIMIT ?2)"

// askDoubled returns the entries, of jobs with keys in a range, that are stored more than
// once, in rows of their own or in the lists of others.
var askDoubled = fmt.Sprintf(`SELECT j.uuid, t.ord, t.seq, count(*) FROM trail t JOIN job j ON j.id = t.job
WHERE t.job >= ?1 AND t.job < ?2 GROUP BY t.job, t.ord, t.seq HAVING count(*) > 1 ORDER BY t.job, t.ord, t.seq LIMIT %d`, maxDoubles)

// doubles checks the trails, those of the newest jobs first.
func (d *diagnosis) doubles() error {
	limit := time.Now().Add(doublesLimit)
	before, found := int64(math.MaxInt64), 0
	for found < maxDoubles && time.Now().Before(limit) && d.ctx.Err() == nil {
		var from, n int64
		err := d.conn.ask(askPage, func(b *row) { b.ints(before, doublesPage) }, func(cols *columns) { from, n = cols.int(), cols.int() })
		if err != nil || n == 0 {
			return err
		}
		err = d.conn.ask(askDoubled, func(b *row) { b.ints(from, before) }, func(cols *columns) {
			var id pawl.ID
			cols.fixed(id[:])
			ord, seq, times := pawl.Ord(cols.int()), cols.int(), cols.int()
			kind := "job "
			if ord != 0 {
				kind = "step "
			}
			d.Say("audit_doubles", health.Problem, kind+nameOf(id, ord), "entry %d of its trail is stored %d times", seq, times)
			found++
		})
		if err != nil {
			return err
		}
		before = from
	}
	return nil
}
