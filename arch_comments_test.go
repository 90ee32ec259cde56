package pawl_test

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

// documented are the packages whose exported names all have a comment.
var documented = []string{".", "machine", "machine/machinetest", "audit", "internal/store", "internal/trail", "internal/document", "workflow", "internal/schedule", "internal/health", "internal/link", "internal/definitions", "internal/quota", "internal/explain", "internal/engine", "client", "local", "internal/store/address", "worker", "supervisor", "internal/control", "internal/programs", "internal/programs/spec", "internal/programs/journal", "internal/server", "internal/metrics", "internal/expressions", "internal/rehearsal", "internal/verify", "internal/simulate"}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	report(t, packageFaults(sources(t)))
}

func TestExportedComments(t *testing.T) {
	t.Parallel()
	report(t, each(sources(t), commentFaults))
}

// packageFaults names the packages without a comment.
func packageFaults(files []source) []string {
	commented := map[string]bool{}
	for _, s := range files {
		commented[s.dir()] = commented[s.dir()] || s.Doc.Text() != ""
	}
	var faults []string
	for dir, ok := range commented {
		if !ok {
			faults = append(faults, fmt.Sprintf("package %s has no package comment", dir))
		}
	}
	slices.Sort(faults)
	return faults
}

// commentFaults names the exported names of a file that have no comment.
func commentFaults(s source) []string {
	if !slices.Contains(documented, s.dir()) {
		return nil
	}
	var faults []string
	for _, name := range bare(s.File) {
		faults = append(faults, fmt.Sprintf("%s: %s has no comment", s.path, name))
	}
	return faults
}

func bare(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc.Text() == "" && public(d) {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, bareSpec(d, spec)...)
			}
		}
	}
	return names
}

// public reports whether a function is exported, or a method of an exported type
// that is not one of those which every reader knows.
func public(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return d.Name.IsExported()
	}
	receiver := d.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			familiar := []string{"Error", "Unwrap", "String"}
			return d.Name.IsExported() && t.IsExported() && !slices.Contains(familiar, d.Name.Name)
		default:
			return false
		}
	}
}

// bareSpec returns the exported names of a spec without a comment. That of a
// group serves its constants and variables, not its types.
func bareSpec(d *ast.GenDecl, spec ast.Spec) []string {
	var names []string
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc.Text() == "" && (d.Lparen.IsValid() || d.Doc.Text() == "") {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() && d.Doc.Text()+s.Doc.Text()+s.Comment.Text() == "" {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// The checks themselves can fail.
func TestCommentChecks(t *testing.T) {
	t.Parallel()
	for _, tt := range []planted{
		{"bare names", "internal/store/s.go", "package store\n" +
			"func F() {}\nfunc g() {}\ntype T struct{}\nfunc (*T) M() {}\nfunc (T) Error() string { return \"\" }\n" +
			"type u[X any] struct{}\nfunc (*u[X]) M() {}\nconst A, b = 1, 2\nvar V int\ntype (\n\tW int\n)\n", commentFaults,
			[]string{"internal/store/s.go: F has no comment", "internal/store/s.go: T has no comment", "internal/store/s.go: M has no comment",
				"internal/store/s.go: A has no comment", "internal/store/s.go: V has no comment", "internal/store/s.go: W has no comment"}},
		{"commented names", "internal/store/s.go", "package store\n// F is.\nfunc F() {}\n// T is.\ntype T[X any] struct{}\n// M is.\nfunc (*T[X]) M() {}\n" +
			"// All.\nconst (\n\tA = 1\n\tB = 2\n)\nvar (\n\tV int // is\n)\n", commentFaults, nil},
		{"bare generic method", "internal/store/s.go", "package store\nfunc (*T[X, Y]) M() {}\n", commentFaults,
			[]string{"internal/store/s.go: M has no comment"}},
		{"elsewhere", "api/a.go", "package api\nfunc F() {}\n", commentFaults, nil},

		{"no package comment", "api/a.go", "package api", one(packageFaults), []string{"package api has no package comment"}},
		{"package comment", "api/a.go", "// Package api is.\npackage api", one(packageFaults), nil},
	} {
		t.Run(tt.name, tt.run)
	}
}

func one(check func([]source) []string) func(source) []string {
	return func(s source) []string { return check([]source{s}) }
}
