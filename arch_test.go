package pawl_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The architecture is what the tables below say. The imports are read from the
// files themselves, since the test cache does not see what go list would.

const module = "github.com/pawl-dev/pawl"

// order is the order of the packages, "." being the root: each imports packages
// of rows above its own and no others. Programs under internal and examples are
// outside of it.
var order = [][]string{
	{"machine"},
	{"machine/machinetest"},
	{"lifecycle"},
	{"audit"},
	{"internal/rowkey"},
	{"."},
	{"internal/bearer", "internal/session", "internal/tracing", "internal/keyring"},
	{"internal/document"},
	{"workflow"},
	{"internal/decide"},
	{"internal/schedule"},
	{"internal/health"},
	{"internal/link"},
	{"internal/exchange"},
	{"internal/remote"},
	{"client"},
	{"internal/private"},
	{"internal/heap", "internal/sleep", "internal/signals", "internal/durable", "internal/trouble"},
	{"internal/workdir"},
	{"internal/process"},
	{"worker"},
	{"internal/store"},
	{"internal/store/storetest"},
	{"internal/store/sqlite", "internal/store/postgres"},
	{"internal/store/address"},
	{"internal/trail"},
	{"internal/definitions", "internal/quota"},
	{"internal/feed"},
	{"internal/webhook"},
	{"internal/explain"},
	{"internal/engine"},
	{"internal/age"},
	{"internal/crew"},
	{"internal/crewstep"},
	{"local"},
	{"pawltest"},
	{"internal/load/loadpb"},
	{"internal/load/enginepb"},
	{"internal/load/histogram"},
	{"internal/load/stats"},
	{"internal/load/spec"},
	{"internal/load/fiojob"},
	{"internal/load/s3"},
	{"internal/load/workload"},
	{"internal/load/agent"},
	{"internal/load/report"},
	{"internal/load/controller"},
	{"internal/load/journal"},
	{"internal/load/results"},
	{"internal/load/results/resultstest"},
	{"supervisor"},
	{"internal/programs/spec"},
	{"internal/control"},
	{"internal/server"},
	{"internal/programs/journal"},
	{"internal/programs"},
	{"internal/metrics"},
	{"internal/inspect"},
	{"internal/expressions"},
	{"internal/rehearsal"},
	{"internal/rehearsal/rehearsaltest"},
	{"internal/verify", "internal/simulate"},
	{"internal/access"},
	{"internal/api", "internal/oidc", "internal/oidc/oidctest"},
	{"internal/daemon"},
	{"internal/privatejob"},
	{"internal/doctor"},
	{"internal/console"},
	{"internal/files"},
	{"internal/loadstep"},
	{"internal/profile"},
	{"internal/supervise"},
	{"internal/lab/bench"},
	{"internal/lab/ramdisk"},
	{"internal/lab/contest", "internal/lab/pgtest", "internal/lab/sqlitetest", "internal/lab/s3test", "internal/lab/hangtest", "internal/lab/promtool", "internal/lab/redocly", "internal/lab/buf", "internal/lab/grpcjs", "internal/lab/generated", "internal/lab/sdk"},
	{"internal/lab/measure"},
	{"cmd/pawl"},
}

// importable are the packages that users import, and machinetest for who writes machines.
var importable = []string{".", "audit", "client", "lifecycle", "local", "machine", "machine/machinetest", "pawltest", "supervisor", "worker", "workflow"}

// testOnly are the packages that only tests import.
var testOnly = []string{"machine/machinetest", "internal/store/storetest", "internal/rehearsal/rehearsaltest", "internal/load/results/resultstest", "internal/lab/pgtest", "internal/lab/ramdisk", "internal/lab/sqlitetest", "internal/lab/s3test", "internal/lab/hangtest", "internal/oidc/oidctest", "pawltest"}

// pure are the packages without clock, randomness and I/O: now, ids and jitter
// arrive with the command. The first of them uses the standard library only.
var pure = []string{"machine", "lifecycle", "audit", "internal/rowkey", ".", "internal/document", "workflow", "internal/decide", "internal/schedule", "internal/programs/spec", "internal/health", "internal/expressions", "internal/rehearsal", "internal/load/histogram", "internal/load/stats", "internal/load/spec", "internal/load/fiojob"}

// impureImports are not imported by pure packages, nor is what is below them but
// for pureImports.
var (
	impureImports = []string{"os", "net", "syscall", "database/sql", "math/rand", "crypto/rand", "io/ioutil", "log"}
	pureImports   = []string{"net/url", "net/netip"}
)

// impureNames are not used by pure packages: a name ending in * is a prefix.
var impureNames = map[string][]string{
	"time":                   {"Now", "Since", "Until", "Sleep", "After*", "Tick", "NewTimer", "NewTicker", "LoadLocation", "Local"},
	"path/filepath":          {"Abs", "Glob", "Walk*", "EvalSymlinks"},
	"github.com/google/uuid": {"New*"},
}

// exceptions excuses a use from purity, by file and name, with its reason.
var exceptions = map[string]string{
	"internal/schedule/cron.go time.LoadLocation": "the rules of a time zone are data of the program; what it answers does not depend on when it is asked",
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	report(t, each(sources(t), importFaults))
}

func TestPublicPackages(t *testing.T) {
	t.Parallel()
	var found []string
	for _, s := range sources(t) {
		if dir := s.dir(); s.Name.Name != "main" && !within(s, "internal") && !within(s, "examples") && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	slices.Sort(found)
	if diff := cmp.Diff(importable, found); diff != "" {
		t.Errorf("packages that anybody can import (-want +got); what users have no use for goes under internal:\n%s", diff)
	}
}

func TestPurity(t *testing.T) {
	t.Parallel()
	report(t, each(sources(t), purityFaults))
}

func TestExceptionsAreUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, s := range sources(t) {
		for _, u := range impurities(s) {
			used[s.path+" "+u] = true
		}
	}
	for e, reason := range exceptions {
		if !used[e] || reason == "" {
			t.Errorf("exception %q: want a use in that file, and a reason", e)
		}
	}
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

func each(files []source, check func(source) []string) []string {
	var faults []string
	for _, s := range files {
		faults = append(faults, check(s)...)
	}
	return faults
}

// A source is one Go file of the module.
type source struct {
	path string // from the root, with slashes
	*ast.File
}

func (s source) dir() string { return path.Dir(s.path) }

// sources reads every file that is not a test; see read.
func sources(t *testing.T) []source {
	t.Helper()
	return read(t, func(p string) bool { return !strings.HasSuffix(p, "_test.go") })
}

// testSources reads every file that is a test; see read.
func testSources(t *testing.T) []source {
	t.Helper()
	return read(t, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
}

// read reads the wanted Go files that are neither hidden, nor test data, nor of a
// module inside this one.
func read(t *testing.T, wanted func(path string) bool) []source {
	t.Helper()
	var files []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.ContainsAny(d.Name()[:1], "._") || d.Name() == "testdata" || isModule(p)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go") || !wanted(p):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments)
		files = append(files, source{filepath.ToSlash(p), file})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found %d files, so this is not the module", len(files))
	}
	return files
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// importFaults holds the imports of a file against the order.
func importFaults(s source) []string {
	if !known(s) {
		return []string{fmt.Sprintf("%s: package %s is not in the order of arch_test.go", s.path, s.dir())}
	}
	var faults []string
	for _, imported := range imports(s) {
		target, own := strings.CutPrefix(imported, module)
		if !own || target != "" && target[0] != '/' {
			continue
		}
		if target = path.Clean("." + target); !allowed(s, target) {
			faults = append(faults, fmt.Sprintf("%s: package %s may not import %s", s.path, s.dir(), imported))
		}
	}
	return faults
}

// known reports whether the order says what the package of s may import.
func known(s source) bool { return row(s.dir()) >= 0 || free(s) }

// free reports whether s is of a program outside the order: an example or a
// generator. It may import anything.
func free(s source) bool {
	return within(s, "examples") || within(s, "internal") && s.Name.Name == "main"
}

func within(s source, folder string) bool { return strings.HasPrefix(s.path, folder+"/") }

func allowed(s source, target string) bool {
	switch {
	case free(s):
		return true
	case slices.Contains(testOnly, target):
		return slices.Contains(testOnly, s.dir()) && row(target) < row(s.dir())
	}
	return row(target) >= 0 && row(target) < row(s.dir())
}

// row returns the place of a package in the order, or -1.
func row(dir string) int {
	return slices.IndexFunc(order, func(row []string) bool { return slices.Contains(row, dir) })
}

func imports(s source) []string {
	var paths []string
	for _, i := range s.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// purityFaults names what a file of a pure package must not use.
func purityFaults(s source) []string {
	if !slices.Contains(pure, s.dir()) {
		return nil
	}
	var faults []string
	for _, use := range impurities(s) {
		if exceptions[s.path+" "+use] == "" {
			faults = append(faults, fmt.Sprintf("%s: package %s is pure and may not use %s", s.path, s.dir(), use))
		}
	}
	return faults
}

// impurities returns the impure packages and names that a file uses.
func impurities(s source) []string {
	var uses []string
	names := map[string]string{} // what this file calls a package -> its path
	for _, i := range s.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		_, watched := impureNames[p]
		if impure(p) || watched && name == "." || s.dir() == pure[0] && strings.Contains(p, ".") {
			uses = append(uses, p)
		}
		names[name] = p
	}
	ast.Inspect(s.File, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && matches(impureNames[names[x.Name]], sel.Sel.Name) {
			uses = append(uses, names[x.Name]+"."+sel.Sel.Name)
		}
		return true
	})
	return uses
}

func impure(imported string) bool {
	return !slices.Contains(pureImports, imported) && slices.ContainsFunc(impureImports, func(p string) bool {
		return imported == p || strings.HasPrefix(imported, p+"/")
	})
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return name == p || open && strings.HasPrefix(name, prefix)
	})
}

// A planted source holds faults for a check to find: these and no more.
type planted struct {
	name, path, text string
	check            func(source) []string
	want             []string
}

func (p planted) run(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), p.path, p.text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.want, p.check(source{p.path, file})); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// The checks themselves can fail.
func TestArchitectureChecks(t *testing.T) {
	t.Parallel()
	const imp = `import "` + module
	for _, tt := range []planted{
		{"down", "internal/engine/e.go", `package engine; ` + imp + `/internal/store"; ` + imp + `"`, importFaults, nil},
		{"up", "internal/store/s.go", `package store; ` + imp + `/internal/engine"`, importFaults,
			[]string{"internal/store/s.go: package internal/store may not import " + module + "/internal/engine"}},
		{"up from the root", "x.go", `package pawl; ` + imp + `/workflow"`, importFaults,
			[]string{"x.go: package . may not import " + module + "/workflow"}},
		{"the root from below", "audit/a.go", `package audit; import p "` + module + `"`, importFaults,
			[]string{"audit/a.go: package audit may not import " + module}},
		{"sideways", "internal/store/sqlite/s.go", `package sqlite; ` + imp + `/internal/store/postgres"`, importFaults,
			[]string{"internal/store/sqlite/s.go: package internal/store/sqlite may not import " + module + "/internal/store/postgres"}},
		{"of no row", "internal/engine/e.go", `package engine; ` + imp + `/misc"`, importFaults,
			[]string{"internal/engine/e.go: package internal/engine may not import " + module + "/misc"}},
		{"not in the order", "misc/u.go", `package misc`, importFaults,
			[]string{"misc/u.go: package misc is not in the order of arch_test.go"}},
		{"below a package", "internal/engine/deep/d.go", `package deep`, importFaults,
			[]string{"internal/engine/deep/d.go: package internal/engine/deep is not in the order of arch_test.go"}},
		{"test support", "internal/engine/e.go", `package engine; ` + imp + `/internal/store/storetest"`, importFaults,
			[]string{"internal/engine/e.go: package internal/engine may not import " + module + "/internal/store/storetest"}},
		{"test support of test support", "internal/store/storetest/s.go", `package storetest; ` + imp + `/machine/machinetest"`, importFaults, nil},
		{"generator", "internal/lab/x/x.go", `package main; ` + imp + `/internal/store"`, importFaults, nil},
		{"example", "examples/x/x.go", `package main; ` + imp + `/internal/store"`, importFaults, nil},
		{"another module", "machine/m.go", `package machine; ` + imp + `-tools/internal/store"`, importFaults, nil},

		{"clock", "workflow/w.go", `package workflow; import "time"; var d = time.Second; var _ = time.Now().Add(time.Since(x))`, purityFaults,
			[]string{"workflow/w.go: package workflow is pure and may not use time.Now", "workflow/w.go: package workflow is pure and may not use time.Since"}},
		{"clock by another name", "audit/a.go", `package audit; import clock "time"; var now = clock.Now`, purityFaults,
			[]string{"audit/a.go: package audit is pure and may not use time.Now"}},
		{"dot import", "audit/a.go", `package audit; import . "time"`, purityFaults,
			[]string{"audit/a.go: package audit is pure and may not use time"}},
		{"timer", "x.go", `package pawl; import "time"; var c = time.AfterFunc`, purityFaults,
			[]string{"x.go: package . is pure and may not use time.AfterFunc"}},
		{"ids", "x.go", `package pawl; import "github.com/google/uuid"; var a, b = uuid.NewString(), uuid.Nil`, purityFaults,
			[]string{"x.go: package . is pure and may not use github.com/google/uuid.NewString"}},
		{"imports", "lifecycle/l.go", `package lifecycle; import ("os/exec"; "net"; "net/url"; "database/sql"; "math/rand/v2"; "strings")`, purityFaults,
			[]string{
				"lifecycle/l.go: package lifecycle is pure and may not use os/exec",
				"lifecycle/l.go: package lifecycle is pure and may not use net",
				"lifecycle/l.go: package lifecycle is pure and may not use database/sql",
				"lifecycle/l.go: package lifecycle is pure and may not use math/rand/v2",
			}},
		{"more than the standard library", "machine/m.go", `package machine; import "example.org/x"`, purityFaults,
			[]string{"machine/m.go: package machine is pure and may not use example.org/x"}},
		{"engines have clocks", "internal/engine/e.go", `package engine; import ("os"; "time"); var now = time.Now`, purityFaults, nil},
	} {
		t.Run(tt.name, tt.run)
	}
}
