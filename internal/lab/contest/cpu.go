package contest

// A CPU is seconds of processor time: user and system.
type CPU struct {
	Client float64 `json:"client"`           // of this process and its workers
	Server float64 `json:"server,omitempty"` // of the database's processes, where they can be seen
}

func (c CPU) minus(b CPU) CPU { return CPU{c.Client - b.Client, c.Server - b.Server} }
