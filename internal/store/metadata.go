package store

import (
	"encoding/json"
	"maps"
	"slices"
)

// HasMetadata reports whether a job's metadata has each of the wanted members at its top level:
// as a string, or as another value whose compact JSON is the wanted text.
func HasMetadata(metadata json.RawMessage, want map[string]string) bool {
	if len(want) == 0 {
		return true
	}
	var has map[string]json.RawMessage
	if len(metadata) == 0 || json.Unmarshal(metadata, &has) != nil {
		return false
	}
	for name, value := range want {
		var text string
		given, there := has[name]
		switch {
		case !there:
			return false
		case json.Unmarshal(given, &text) != nil || given[0] != '"':
			text = string(given)
		}
		if text != value {
			return false
		}
	}
	return true
}

// MetadataPairs returns, for each wanted member in the order of the names, the texts of which
// the stored metadata has one if it has the member, unless it contains a backslash: it is
// stored compact, and by such texts a database leaves out most of what [HasMetadata] would.
func (f *JobFilter) MetadataPairs() (all [][]string) {
	for _, name := range slices.Sorted(maps.Keys(f.Metadata)) {
		value := f.Metadata[name]
		key, _ := json.Marshal(name) // a string has no error
		quoted, _ := json.Marshal(value)
		pairs := []string{string(key) + ":" + string(quoted)}
		if json.Valid([]byte(value)) && value[0] != '"' {
			pairs = append(pairs, string(key)+":"+value)
		}
		all = append(all, pairs)
	}
	return all
}
