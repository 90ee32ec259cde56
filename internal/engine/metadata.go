package engine

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/tracing"
)

// origin is what the metadata of a job records: what its submitter has given, and beside it, under
// names that are reserved, where it comes from.
type origin struct {
	Dir   string   // where its commands start; empty: in a new folder of its own
	Trace string   // the traceparent that it was submitted with
	Rerun []string // of a job that continues another: the nodes not reused, and so all their dependents
	Given map[string]json.RawMessage
}

// reservedMetadata are the names of metadata that a submitter cannot give.
var reservedMetadata = []string{"dir", "rerun", "trace"}

// originOf reads the metadata of a job.
func originOf(metadata json.RawMessage) (o origin, err error) {
	if len(metadata) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(metadata, &o.Given); err != nil {
		return o, err
	}
	for name, to := range map[string]any{"dir": &o.Dir, "rerun": &o.Rerun, "trace": &o.Trace} {
		if v, has := o.Given[name]; has {
			if err := json.Unmarshal(v, to); err != nil {
				return o, err
			}
			delete(o.Given, name)
		}
	}
	return o, nil
}

// validTrace returns a traceparent that can be kept, or nothing.
func validTrace(traceparent string) string {
	if _, ok := tracing.Parse(traceparent); !ok {
		return ""
	}
	return traceparent
}

// json returns the metadata of a job, or nil for none.
func (o origin) json() json.RawMessage {
	if o.Dir == "" && o.Trace == "" && len(o.Rerun)+len(o.Given) == 0 {
		return nil
	}
	all := map[string]any{}
	for name, v := range o.Given {
		all[name] = v
	}
	if o.Dir != "" {
		all["dir"] = o.Dir
	}
	if o.Trace != "" {
		all["trace"] = o.Trace
	}
	if len(o.Rerun) > 0 {
		all["rerun"] = o.Rerun
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil // what was given was read as JSON
	}
	return b
}

// givenMetadata reads the metadata of a submission.
func givenMetadata(text json.RawMessage) (map[string]json.RawMessage, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	if len(text) > pawl.MaxMetadata {
		return nil, pawl.Errorf(pawl.Invalid, "metadata: %d bytes: at most %d are allowed", len(text), pawl.MaxMetadata)
	}
	var given map[string]json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) || json.Unmarshal(text, &given) != nil {
		return nil, pawl.Errorf(pawl.Invalid, "metadata: want a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(reservedMetadata, name) {
			return nil, pawl.Errorf(pawl.Invalid, "metadata.%s: the name is reserved", name)
		}
	}
	return given, nil
}
