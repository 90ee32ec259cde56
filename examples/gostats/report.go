package main

import (
	"bytes"
	"fmt"
)

const (
	reportName = "report.md"
	chartName  = "chart.svg"
)

// report writes the report, in Markdown, and prints its path.
func report(c call) error { return publish(c, reportName, reportOf) }

// reportOf returns the report. It has no date in it: the same tree has the same
// report, however often the step was run.
func reportOf(s summary) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The Go standard library in numbers\n\n")
	fmt.Fprintf(&b, "%s for %s: %s packages, %s lines, %s declarations.\n\n", s.Release, s.Platform,
		grouped(s.Packages), grouped(s.Total.Lines), grouped(s.Declarations))
	fmt.Fprintf(&b, "![The %d largest packages](%s)\n\n", len(s.Top), chartName)
	b.WriteString("## In all\n\n")
	writeTotals(&b, s)
	fmt.Fprintf(&b, "\n## The %d largest packages\n\n", len(s.Top))
	writeTop(&b, s.Top)
	b.WriteString("\n## What was counted\n\n" +
		"The files that make up each package on this platform, without tests, commands, internal and vendored packages. " +
		"A line is a comment if there is nothing else on it. " +
		"A method is exported if its type is, too. Names count one by one, and `_` is none.\n")
	return b.Bytes()
}

func writeTotals(b *bytes.Buffer, s summary) {
	t := s.Total
	b.WriteString("| | number | share |\n|---|--:|--:|\n")
	for _, row := range []struct {
		name        string
		part, whole int
	}{
		{"files", t.Files, 0},
		{"**lines**", t.Lines, t.Lines},
		{"code", t.Code, t.Lines},
		{"comments", t.Comment, t.Lines},
		{"blank", t.Blank, t.Lines},
		{"**declarations**", s.Declarations, s.Declarations},
		{"functions", t.Funcs, s.Declarations},
		{"methods", t.Methods, s.Declarations},
		{"types", t.Types, s.Declarations},
		{"constants", t.Consts, s.Declarations},
		{"variables", t.Vars, s.Declarations},
		{"exported, of all these", t.Exported, s.Declarations},
	} {
		share := ""
		if row.whole > 0 {
			share = percent(row.part, row.whole)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", row.name, grouped(row.part), share)
	}
}

func writeTop(b *bytes.Buffer, top []packageCount) {
	b.WriteString("| | package | files | lines | comments | funcs | methods | types | consts | vars | exported |\n" +
		"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i, p := range top {
		fmt.Fprintf(b, "| %d | `%s` | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", i+1, p.Package,
			grouped(p.Files), grouped(p.Lines), percent(p.Comment, p.Lines), grouped(p.Funcs), grouped(p.Methods),
			grouped(p.Types), grouped(p.Consts), grouped(p.Vars), grouped(p.Exported))
	}
}
