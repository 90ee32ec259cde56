package pawl

import "github.com/pawl-dev/pawl/audit"

// A Verdict is the result of a check of the audit trail (K6).
type Verdict struct {
	OK       bool         `json:"ok"`
	Entities int          `json:"entities"`
	Entries  int64        `json:"entries"`
	Fault    *audit.Fault `json:"fault"`   // the first broken row
	Refused  int64        `json:"refused"` // facts that came too late; no trail has them

	Removed []RemovedTrails `json:"removed,omitempty"` // by retention
}

// RemovedTrails counts what retention has removed of one kind.
type RemovedTrails struct {
	Kind  string    `json:"kind"`
	Count int64     `json:"count"`
	Days  int       `json:"days"` // days of creation
	From  Timestamp `json:"from"` // when the first one was created
	Until Timestamp `json:"until"`
}

// A Checkpoint is the header of a list of the ends of all trails at one time.
type Checkpoint struct {
	Version int              `json:"checkpoint"` // of the format: 1
	At      Timestamp        `json:"at"`
	Leaves  int64            `json:"leaves"`
	Kinds   map[string]int64 `json:"kinds"`
	Digest  string           `json:"digest"` // SHA-256 of all lines after this one
}
