package privatejob

import "testing"

func TestDifferences(t *testing.T) {
	t.Parallel()
	theirs, ours := []byte(`{"day":"2026-01-31","n":1,"old":true}`), []byte(`{"n":2,"day":"2026-01-31","new":"x"}`)
	want := `n is 1 there and 2 here; new is missing there and "x" here; old is true there and missing here`
	if got := differences(theirs, ours); got != want {
		t.Errorf("got %s", got)
	}
	for _, pair := range [][2]string{{`{"a":1,"b":2}`, `{"b": 2, "a": 1}`}, {``, `{}`}, {`null`, `{}`}} {
		if !equalJSON([]byte(pair[0]), []byte(pair[1])) {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
	if equalJSON([]byte(`{"a":9007199254740993}`), []byte(`{"a":9007199254740992}`)) {
		t.Error("large numbers are rounded")
	}
}
