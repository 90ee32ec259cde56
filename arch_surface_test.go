package pawl_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/surface.txt anew")

// The public surface grows on purpose: what the importable packages export is listed in a
// file that people review.
func TestSurface(t *testing.T) {
	t.Parallel()
	const path = "testdata/surface.txt"
	var names []string
	for _, s := range sources(t) {
		if slices.Contains(importable, s.dir()) {
			names = append(names, exported(s)...)
		}
	}
	slices.Sort(names)
	got := strings.Join(names, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("exported identifiers (-listed +found); if that is meant: go test . -run TestSurface -update\n%s", diff)
	}
}

// exported returns what a file exports: functions, methods of exported types, types,
// constants and variables, each with its package.
func exported(s source) []string {
	var names []string
	add := func(kind, name string) { names = append(names, fmt.Sprintf("%s %s %s", s.dir(), kind, name)) }
	for _, d := range s.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if public(d) || d.Recv == nil && d.Name.IsExported() {
				add("func", receiverOf(d)+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, name := range namesOf(spec) {
					add(map[token.Token]string{token.CONST: "const", token.VAR: "var", token.TYPE: "type"}[d.Tok], name)
				}
			}
		}
	}
	return names
}

func namesOf(spec ast.Spec) (names []string) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// receiverOf returns the type of a method with a dot, or nothing.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// The check itself can fail.
func TestSurfaceChecks(t *testing.T) {
	t.Parallel()
	t.Run("names", planted{"names", "x.go", "package pawl\nfunc F() {}\nfunc g() {}\ntype T[X any] struct{}\nfunc (*T[X]) M() {}\nfunc (T[X]) n() {}\ntype u int\nfunc (u) M() {}\nconst A, b = 1, 2\nvar V int\n",
		exported, []string{". func F", ". type T", ". func T.M", ". const A", ". var V"}}.run)
}
