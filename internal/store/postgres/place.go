package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Place identifies the database of a URL, completed from the environment: the result is the
// same text for the same server, database, user and settings, and has no password.
func Place(url string) (string, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return "", badURL(err)
	}
	return fmt.Sprintf("%q %d %q %q %q", c.Host, c.Port, c.Database, c.User, c.RuntimeParams), nil
}
