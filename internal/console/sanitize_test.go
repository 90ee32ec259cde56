package console

import "testing"

// TestSanitize has a line that a step printed neither move the cursor nor colour what
// comes after it.
func TestSanitize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, coloured, plain string }{
		"text":             {"grüß\tGott", "grüß\tGott", "grüß\tGott"},
		"colour":           {"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m", "red"},
		"colour left on":   {"a \x1b[31mred", "a \x1b[31mred\x1b[0m", "a red"},
		"screen cleared":   {"a\x1b[2J\x1b[Hb", "ab", "ab"},
		"title":            {"a\x1b]0;title\x07b\x1b]0;title\x1b\\c", "abc", "abc"},
		"title left open":  {"a\x1b]0;title", "a", "a"},
		"written over":     {"10 %\r20 %", "20 %", "20 %"},
		"bell and zero":    {"a\x07b\x00", "a\uFFFDb\uFFFD", "a\uFFFDb\uFFFD"},
		"escape alone":     {"a\x1b", "a\uFFFD", "a\uFFFD"},
		"other characters": {"a\x1b(0b\x1b7c", "abc", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for colours, want := range map[bool]string{true: c.coloured, false: c.plain} {
				if got := Sanitize(c.line, colours); got != want {
					t.Errorf("colours %v: %q, want %q", colours, got, want)
				}
			}
		})
	}
}
