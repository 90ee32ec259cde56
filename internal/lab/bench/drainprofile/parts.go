package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A part is where time went.
type part struct {
	name  string
	cpu   time.Duration
	calls int // 0: not known
}

// sorted returns the parts, the largest first.
func sorted(by map[string]part) []part {
	var list []part
	for _, p := range by {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.cpu, a.cpu), strings.Compare(a.name, b.name))
	})
	return list
}

// limited makes one part of those after the first n.
func limited(list []part, n int) []part {
	if len(list) <= n {
		return list
	}
	rest := part{name: fmt.Sprintf("%d others", len(list)-n)}
	for _, p := range list[n:] {
		rest.cpu += p.cpu
	}
	return append(slices.Clone(list[:n]), rest)
}

// withRest adds the time of the server that none of its statements has taken.
func withRest(statements []part, all time.Duration) []part {
	for _, s := range statements {
		all -= s.cpu
	}
	return append(statements, part{name: "outside of statements: protocol, commits, processes in the background", cpu: max(all, 0)})
}

// packages reads the table of "go tool pprof -top -unit=us" and adds up the functions of each
// package: the time that they took themselves.
func packages(in io.Reader) ([]part, error) {
	by := map[string]part{}
	lines := bufio.NewScanner(in)
	head := true
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if head {
			head = len(f) == 0 || f[0] != "flat"
			continue
		}
		if len(f) < 6 {
			continue
		}
		us, err := strconv.ParseFloat(strings.TrimSuffix(f[0], "us"), 64)
		if err != nil {
			return nil, fmt.Errorf("profile: %q: %w", lines.Text(), err)
		}
		if us == 0 {
			continue // it only called others
		}
		name := packageOf(f[5])
		p := by[name]
		p.name, p.cpu = name, p.cpu+time.Duration(us*1000)
		by[name] = p
	}
	if head {
		return nil, fmt.Errorf("profile: there is no table")
	}
	return sorted(by), lines.Err()
}

// module is left out of the names of packages.
const module = "github.com/pawl-dev/pawl/"

// packageOf returns the package of a function, of the runtime one name for all of its packages.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[") // type arguments have paths
	function = strings.TrimPrefix(function, module)
	dir := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[dir:], ".")
	name = function[:dir] + name
	switch {
	case name == "internal/runtime/syscall", name == "syscall", name == "internal/runtime/syscall/linux":
		return "system calls"
	case strings.HasPrefix(name, "runtime"), strings.HasPrefix(name, "internal/runtime"), !strings.Contains(function, "."):
		return "runtime"
	}
	return name
}

// The lines of the log of PostgreSQL, after the time and the process id. Other lines begin with a tab.
var (
	logLine   = regexp.MustCompile(`^\S+ \S+ \S+ \[(\d+)\] (LOG|DETAIL|STATEMENT):  (.*)$`)
	usageLine = regexp.MustCompile(`^\t!\t([0-9.]+) s user, ([0-9.]+) s system, `)
)

// readStatements adds up the statistics of each statement in the log of a server with
// log_statement_stats: of parsing, binding and executing it.
func readStatements(in io.Reader) ([]part, error) {
	by := map[string]part{}
	lines := bufio.NewReader(in)
	var s statistics
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			s.end(by)
			if err == io.EOF {
				err = nil
			}
			return sorted(by), err
		}
		s.read(strings.TrimSuffix(line, "\n"), by)
	}
}

// statistics are what was read of one entry of the log: three messages, the statement last.
type statistics struct {
	kind string // EXECUTE MESSAGE, or another
	cpu  time.Duration
	sql  string
	last bool // the statement goes on
}

func (s *statistics) read(line string, by map[string]part) {
	if m := logLine.FindStringSubmatch(line); m != nil {
		switch m[2] {
		case "LOG":
			s.end(by)
			s.kind, _ = strings.CutSuffix(m[3], " STATISTICS")
		case "STATEMENT":
			s.sql, s.last = m[3], true
		}
		return
	}
	if m := usageLine.FindStringSubmatch(line); m != nil && s.cpu == 0 {
		user, _ := strconv.ParseFloat(m[1], 64) // numbers, by the pattern
		system, _ := strconv.ParseFloat(m[2], 64)
		s.cpu = time.Duration((user + system) * float64(time.Second))
		return
	}
	if s.last {
		s.sql += " " + line
	}
}

// end adds the entry to the parts.
func (s *statistics) end(by map[string]part) {
	if s.sql != "" {
		name := short(s.sql)
		p := by[name]
		p.name, p.cpu = name, p.cpu+s.cpu
		if s.kind == "EXECUTE MESSAGE" || s.kind == "QUERY" {
			p.calls++
		}
		by[name] = p
	}
	*s = statistics{}
}

const shortest = 90

// short returns the beginning of a statement, in one line.
func short(sql string) string {
	words := []rune(strings.Join(strings.Fields(sql), " "))
	if len(words) > shortest {
		return string(words[:shortest]) + "…"
	}
	return string(words)
}
