package s3

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

// Credentials are what requests are signed with. Nothing that contains them can be printed with them: no format calls a
// function.
type Credentials struct{ open func() secrets }

type secrets struct{ id, secret, token string }

func (Credentials) String() string   { return "credentials" }
func (Credentials) GoString() string { return "credentials" }

// ErrNoCredentials is returned where none are given.
var ErrNoCredentials = errors.New("no credentials for the object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the agent, or AWS_SHARED_CREDENTIALS_FILE")

// NewCredentials returns credentials; the token is that of a session, or empty.
func NewCredentials(id, secret, token string) (Credentials, error) {
	if id == "" || secret == "" {
		return Credentials{}, ErrNoCredentials
	}
	for _, s := range []string{id, secret, token} {
		if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return Credentials{}, errors.New("the credentials for the object store have a space or a character that cannot be in them")
		}
	}
	return Credentials{func() secrets { return secrets{id, secret, token} }}, nil
}

// SharedCredentials returns those of a profile in a file of the AWS tools.
func SharedCredentials(file, profile string) (Credentials, error) {
	values, in, found := map[string]string{}, false, false
	lines := bufio.NewScanner(strings.NewReader(file))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			in = strings.TrimSpace(strings.Trim(line, "[]")) == profile
			found = found || in
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if in && ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	if !found {
		return Credentials{}, fmt.Errorf("the file of credentials has no profile %q", profile)
	}
	return NewCredentials(values["aws_access_key_id"], values["aws_secret_access_key"], values["aws_session_token"])
}

// redact replaces the credentials in a text of a server.
func (c Credentials) redact(text string) string {
	all := c.open()
	for _, s := range []string{all.secret, all.token, all.id} {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}
