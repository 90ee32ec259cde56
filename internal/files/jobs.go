package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pawl-dev/pawl"
)

func invalid(hint, format string, args ...any) error {
	return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// maxList bounds the list of jobs read from stdin, in bytes.
const maxList = 64 << 20

// ReadJobs reads job ids from stdin: the first word of each line that is an id, or the ids of
// a JSON list of jobs.
func ReadJobs(r io.Reader) ([]string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxList+1))
	if err != nil {
		return nil, fmt.Errorf("read the jobs from stdin: %w", err)
	}
	if len(text) > maxList {
		return nil, invalid("", "stdin has more than %d bytes", maxList)
	}
	text = bytes.TrimSpace(text)
	if len(text) > 0 && (text[0] == '[' || text[0] == '{') {
		return idsOfJSON(text)
	}
	jobs := idsOfLines(text)
	if len(text) > 0 && len(jobs) == 0 {
		return nil, invalid("list them with: pawl jobs --status failed", "there is no id of a job on stdin: want j_ and 32 digits as the first word of a line")
	}
	return jobs, nil
}

func idsOfLines(text []byte) []string {
	var jobs []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if id, err := pawl.ParseID(pawl.JobPrefix, words[0]); err == nil {
			jobs = append(jobs, id.Public(pawl.JobPrefix))
		}
	}
	return jobs
}

// idsOfJSON reads one or more JSON texts, each a job or a list of jobs.
func idsOfJSON(text []byte) ([]string, error) {
	type job struct {
		ID string `json:"id"`
	}
	var jobs []string
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return jobs, nil
		}
		list := []job{{}}
		if err == nil && raw[0] == '[' {
			err = json.Unmarshal(raw, &list)
		} else if err == nil {
			err = json.Unmarshal(raw, &list[0])
		}
		if err != nil {
			return nil, invalid("write: pawl jobs -o json | pawl job retry -", "stdin: want a list of jobs in JSON: %v", err)
		}
		for _, j := range list {
			if _, err := pawl.ParseID(pawl.JobPrefix, j.ID); err != nil {
				return nil, invalid("write: pawl jobs -o json | pawl job retry -", "stdin: want jobs in JSON, each with its id: %v", err)
			}
			jobs = append(jobs, j.ID)
		}
	}
}
