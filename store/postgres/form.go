package postgres

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A form of a statement takes some columns as one value for all rows, where the statement
// takes arrays: in a batch of like records most columns have but one value, and to send
// and receive it for each row costs the server a tenth of a small job. The forms of a
// statement are few and known beforehand, whatever the batches look like; as brief
// statements are, each is prepared on a connection when it is first used.
type form struct {
	*statement
	same uint64 // those columns, the first as the lowest bit
}

// fewestColumns are what a form is worth its memory for.
const fewestColumns = 4

// The columns that most batches have one value of, of whichever table.
var (
	// Of nearly all batches.
	mostly = strings.Fields("continues schedule depth paused error skipped losses mark_tries total made live reason request_id created_at at")
	// Of records of one workflow.
	ofKind = strings.Fields("workspace workflow description private parent parent_step definition version worker_count priority pool quota due_at due_event inputs metadata")
	// Of records that come from one state to another at one moment.
	ofState = strings.Fields("was state line seq event actor mark mark_at ending hooks open blocked active unmet attempts claims route rank updated_at enqueued_at started_at completed_at")
)

// forms are the forms of statements, those with the most columns first.
var forms = formsOf(newJobs, newSteps, newEntries,
	moveJobs.read, takeSteps.read, endSteps.read, moveJobs.known, takeSteps.known, endSteps.known)

func formsOf(list ...*statement) map[*statement][]form {
	all := make(map[*statement][]form)
	for _, s := range list {
		for _, names := range [][]string{
			slices.Concat(mostly, ofKind, ofState), slices.Concat(mostly, ofKind), slices.Concat(mostly, ofState), mostly,
		} {
			f := formOf(s, names)
			if bits.OnesCount64(f.same) >= fewestColumns && !slices.ContainsFunc(all[s], func(g form) bool { return g.same == f.same }) {
				all[s] = append(all[s], f)
			}
		}
		slices.SortFunc(all[s], func(a, b form) int { return bits.OnesCount64(b.same) - bits.OnesCount64(a.same) })
		for i, f := range all[s] {
			f.name = fmt.Sprintf("%s_form_%d", s.name, i)
		}
	}
	return all
}

var arrayParam = regexp.MustCompile(`unnest\(\$(\d+)::(\w+)\[\]\) as (\w+)`)

// formOf makes the form that has one value of the columns with these names.
func formOf(s *statement, names []string) form {
	var f form
	sql := arrayParam.ReplaceAllStringFunc(s.sql, func(param string) string {
		p := arrayParam.FindStringSubmatch(param)
		if !slices.Contains(names, p[3]) {
			return param
		}
		number, _ := strconv.Atoi(p[1])
		f.same |= 1 << (number - 1)
		return fmt.Sprintf("$%s::%s as %s", p[1], p[2], p[3])
	})
	f.statement = &statement{sql: sql}
	return f
}

// addForm queues a statement on rows, in the first of its forms that they have; few new
// rows, which have none, as a part.
func (w *writing) addForm(s *statement, r *rows, more ...[]byte) {
	if p := newFew[s]; p != nil && r.len() <= fewRows {
		w.addPart(p, r.params()...)
		return
	}
	c, same := call{statement: s}, r.same()
	i := slices.IndexFunc(forms[s], func(f form) bool { return f.same&^same == 0 })
	if i < 0 {
		c.params = r.params()
	} else {
		f := forms[s][i]
		c.statement, c.late, c.params = f.statement, true, r.paramsBut(f.same)
	}
	c.params = append(c.params, more...)
	w.calls = append(w.calls, c)
}
