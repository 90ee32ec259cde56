package pawl_test

import (
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// unwatched returns the packages that `make test` runs without the race detector.
func unwatched(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nPURE = ")
	line, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("the Makefile does not name its PURE packages")
	}
	return strings.Fields(line)
}

func TestUnwatchedPackagesStartNothing(t *testing.T) {
	t.Parallel()
	dirs := unwatched(t)
	for _, dir := range dirs {
		if row(dir) < 0 {
			t.Errorf("the Makefile runs %s without the race detector, which is no package", dir)
		}
	}
	for _, s := range sources(t) {
		if slices.Contains(dirs, s.dir()) {
			report(t, concurrencyFaults(s))
		}
	}
}

// concurrencyFaults names what a package has no use for that neither starts
// goroutines nor shares anything that changes between those of others.
func concurrencyFaults(s source) []string {
	var faults []string
	for _, imported := range imports(s) {
		if imported == "sync" || strings.HasPrefix(imported, "sync/") {
			faults = append(faults, fmt.Sprintf("%s: package %s is run without the race detector and may not import %s", s.path, s.dir(), imported))
		}
	}
	ast.Inspect(s.File, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			faults = append(faults, fmt.Sprintf("%s: package %s is run without the race detector and may not start goroutines", s.path, s.dir()))
		}
		return true
	})
	return faults
}

func TestConcurrencyChecks(t *testing.T) {
	t.Parallel()
	for _, tt := range []planted{
		{"none", "internal/verify/s.go", `package verify; import "strings"; func f() { defer f() }`, concurrencyFaults, nil},
		{"a lock", "internal/verify/s.go", `package verify; import "sync"`, concurrencyFaults,
			[]string{"internal/verify/s.go: package internal/verify is run without the race detector and may not import sync"}},
		{"an atomic", "internal/verify/s.go", `package verify; import "sync/atomic"`, concurrencyFaults,
			[]string{"internal/verify/s.go: package internal/verify is run without the race detector and may not import sync/atomic"}},
		{"a goroutine", "internal/verify/s.go", `package verify; func f() { go f() }`, concurrencyFaults,
			[]string{"internal/verify/s.go: package internal/verify is run without the race detector and may not start goroutines"}},
	} {
		t.Run(tt.name, tt.run)
	}
}
