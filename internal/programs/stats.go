package programs

import "github.com/pawl-dev/pawl/supervisor"

// Stats are those of the supervisor, for metrics.
func (k *Keeper) Stats() supervisor.Stats { return k.sup.Stats() }
