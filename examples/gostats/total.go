package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"io"
	"os"
	"runtime"
	"slices"
)

// maxTop bounds the chart's height.
const maxTop = 50

// A summary is all that the report and the chart show.
type summary struct {
	Release      string         `json:"release"`  // go1.26.0
	Platform     string         `json:"platform"` // linux/amd64
	Packages     int            `json:"packages"`
	Declarations int            `json:"declarations"`
	Total        numbers        `json:"total"`
	Top          []packageCount `json:"top"` // most lines first
}

// total prints the summary of what the steps count and release have put out.
func total(c call) error {
	flags := flag.NewFlagSet("total", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	top := flags.Int("top", 20, "how many packages to name")
	if err := flags.Parse(c.args); err != nil {
		return usage("total: %w", err)
	}
	if *top < 1 || *top > maxTop || flags.NArg() > 0 {
		return usage("total: want -top from 1 to %d and nothing else, got %d and %q", maxTop, *top, flags.Args())
	}
	var needs struct {
		Count   []packageCount `json:"count"`
		Release string         `json:"release"`
	}
	if err := readNeeds(c, &needs); err != nil {
		return err
	}
	if len(needs.Count) == 0 {
		return usage("total: PAWL_INPUT has no output of the step count")
	}
	s := summarise(needs.Count, *top)
	s.Release, s.Platform = needs.Release, runtime.GOOS+"/"+runtime.GOARCH
	return json.NewEncoder(c.stdout).Encode(s)
}

// readNeeds reads the outputs of the steps that this one needs: `needs` in the
// JSON file that Pawl names in PAWL_INPUT.
func readNeeds(c call, needs any) error {
	path := c.env("PAWL_INPUT")
	if path == "" {
		return usage("PAWL_INPUT is not set: run this as a step of gostats.yaml")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	input := struct {
		Needs any `json:"needs"`
	}{needs}
	if err := json.Unmarshal(raw, &input); err != nil {
		return usage("%s: %w", path, err)
	}
	return nil
}

// readSummary reads the output of the step total.
func readSummary(c call) (summary, error) {
	var needs struct {
		Total *summary `json:"total"`
	}
	if err := readNeeds(c, &needs); err != nil {
		return summary{}, err
	}
	if needs.Total == nil {
		return summary{}, usage("PAWL_INPUT has no output of the step total")
	}
	return *needs.Total, nil
}

// summarise adds up counts, which it sorts.
func summarise(counts []packageCount, top int) summary {
	s := summary{Packages: len(counts)}
	for _, c := range counts {
		s.Total.add(c.numbers)
	}
	s.Declarations = s.Total.declarations()
	slices.SortFunc(counts, func(a, b packageCount) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Package, b.Package))
	})
	s.Top = counts[:min(top, len(counts))]
	return s
}
