package controller

import "strings"

// IsID reports whether a text is the id of a run: a ULID.
func IsID(s string) bool {
	return len(s) == 26 && s[0] <= '7' && strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}
