package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a token.
const (
	TokenActive  machine.State = "active"
	TokenRevoked machine.State = "revoked"
	TokenExpired machine.State = "expired"
)

// The events of a token. TokenExpire is that of its deadline, and TokenExtend puts that off: a
// session that is used lasts longer.
const (
	TokenCreate machine.Event = "create"
	TokenRevoke machine.Event = "revoke"
	TokenExpire machine.Event = "expire"
	TokenExtend machine.Event = "extend"
)

// Token lets a program use the HTTP API of a server.
var Token = &machine.Machine{
	Name:    "token",
	Doc:     "what a program shows to a server to be let in",
	Create:  TokenCreate,
	Initial: TokenActive,
	States:  []machine.State{TokenActive, TokenRevoked, TokenExpired},
	Ends:    []machine.State{TokenRevoked, TokenExpired},
	Table: machine.Table{
		TokenActive: {
			TokenRevoke: TokenRevoked,
			TokenExpire: TokenExpired,
			TokenExtend: TokenActive,
		},
	},
}
