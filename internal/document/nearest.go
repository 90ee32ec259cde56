package document

import "strings"

// Nearest returns the known name that is most similar to name, or "" if none is similar
// enough.
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 1
	if len(name) > 2 {
		least = 1 + max(1, len(name)/3)
	}
	plain := plainName(name)
	for _, k := range known {
		d := Distance(plain, plainName(k))
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// plainName drops what is mistyped most often: case and separators.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// Distance returns the edit distance of a and b, a swap of neighbours being one
// edit.
func Distance(a, b string) int {
	two, one, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			change := one[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			now[j] = min(change, one[j]+1, now[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], two[j-2]+1)
			}
		}
		two, one, now = one, now, two
	}
	return one[len(b)]
}
