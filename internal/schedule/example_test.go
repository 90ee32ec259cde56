package schedule_test

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/schedule"
)

// On 29 March 2026 the clocks of Berlin leave 02:30 out.
func ExampleUpcoming() {
	c, err := schedule.Parse("30 2 * * *", "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, due := range schedule.Upcoming(c, time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), 3) {
		fmt.Println(due)
	}
	// Output:
	// 2026-03-28 02:30:00 +0100 CET
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-03-30 02:30:00 +0200 CEST
}
