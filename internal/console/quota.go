package console

import (
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

func QuotaRows(quotas []pawl.QuotaView, zone *time.Location) [][]string {
	rows := [][]string{{"NAME", "SLOTS", "USED", "SET", "BY", "WHY"}}
	for _, q := range quotas {
		rows = append(rows, []string{q.Name, strconv.Itoa(q.Slots), strconv.Itoa(q.Used), Second(q.SetAt, zone), q.Actor, q.Reason})
	}
	return rows
}
