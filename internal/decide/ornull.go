package decide

import "encoding/json"

// OrNull returns a value of a record as JSON: null if the record has none.
func OrNull(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}
