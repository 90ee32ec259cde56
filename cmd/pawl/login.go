package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/oidc"
)

// A login is how people sign in to a server.
type login struct {
	oidc.Config
	secretFile string
	roles      []string // VALUE=ROLE
}

func (l *login) bind(c *cobra.Command) {
	c.Flags().StringVar(&l.URL, "public-url", "", "the URL by which browsers reach the server, such as that of a proxy")
	c.Flags().StringVar(&l.Issuer, "oidc-issuer", "", "the URL of the OpenID Connect provider with which people sign in")
	c.Flags().StringVar(&l.ClientID, "oidc-client-id", "", "the id of this server at the provider")
	c.Flags().StringVar(&l.secretFile, "oidc-client-secret-file", "", "the file of its secret there; default: it has none")
	c.Flags().StringArrayVar(&l.roles, "oidc-role", nil, "VALUE=ROLE: the role of whoever has that value of the claim; may be repeated")
	c.Flags().StringVar(&l.RolesClaim, "oidc-roles-claim", oidc.DefaultRolesClaim, "the claim that --oidc-role is about")
	c.Flags().StringVar(&l.NameClaim, "oidc-name-claim", oidc.DefaultNameClaim, "the claim that names a person in the audit trail")
	c.Flags().StringVar(&l.WorkspacesClaim, "oidc-workspaces-claim", "", "the claim that has a person's workspaces; default: all people have all")
}

// check reads what the flags name, and returns an error if they do not fit together.
func (l *login) check() error {
	if l.Issuer == "" {
		for flag, value := range map[string]string{"oidc-client-id": l.ClientID, "oidc-client-secret-file": l.secretFile, "oidc-role": strings.Join(l.roles, " "), "oidc-workspaces-claim": l.WorkspacesClaim} {
			if value != "" {
				return usage("", "--%s: want --oidc-issuer, too", flag)
			}
		}
		return oidc.CheckURL(l.URL)
	}
	l.Roles = map[string]pawl.Role{}
	for _, text := range l.roles {
		at := strings.LastIndex(text, "=")
		if at < 0 {
			return usage("", "--oidc-role %q: want VALUE=ROLE", text)
		}
		if _, twice := l.Roles[text[:at]]; twice {
			return usage("", "--oidc-role %q: %s has a role already", text, text[:at])
		}
		l.Roles[text[:at]] = pawl.Role(text[at+1:])
	}
	if l.secretFile != "" {
		b, err := os.ReadFile(l.secretFile)
		if err != nil {
			return usage("", "--oidc-client-secret-file: %v", err)
		}
		if l.Secret = strings.TrimSpace(string(b)); l.Secret == "" {
			return usage("", "--oidc-client-secret-file %s: it is empty", l.secretFile)
		}
	}
	if err := l.Check(); err != nil {
		return usage(console.Hint(err), "--oidc-issuer: %s", err)
	}
	return nil
}

// config returns how people sign in, or nil: they do not.
func (l *login) config() *oidc.Config {
	if l.Issuer == "" {
		return nil
	}
	return &l.Config
}
