package oidc

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Defaults of a Config.
const (
	DefaultRolesClaim = "groups"
	DefaultNameClaim  = "email"
)

// A Config says how people sign in.
type Config struct {
	Issuer   string // the URL of the provider
	ClientID string
	Secret   string // of the client; empty: it is a public one
	URL      string // of this server, as browsers reach it

	Roles           map[string]pawl.Role // what the values of the claim RolesClaim stand for
	RolesClaim      string               // default groups
	NameClaim       string               // what the audit trail calls a person; default email, which has to be verified
	WorkspacesClaim string               // whose values are the workspaces of a person; empty: all

	Client *http.Client // for the provider; nil: one with a time limit of 10 s
}

// CheckURL returns an error of kind Invalid if a public URL is not usable. It may be empty.
func CheckURL(text string) error {
	if text == "" {
		return nil
	}
	_, err := address("public URL", text)
	return err
}

// Check returns the first fault of a configuration, of kind Invalid.
func (c *Config) Check() error {
	_, err := c.check()
	return err
}

// check returns the first fault of a configuration, with its URL as the browser sees it.
func (c *Config) check() (*url.URL, error) {
	if _, err := address("issuer", c.Issuer); err != nil {
		return nil, err
	}
	here, err := address("public URL", c.URL)
	switch {
	case err != nil:
		return nil, err
	case c.ClientID == "":
		return nil, pawl.Errorf(pawl.Invalid, "client id of OIDC: want one")
	case len(c.Roles) == 0:
		return nil, pawl.Errorf(pawl.Invalid, "roles of OIDC: want one or more of VALUE=ROLE, or nobody can sign in")
	}
	for value, role := range c.Roles {
		if value == "" || !slices.Contains(pawl.TokenRoles, role) {
			return nil, pawl.Errorf(pawl.Invalid, "role of OIDC %q=%q: want VALUE=ROLE, with one of %v", value, role, pawl.TokenRoles)
		}
	}
	return here, nil
}

// address returns a URL that may carry secrets: of HTTPS, or of this machine.
func address(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, pawl.Errorf(pawl.Invalid, "%s %q: want https://HOST, or http:// to the loopback interface, without a query", what, text)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
