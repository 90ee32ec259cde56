package spec

import (
	"slices"

	"github.com/goccy/go-yaml"
)

// Replace returns a file with other values of some of its keys; nil removes a key.
func Replace(src []byte, values yaml.MapSlice) ([]byte, error) {
	var keys yaml.MapSlice
	if err := yaml.Unmarshal(src, &keys); err != nil {
		return nil, err
	}
	for _, v := range values {
		i := slices.IndexFunc(keys, func(k yaml.MapItem) bool { return k.Key == v.Key })
		switch {
		case i < 0 && v.Value != nil:
			keys = append(keys, v)
		case i >= 0 && v.Value != nil:
			keys[i].Value = v.Value
		case i >= 0:
			keys = slices.Delete(keys, i, i+1)
		}
	}
	return yaml.Marshal(keys)
}
