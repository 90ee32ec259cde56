package workflow

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/types"

	"github.com/pawl-dev/pawl/internal/document"
)

// clockFunctions are those that depend on the clock or the zone of the
// machine; they are not available.
var clockFunctions = []string{"now", "date", "duration", "timezone"}

// A function of the expression language. It panics with an error to fail.
type function func(m *meter, args []any) any

// functions are Pawl's own: those that the expression language lacks, and those that
// replace a builtin whose result has no fixed order or whose cost has no bound.
var functions = map[string]function{
	"toJSON":    toJSON,
	"fromJSON":  fromJSON,
	"string":    toString,
	"int":       toInt,
	"keys":      keysOf,
	"values":    valuesOf,
	"toPairs":   toPairs,
	"join":      joined,
	"replace":   replaced,
	"repeat":    repeated,
	"split":     splitUp,
	"concat":    concatenated,
	"flatten":   flattened,
	"uniq":      unique,
	"min":       func(m *meter, args []any) any { return extreme(m, "min", args, -1) },
	"max":       func(m *meter, args []any) any { return extreme(m, "max", args, 1) },
	"mean":      mean,
	"median":    median,
	"fromPairs": fromPairs,
}

// replacedFunctions are the builtins that functions replace, and those that are
// left out.
var replacedFunctions = slices.AppendSeq([]string{"splitAfter"}, maps.Keys(functions))

// functionTypes are the types by which calls are checked.
var functionTypes = types.Map{
	"toJSON":    types.TypeOf(func(any) string { return "" }),
	"fromJSON":  types.TypeOf(func(string) any { return nil }),
	"string":    types.TypeOf(func(any) string { return "" }),
	"int":       types.TypeOf(func(any) int { return 0 }),
	"keys":      types.TypeOf(func(any) []any { return nil }),
	"values":    types.TypeOf(func(any) []any { return nil }),
	"toPairs":   types.TypeOf(func(any) []any { return nil }),
	"fromPairs": types.TypeOf(func(any) map[string]any { return nil }),
	"join":      types.TypeOf(func(any, ...string) string { return "" }),
	"replace":   types.TypeOf(func(string, string, string) string { return "" }),
	"repeat":    types.TypeOf(func(string, int) string { return "" }),
	"split":     types.TypeOf(func(string, string) []any { return nil }),
	"concat":    types.TypeOf(func(...any) []any { return nil }),
	"flatten":   types.TypeOf(func(any) []any { return nil }),
	"uniq":      types.TypeOf(func(any) []any { return nil }),
	"min":       types.TypeOf(func(...any) any { return nil }),
	"max":       types.TypeOf(func(...any) any { return nil }),
	"mean":      types.TypeOf(func(...any) any { return nil }),
	"median":    types.TypeOf(func(...any) any { return nil }),
}

// builtinNames are the builtins of the expression language that stay as they
// are.
var builtinNames = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count",
	"sum", "groupBy", "sortBy", "reduce", "len", "type", "abs", "ceil", "floor", "round", "float", "trim",
	"trimPrefix", "trimSuffix", "upper", "lower", "indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "toBase64",
	"fromBase64", "first", "last", "get", "take", "reverse", "sort",
	"bitand", "bitor", "bitxor", "bitnand", "bitshl", "bitshr", "bitushr", "bitnot",
}

var knownNames = slices.Concat(variableNames, slices.Sorted(maps.Keys(functions)), builtinNames)

func fail(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// toInt truncates a number, and reads an integer from text.
func toInt(_ *meter, args []any) any {
	switch v := args[0].(type) {
	case int:
		return v
	case float64:
		if v > -1<<63 && v < 1<<63 {
			return int(v)
		}
		fail("int: %v does not fit 64 bits", v)
	case string:
		n, err := strconv.Atoi(v)
		if err != nil {
			fail("int: %q is not a whole number of 64 bits", document.Shorten(v))
		}
		return n
	}
	fail("int: want a number or text, got %s", typeName(args[0]))
	return nil
}

// argument returns argument i, which has to be of type T.
func argument[T any](name string, args []any, i int) T {
	if i < len(args) {
		if v, ok := args[i].(T); ok {
			return v
		}
		fail("%s: argument %d is of type %s", name, i+1, typeName(args[i]))
	}
	var none T
	fail("%s: argument %d is missing", name, i+1)
	return none
}

// list returns argument i as a list, charged.
func list(m *meter, name string, args []any, i int) []any {
	if i >= len(args) {
		fail("%s: argument %d is missing", name, i+1)
	}
	m.charge(args[i])
	if l, ok := args[i].([]any); ok {
		return l
	}
	r := reflect.ValueOf(args[i])
	if r.Kind() != reflect.Slice {
		fail("%s: argument %d is of type %s, not a list", name, i+1, typeName(args[i]))
	}
	l := make([]any, r.Len())
	for j := range l {
		l[j] = r.Index(j).Interface()
	}
	return l
}

// object returns argument i as an object, charged.
func object(m *meter, name string, args []any, i int) map[string]any {
	m.charge(args[i])
	if o, ok := args[i].(map[string]any); ok {
		return o
	}
	r := reflect.ValueOf(args[i])
	if r.Kind() != reflect.Map {
		fail("%s: argument %d is of type %s, not an object", name, i+1, typeName(args[i]))
	}
	o := make(map[string]any, r.Len())
	for it := r.MapRange(); it.Next(); {
		o[must(asText(it.Key().Interface()))] = it.Value().Interface()
	}
	return o
}

// made charges for a string that a function has made.
func (m *meter) made(s string) string { m.charge(s); return s }

func toJSON(m *meter, args []any) any { return m.made(string(must(encodeJSON(args[0])))) }

func toString(m *meter, args []any) any {
	if args[0] == nil {
		return "null"
	}
	return m.made(must(asText(args[0])))
}

func fromJSON(m *meter, args []any) any {
	s := argument[string]("fromJSON", args, 0)
	m.spend(len(s))
	return must(decodeJSON([]byte(s)))
}

func keysOf(m *meter, args []any) any {
	o := object(m, "keys", args, 0)
	keys := make([]any, 0, len(o))
	for _, k := range sortedKeys(o) {
		keys = append(keys, k)
	}
	return keys
}

func valuesOf(m *meter, args []any) any {
	o := object(m, "values", args, 0)
	values := make([]any, 0, len(o))
	for _, k := range sortedKeys(o) {
		values = append(values, o[k])
	}
	return values
}

func toPairs(m *meter, args []any) any {
	o := object(m, "toPairs", args, 0)
	pairs := make([]any, 0, len(o))
	for _, k := range sortedKeys(o) {
		pairs = append(pairs, []any{k, o[k]})
	}
	return pairs
}

func fromPairs(m *meter, args []any) any {
	o := map[string]any{}
	for i, p := range list(m, "fromPairs", args, 0) {
		pair, ok := p.([]any)
		if !ok || len(pair) != 2 {
			fail("fromPairs: element %d is not a pair", i)
		}
		o[must(asText(pair[0]))] = pair[1]
	}
	return o
}

func joined(m *meter, args []any) any {
	l, sep := list(m, "join", args, 0), ""
	if len(args) > 1 {
		sep = argument[string]("join", args, 1)
	}
	parts := make([]string, len(l))
	for i, v := range l {
		s, ok := v.(string)
		if !ok {
			fail("join: element %d is of type %s, not a string", i, typeName(v))
		}
		parts[i] = s
		m.spend((len(s) + len(sep)) / 16)
	}
	return strings.Join(parts, sep)
}

func replaced(m *meter, args []any) any {
	s, from, to := argument[string]("replace", args, 0), argument[string]("replace", args, 1), argument[string]("replace", args, 2)
	m.charge(s)
	m.spend(int(min(float64(strings.Count(s, from))*float64(len(to))/16, maxCost+1)))
	return strings.ReplaceAll(s, from, to)
}

func repeated(m *meter, args []any) any {
	s, n := argument[string]("repeat", args, 0), argument[int]("repeat", args, 1)
	if n < 0 {
		fail("repeat: %d times is not possible", n)
	}
	m.spend(int(min(float64(len(s))*float64(n)/16, maxCost+1)))
	return strings.Repeat(s, n)
}

func splitUp(m *meter, args []any) any {
	s, sep := argument[string]("split", args, 0), argument[string]("split", args, 1)
	m.charge(s)
	m.spend(strings.Count(s, sep) + 1)
	parts := strings.Split(s, sep)
	l := make([]any, len(parts))
	for i, p := range parts {
		l[i] = p
	}
	return l
}

func concatenated(m *meter, args []any) any {
	all := []any{}
	for i := range args {
		all = append(all, list(m, "concat", args, i)...)
	}
	m.charge(all)
	return all
}

func flattened(m *meter, args []any) any {
	var flat func(l []any, depth int) []any
	flat = func(l []any, depth int) []any {
		if depth > MaxDepth {
			panic(errTooDeep)
		}
		out := make([]any, 0, len(l))
		for _, v := range l {
			m.spend(1)
			if reflect.ValueOf(v).Kind() == reflect.Slice {
				out = append(out, flat(list(m, "flatten", []any{v}, 0), depth+1)...)
				m.charge(out)
				continue
			}
			out = append(out, v)
		}
		return out
	}
	return flat(list(m, "flatten", args, 0), 0)
}

func unique(m *meter, args []any) any {
	kept := []any{}
	scalars := map[any]bool{}
	for _, v := range list(m, "uniq", args, 0) {
		switch k := v.(type) {
		case nil, bool, string, int:
			if !scalars[k] {
				scalars[k] = true
				kept = append(kept, v)
			}
		default:
			if !slices.ContainsFunc(kept, func(old any) bool { return m.equal(old, v) }) {
				kept = append(kept, v)
			}
		}
	}
	return kept
}

// numbers returns the arguments, or the one list among them, as numbers.
func numbers(m *meter, name string, args []any) []any {
	if len(args) == 1 && reflect.ValueOf(args[0]).Kind() == reflect.Slice {
		args = list(m, name, args, 0)
	}
	m.spend(len(args))
	for i, v := range args {
		if _, ok := toFloat(v); !ok {
			fail("%s: value %d is of type %s, not a number", name, i+1, typeName(v))
		}
	}
	return args
}

// extreme returns the first of the smallest values, or of the largest, by sign; null if
// there are none.
func extreme(m *meter, name string, args []any, sign int) any {
	var best any
	for _, v := range numbers(m, name, args) {
		if best == nil || compareNumbers(v, best) == sign {
			best = v
		}
	}
	return best
}

func compareNumbers(a, b any) int {
	x, xInt := a.(int)
	y, yInt := b.(int)
	if xInt && yInt {
		return sign(x > y, x < y)
	}
	f, _ := toFloat(a)
	g, _ := toFloat(b)
	return sign(f > g, f < g)
}

func sign(more, less bool) int {
	switch {
	case more:
		return 1
	case less:
		return -1
	}
	return 0
}

func mean(m *meter, args []any) any {
	l := numbers(m, "mean", args)
	if len(l) == 0 {
		return 0.0
	}
	sum := 0.0
	for _, v := range l {
		f, _ := toFloat(v)
		sum += f
	}
	return sum / float64(len(l))
}

func median(m *meter, args []any) any {
	var fs []float64
	for _, v := range numbers(m, "median", args) {
		f, _ := toFloat(v)
		fs = append(fs, f)
	}
	if len(fs) == 0 {
		return 0.0
	}
	sort.Float64s(fs)
	if len(fs)%2 == 1 {
		return fs[len(fs)/2]
	}
	return (fs[len(fs)/2-1] + fs[len(fs)/2]) / 2
}

func (m *meter) in(args ...any) any {
	switch where := args[1].(type) {
	case nil:
		return false
	case map[string]any:
		m.spend(1)
		k, ok := args[0].(string)
		_, has := where[k]
		return ok && has
	}
	for _, v := range list(m, "in", args, 1) {
		if m.equal(args[0], v) {
			return true
		}
	}
	return false
}

// equal compares by value; an integer and a number are equal when they are the
// same number.
func (m *meter) equal(a, b any) bool {
	m.spend(1)
	switch x := a.(type) {
	case nil:
		return b == nil
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case string:
		y, ok := b.(string)
		m.spend(min(len(x), len(y)) / 16)
		return ok && x == y
	case int, float64:
		if f, ok := toFloat(b); !ok || math.IsNaN(f) {
			return false
		}
		return compareNumbers(a, b) == 0
	case largeInteger:
		return a == b
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && len(x) == len(y) && m.equalObjects(x, y)
	}
	ra, rb := reflect.ValueOf(a), reflect.ValueOf(b)
	if ra.Kind() != reflect.Slice || rb.Kind() != reflect.Slice || ra.Len() != rb.Len() {
		return false
	}
	for i := range ra.Len() {
		if !m.equal(ra.Index(i).Interface(), rb.Index(i).Interface()) {
			return false
		}
	}
	return true
}

func (m *meter) equalObjects(x, y map[string]any) bool {
	for k, v := range x {
		w, has := y[k]
		if !has || !m.equal(v, w) {
			return false
		}
	}
	return true
}
