package pawl

import (
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// A Role is what a caller of a server may do.
type Role string

// The roles. Operator includes Viewer, and Admin includes Operator and Worker.
const (
	RoleViewer   Role = "viewer"   // reads
	RoleOperator Role = "operator" // changes jobs, steps, schedules, workers
	RoleAdmin    Role = "admin"    // sets limits, withholds payload, makes tokens
	RoleWorker   Role = "worker"   // runs steps
)

// TokenRoles are the roles that a token may have.
var TokenRoles = []Role{RoleViewer, RoleOperator, RoleAdmin, RoleWorker}

// A Token lets a program use a server. Its secret is stored nowhere.
type Token struct {
	Record     // DueAt is when it expires
	ID         ID
	Name       string // of one active token
	Roles      []Role
	Workspaces []string // none: all
	Sum        [32]byte // the SHA-256 of the secret
	ExpiresAt  int64    // 0: never
}

// Key returns the key of the token.
func (t *Token) Key() rowkey.Token { return t.ID.TokenKey() }

// TokenPrefix is the prefix of the public ids of tokens.
const TokenPrefix = "tk_"

// A TokenPlan is a requested token.
type TokenPlan struct {
	Name       string    // letters, 0-9, . _ and -, no sign first, at most 128
	Roles      []Role    // at least one
	Workspaces []string  // none: all
	ExpiresAt  Timestamp // 0: never

	// Certificate is the SHA-256 of a client certificate in DER, as 64 hexadecimal digits: whoever
	// shows it to a server is this token. Empty: the token has a secret.
	Certificate string
}

// A NewToken is a token that was made, and its secret, which is shown this once.
type NewToken struct {
	Receipt
	Secret string `json:"secret,omitempty"`
}

// A TokenView is a token as JSON shows it.
type TokenView struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	Status     machine.State `json:"status"`
	Roles      []Role        `json:"roles"`
	Workspaces []string      `json:"workspaces"` // none: all
	SessionOf  *string       `json:"session_of"` // of a session: the id of its token, or the person; null: it is no session
	CreatedAt  Timestamp     `json:"created_at"`
	UpdatedAt  Timestamp     `json:"updated_at"`
	ExpiresAt  Timestamp     `json:"expires_at"` // null: never
}

// A TokenQuery selects tokens, newest first.
type TokenQuery struct {
	Ended  bool   // those that were revoked or have expired, too
	Before string // only older than the token with this id
	Limit  int    // 1 to 1000; 0: 50
}
