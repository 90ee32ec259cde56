package supervisor_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives the tests (S10).
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
