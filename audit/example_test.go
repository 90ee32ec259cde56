package audit_test

import (
	"bytes"
	"fmt"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A row that was removed from the trail is named.
func ExampleVerify() {
	entries := jobTrail()
	record := audit.Stored{State: lifecycle.JobCompleted, Seq: 6, Head: entries[5].Hash}
	fmt.Println(audit.Verify(lifecycle.Job, entries, record) == nil)

	entries = append(entries[:2], entries[3:]...)
	fmt.Println(audit.Verify(lifecycle.Job, entries, record))
	// Output:
	// true
	// j_019373a1c4007abc8123000000200001: entry 3: gap: it is missing: entry 4 follows entry 2
}

// An export is checked without the database that it comes from.
func ExampleVerifyLines() {
	var file bytes.Buffer
	if err := audit.WriteLines(&file, jobTrail()); err != nil {
		fmt.Println(err)
	}
	edited := bytes.Replace(file.Bytes(), []byte("operator"), []byte("nobody"), 1)

	trails, err := audit.VerifyLines(&file)
	for entity, r := range trails {
		fmt.Println(entity, r.State, r.Seq, err)
	}
	_, err = audit.VerifyLines(bytes.NewReader(edited))
	fmt.Println(err)
	// Output:
	// j_019373a1c4007abc8123000000200001 COMPLETED 6 <nil>
	// line 1: j_019373a1c4007abc8123000000200001: entry 1: hash: its hash is not that of its content and of the entry before it
}
