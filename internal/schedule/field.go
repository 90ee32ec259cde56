package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A set holds values from 0 to 63.
type set uint64

func (s set) has(v int) bool { return s&(1<<v) != 0 }

// A field is one of the five parts of an expression.
type field struct {
	name     string
	min, max int
	names    []string // of the values, from min on
}

var fields = []field{
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of the month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{name: weekday, min: 0, max: 6, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// weekday is the field in which Sunday has two numbers: 0 and 7.
const weekday = "weekday"

// parse reads a list of items. The error names the item and its fault.
func (f *field) parse(text string) (set, error) {
	var all set
	for item := range strings.SplitSeq(text, ",") {
		values, err := f.item(item)
		if err != nil {
			return 0, fmt.Errorf("%s %q: %w", f.name, item, err)
		}
		all |= values
	}
	return all, nil
}

// item reads a value, a range or *, with or without a step.
func (f *field) item(text string) (set, error) {
	span, by, stepped := strings.Cut(text, "/")
	low, high, ok := f.span(span, stepped)
	if !ok {
		return 0, fmt.Errorf("want %s", f.allowed())
	}
	step := 1
	if stepped {
		if step, ok = number(by); !ok || step < 1 || step > max(1, high-low) {
			return 0, fmt.Errorf("want a step from 1 to %d", max(1, high-low))
		}
	}
	var values set
	for v := low; v <= high; v += step {
		values |= 1 << f.turn(v)
	}
	return values, nil
}

// span returns the first and the last value of a range. The last is above max
// if the range runs over the end.
func (f *field) span(text string, stepped bool) (low, high int, ok bool) {
	if text == "*" {
		return f.min, f.max, true
	}
	from, to, ranged := strings.Cut(text, "-")
	if low, ok = f.value(from); !ok {
		return 0, 0, false
	}
	switch {
	case ranged:
		if high, ok = f.value(to); high < low {
			high += f.size()
		}
	case stepped:
		low, high = f.turn(low), f.max
	default:
		high = low
	}
	return low, high, ok
}

func (f *field) size() int { return f.max - f.min + 1 }

// turn returns the value of v, which may be above max.
func (f *field) turn(v int) int { return (v-f.min)%f.size() + f.min }

// value reads a name or a number.
func (f *field) value(text string) (int, bool) {
	if i := slices.Index(f.names, strings.ToUpper(text)); i >= 0 {
		return f.min + i, true
	}
	v, ok := number(text)
	sunday := f.name == weekday && v == 7
	return v, ok && v >= f.min && (v <= f.max || sunday)
}

// number reads one or two digits.
func number(text string) (int, bool) {
	v, err := strconv.ParseUint(text, 10, 8)
	return int(v), err == nil && len(text) <= 2
}

func (f *field) allowed() string {
	values := fmt.Sprintf("%d to %d", f.min, f.max)
	if f.names != nil {
		values += fmt.Sprintf(" or %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return fmt.Sprintf("%s, *, a range such as %d-%d, a step such as */2, or a list of these", values, f.min, f.min+2)
}
