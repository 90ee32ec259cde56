package fiojob

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/document"
)

// A job is the one job of a file, with the options of [global] before its own.
type job struct {
	name    string
	options []option
}

// An option is a line.
type option struct {
	line       int
	key, value string
}

// aliases are the other names of options.
var aliases = map[string]string{
	"readwrite": "rw", "blocksize": "bs", "io_limit": "io_size",
}

// parse reads the sections. Faults go to e.
func parse(e *document.Examiner, src string) (j job) {
	global, inGlobal, jobs := []option(nil), false, 0
	n := 0
	for line := range strings.Lines(src) {
		n++
		line = strings.TrimSpace(line)
		at := document.Place{Line: n, Column: 1}
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			name := strings.TrimSuffix(line[1:], "]")
			if inGlobal = name == "global"; !inGlobal {
				j.name = name
				if jobs++; jobs == 2 {
					e.Report(at, name, "the file has more than one job", "a load file is one workload: import each job by itself")
				}
			}
		case strings.Contains(line, "${") || strings.HasPrefix(line, "include "):
			e.Report(at, "", fmt.Sprintf("%q needs another file or the environment", document.Shorten(line)), "write out what it stands for")
		default:
			key, value, given := strings.Cut(line, "=")
			o := option{n, strings.TrimSpace(key), strings.TrimSpace(value)}
			if !given {
				o.value = "1"
			}
			if other, known := aliases[o.key]; known {
				o.key = other
			}
			if inGlobal {
				global = append(global, o)
			} else {
				j.options = append(j.options, o)
			}
		}
	}
	if jobs == 0 {
		e.Report(document.Place{Line: 1, Column: 1}, "", "the file has no job", "a job is a section: [NAME]")
	}
	j.options = append(global, j.options...)
	return j
}

var sizeForm = regexp.MustCompile(`(?i)^([0-9]+)([kmgt]?)b?$`)

// size reads a number of bytes, with a unit of 1024.
func size(text string) (int64, error) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: want a number, with k, m, g or t for units of 1024", document.Shorten(text))
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	shift := 10 * (strings.Index("kmgt", strings.ToLower(m[2])) + 1)
	if m[2] == "" {
		shift = 0
	}
	if err != nil || n > (1<<62)>>shift {
		return 0, fmt.Errorf("%q does not fit 63 bits", document.Shorten(text))
	}
	return n << shift, nil
}

var spanForm = regexp.MustCompile(`^([0-9]+)(d|h|m|s|ms|us)?$`)

// span reads a time; without a unit it is in seconds.
func span(text string) (time.Duration, error) {
	m := spanForm.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a time: want a number, with d, h, m, s, ms or us", document.Shorten(text))
	}
	n, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is too long a time", document.Shorten(text))
	}
	units := map[string]time.Duration{"": time.Second, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond, "us": time.Microsecond}
	return time.Duration(n) * units[m[2]], nil
}
