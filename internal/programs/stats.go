package programs

import "github.com/pawl-dev/pawl/supervisor"

// Stats returns the numbers of the supervisor, for metrics.
func (m *Manager) Stats() supervisor.Stats { return m.sup.Stats() }
