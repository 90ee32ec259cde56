package verify_test

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/verify"
	"github.com/pawl-dev/pawl/workflow"
)

// A workflow is looked through before it is put to use.
func ExampleVerify() {
	file := workflow.File{Name: "release", Steps: []workflow.Step{
		{ID: "ask", Approval: &workflow.ApprovalStep{Prompt: "Release?"}},
		{ID: "publish", Needs: []string{"ask"}, Run: "./publish"},
	}}
	def, err := file.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := verify.Verify(context.Background(), def, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range report.Findings {
		fmt.Printf("%s: %s\n", f.Severity, f.Message)
	}
	// Output:
	// warning: step ask waits for ever if it is neither approved nor rejected
}
