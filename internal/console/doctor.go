package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/pawl-dev/pawl/internal/health"
)

// Findings writes one line for each passed check, then the problems with their remedies, worst
// last, where people look first.
func Findings(w io.Writer, found []health.Finding) error {
	var b strings.Builder
	counts := map[health.Severity]int{}
	for _, severity := range []health.Severity{health.OK, health.Warning, health.Problem} {
		for i := range found {
			f := &found[i]
			if f.Severity != severity {
				continue
			}
			counts[severity]++
			what := f.Measured
			if f.Subject != "" {
				what = f.Subject + ": " + what
			}
			fmt.Fprintf(&b, "%-8s %-22s %s\n", severity, f.Check, Printable(what))
			if severity != health.OK {
				fmt.Fprintf(&b, "%31s threshold: %s\n%31s to do: %s\n", "", f.Threshold, "", Printable(f.Cure))
			}
		}
	}
	fmt.Fprintf(&b, "%s, %s, %d ok\n", Plural(int64(counts[health.Problem]), "problem"), Plural(int64(counts[health.Warning]), "warning"), counts[health.OK])
	_, err := fmt.Fprint(w, b.String())
	return err
}
