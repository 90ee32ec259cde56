package workflow

import "testing"

// TestTextIsWrittenAsBefore: the part of a text that needs no escape is written as a whole, between
// others that do.
func TestTextIsWrittenAsBefore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          `""`,
		"plain <&> text":            `"plain <&> text"`,
		"a\"b\\c\nd\te\rf\x00g\x7f": `"a\"b\\c\nd\te\rf\u0000g\u007f"`,
		"\"":                        `"\""`,
		"caf\u00e9 \u2028, au lait": "\"caf\u00e9 \u2028, au lait\"",
		"broken \xff and \xc3":      "\"broken \ufffd and \ufffd\"",
		"\u00e9\u00e9":              "\"\u00e9\u00e9\"",
	} {
		if got := string(appendString(nil, text)); got != want {
			t.Errorf("%q is written as %s, want %s", text, got, want)
		}
	}
}
