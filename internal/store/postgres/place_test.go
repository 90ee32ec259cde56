package postgres

import (
	"strings"
	"testing"
)

// TestPlace: what leads to another database, or to another schema, is another place.
func TestPlace(t *testing.T) {
	t.Parallel()
	place := func(url string) string {
		t.Helper()
		p, err := Place(url)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const url = "postgres://ann:secret@db.example:5433/pawl"
	here := place(url)
	if strings.Contains(here, "secret") || here != place("postgres://ann:other@db.example:5433/pawl") {
		t.Errorf("the password makes a difference: %s", here)
	}
	for _, other := range []string{"postgres://ann@db.example/pawl", "postgres://ann@db.example:5433/other", "postgres://ann@other.example:5433/pawl",
		"postgres://bob@db.example:5433/pawl", url + "?search_path=two"} {
		if place(other) == here {
			t.Errorf("%s is the same place as %s", other, url)
		}
	}
	if _, err := Place("postgres://db:port/pawl"); err == nil {
		t.Error("a bad URL has a place")
	}
}
