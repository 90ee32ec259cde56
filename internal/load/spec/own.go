package spec

import (
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// sizeForm is a number of bytes, with or without a unit.
var sizeForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(B|[kKMGT]B|[KMGT]iB)?$`)

// bytesShape is a number of bytes within a range; its normal form is an int64.
func bytesShape(least, most int64) *document.Shape {
	return &document.Shape{Kind: document.ShapeOwn, Own: &document.Own{
		Judge: func(_ *document.Examiner, _ string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
			return judgeBytes(v, least, most)
		},
		Schema: func(m map[string]any, _ *document.Shape) {
			m["type"], m["minimum"], m["maximum"], m["pattern"] = []string{"string", "integer"}, least, most, sizeForm.String()
		},
		Summary: func(*document.Shape) string { return fmt.Sprintf("size, %s to %s", SizeText(least), SizeText(most)) },
		StandIn: func() any { return least },
	}}
}

func judgeBytes(v *document.Value, least, most int64) (any, *document.Judgement) {
	const form = "write sizes as 4096, 4KiB or 10MB"
	if v.Kind != document.Text && v.Kind != document.Number {
		j := document.WrongKind("a size", v)
		j.Hint = form
		return nil, j
	}
	if !sizeForm.MatchString(v.Text) {
		return nil, &document.Judgement{Message: fmt.Sprintf("%q is not a size", document.Shorten(v.Text)), Hint: form}
	}
	n, ok := parseBytes(v.Text)
	if !ok || n < least || n > most {
		return nil, document.Refused("%s is out of range: %s to %s are allowed", document.Shorten(v.Text), SizeText(least), SizeText(most))
	}
	return n, nil
}

// parseBytes reads a size of the right form; it is false if it does not fit 63 bits.
func parseBytes(text string) (int64, bool) {
	digits := strings.TrimRight(text, "BKMGTki")
	n, err := strconv.ParseUint(digits, 10, 63)
	step := uint64(1000)
	if strings.Contains(text, "i") {
		step = 1024
	}
	var unit uint64 = 1
	for range strings.IndexByte("BKMGT", (strings.ToUpper(text[len(digits):]) + "B")[0]) {
		unit *= step
	}
	high, low := bits.Mul64(n, unit)
	return int64(low), err == nil && high == 0 && low < 1<<63
}

// ParseSize reads a size as a file has it: 4096, 4KiB or 10MB. It reports whether it is one.
func ParseSize(text string) (int64, bool) {
	if !sizeForm.MatchString(text) {
		return 0, false
	}
	return parseBytes(text)
}

// SizeText formats a size with the largest unit that divides it.
func SizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for n > 0 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d%s", n, units[i])
}

// numberShape is a number, whole or not, within a range; its normal form is a float64. If least
// is 0 and open, 0 itself is refused.
func numberShape(least, most float64, open bool) *document.Shape {
	allowed := fmt.Sprintf("%v to %v", least, most)
	if open {
		allowed = fmt.Sprintf("more than %v, to %v", least, most)
	}
	return &document.Shape{Kind: document.ShapeOwn, Own: &document.Own{
		Judge: func(_ *document.Examiner, _ string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
			if v.Kind != document.Number {
				return nil, document.WrongKind("a number", v)
			}
			n, err := document.ParseNumber(v.Text)
			if err != nil {
				return nil, document.Refused("%s %v", document.Shorten(v.Text), err)
			}
			f, ok := n.(float64)
			if !ok {
				f = float64(n.(int))
			}
			if f < least || f > most || open && f == least {
				return nil, document.Refused("%v is out of range: %s are allowed", f, allowed)
			}
			return f, nil
		},
		Schema: func(m map[string]any, _ *document.Shape) {
			m["type"], m["maximum"] = "number", most
			if open {
				m["exclusiveMinimum"] = least
			} else {
				m["minimum"] = least
			}
		},
		Summary: func(*document.Shape) string { return "number, " + allowed },
		StandIn: func() any { return most },
	}}
}

// either is a value that is written as short, or as a mapping with more in it. The normal form
// of the short one is a mapping with that key.
func either(short *document.Shape, key string, long *document.Shape, summary string) *document.Shape {
	return &document.Shape{Kind: document.ShapeOwn, Hint: long.Hint, Own: &document.Own{
		Judge: func(e *document.Examiner, path string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
			if v.Kind == document.Object {
				return e.Object(path, v, long)
			}
			if v.Kind == document.List {
				j := document.WrongKind(summary, v)
				j.Hint = long.Hint
				return nil, j
			}
			normal, ok := e.Examine(path, v, short)
			if !ok {
				return nil, &document.Judgement{}
			}
			return map[string]any{key: normal}, nil
		},
		Schema: func(m map[string]any, _ *document.Shape) {
			m["oneOf"] = []any{document.SchemaOf(short, ""), document.SchemaOf(long, "")}
		},
		Summary: func(*document.Shape) string { return summary },
		StandIn: func() any { return map[string]any{} },
	}}
}

// anyOf is a mapping with at least one of some keys.
func anyOf(long *document.Shape, keys []string) *document.Shape {
	return &document.Shape{Kind: document.ShapeOwn, Hint: long.Hint, Own: &document.Own{
		Judge: func(e *document.Examiner, path string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
			normal, fault := e.Object(path, v, long)
			if fault != nil {
				return nil, fault
			}
			for _, key := range keys {
				if v.Find(key) != nil {
					return normal, nil
				}
			}
			return nil, &document.Judgement{Message: "has none of " + strings.Join(keys, ", "), Hint: long.Hint}
		},
		Schema: func(m map[string]any, _ *document.Shape) {
			document.ObjectSchema(m, long)
			var one []any
			for _, key := range keys {
				one = append(one, map[string]any{"required": []string{key}})
			}
			m["anyOf"] = one
		},
		Summary: func(*document.Shape) string { return "mapping, see below" },
		StandIn: func() any { return map[string]any{} },
	}}
}

// exactlyOne reports a mapping that does not have exactly one of some keys.
func exactlyOne(keys []string) func(*document.Examiner, string, *document.Value, map[string]any) {
	return func(e *document.Examiner, path string, v *document.Value, _ map[string]any) {
		var has []string
		for _, key := range keys {
			if v.Find(key) != nil {
				has = append(has, key)
			}
		}
		switch {
		case len(has) == 0:
			e.Report(v.Place, path, "has none of "+strings.Join(keys, ", "), "give one of them")
		case len(has) > 1:
			e.Report(v.Place, path, "has "+strings.Join(has, " and "), "keep one of them")
		}
	}
}

// RoundSizeText formats a size in the largest unit below it, with one decimal.
func RoundSizeText(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for bytes >= 1024 && i < len(units)-1 {
		bytes, i = bytes/1024, i+1
	}
	return fmt.Sprintf("%.1f %s", bytes, units[i])
}
