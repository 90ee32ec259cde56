package remote

import (
	"cmp"
	"fmt"

	"github.com/pawl-dev/pawl"
)

// missing returns the error of a call that the server does not know.
func (e *Engine) missing(operation string) *pawl.Error {
	return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("the server at %s is of version %s, and has no operation %s", e.base, e.program, operation),
		Hint: "update the server, or use a program of its version"}
}

// foreignAPI returns the error of a server that speaks another version of the API, or is none.
func (e *Engine) foreignAPI(program string, api int) error {
	if api > 0 {
		return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("the server at %s, of version %s, speaks version %d of the API, and this program version %d", e.base, cmp.Or(program, "unknown"), api, API),
			Hint: "use a program of its version"}
	}
	return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("the server at %s is no Pawl server of version %d of the API", e.base, API),
		Hint: "name the URL that \"pawl service list\" shows on its machine, without a path"}
}
