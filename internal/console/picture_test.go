package console

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestPicture: the picture of the README is what Live draws of such a job. -update writes
// it anew.
func TestPicture(t *testing.T) {
	t.Parallel()
	lines := drawTree(pictured(), Frame{Now: noon.Add(9 * time.Second), Paint: true, width: 80, height: 24, spin: 3})
	golden(t, "../../../docs/job.svg", svg(lines))
}

// pictured is a job of which one step is tried again, and one waits for a person.
func pictured() *pawl.JobView {
	return &pawl.JobView{
		ID: "j_019a3c7e5b7a7c1d8000000040a1b2c3", Workflow: "nightly", Status: lifecycle.JobRunning, Workspace: "default",
		CreatedAt: after(0), StartedAt: after(0), Inputs: json.RawMessage(`{}`),
		Steps: []pawl.StepView{
			{Key: "extract", Status: lifecycle.StepComplete, Attempts: 1, Claims: 1, StartedAt: after(0), CompletedAt: after(1300 * time.Millisecond)},
			{Key: "load", Status: lifecycle.StepInProgress, StartedAt: after(1400 * time.Millisecond), Instances: &pawl.Instances{Total: 178, Made: 131, Live: 4}},
			{Key: "load[128]", Status: lifecycle.StepInProgress, Attempts: 1, Claims: 1, StartedAt: after(8 * time.Second)},
			{Key: "load[129]", Status: lifecycle.StepInProgress, Attempts: 2, Claims: 2, StartedAt: after(7 * time.Second),
				Error: &pawl.Failure{Class: "worker_lost", Message: "its worker died"}},
			{Key: "load[130]", Status: lifecycle.StepInProgress, Attempts: 1, Claims: 1, StartedAt: after(8500 * time.Millisecond)},
			{Key: "check", Status: lifecycle.StepComplete, Attempts: 3, Claims: 3, StartedAt: after(5 * time.Second), CompletedAt: after(6100 * time.Millisecond)},
			{Key: "report", Status: lifecycle.StepPending},
			{Key: "publish", Status: lifecycle.StepPending},
		},
	}
}

// Sizes of a picture, in pixels.
const (
	lineHeight, charWidth, margin = 20, 8.4, 16
)

// colours are those of the picture for what a terminal is told.
var colours = map[string]string{"31": "#f85149", "32": "#3fb950", "33": "#d29922", "36": "#39c5cf", "90": "#8b949e"}

var painted = regexp.MustCompile("\x1b\\[(\\d+)m(.*?)\x1b\\[0m")

// svg returns a picture of the lines, as a terminal shows them.
func svg(lines []string) string {
	var b strings.Builder
	width, height := int(80*charWidth)+2*margin, len(lines)*lineHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	b.WriteString(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" fill="#e6edf3" xml:space="preserve">` + "\n")
	for i, line := range lines {
		text := painted.ReplaceAllStringFunc(html.EscapeString(line), func(s string) string {
			part := painted.FindStringSubmatch(s)
			return fmt.Sprintf(`<tspan fill="%s">%s</tspan>`, colours[part[1]], part[2])
		})
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", margin, margin+(i+1)*lineHeight-6, text)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}
