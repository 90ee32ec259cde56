package explain

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/store"
)

// Quotas lists the limits of a workspace, by name.
func (r *Reader) Quotas(ctx context.Context, workspace string) ([]pawl.QuotaView, error) {
	var set []*pawl.Quota
	var pools []store.Pool
	err := quota.Each(ctx, r.store, workspace, func(q *pawl.Quota) error {
		set, pools = append(set, q), append(pools, quota.PoolOf(q))
		return nil
	})
	if err != nil {
		return nil, err
	}
	used, err := r.store.Usage(ctx, pools)
	if err != nil {
		return nil, err
	}
	views := make([]pawl.QuotaView, 0, len(set))
	for _, q := range set {
		views = append(views, pawl.QuotaView{Name: q.Name, Slots: q.Slots, Used: used[quota.PoolOf(q)], SetAt: pawl.Timestamp(q.At), Actor: q.Actor, Reason: q.Reason, Version: q.Version()})
	}
	return views, nil
}
