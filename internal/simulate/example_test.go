package simulate_test

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/simulate"
	"github.com/pawl-dev/pawl/workflow"
)

// The same seed makes up the same job.
func ExampleRun() {
	file := workflow.File{Name: "nap", Steps: []workflow.Step{{ID: "nap", Sleep: "1h"}}}
	def, err := file.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := simulate.Run(context.Background(), def, simulate.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Status, result.Timeline[len(result.Timeline)-1].Event)
	// Output:
	// COMPLETED success
}
