package postgres

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// The rows that one transaction makes are much alike: of the dozens of columns of new jobs most
// have the same value in all of them, and so have the entries of their trail. Of such a column only
// the value is sent, and the server neither reads an array nor takes it apart, which cost it more
// than writing the rows did. Which columns these are varies, and so does the statement; each is made
// when it is first used.

// maxAlike is how many such statements a handle makes. After that, other rows use one that sends
// fewer values, or arrays only.
const maxAlike = 24

// alikeOf are the tables whose new rows are sent so. In the columns apart the rows of a transaction
// are the same only by chance, or differ by chance: those are always arrays, so that there are few
// statements.
var alikeOf = map[*statement]struct {
	table   string
	columns []column
	apart   columnSet
}{
	newJobs:    {"job", jobTable.fresh, setOf(jobTable.fresh, "description version worker_count priority rank inputs metadata")},
	newSteps:   {"step", stepTable.fresh, setOf(stepTable.fresh, "priority rank")},
	newEntries: {"audit", trailColumns, setOf(trailColumns, "request_id metadata")},
}

// setOf returns the set of the named columns, each of which is one of the table.
func setOf(cs []column, names string) (s columnSet) {
	for _, name := range strings.Fields(names) {
		i := slices.IndexFunc(cs, func(c column) bool { return c.name == name })
		s |= 1 << i // it panics if there is no such column
	}
	return s
}

// alikeStatements are those used so far.
type alikeStatements struct {
	mu  sync.Mutex
	all map[alikeKey]*statement
}

type alikeKey struct {
	of   *statement
	same columnSet
}

// of returns the statement that writes new rows as s does, of which all have the same value in some
// columns, and the set of those that it takes a value for. With too many statements that is the
// largest set that is known, or s, which takes none.
func (b *alikeStatements) of(s *statement, same columnSet) (*statement, columnSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := alikeOf[s]
	key := alikeKey{s, same &^ t.apart}
	if known := b.all[key]; known != nil {
		return known, key.same
	}
	if len(b.all) == maxAlike {
		return b.nearest(key)
	}
	if b.all == nil {
		b.all = make(map[alikeKey]*statement)
	}
	b.all[key] = &statement{fmt.Sprintf("%s_alike_%x", s.name, uint64(key.same)), insertAlike(t.table, t.columns, key.same)}
	return b.all[key], key.same
}

// nearest requires the lock.
func (b *alikeStatements) nearest(key alikeKey) (best *statement, same columnSet) {
	best = key.of
	for k, s := range b.all {
		if k.of == key.of && k.same&^key.same == 0 && bits.OnesCount64(uint64(k.same)) > bits.OnesCount64(uint64(same)) {
			best, same = s, k.same
		}
	}
	return best, same
}
