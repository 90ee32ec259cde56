package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// example is a workflow that speaks of everything: the output is under test.
func example(output any) workflow.File {
	return workflow.File{
		Name: "example",
		Inputs: map[string]workflow.InputSchema{
			"day":   {Required: true},
			"dry":   {Type: workflow.TypeBoolean, Default: false},
			"count": {Type: workflow.TypeInteger, Default: 3},
			"opts":  {Type: workflow.TypeObject},
		},
		Env: map[string]string{"GREETING": "hello ${{ inputs.day }}", "LANG": "C"},
		Steps: []workflow.Step{
			{ID: "extract", Command: []string{"x"}, Output: workflow.OutputJSON},
			{ID: "skipped_one", Needs: []string{"extract"}, Command: []string{"x"}},
		},
		Output: output,
	}
}

func exampleScope(output string) *workflow.Scope {
	return &workflow.Scope{
		Inputs:   json.RawMessage(`{"count":3,"day":"2024-05-06","dry":false}`),
		Outputs:  map[int]json.RawMessage{1: json.RawMessage(output)},
		Statuses: map[int]machine.State{1: lifecycle.StepComplete, 2: lifecycle.StepSkipped},
		JobID:    "j_1", Workflow: "example",
	}
}

const exampleOutput = `{"files":[{"path":"a","size":1},{"path":"b","size":20}],"n":7,"big":9223372036854775807,"huge":18446744073709551615,"least":[-9223372036854775809],"f":1.5,"whole":3.0,"text":"x y","none":null,"yes":true,"z":{"b":1,"a":2}}`

func build(t *testing.T, f workflow.File) *workflow.Definition {
	t.Helper()
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestExpressions holds the language against what WORKFLOW.md says of it (T12):
// the variables, types that stay as they are, sorted keys, integers without
// exponents.
func TestExpressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"whole keeps a list", `${{ steps.extract.output.files }}`, `[{"path":"a","size":1},{"path":"b","size":20}]`},
		{"whole keeps an integer", `${{ steps.extract.output.n }}`, `7`},
		{"whole keeps a boolean", `${{ inputs.dry }}`, `false`},
		{"whole keeps null", `${{ steps.extract.output.none }}`, `null`},
		{"whole keeps text", `${{ inputs.day }}`, `"2024-05-06"`},
		{"inside text", `day ${{ inputs.day }}!`, `"day 2024-05-06!"`},
		{"text of an integer", `n=${{ 1000000 * 1000000 }}`, `"n=1000000000000"`},
		{"text of the largest integer", `n=${{ steps.extract.output.big }}`, `"n=9223372036854775807"`},
		{"text of a number", `n=${{ steps.extract.output.f }}`, `"n=1.5"`},
		{"text of a whole number", `n=${{ 10.0 * 1000000 }}`, `"n=10000000"`},
		{"text of a number above 64 bits", `n=${{ 10000000000.0 * 10000000000 }}`, `"n=100000000000000000000"`},
		{"number above 64 bits", `${{ 10000000000.0 * 10000000000 }}`, `1e+20`},
		{"small number", `${{ 0.0000001 }}`, `1e-07`},
		{"text of a boolean", `b=${{ steps.extract.output.yes }}`, `"b=true"`},
		{"text of null", `[${{ steps.extract.output.none }}]`, `"[]"`},
		{"text of a list", `l=${{ [1, "a", nil] }}`, `"l=[1,\"a\",null]"`},
		{"text of an object, keys sorted", `o=${{ steps.extract.output.z }}`, `"o={\"a\":2,\"b\":1}"`},
		{"two expressions are text", `${{ 1 }}${{ 2 }}`, `"12"`},
		{"escaped", `$${{ inputs.day }} and ${{ 1 }}`, `"${{ inputs.day }} and 1"`},
		{"braces inside", `${{ {"a": {"b": 1}}.a.b }}`, `1`},
		{"closing braces in quotes", `${{ "}}" + '}}' }}`, `"}}}}"`},
		{"largest integer", `${{ steps.extract.output.big }}`, `9223372036854775807`},
		{"an integer beyond 64 bits", `${{ steps.extract.output.huge }}`, `18446744073709551615`},
		{"one in a list", `${{ steps.extract.output.least }}`, `[-9223372036854775809]`},
		{"one in text", `n=${{ steps.extract.output.huge }}`, `"n=18446744073709551615"`},
		{"one as JSON and back", `${{ fromJSON(toJSON({"n": steps.extract.output.huge})) }}`, `{"n":18446744073709551615}`},
		{"one as a string", `${{ string(steps.extract.output.huge) }}`, `"18446744073709551615"`},
		{"one is itself", `${{ [steps.extract.output.huge == steps.extract.output.huge, steps.extract.output.huge == 1, steps.extract.output.huge in [steps.extract.output.huge]] }}`, `[true,false,true]`},
		{"whole float", `${{ steps.extract.output.whole }}`, `3`},
		{"division", `${{ 7 / 2 }}`, `3.5`},
		{"even division", `${{ 4 / 2 }}`, `2`},
		{"no exponent", `${{ 1000000 * 1000000.0 }}`, `1000000000000`},
		{"status", `${{ steps.extract.status }}`, `"complete"`},
		{"status of a skipped step", `${{ steps.skipped_one.status == "skipped" }}`, `true`},
		{"output of a skipped step", `${{ steps.skipped_one.output }}`, `null`},
		{"absent input", `${{ inputs.opts }}`, `null`},
		{"absent input, default", `${{ inputs.opts?.x ?? "none" }}`, `"none"`},
		{"input by key", `${{ inputs["day"] }}`, `"2024-05-06"`},
		{"inputs as a whole", `${{ inputs }}`, `{"count":3,"day":"2024-05-06","dry":false}`},
		{"job", `${{ job.id + " " + job.workflow }}`, `"j_1 example"`},
		{"job as a whole", `${{ job }}`, `{"id":"j_1","workflow":"example"}`},
		{"env", `${{ env.GREETING }}`, `"hello 2024-05-06"`},
		{"toJSON sorts keys", `${{ toJSON({"b": 1, "a": [1.0, 2.5, "<"]}) }}`, `"{\"a\":[1,2.5,\"<\"],\"b\":1}"`},
		{"fromJSON", `${{ fromJSON('{"a": 12345678901234567}').a }}`, `12345678901234567`},
		{"keys sorted", `${{ keys(steps.extract.output.z) }}`, `["a","b"]`},
		{"values by sorted keys", `${{ values(steps.extract.output.z) }}`, `[2,1]`},
		{"pairs sorted", `${{ toPairs(steps.extract.output.z) }}`, `[["a",2],["b",1]]`},
		{"fromPairs", `${{ fromPairs([["k", 1]]) }}`, `{"k":1}`},
		{"map", `${{ map(steps.extract.output.files, .path) }}`, `["a","b"]`},
		{"filter", `${{ filter(steps.extract.output.files, .size > 10) }}`, `[{"path":"b","size":20}]`},
		{"pipe", `${{ steps.extract.output.files | map(.size) | sum() }}`, `21`},
		{"reduce", `${{ reduce(1..4, #acc + #, 0) }}`, `10`},
		{"sum with a predicate", `${{ sum(steps.extract.output.files, .size) }}`, `21`},
		{"sortBy", `${{ sortBy(steps.extract.output.files, .size, "desc")[0].path }}`, `"b"`},
		{"groupBy", `${{ groupBy(["a", "bb", "cc"], len(#)) }}`, `{"1":["a"],"2":["bb","cc"]}`},
		{"count, any, all, none, one", `${{ [count([1,2], # > 1), any([1], # == 1), all([1], # == 1), none([1], # == 2), one([1,2], # == 1)] }}`, `[1,true,true,true,true]`},
		{"let", `${{ let x = 2; let y = x * 3; x + y }}`, `8`},
		{"ternary", `${{ inputs.dry ? "dry" : "wet" }}`, `"wet"`},
		{"range", `${{ 1..3 }}`, `[1,2,3]`},
		{"slice", `${{ (1..5)[1:3] }}`, `[2,3]`},
		{"in a list", `${{ "b" in ["a", "b"] }}`, `true`},
		{"not in a list", `${{ 3 not in [1, 2] }}`, `true`},
		{"in an object", `${{ "a" in steps.extract.output.z }}`, `true`},
		{"equal numbers", `${{ [1 == 1.0, 1 != 2, [1, {"a": nil}] == [1.0, {"a": nil}], "1" == toJSON(1)] }}`, `[true,true,true,true]`},
		{"equality binds as ever", `${{ 1 + 1 == 2 && !(2 != 2) }}`, `true`},
		{"matches", `${{ inputs.day matches "^2024-" }}`, `true`},
		{"contains", `${{ inputs.day contains "05" and inputs.day startsWith "20" and inputs.day endsWith "06" }}`, `true`},
		{"split, join", `${{ join(split("a,b", ","), "+") }}`, `"a+b"`},
		{"replace, repeat", `${{ replace("aXa", "X", "-") + repeat("ab", 2) }}`, `"a-aabab"`},
		{"upper, lower, trim", `${{ upper("a") + lower("B") + trim(" c ") }}`, `"Abc"`},
		{"concat, flatten, uniq", `${{ uniq(flatten(concat([1, [2]], [[1.0]], ["a", "a"]))) }}`, `[1,2,"a"]`},
		{"min, max", `${{ [min(3, 1, 2), max([1, 2.5]), min([])] }}`, `[1,2.5,null]`},
		{"mean, median", `${{ [mean([1, 2]), median(3, 1, 2)] }}`, `[1.5,2]`},
		{"sort, reverse, first, last, take", `${{ [sort([2, 1]), reverse([1, 2]), first([5]), last([1, 6]), take([1, 2], 1)] }}`, `[[1,2],[2,1],5,6,[1]]`},
		{"numbers", `${{ [abs(-1), ceil(1.2), floor(1.8), round(1.5), int("7"), float("1.5"), 7 % 4, 2 ** 3] }}`, `[1,2,1,2,7,1.5,3,8]`},
		{"string", `${{ string(12) + string([1]) + string("a") }}`, `"12[1]a"`},
		{"base64", `${{ fromBase64(toBase64("hé")) }}`, `"hé"`},
		{"negative numbers", `${{ [-5 - 3, -2 * -3, 2 - 5, -9223372036854775807 - 1] }}`, `[-8,6,-3,-9223372036854775808]`},
		{"type", `${{ [type(1), type("a"), type([])] }}`, `["int","string","array"]`},
		{"get", `${{ get({"a": 1}, "a") }}`, `1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := build(t, example(c.value)).EvalOutput(exampleScope(exampleOutput))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.value, got, c.want)
			}
		})
	}
}

// TestExpressionFailures shows what fails when it is evaluated, and how it says
// so.
func TestExpressionFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"field of null", `${{ steps.skipped_one.output.x }}`, "cannot fetch x from null"},
		{"overflow", `${{ steps.extract.output.big + 1 }}`, "9223372036854775807 + 1 does not fit 64 bits"},
		{"a sum beyond 64 bits", `${{ steps.extract.output.huge + 1 }}`, "integer beyond 64 bits + integer is not possible"},
		{"an order beyond 64 bits", `${{ steps.extract.output.huge > 1 }}`, "invalid operation: integer beyond 64 bits > int"},
		{"an integer that is none", `${{ int(steps.extract.output.huge) }}`, "integer beyond 64 bits"},
		{"infinite", `${{ int(1 / (len([]))) }}`, "does not fit 64 bits"},
		{"not a whole number", `${{ int("1.5") }}`, "is not a whole number"},
		{"overflow down", `${{ -2 - steps.extract.output.big }}`, "does not fit 64 bits"},
		{"overflow of a product", `${{ steps.extract.output.big * 2 }}`, "does not fit 64 bits"},
		{"division by zero", `${{ 1 / 0 }}`, "the number is not finite"},
		{"rest of a division by zero", `${{ 1 % 0 }}`, "divide by zero"},
		{"mixed types", `${{ steps.extract.output.n + steps.extract.output.text }}`, "integer + string is not possible"},
		{"index", `${{ steps.extract.output.files[9] }}`, "out of range"},
		{"fromJSON", `${{ fromJSON("{") }}`, "not JSON"},
		{"join of numbers", `${{ join([1], ",") }}`, "join: element 0 is of type integer, not a string"},
		{"keys of a list", `${{ keys([1]) }}`, "keys: argument 1 is of type array, not an object"},
		{"zero byte", `a${{ fromJSON('"\\u0000"') }}`, "the text holds a zero byte"},
		{"large text", `${{ repeat("x", 2000000) }}`, "larger than 1048576 bytes"},
		{"large text inside text", `a${{ repeat("x", 2000000) }}`, "larger than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := build(t, example(c.value)).EvalOutput(exampleScope(exampleOutput))
			checkFailure(t, err, "output: ", c.want)
		})
	}
}

func checkFailure(t *testing.T, err error, prefix, want string) {
	t.Helper()
	if err == nil {
		t.Fatal("it did not fail")
	}
	if pawl.KindOf(err) != pawl.Invalid || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), want) {
		t.Errorf("kind %d: %q\nwant %q ... %q", pawl.KindOf(err), err, prefix, want)
	}
}

// TestExpressionCost shows that the cost of an expression is bounded by list
// size and nesting (T12): each of these would run for hours, or take all the
// memory there is.
func TestExpressionCost(t *testing.T) {
	t.Parallel()
	list := "[" + strings.TrimSuffix(strings.Repeat(`"item",`, 20_000), ",") + "]"
	for _, c := range []struct{ name, value string }{
		{"nested predicates", `${{ let l = steps.extract.output; count(l, count(l, count(l, # == "a") > 0) > 0) }}`},
		{"nested ranges", `${{ count(1..100000, count(1..100000, # > 0) > 0) }}`},
		{"a long range", `${{ len(1..100000000) }}`},
		{"membership in a predicate", `${{ let l = steps.extract.output; count(1..100000, "x" in l) }}`},
		{"doubling text", `${{ len(reduce(1..60, #acc + #acc, "x")) }}`},
		{"doubling by replace", `${{ len(reduce(1..60, replace(#acc, "x", "xx"), "x")) }}`},
		{"doubling by join", `${{ len(reduce(1..60, join([#acc, #acc]), "x")) }}`},
		{"doubling by toJSON", `${{ len(reduce(1..60, toJSON(#acc), "\"")) }}`},
		{"doubling by base64", `${{ len(reduce(1..400, toBase64(#acc), "xxx")) }}`},
		{"doubling lists", `${{ len(reduce(1..60, concat(#acc, #acc), [1])) }}`},
		{"a shared tree, written", `${{ reduce(1..60, [#acc, #acc], [1]) }}`},
		{"a shared tree, to JSON", `${{ len(toJSON(reduce(1..60, [#acc, #acc], [1]))) }}`},
		{"a shared tree, flattened", `${{ len(flatten(reduce(1..60, [#acc, #acc], [1]))) }}`},
		{"a shared tree, compared", `${{ let a = reduce(1..60, [#acc, #acc], [1]); let b = reduce(1..60, [#acc, #acc], [1]); a == b }}`},
		{"a shared tree, sought", `${{ let a = reduce(1..60, [#acc, #acc], [1]); let b = reduce(1..60, [#acc, #acc], [1]); a in [b] }}`},
		{"a shared tree, as text", `${{ len(string(reduce(1..60, [#acc, #acc], [1]))) }}`},
		{"a shared tree, in text", `x${{ reduce(1..60, [#acc, #acc], [1]) }}`},
		{"uniq of lists", `${{ len(uniq(map(1..20000, [#]))) }}`},
		{"repeat", `${{ len(repeat("xxxxxxxxxxxxxxxx", 9000000000000)) }}`},
		{"matches in a predicate", `${{ let s = toJSON(steps.extract.output); count(1..100000, s matches "(item)*x") }}`},
		{"contains in a predicate", `${{ let s = toJSON(steps.extract.output); count(1..100000, s contains "nothing") }}`},
		{"sum in a predicate", `${{ count(1..100000, sum(1..1000) > 0) }}`},
		{"slices of strings", `${{ let s = toJSON(steps.extract.output); count(1..500000, len(s[1:]) > 0) }}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := build(t, example(c.value)).EvalOutput(exampleScope(list))
			if err == nil {
				t.Fatal("it did not fail")
			}
			if pawl.KindOf(err) != pawl.Invalid {
				t.Errorf("kind is %d: %v", pawl.KindOf(err), err)
			}
		})
	}
}

// TestExpressionRoom shows that ordinary work on large lists is within the
// bounds.
func TestExpressionRoom(t *testing.T) {
	t.Parallel()
	d := build(t, example(`${{ filter(map(sortBy(steps.extract.output, -#), # * 2), # % 4 == 0) | len() }}`))
	numbers := make([]string, 100_000)
	for i := range numbers {
		numbers[i] = fmt.Sprint(i)
	}
	got, err := d.EvalOutput(exampleScope("[" + strings.Join(numbers, ",") + "]"))
	if err != nil || string(got) != "50000" {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestIf: with and without ${{ }}, literals, and what is not a boolean.
func TestIf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, fails string
		want        bool
	}{
		{text: `${{ inputs.dry }}`},
		{text: `inputs.count == 3`, want: true},
		{text: "  ${{ inputs.count > 2 }}\n", want: true},
		{text: `true`, want: true},
		{text: `steps.extract.status == "complete" && steps.extract.output.n == 7`, want: true},
		{text: `steps.extract.output.n`, fails: "want true or false, got integer 7"},
		{text: `steps.extract.output.none`, fails: "want true or false, got null"},
		{text: `${{ steps.extract.output.text }}`, fails: `want true or false, got string "x y"`},
		{text: `env.LANG == "C"`, want: true},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			f := example(nil)
			f.Steps[1].If = c.text
			got, err := build(t, f).EvalIf(2, exampleScope(exampleOutput))
			if c.fails != "" {
				checkFailure(t, err, "step skipped_one: if: ", c.fails)
				var failed *workflow.ExpressionError
				if !errors.As(err, &failed) || !strings.Contains(c.text, failed.Text) {
					t.Errorf("%v: want an ExpressionError with the text of the expression", err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if got, err := build(t, example(nil)).EvalIf(1, exampleScope("")); !got || err != nil {
		t.Errorf("a step without if: %v, %v", got, err)
	}
}

// TestForeach: lists that are written, computed, empty, too long, and no lists.
func TestForeach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		foreach any
		fails   string
		want    []string
	}{
		{name: "computed", foreach: `${{ steps.extract.output.files }}`, want: []string{`{"path":"a","size":1}`, `{"path":"b","size":20}`}},
		{name: "written", foreach: []any{1, "a ${{ inputs.day }}", map[string]any{"n": "${{ inputs.count }}"}, nil}, want: []string{`1`, `"a 2024-05-06"`, `{"n":3}`, `null`}},
		{name: "empty", foreach: []any{}, want: []string{}},
		{name: "range", foreach: `${{ 1..2 }}`, want: []string{`1`, `2`}},
		{name: "text", foreach: `${{ steps.extract.output.text }}`, fails: `want a list, got "x y"`},
		{name: "object", foreach: `${{ steps.extract.output.z }}`, fails: `want a list, got {"a":2,"b":1}`},
		{name: "null", foreach: `${{ steps.extract.output.none }}`, fails: `want a list, got null`},
		{name: "too many", foreach: `${{ map(1..100001, 1) }}`, fails: "100001 items; at most 100000"},
		{name: "too large", foreach: `${{ map(1..20, repeat("x", 100000)) }}`, fails: "larger than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := example(nil)
			f.Steps[1].Foreach = c.foreach
			got, err := build(t, f).EvalForeach(2, exampleScope(exampleOutput))
			if c.fails != "" {
				checkFailure(t, err, "step skipped_one: foreach: ", c.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("got %d items, want %d", len(got), len(c.want))
			}
			for i := range got {
				if string(got[i]) != c.want[i] {
					t.Errorf("item %d is %s, want %s", i, got[i], c.want[i])
				}
			}
		})
	}
}

// TestNeeds: the nodes that expressions refer to, place by place.
func TestNeeds(t *testing.T) {
	t.Parallel()
	d := build(t, workflow.File{
		Name: "needs",
		Steps: []workflow.Step{
			{ID: "a", Run: "true"},
			{ID: "b", Run: "true", Needs: []string{"a"}},
			{
				ID: "c", Needs: []string{"b"}, If: "steps.a.status == 'complete'", Foreach: "${{ steps.b.output }}",
				Command: []string{"x", "${{ steps.a.output }}", "${{ steps.b.output }} ${{ steps.a.status }}"},
			},
		},
		Output: "${{ steps.c.output }}",
	})
	for _, c := range []struct {
		name string
		got  []int
		want string
	}{
		{"if", d.IfNeeds(3), "[1]"}, {"foreach", d.ForeachNeeds(3), "[2]"}, {"render", d.RenderNeeds(3), "[1 2]"},
		{"output", d.OutputNeeds(), "[3]"}, {"none", d.IfNeeds(1), "[]"}, {"no foreach", d.ForeachNeeds(1), "[]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// FuzzExpression compiles and runs whatever comes: no panic, an error of kind
// Invalid or a value that is JSON.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{
		`1 + 1`, `steps.extract.output.files`, `map(1..3, # * 2)`, `toJSON(inputs)`, `let x = 1; x`, `"a" matches "("`,
		`reduce(1..9, [#acc, #acc], [])`, `{"a": [1, nil]}?.a[0] ?? 2`, `now()`, `$env`, `inputs["x"]`, `{{}}`, `-1 ** 0.5`,
		`sortBy(1..3, "a")`, `groupBy([1], [#])`, `1..-1`, `"é"[0:1]`, `9223372036854775807 * -1`, `float("NaN")`, `int("x")`,
		`bitshl(1, -1)`, `take([1], -1)`, `get(nil, 1)`, `first(1)`, `join(1..3)`, `fromJSON("1 2")`, `uniq([[1], [1]])`,
		`a.b.c(d)`, `not true`, `if true { 1 } else { 2 }`, "`raw`", `1; 2`, `# + 1`, `.x`, `#acc`, `map([1], #index)`,
		`steps?.extract?.output`, `"\u{110000}"`, `0x10`, `1_000`, `1e999`, `b"bytes"`, `sum(["a"])`, `abs("x")`, `keys(nil)`,
		`min()`, `repeat("a", -1)`, `fromPairs([[[1], 2]])`, `flatten(1)`, `type(type)`, `toJSON(toJSON)`, `[toJSON][0]`, `map`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := example("${{" + text + "}}").Build()
		if err != nil {
			if pawl.KindOf(err) != pawl.Invalid {
				t.Fatalf("kind %d: %v", pawl.KindOf(err), err)
			}
			return
		}
		got, err := d.EvalOutput(exampleScope(exampleOutput))
		if err != nil && pawl.KindOf(err) != pawl.Invalid {
			t.Fatalf("kind %d: %v", pawl.KindOf(err), err)
		}
		if err == nil && !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
	})
}
