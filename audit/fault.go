package audit

import "fmt"

// A Code is the kind of a fault.
type Code string

// The codes. If one row breaks several rules, the first in this order is reported.
const (
	FaultEntity  Code = "entity"  // the row belongs to another entity, or to one without a known machine
	FaultGap     Code = "gap"     // a row is missing before this one
	FaultOrder   Code = "order"   // rows are out of order, or duplicated
	FaultHash    Code = "hash"    // the row is not what was sealed, or does not follow the row before it
	FaultCreate  Code = "create"  // the first row is not the creation
	FaultFrom    Code = "from"    // the row does not start in the state to which the row before it led
	FaultIllegal Code = "illegal" // the table does not have this transition, or not this state
	FaultTime    Code = "time"    // the row is older than the row before it
	FaultTail    Code = "tail"    // the trail ends before the record does
	FaultRecord  Code = "record"  // the record does not match its trail
	FaultPayload Code = "payload" // what is kept beside a row, or in the record, does not match the row's seal
	FaultTree    Code = "tree"    // the steps are not those that the job or its fan-out counted out
)

// A Fault is the first fault of a trail (K6).
type Fault struct {
	Entity   string `json:"entity"`   // public id; empty only if neither trail nor caller names one
	Sequence int64  `json:"sequence"` // of the first row with a fault; for gap and tail, of the missing row
	Code     Code   `json:"code"`
	Message  string `json:"message"` // for people: lower case, no full stop; without entity and sequence
}

// Error names the entity, the row, the code and the problem.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s: entry %d: %s: %s", f.Entity, f.Sequence, f.Code, f.Message)
}
