package store

import (
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestProgramsBesideEachOther: programs of adjacent versions share a database if the change
// between them is rolling, and no others do.
func TestProgramsBesideEachOther(t *testing.T) {
	t.Parallel()
	stop, rolling := SchemaChange{"a", "b"}, SchemaChange{RollingMark + "a", RollingMark + "b"}
	all := []SchemaChange{stop, stop, rolling, rolling, {RollingMark, "half"}, rolling}
	works := map[[2]int]bool{ // program, database
		{2, 3}: true, {3, 2}: true, {3, 4}: true, {4, 3}: true, {5, 6}: true, {6, 5}: true,
	}
	for program := 1; program <= len(all); program++ {
		for database := 1; database <= len(all); database++ {
			want := program == database || works[[2]int{program, database}]
			err := SchemaAfter(all, database).Check(all[:program])
			if (err == nil) != want || err != nil && pawl.KindOf(err) != pawl.Conflict {
				t.Errorf("a program of version %d on a database of version %d: %v; want it to work: %v", program, database, err, want)
			}
		}
	}
	for _, tt := range []struct {
		program, from, to int
		want              bool
	}{
		{2, 2, 3, true}, {3, 2, 3, true}, {4, 2, 3, false}, {3, 2, 4, true}, {2, 2, 4, false}, {4, 4, 3, true},
		{1, 1, 2, false}, {4, 4, 5, false}, {0, 2, 3, false}, {7, 2, 3, false}, {6, 6, 6, true},
	} {
		if got := Serves(all, tt.program, tt.from, tt.to); got != tt.want {
			t.Errorf("a program of version %d while a database goes from %d to %d: %v, want %v", tt.program, tt.from, tt.to, got, tt.want)
		}
	}
}
