package pawl_test

import (
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requirementsFile has the ids that tests cite: "- **K6** ...", below "## K: ...".
const requirementsFile = "docs/requirements.md"

var (
	requirement = regexp.MustCompile(`(?m)^- \*\*([A-Z]\d+)\*\* `)

	// cited is an id of the form of a requirement, in a comment.
	cited = regexp.MustCompile(`\b[A-Z]\d{1,2}\b`)
	// citedByName is one or several at the beginning of the name of a test.
	citedByName = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz)((?:[A-Z]\d{1,2})+)`)
	id          = regexp.MustCompile(`[A-Z]\d+`)

	// elsewhere is a number of a list that is not in the tree.
	elsewhere       = regexp.MustCompile(`(?i)\b(?:defect|bug|finding|item|rule)s? #?\d+`)
	elsewhereByName = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz)(?:Defect|Bug|Finding|Item|Rule)s?\d+`)
)

func TestCitedRequirementsExist(t *testing.T) {
	t.Parallel()
	ids := requirements(t)
	report(t, each(testSources(t), func(s source) []string { return citationFaults(s, ids) }))
}

// requirements returns the ids that tests may cite.
func requirements(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(requirementsFile)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		ids = append(ids, m[1])
	}
	if len(ids) < 50 {
		t.Fatalf("found %d ids in %s, so its form is another", len(ids), requirementsFile)
	}
	return ids
}

// citationFaults names what the tests of a file cite that is not among ids: ids
// with the letter of a requirement, and numbers of other lists.
func citationFaults(s source, ids []string) []string {
	var faults []string
	fault := func(where, what string) {
		faults = append(faults, fmt.Sprintf("%s: %s cites %s, which is not in %s", s.path, where, what, requirementsFile))
	}
	for _, what := range citations(s) {
		if unknown(what.text, ids) {
			fault(what.where, what.text)
		}
	}
	return faults
}

// unknown reports whether text is a citation that nobody can look up. An id with
// a letter that no requirement has, such as P99, is no citation.
func unknown(text string, ids []string) bool {
	if !cited.MatchString(text) {
		return true
	}
	family := func(known string) bool { return known[0] == text[0] }
	return slices.ContainsFunc(ids, family) && !slices.Contains(ids, text)
}

// A citation is what a comment or the name of a test cites.
type citation struct{ where, text string }

func citations(s source) []citation {
	var found []citation
	add := func(where string, texts []string) {
		for _, text := range texts {
			found = append(found, citation{where, text})
		}
	}
	for _, d := range s.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		if m := citedByName.FindStringSubmatch(f.Name.Name); m != nil {
			add(f.Name.Name, id.FindAllString(m[1], -1))
		}
		if elsewhereByName.MatchString(f.Name.Name) {
			add(f.Name.Name, []string{"a number of another list"})
		}
	}
	for _, c := range s.Comments {
		text := strings.Join(strings.Fields(c.Text()), " ")
		add("a comment", cited.FindAllString(text, -1))
		add("a comment", elsewhere.FindAllString(text, -1))
	}
	return found
}

// The checks themselves can fail.
func TestCitationChecks(t *testing.T) {
	t.Parallel()
	ids := []string{"K6", "T1", "T13"}
	check := func(s source) []string { return citationFaults(s, ids) }
	const missing = ", which is not in " + requirementsFile
	for _, tt := range []planted{
		{"known", "x_test.go", "package x\n// K6, T13: it is.\nfunc TestK6It(t) {} // (T1)\nfunc TestT1T13() {}\n", check, nil},
		{"other letters", "x_test.go", "package x\n// P99 is the 99th percentile.\nfunc TestP50() {}\n", check, nil},
		{"no word of its own", "x_test.go", "package x\n// 2006-01-02T99:00 and UTF8.\nfunc TestUTF8() {}\n", check, nil},
		{"unknown in a comment", "x_test.go", "package x\nfunc TestIt() {} // T1, T14\n", check,
			[]string{"x_test.go: a comment cites T14" + missing}},
		{"unknown in a name", "x_test.go", "package x\nfunc TestK6K9It() {}\n", check,
			[]string{"x_test.go: TestK6K9It cites K9" + missing}},
		{"another list in a comment", "x_test.go", "package x\n// As in defect\n// 24, it is.\nvar x int\n", check,
			[]string{"x_test.go: a comment cites defect 24" + missing}},
		{"another list in a name", "x_test.go", "package x\nfunc TestDefect24It() {}\n", check,
			[]string{"x_test.go: TestDefect24It cites a number of another list" + missing}},
	} {
		t.Run(tt.name, tt.run)
	}
}
