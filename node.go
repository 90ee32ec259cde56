package pawl

// A Node is a process that works on a database, as of its last beat. Times are
// microseconds since the Unix epoch, by the database's clock.
type Node struct {
	ID        int64  // of the process, made anew with each start
	Role      string // server, worker or dev
	Name      string // host/pid
	Host      string
	PID       int
	Version   string // of the program
	StartedAt int64
	BeatAt    int64 // time of the last beat
	Skew      int64 // microseconds that its clock is ahead of the database's
}
