package console

import (
	"strings"
	"testing"
)

// TestListingIsAJSONList: what is written value by value is what the list is in one piece.
func TestListingIsAJSONList(t *testing.T) { // T8
	t.Parallel()
	type row struct {
		Name string         `json:"name"`
		More map[string]int `json:"more,omitempty"`
	}
	for _, rows := range [][]row{{}, {{Name: "<a>\n"}}, {{"a", map[string]int{"x": 1}}, {"b", nil}, {"c", nil}}} {
		var want, got strings.Builder
		if err := JSON(&want, rows); err != nil {
			t.Fatal(err)
		}
		l := &Listing[row]{W: &got, JSON: true}
		for i := range rows {
			if err := l.Add(&rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.End(); err != nil || got.String() != want.String() {
			t.Errorf("%v: %s\nwant %s", err, got.String(), want.String())
		}
	}
}

// TestListingHoldsABlock: a long table is written as it comes, and only its first line
// names the columns.
func TestListingHoldsABlock(t *testing.T) { // T8
	t.Parallel()
	var b strings.Builder
	l := &Listing[int]{W: &b, Head: []string{"N"}, Row: func(*int) []string { return []string{"x"} }}
	for n := range 2*blockRows + 10 {
		if err := l.Add(&n); err != nil {
			t.Fatal(err)
		}
		if written := strings.Count(b.String(), "\n"); len(l.rows) > blockRows || written+len(l.rows) != n+2 {
			t.Fatalf("after %d rows %d lines are written and %d held", n+1, written, len(l.rows))
		}
	}
	if err := l.End(); err != nil || strings.Count(b.String(), "\n") != 2*blockRows+11 || strings.Count(b.String(), "N") != 1 {
		t.Errorf("%v: %d lines, want one of heads and one for each row", err, strings.Count(b.String(), "\n"))
	}
}

// TestTailKeepsTheLast: with a limit the last values are handed on in the end, without one
// each at once.
func TestTailKeepsTheLast(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]string{0: "abcd|", 2: "|cd", 9: "|abcd"} {
		got := ""
		l := &Tail[string]{Limit: limit, F: func(s *string) error { got += *s; return nil }}
		for _, s := range []string{"a", "b", "c", "d"} {
			if err := l.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		got += "|"
		if err := l.End(); err != nil || got != want {
			t.Errorf("limit %d: %q, %v; want %q", limit, got, err, want)
		}
	}
}
