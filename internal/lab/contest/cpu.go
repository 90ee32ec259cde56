package contest

// A CPU is processor time in seconds, user and system together.
type CPU struct {
	Client float64 `json:"client"`           // of this process and its workers
	Server float64 `json:"server,omitempty"` // of the database's processes, if they are visible
}

func (c CPU) minus(b CPU) CPU { return CPU{c.Client - b.Client, c.Server - b.Server} }
