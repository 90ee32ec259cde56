package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

// JSON writes v, indented. It escapes only the characters that JSON requires.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Output writes the output of a job for people: a text unquoted, anything else as indented
// JSON, and nothing for null.
func Output(w io.Writer, output json.RawMessage) error {
	if len(output) == 0 || string(output) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(output, &text) == nil {
		_, err := fmt.Fprintln(w, strings.TrimSuffix(text, "\n"))
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, output, "", "  "); err != nil {
		return pawl.Errorf(pawl.Internal, "the output is not JSON: %v", err)
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// Table writes rows in columns; the first row holds the headings.
func Table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = Printable(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// leastNote is the minimum width of the last column of a table.
const leastNote = 20

// Fit cuts the last column of a table so that each row fits on one line of a terminal. A width
// of 0 means no terminal: nothing is cut.
func Fit(rows [][]string, width int) [][]string {
	if width == 0 {
		return rows
	}
	last := len(rows[0]) - 1
	for col := range last {
		wide := 0
		for _, row := range rows {
			wide = max(wide, utf8.RuneCountInString(row[col]))
		}
		width -= wide + 2
	}
	f := Frame{width: max(width, leastNote)}
	for _, row := range rows {
		row[last] = f.cut(row[last])
	}
	return rows
}
