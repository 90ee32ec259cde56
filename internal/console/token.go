package console

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Tokens lists tokens.
func Tokens(w io.Writer, json bool, zone *time.Location) *Listing[pawl.TokenView] {
	row := func(v *pawl.TokenView) []string {
		return []string{v.ID, v.Name, string(v.Status), rolesOf(v), strings.Join(v.Workspaces, ","), Second(v.CreatedAt, zone), Second(v.ExpiresAt, zone)}
	}
	return &Listing[pawl.TokenView]{W: w, JSON: json, Head: []string{"ID", "NAME", "STATUS", "ROLES", "WORKSPACES", "CREATED", "EXPIRES"}, Row: row}
}

func rolesOf(v *pawl.TokenView) string {
	names := make([]string, len(v.Roles))
	for i, r := range v.Roles {
		names[i] = string(r)
	}
	return strings.Join(names, ",")
}

// Token writes what a token may do.
func Token(w io.Writer, v *pawl.TokenView, zone *time.Location) {
	workspaces, expires := "all", "never"
	if len(v.Workspaces) > 0 {
		workspaces = strings.Join(v.Workspaces, ", ")
	}
	if v.ExpiresAt != 0 {
		expires = exactly(v.ExpiresAt, zone)
	}
	for _, fact := range [][2]string{
		{"token", v.Name + " (" + v.ID + ")"},
		{"status", string(v.Status)},
		{"roles", rolesOf(v)},
		{"workspaces", workspaces},
		{"created", exactly(v.CreatedAt, zone)},
		{"expires", expires},
	} {
		fmt.Fprintf(w, "%-12s %s\n", fact[0], Printable(fact[1]))
	}
}
