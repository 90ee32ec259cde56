package inspect

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// Registered is a version of a workflow, as JSON shows it.
type Registered struct {
	Workspace string         `json:"workspace_id"`
	Name      string         `json:"name"`
	Version   int            `json:"version"`
	Hash      string         `json:"definition_hash"`
	Dir       string         `json:"dir"` // of its file
	At        pawl.Timestamp `json:"registered_at"`
	Actor     string         `json:"actor"`
	Reason    string         `json:"reason"`
	Made      *bool          `json:"made,omitempty"` // by this command; false: it existed before
}

// Reference returns the name of a version on the command line.
func Reference(v *pawl.Version) string { return fmt.Sprintf("%s@%d", v.Name, v.Version) }

// VersionOf returns a version with the hash of its definition.
func VersionOf(ctx context.Context, cl *client.Client, v *pawl.Version) (*Registered, error) {
	_, def, err := cl.Workflows.Get(ctx, Reference(v))
	if err != nil {
		return nil, err
	}
	return &Registered{Workspace: v.Workspace, Name: v.Name, Version: v.Version, Hash: def.HashString(), Dir: v.Dir,
		At: pawl.Timestamp(v.At), Actor: v.Actor, Reason: v.Reason}, nil
}
