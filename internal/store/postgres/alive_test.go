package postgres

import "testing"

// TestProgramOfEveryHandle: the version of a program is read whatever its random handle is.
func TestProgramOfEveryHandle(t *testing.T) { // J10
	for _, first := range "0123456789abcdefghijklmnopqrstuvwxyz" {
		for _, handle := range []string{string(first), string(first) + "5", string(first) + "1x v"} {
			if v := programOf(applicationName(handle, 10)); v != 10 {
				t.Errorf("handle %q: version %d; want 10", handle, v)
			}
		}
	}
	for _, name := range []string{"", "pawl", "pawl 20i5ct8g3ol8s", "pawl 12345", "psql"} {
		if v := programOf(name); v != 0 {
			t.Errorf("%q, which names no version: %d; want 0", name, v)
		}
	}
}
