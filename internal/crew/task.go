package crew

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

// MaxPrompt is the longest prompt of a task, in bytes: programs get it as a variable.
const MaxPrompt = 64 << 10

// AssignChecked is Assign for a prompt from outside.
func (c *Crew) AssignChecked(ctx context.Context, id string, t Task, by Caller) (*Member, error) {
	switch {
	case len(t.Prompt) > MaxPrompt:
		return nil, pawl.Errorf(pawl.Invalid, "the prompt has more than %d bytes; name a file of the repository in it instead", MaxPrompt)
	case !utf8.ValidString(t.Prompt) || strings.ContainsRune(t.Prompt, 0):
		return nil, pawl.Errorf(pawl.Invalid, "the prompt of the task is no text; allowed: UTF-8 without NUL")
	}
	return c.Assign(ctx, id, t, by)
}

// RunOnce is RunAll without further attempts.
func (c *Crew) RunOnce(ctx context.Context, id string, next func(*Member) (Program, error), by Caller, begun func(*Member)) (*Member, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := next(m)
	if err != nil {
		return nil, err
	}
	return c.Run(ctx, id, p, by, begun)
}

// BeatOf is Beat for whoever may not know the epoch: 0 is the present one.
func (c *Crew) BeatOf(id string, epoch int64, note string) (*Beat, error) {
	if epoch == 0 {
		m, err := c.Load(id)
		if err != nil {
			return nil, err
		}
		epoch = m.Epoch
	}
	return c.Beat(id, epoch, note)
}
