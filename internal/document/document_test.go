package document_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/document"
)

// plain is a table with a bit of everything.
var plain = &document.Shape{Kind: document.ShapeObject, Hint: "write {size: NUMBER}", Fields: []document.Field{
	{Name: "size", Required: true, Shape: &document.Shape{Kind: document.ShapeInteger, Min: 1, Max: 9}, Doc: "How many.", Elsewhere: []string{"count"}},
	{Name: "color", Default: "red", Shape: &document.Shape{Kind: document.ShapeText, Words: []string{"red", "blue"}}, Doc: "What it looks like."},
	{Name: "pause", Shape: &document.Shape{Kind: document.ShapeDuration, Most: time.Hour}, Doc: "How long."},
	{Name: "tags", Shape: &document.Shape{Kind: document.ShapeList, Max: 2, Elem: &document.Shape{Kind: document.ShapeScalar}}, Doc: "What else."},
	{Name: "inner", Fill: true, Shape: &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
		{Name: "on", Default: true, Shape: &document.Shape{Kind: document.ShapeBoolean}, Doc: "Whether."},
	}}, Doc: "Inside."},
	{Name: "old", Shape: &document.Shape{Kind: document.ShapeAny}, Barred: document.Refused("old is of another time")},
}}

// (S14, T12) What is right is answered with its defaults, and all that is wrong with
// its place.
func TestExamine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src string
		want      any // of the value, or the text of the problems
	}{
		{"defaults", "size: 3", map[string]any{"size": 3, "color": "red", "inner": map[string]any{"on": true}}},
		{"all", "{size: 3, color: blue, pause: 90s, tags: [a, 1, true], inner: {on: false}}",
			"f:1:42: tags: the list has 3 elements; at most 2 are allowed"},
		{"as written", "{size: 3, tags: [1, 0x1F], pause: 90s}",
			map[string]any{"size": 3, "color": "red", "tags": []any{"1", "0x1F"}, "pause": "1m30s", "inner": map[string]any{"on": true}}},
		{"many", "colour: blue\ncolor: bleu\ncount: 3\nold: 1\npause: 5\n",
			"f:1:1: colour: unknown key \"colour\" (did you mean \"color\"?)\n" +
				"f:1:1: \"size\" is missing\n" +
				"f:2:8: color: \"bleu\" is not one of red, blue (did you mean \"blue\"?)\n" +
				"f:3:1: count: unknown key \"count\" (it is called \"size\" here)\n" +
				"f:4:1: old: old is of another time\n" +
				"f:5:8: pause: the duration 5 has no unit (write durations as 500ms, 90s, 10m or 1h30m)"},
		{"something else", "5", "f:1:1: want a mapping, got a number 5 (write {size: NUMBER})"},
		{"one in place of many", "{size: 1, tags: a}", "f:1:17: tags: want a list, got text \"a\" (write [a])"},
		{"not text", "{size: 1, color: true}", "f:1:18: color: want text, got a boolean true (it is one of red, blue)"},
		{"nothing", "# nothing", "f:1:1: the file is empty (say something)"},
		{"a control character", "size: \x01", "f:1:7: the file has a control character, U+0001"},
		{"no text", "size: \xff", "f:1:7: the file is not text in UTF-8: byte 0xFF"},
		{"a tab", "inner:\n\ton: true", "f:2:1: not YAML: found character TAB that cannot start any token (YAML is indented with spaces)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := document.NewExaminer("f")
			var got any
			if v := document.Read(e, []byte(tt.src), document.Hints{Empty: "say something"}); v != nil {
				got, _ = e.Examine("", v, plain)
			}
			if e.Problems.Sort(); len(e.Problems) > 0 {
				got = e.Problems.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// (S14, T12) The reference names what a file may say, and its default.
func TestTable(t *testing.T) {
	t.Parallel()
	const want = "### It\n\n| key | value | default | meaning |\n|---|---|---|---|\n" +
		"| `size` | 1 to 9 | required | How many. |\n" +
		"| `color` | `red`, `blue` | `red` | What it looks like. |\n" +
		"| `pause` | duration, 0s to 1h0m0s |  | How long. |\n" +
		"| `tags` | list of text |  | What else. |\n" +
		"| `inner` | mapping, see below |  | Inside. |\n\n"
	if diff := cmp.Diff(want, document.Table("It", plain)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
