package postgres

import (
	"fmt"
	"sync"
)

// The rows that one transaction makes are much alike: of the dozens of columns of new jobs most
// have the same value in all of them, and so have the entries of their trail. Of such a column only
// the value is sent, and the server neither reads an array nor takes it apart, which cost it more
// than writing the rows did. Which columns these are varies, and so does the statement; each is made
// when it is first used.

// maxAlike is how many such statements a handle makes. Rows that differ in other columns are sent
// as arrays.
const maxAlike = 32

// alikeOf are the tables whose new rows are sent so.
var alikeOf = map[*statement]struct {
	table   string
	columns []column
}{
	newJobs:    {"job", jobTable.fresh},
	newSteps:   {"step", stepTable.fresh},
	newEntries: {"audit", trailColumns},
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
// columns; or nil if there are too many statements.
func (b *alikeStatements) of(s *statement, same columnSet) *statement {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := alikeKey{s, same}
	if known := b.all[key]; known != nil || len(b.all) == maxAlike {
		return known
	}
	if b.all == nil {
		b.all = make(map[alikeKey]*statement)
	}
	t := alikeOf[s]
	b.all[key] = &statement{fmt.Sprintf("%s_%x", s.name, uint64(same)), insertAlike(t.table, t.columns, same)}
	return b.all[key]
}
