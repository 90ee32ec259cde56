package spec

import (
	"fmt"
	"math/bits"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// A need is a Need with its path in the file.
type need struct {
	Need
	path string
}

// needsOwn is a list of ids, or a mapping of ids to conditions.
var needsOwn = &document.Own{
	Judge: judgeNeeds,
	Schema: func(m map[string]any, _ *document.Shape) {
		m["type"], m["maxItems"], m["maxProperties"] = []string{"array", "object"}, MaxServices, MaxServices
		m["items"] = document.SchemaOf(idShape, "")
		m["propertyNames"] = map[string]any{"pattern": idPattern.String()}
		m["additionalProperties"] = document.SchemaOf(conditionShape, "")
	},
	Summary: func(*document.Shape) string { return "list of ids, or id: `started`, `ready`, `completed`" },
	StandIn: func() any { return []need{} },
	Empty:   "write [], or leave the key out",
}

var conditionShape = &document.Shape{Kind: document.ShapeText, Words: []string{string(Started), string(Ready), string(Completed)}}

func judgeNeeds(e *document.Examiner, path string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
	needs := []need{}
	switch n := len(v.Items) + len(v.Entries); {
	case v.Kind != document.List && v.Kind != document.Object:
		j := document.WrongKind("a list of services", v)
		if v.Kind == document.Text {
			j.Hint = fmt.Sprintf("write [%s]", document.Shorten(v.Text))
		}
		return nil, j
	case n > MaxServices:
		return nil, document.Refused("there are %d needs; at most %d are allowed", n, MaxServices)
	}
	for i, item := range v.Items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if id, ok := e.Examine(at, item, idShape); ok {
			needs = append(needs, need{Need{id.(string), Ready}, at})
		}
	}
	for _, entry := range v.Entries {
		at := document.JoinPath(path, entry.Key)
		e.Keys[at] = entry.Place
		if condition, ok := e.Examine(at, entry.Value, conditionShape); ok {
			needs = append(needs, need{Need{entry.Key, Condition(condition.(string))}, at})
		}
	}
	return needs, nil
}

// signals are those that a program may be stopped with.
var signals = []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGKILL", "SIGWINCH"}

// signalOwn is the name of a signal, in any case, with or without SIG.
var signalOwn = &document.Own{
	Judge: func(_ *document.Examiner, _ string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
		if v.Kind != document.Text {
			return nil, document.WrongKind("the name of a signal", v)
		}
		name := "SIG" + strings.TrimPrefix(strings.ToUpper(v.Text), "SIG")
		if !slices.Contains(signals, name) {
			return nil, &document.Judgement{
				Message: fmt.Sprintf("%q is not one of %s", document.Shorten(v.Text), strings.Join(signals, ", ")), Hint: document.DidYouMean(name, signals),
			}
		}
		return name, nil
	},
	Schema: func(m map[string]any, _ *document.Shape) { m["type"], m["pattern"] = "string", signalForm() },
	Summary: func(*document.Shape) string {
		return "`" + strings.Join(signals, "`, `") + "`, also without SIG and in small letters"
	},
	StandIn: func() any { return "SIGTERM" },
}

// signalForm matches the names of signals in any case, in the dialect of JSON Schema.
func signalForm() string {
	var names []string
	for _, s := range signals {
		names = append(names, anyCase(strings.TrimPrefix(s, "SIG")))
	}
	return "^(" + anyCase("SIG") + ")?(" + strings.Join(names, "|") + ")$"
}

func anyCase(upper string) string {
	var b strings.Builder
	for _, r := range upper {
		if lower := strings.ToLower(string(r)); lower != string(r) {
			fmt.Fprintf(&b, "[%c%s]", r, lower)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// addressOwn is HOST:PORT, or a port.
var addressOwn = &document.Own{
	Judge: judgeAddress,
	Schema: func(m map[string]any, _ *document.Shape) {
		m["type"], m["minimum"], m["maximum"], m["pattern"] = []string{"string", "integer"}, 1, 1<<16-1, "^([^/]*:)?[0-9]+$"
	},
	Summary: func(*document.Shape) string { return "HOST:PORT, or 1 to 65535" },
	StandIn: func() any { return "" },
}

func judgeAddress(_ *document.Examiner, _ string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
	if v.Kind != document.Text && v.Kind != document.Number {
		return nil, document.WrongKind("HOST:PORT, or a port", v)
	}
	wrong := &document.Judgement{Message: fmt.Sprintf("%q is not an address: want HOST:PORT, or a port", document.Shorten(v.Text)), Hint: "a port is 1 to 65535"}
	if _, err := strconv.ParseUint(v.Text, 10, 64); err == nil {
		if !isPort(v.Text) {
			return nil, wrong
		}
		return "127.0.0.1:" + v.Text, nil
	}
	u, err := url.Parse("tcp://" + v.Text)
	if err != nil || u.Host != v.Text || u.Hostname() == "" || strings.ContainsAny(u.Host, " @") || !isPort(u.Port()) {
		return nil, wrong
	}
	return v.Text, nil
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0 && s[0] != '0'
}

// sizeForm is a number of bytes, with or without a unit.
var sizeForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(B|[kKMGT]B|[KMGT]iB)?$`)

// sizeShape is a number of bytes within a range.
func sizeShape(least, most int64) *document.Shape {
	return &document.Shape{Kind: document.ShapeOwn, Own: &document.Own{
		Judge: func(_ *document.Examiner, _ string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
			return judgeSize(v, least, most)
		},
		Schema: func(m map[string]any, _ *document.Shape) {
			m["type"], m["minimum"], m["maximum"], m["pattern"] = []string{"string", "integer"}, least, most, sizeForm.String()
		},
		Summary: func(*document.Shape) string {
			if most == MaxSize {
				return "size, " + sizeText(least) + " or more"
			}
			return fmt.Sprintf("size, %s to %s", sizeText(least), sizeText(most))
		},
		StandIn: func() any { return sizeText(least) },
	}}
}

// judgeSize returns a size as it is written; parseSize parses it.
func judgeSize(v *document.Value, least, most int64) (any, *document.Judgement) {
	if v.Kind != document.Text && v.Kind != document.Number {
		return nil, document.WrongKind("a size", v)
	}
	if !sizeForm.MatchString(v.Text) {
		return nil, &document.Judgement{Message: fmt.Sprintf("%q is not a size", document.Shorten(v.Text)), Hint: "write sizes as 4096, 512KiB or 10MB"}
	}
	n, ok := parseSize(v.Text)
	if !ok || n < least || n > most {
		return nil, document.Refused("%s is out of range: %s to %s are allowed", document.Shorten(v.Text), sizeText(least), sizeText(most))
	}
	return v.Text, nil
}

// parseSize reads a size of the right form; it is false when it does not fit 63 bits.
func parseSize(text string) (int64, bool) {
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
	return int64(low), err == nil && high == 0 && low <= MaxSize
}

// sizeText formats a size with the largest unit that divides it.
func sizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n > 0 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d%s", n, units[i])
}
