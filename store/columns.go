package store

import (
	"encoding/json"

	"github.com/pawl-dev/pawl"
)

// EncodeFailure answers f as stores keep it, JSON; nil for nil.
func EncodeFailure(f *pawl.Failure) ([]byte, error) {
	if f == nil {
		return nil, nil
	}
	return json.Marshal(f)
}

// DecodeFailure reads what EncodeFailure wrote; nil for nothing.
func DecodeFailure(b []byte) (*pawl.Failure, error) {
	if len(b) == 0 {
		return nil, nil
	}
	f := &pawl.Failure{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, err
	}
	return f, nil
}
