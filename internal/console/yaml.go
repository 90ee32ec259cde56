package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
)

// YAML writes what was written as JSON as YAML.
func YAML(w io.Writer, text []byte) error {
	return each(text, func(i int, v json.RawMessage) error {
		b, err := yaml.JSONToYAML(v)
		if err != nil {
			return err
		}
		if i > 0 {
			b = append([]byte("---\n"), b...)
		}
		_, err = w.Write(b)
		return err
	})
}

// Names writes the names of what was written as JSON, one a line, as commands take them: the
// ids of jobs, steps and workers, the names of anything else that has one, else its id.
func Names(w io.Writer, text []byte) error {
	return each(text, func(_ int, v json.RawMessage) error {
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			list = []json.RawMessage{v}
		}
		for _, one := range list {
			name, err := nameOf(one)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, name); err != nil {
				return err
			}
		}
		return nil
	})
}

func each(text []byte, f func(i int, v json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	for i := 0; ; i++ {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(i, v)
		}
		if err != nil {
			return err
		}
	}
}

// byID are the prefixes of the ids by which commands name things that also have a name.
var byID = []string{"j_", "st_", "w_"}

func nameOf(v json.RawMessage) (string, error) {
	var has struct {
		ID, Name, Entity string
		Member           string `json:"worker_id"`
	}
	if err := json.Unmarshal(v, &has); err != nil {
		return "", errors.New("-o name: the command shows nothing that has a name")
	}
	for _, prefix := range byID {
		if strings.HasPrefix(has.ID, prefix) {
			return has.ID, nil
		}
	}
	for _, name := range []string{has.Name, has.ID, has.Entity, has.Member} {
		if name != "" {
			return name, nil
		}
	}
	return "", errors.New("-o name: the command shows nothing that has a name")
}
