package worker

import "time"

// When a worker checks whether a server runs: not before servers have had time for a
// beat, and then so seldom that it costs nothing.
const (
	followFirst = 10 * time.Second
	followEvery = 5 * time.Minute
)

// follow warns while no process on the database evaluates jobs and fires deadlines,
// until the worker has ended.
func (w *Worker) follow() {
	tick := time.NewTimer(followFirst)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.life.Done():
			return
		}
		if followed, err := w.link.Followed(w.life); err == nil && !followed {
			w.log.Warn("no server was found: deadlines, retries, schedules and expressions stand still",
				"hint", "start a server, or open an engine that is not passive")
		}
		tick.Reset(followEvery)
	}
}
