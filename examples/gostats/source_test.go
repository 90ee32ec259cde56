package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCountFileDeclarations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, src string
		want      numbers
	}{
		{"nothing", "", numbers{}},
		{"functions", "func F() {}\nfunc g() {}\nfunc init() {}\n", numbers{Funcs: 3, Exported: 1}},
		{"methods", "func (T) M() {}\nfunc (*T) n() {}\nfunc (u) M() {}\nfunc (*T[K]) M() {}\nfunc ((*T[K, V])) M() {}\n",
			numbers{Methods: 5, Exported: 3}},
		{"types", "type T int\ntype (\n\tu struct{ F func() }\n\tV = T\n)\n", numbers{Types: 3, Exported: 2}},
		{"values by name", "const A, b = 1, 2\nconst (\n\tC = iota\n\t_\n\td\n)\nvar E, f int\nvar _ = E\n",
			numbers{Consts: 4, Vars: 2, Exported: 3}},
		{"what is inside does not count", "func f() {\n\tconst A = 1\n\tvar B int\n\ttype C int\n\t_ = func() {}\n}\n", numbers{Funcs: 1}},
		{"imports do not count", "import \"fmt\"\n", numbers{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := countFile("f.go", []byte("package p\n"+test.src))
			if err != nil {
				t.Fatal(err)
			}
			test.want.Files, test.want.Lines, test.want.Code = 1, got.Lines, got.Code // see TestCountLines
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCountLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, src            string
		code, comment, blank int
	}{
		{"empty", "", 0, 0, 0},
		{"no newline at the end", "package p", 1, 0, 0},
		{"blank lines", "package p\n\n \t\n", 1, 0, 2},
		{"comments", "// a\npackage p // b\n/* c */\n", 1, 2, 0},
		{"a long comment", "package p\n/*\n\n*/\n", 1, 3, 0},
		{"code behind a comment", "package p\n/*\n*/ var a int\n", 2, 1, 0},
		{"code before a comment", "package p\nvar a int /*\n*/\n", 2, 1, 0},
		{"raw string", "package p\nvar a = `\n\n// b\n`\n", 5, 0, 0},
		{"raw string with carriage returns", "package p\r\nvar a = `\r\n\r\n// b\r\n`\r\n\r\n", 5, 0, 1},
		{"a long comment with carriage returns", "package p\r\n/*\r\n\r\n*/\r\n", 1, 3, 0},
		{"a comment in a string", "package p\nvar a = \"/*\"\n\nvar b = \"*/\"\n", 3, 0, 1},
		{"a rune", "package p\nvar a = '`'\n\nvar b = '`'\n", 3, 0, 1},
		{"a comment ends the file", "package p\n\n// a", 1, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var n numbers
			n.countLines([]byte(test.src))
			want := numbers{Code: test.code, Comment: test.comment, Blank: test.blank, Lines: test.code + test.comment + test.blank}
			if diff := cmp.Diff(want, n); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCountFileRefusesWhatIsNotGo(t *testing.T) {
	t.Parallel()
	if n, err := countFile("f.go", []byte("package p\nfunc {\n")); err == nil {
		t.Errorf("got %+v and no error", n)
	}
}
