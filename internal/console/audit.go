package console

import (
	"fmt"
	"io"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/trail"
)

// Verdict writes the result of a check: what is intact to out, and what is broken to talk.
func Verdict(out, talk io.Writer, v *pawl.Verdict, json bool) error {
	if json {
		if err := JSON(out, v); err != nil {
			return err
		}
	}
	if f := v.Fault; f != nil {
		where := ""
		switch {
		case f.Entity != "":
			where = fmt.Sprintf("%s: entry %d: %s: ", f.Entity, f.Sequence, f.Code)
		case f.Code != trail.CodeLine:
			where = string(f.Code) + ": "
		}
		Say(talk, "error", "the audit trail is broken: "+where+f.Message)
		return nil
	}
	if json {
		return nil
	}
	fmt.Fprintf(out, "ok: %d entries of %d entities\n", v.Entries, v.Entities)
	if v.Refused > 0 {
		fmt.Fprintf(out, "refused facts: %d, which are in no trail\n", v.Refused)
	}
	for _, r := range v.Removed {
		fmt.Fprintf(out, "anchors: %s of %s, created %s to %s, removed by retention\n",
			Plural(r.Count, r.Kind), Plural(int64(r.Days), "day"), r.From, r.Until)
	}
	return nil
}

func Difference(w io.Writer, d *trail.Difference) {
	who := d.Entity
	if who != "" {
		who += ": "
	}
	fmt.Fprintf(w, "%s%s: %s\n", who, d.Kind, d.Message)
}

// Agreement writes that two checkpoints agree, and what was compared.
func Agreement(w io.Writer, r *trail.Comparison) {
	fmt.Fprintf(w, "ok; the same: %d, gone on: %d, added: %d, removed by retention: %d\n", r.Same, r.Checked+r.WentOn, r.Added, r.Removed)
	if r.WentOn > 0 {
		fmt.Fprintf(w, "of those that went on, %d could not be checked: compare the old checkpoint with the database\n", r.WentOn)
	}
}
