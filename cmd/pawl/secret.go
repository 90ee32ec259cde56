package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
)

func bindOut(c *cobra.Command, out *string) {
	c.Flags().StringVar(out, "out", "", "write the secret to this new file, which only you can read, instead of stdout")
}

// A secret is one that is about to be made, as a part of a value.
type secret struct {
	what     string // that has it
	id, text *string
	value    any // with both
}

// withSecret shows the secret that do makes, or writes it to the file out. The file is made first,
// so that no secret is made that cannot be written.
func (a *app) withSecret(s secret, out, form string, do func() error) error {
	var file *os.File
	if out != "" {
		var err error
		if file, err = os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return usage("", "--out: %v", err)
		}
		defer file.Close()
	}
	if err := do(); err != nil {
		if file != nil {
			_ = os.Remove(out) // it is empty
		}
		return err
	}
	if file != nil {
		_, err := fmt.Fprintln(file, *s.text)
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			return fmt.Errorf("%s (%s) has a new secret, but it could not be written: %w", s.what, *s.id, err)
		}
		*s.text = ""
	}
	if form == formJSON {
		return console.JSON(a.stdout, s.value)
	}
	if file != nil {
		fmt.Fprintf(a.stderr, "%s (%s) has a new secret, which is in %s\n", s.what, *s.id, out)
		return nil
	}
	fmt.Fprintf(a.stderr, "%s (%s) has a new secret, which is shown this once:\n", s.what, *s.id)
	_, err := fmt.Fprintln(a.stdout, *s.text)
	return err
}
