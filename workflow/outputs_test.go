package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhichOutputsAreKept: those that an expression of the file uses, and those that the
// file asks for; of a fan-out a list also for what reads its input.
func TestWhichOutputsAreKept(t *testing.T) { // T8
	t.Parallel()
	for _, test := range []struct{ steps, rest, want string }{
		{"{id: a, run: x}", "", "a none"},
		{"{id: a, run: x}", "output: ${{ steps.a.output }}", "a text"},
		{"{id: a, run: x}", "output: ${{ steps.a.status }}", "a none"},
		{"{id: a, run: x}", "output: {deep: [{in: 'it ${{ steps?.a?.output }}'}]}", "a text"},
		{"{id: a, run: x, output: lines}", "", "a lines"},
		{"{id: a, run: x, output: none}", "output: ${{ steps.a.output }}", "a none"},
		{"{id: a, http: {method: GET, url: 'http://x/'}}", "", "a none"},
		{"{id: a, http: {method: GET, url: 'http://x/'}}", "output: ${{ steps.a.output.status }}", "a text"},
		{"{id: a, handler: h}", "", "a json"},
		{"{id: a, run: x}, {id: b, needs: [a], run: y}", "", "a none, b none"},
		{"{id: a, run: x}, {id: b, needs: [a], if: 'steps.a.output == \"\"', run: y}", "", "a text, b none"},
		{"{id: a, run: x}, {id: b, needs: [a], foreach: '${{ [steps.a.output] }}', run: y}", "", "a text, b none"},
		{"{id: a, run: x}, {id: b, needs: [a], env: {E: '${{ steps.a.output }}'}, run: y}", "", "a text, b none"},
		{"{id: a, run: x}, {id: b, needs: [a], sleep: '${{ steps.a.output }}s'}", "", "a text, b "},
		{"{id: a, run: x}, {id: b, needs: [a], approval: {prompt: 'is it ${{ steps.a.output }}?'}}", "", "a text, b "},
		{"{id: a, run: x}", "hooks: {always: [{id: h, command: [y, '${{ steps.a.output }}']}]}", "a text, h none"},

		{"{id: a, foreach: [1], run: x}", "", "a none"},
		{"{id: a, foreach: [1], run: x}", "output: ${{ steps.a.output }}", "a text list"},
		{"{id: a, foreach: [1], run: x, output: json}", "", "a json list"},
		{"{id: a, foreach: [1], run: x, output: none}", "", "a none"},
		{"{id: a, foreach: [1], handler: h}", "", "a json"},
		{"{id: a, matrix: {m: [1]}, handler: h}", "output: ${{ len(steps.a.output) }}", "a json list"},
		{"{id: a, foreach: [1], handler: h}, {id: b, needs: [a], handler: h}", "", "a json list, b json"},
		{"{id: a, foreach: [1], handler: h}, {id: b, needs: [a], sleep: 1s}", "", "a json, b "},
		{"{id: a, foreach: [1], event: {name: e}}", "", "a "},
		{"{id: a, foreach: [1], event: {name: e}}", "output: ${{ steps.a.output }}", "a  list"},
	} {
		d := parse(t, fmt.Sprintf("name: w\nsteps: [%s]\n%s\n", test.steps, test.rest))
		var got []string
		for _, n := range d.Nodes {
			text := n.ID + " " + string(n.Output)
			if n.Gathers {
				text += " list"
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s; %s (-want +got):\n%s", test.steps, test.rest, diff)
		}
	}
}
