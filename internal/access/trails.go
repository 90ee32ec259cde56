package access

import (
	"context"
	"io"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// trail returns an error unless the principal sees a job, or all workspaces for the zero id.
func (e *Engine) trail(ctx context.Context, job pawl.ID) error {
	if job == (pawl.ID{}) {
		return everywhere(ctx)
	}
	return e.job(ctx, job)
}

func (e *Engine) VerifyTrail(ctx context.Context, job pawl.ID, each func(entries int64)) (*pawl.Verdict, error) {
	return when(e.trail(ctx, job), func() (*pawl.Verdict, error) { return e.of.VerifyTrail(ctx, job, each) })
}

func (e *Engine) ExportTrail(ctx context.Context, job pawl.ID, w io.Writer) error {
	if err := e.trail(ctx, job); err != nil {
		return err
	}
	return e.of.ExportTrail(ctx, job, w)
}

func (e *Engine) WriteCheckpoint(ctx context.Context, w io.Writer, folder string) (*pawl.Checkpoint, error) {
	return when(everywhere(ctx), func() (*pawl.Checkpoint, error) { return e.of.WriteCheckpoint(ctx, w, folder) })
}

// MovePage leaves out what the principal does not see: other workspaces, webhooks unless it is
// an admin, and tokens unless it is an admin of all workspaces.
func (e *Engine) MovePage(ctx context.Context, q pawl.AuditQuery) ([]pawl.Move, string, error) {
	p := Of(ctx)
	for _, name := range q.Workspaces {
		if !p.Sees(name) {
			return nil, "", NoWorkspace(name)
		}
	}
	if len(q.Workspaces) == 0 && !p.Everywhere() {
		if q.Workspaces = p.Workspaces; len(q.Workspaces) == 0 {
			return nil, "", everywhere(ctx)
		}
	}
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	var hidden []string
	q.Machines, hidden = visible(ctx, q.Machines)
	if len(hidden) > 0 {
		return nil, "", ofAdmins(hidden[0])
	}
	return e.of.MovePage(ctx, q)
}

// visible returns those of some machines whose moves the principal sees, and the others; of
// none, those of all machines that it sees.
func visible(ctx context.Context, machines []string) (seen, hidden []string) {
	p := Of(ctx)
	for _, name := range pawl.AuditMachines {
		named := slices.Contains(machines, name)
		if !named && len(machines) > 0 {
			continue
		}
		switch {
		case !pawl.OfAdmins(name) || p.Holds(pawl.RoleAdmin) && (p.Everywhere() || name != lifecycle.Token.Name):
			seen = append(seen, name)
		case named:
			hidden = append(hidden, name)
		}
	}
	return seen, hidden
}

// ofAdmins returns the error of who may not see moves of a machine.
func ofAdmins(machine string) error {
	who := "an admin"
	if machine == lifecycle.Token.Name {
		who += " of all workspaces"
	}
	return pawl.Errorf(pawl.Refused, "moves of a %s are for %s", machine, who)
}
