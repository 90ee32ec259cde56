package results

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
)

const (
	intervalsFile = "intervals.tsv"
	all           = "all" // agents, or operations
	maxRow        = 1 << 20
)

// A Query selects intervals of a run.
type Query struct {
	Agent     string  // the folder of an agent in the result; empty: all together
	Operation string  // of all agents together; empty: all together
	From, To  float64 // seconds since the start, To excluded; 0: no bound
	After     int64   // the place behind the last row of the page before
	Limit     int
}

// An Interval is what was done in an interval.
type Interval struct {
	Start     float64        `json:"start_seconds"`
	End       float64        `json:"end_seconds"`
	Warmup    bool           `json:"warmup" doc:"It is not in the figures of the run."`
	Backlog   uint64         `json:"backlog" doc:"Operations that were due and had not begun at its end."`
	CPUUser   *float64       `json:"cpu_user_seconds" doc:"Of the engines, if it is of all operations and the run has ended."`
	CPUSystem *float64       `json:"cpu_system_seconds"`
	Figures   report.Figures `json:"figures" doc:"Of a run that has ended without error classes, and without the number and the least of its latencies."`
}

// Intervals returns a page of the intervals of a run, and the place after it; 0: there are no more. Those
// of a run without a result are of all agents together. It fails if ctx ends.
func (f *Folder) Intervals(ctx context.Context, r *Run, q Query) ([]Interval, int64, error) {
	if r.State == Damaged {
		return nil, 0, pawl.Errorf(pawl.Conflict, "run %s is damaged: %s", r.Name, r.Reason)
	}
	if r.Result {
		return f.ofResult(ctx, r.Name, q)
	}
	list, next, err := f.ofJournal(ctx, r, q)
	if pawl.KindOf(err) == pawl.NotFound { // it has just ended: its places are others
		return nil, 0, pawl.Errorf(pawl.Conflict, "run %s has ended meanwhile: read its intervals from the first page on", r.Name)
	}
	return list, next, err
}

// ofJournal returns intervals of a run that is on or lost.
func (f *Folder) ofJournal(ctx context.Context, r *Run, q Query) (list []Interval, next int64, err error) {
	if q.Agent != "" {
		return nil, 0, pawl.Errorf(pawl.Conflict, "run %s has no result: only that has the intervals of each agent", r.Name)
	}
	reader, err := f.Follow(r.Name)
	if err != nil {
		return nil, 0, err
	}
	defer reader.Close()
	if err := reader.From(q.After); err != nil {
		return nil, 0, err
	}
	last := int64(0)
	err = reader.Read(func(l journal.Line) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var line journal.IntervalLine
		if l.Type != journal.TypeInterval || json.Unmarshal(l.Data, &line) != nil || !q.within(line.Start) {
			return nil
		}
		i := Interval{Start: line.Start, End: line.End, Warmup: line.Warmup, Backlog: line.Backlog, Figures: line.Total}
		if q.Operation != "" && !figuresOf(&i.Figures, line.Operations, q.Operation) {
			return nil
		}
		if len(list) == q.Limit {
			next = last
			return errFull
		}
		list, last = append(list, i), l.Next
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return list, next, err
}

// errFull ends the reading of intervals once a page is full.
var errFull = errors.New("the page is full")

func figuresOf(to *report.Figures, operations []report.Operation, name string) bool {
	for i := range operations {
		if operations[i].Operation == name {
			*to = operations[i].Figures
			return true
		}
	}
	return false
}

func (q *Query) within(start float64) bool {
	return start >= q.From && (q.To == 0 || start < q.To)
}

// ofResult returns intervals of a run that has ended. A place is the offset of a row in the file.
func (f *Folder) ofResult(ctx context.Context, name string, q Query) ([]Interval, int64, error) {
	file, err := journal.OpenFile(f.root, path.Join(name, intervalsFile))
	if err != nil {
		return nil, 0, damaged(name, err)
	}
	defer file.Close()
	t, err := openTable(file, q.After)
	if err != nil {
		return nil, 0, damaged(name, err)
	}
	var list []Interval
	last := int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		row, err := t.next()
		if err == io.EOF {
			return list, 0, nil
		}
		if err != nil {
			return nil, 0, damaged(name, err)
		}
		i, is, err := row.interval(&q)
		switch {
		case err != nil:
			return nil, 0, damaged(name, err)
		case !is:
		case q.To > 0 && i.Start >= q.To+maxInterval: // rows are by their starts, those of agents nearly
			return list, 0, nil
		case !q.within(i.Start):
		case len(list) == q.Limit:
			return list, last, nil
		default:
			list, last = append(list, i), t.at
		}
	}
}

// maxInterval is the longest interval of a run, in seconds.
const maxInterval = 60

func damaged(name string, err error) error {
	if pawl.KindOf(err) == pawl.Invalid {
		return err
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the intervals of run %s are damaged", name), Err: err}
}

// A table is the file of intervals.
type table struct {
	in      *bufio.Reader
	columns map[string]int
	at      int64 // where the next row begins
}

// openTable opens the table at a place.
func openTable(file *os.File, at int64) (*table, error) {
	t := &table{in: bufio.NewReader(file), columns: map[string]int{}}
	head, err := t.line()
	if err != nil {
		return nil, err
	}
	for i, c := range strings.Split(head, "\t") {
		t.columns[c] = i
	}
	if at == 0 {
		return t, nil
	}
	var before [1]byte
	if _, err := file.ReadAt(before[:], at-1); at < t.at || err != nil && !errors.Is(err, io.EOF) || before[0] != '\n' {
		return nil, pawl.Errorf(pawl.Invalid, "cursor: want the next of a page")
	}
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	t.in.Reset(file)
	t.at = at
	return t, nil
}

func (t *table) line() (string, error) {
	var long []byte
	for {
		b, err := t.in.ReadSlice('\n')
		t.at += int64(len(b))
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(long) < maxRow:
			long = append(long, b...)
			continue
		case err == io.EOF && len(b)+len(long) > 0:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		case len(long) > 0:
			b = append(long, b...)
		}
		return string(bytes.TrimSuffix(b, []byte{'\n'})), nil
	}
}

func (t *table) next() (row, error) {
	line, err := t.line()
	return row{t, strings.Split(line, "\t"), nil}, err
}

// A row is one row of the table. Its cells are read until one is wrong.
type row struct {
	*table
	cells []string
	err   error
}

// interval returns the row as an interval, if a query is about such rows.
func (r row) interval(q *Query) (i Interval, is bool, err error) {
	if len(r.cells) != len(r.columns) {
		return i, false, fmt.Errorf("a row has %d cells, want %d", len(r.cells), len(r.columns))
	}
	if r.cell("agent") != orAll(q.Agent) || r.cell("operation") != orAll(q.Operation) {
		return i, false, r.err
	}
	i = Interval{Start: r.float("start_s"), End: r.float("end_s"), Warmup: r.cell("warmup") == "true", Backlog: r.count("backlog"), Figures: report.Figures{
		Operations: r.count("operations"), Bytes: r.count("bytes"), Errors: r.count("errors"), OperationsPerSecond: r.float("operations_per_s"), Service: r.latency("service"),
	}}
	if f := &i.Figures; f.Operations > 0 { // more exact than the column, and of the time that agents took
		f.BytesPerSecond = float64(f.Bytes) / float64(f.Operations) * f.OperationsPerSecond
	}
	if r.cell("cpu_user_s") != "" {
		user, system := r.float("cpu_user_s"), r.float("cpu_system_s")
		i.CPUUser, i.CPUSystem = &user, &system
	}
	if r.cell("response_p50_us") != "" {
		response := r.latency("response")
		i.Figures.Response = &response
	}
	return i, true, r.err
}

func orAll(name string) string {
	if name == "" {
		return all
	}
	return name
}

func (r *row) cell(column string) string {
	n, is := r.columns[column]
	if !is {
		r.err = fmt.Errorf("there is no column %s", column)
		return ""
	}
	return r.cells[n]
}

func (r *row) float(column string) float64 {
	v, err := strconv.ParseFloat(r.cell(column), 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = errors.New("no number")
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %s: %w", column, err)
	}
	return v
}

func (r *row) count(column string) uint64 {
	v, err := strconv.ParseUint(r.cell(column), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %s: %w", column, err)
	}
	return v
}

// latency returns a latency: its cells are microseconds with three digits, which are nanoseconds. They
// are empty if there is none.
func (r *row) latency(of string) (l report.Latency) {
	if r.cell(of+"_p50_us") == "" {
		return l
	}
	l.Mean = r.float(of+"_mean_us") * 1e3
	for _, c := range []struct {
		column string
		to     *int64
	}{{"p50", &l.P50}, {"p90", &l.P90}, {"p95", &l.P95}, {"p99", &l.P99}, {"p999", &l.P999}, {"max", &l.Max}} {
		*c.to = int64(math.Round(r.float(of+"_"+c.column+"_us") * 1e3))
	}
	return l
}
