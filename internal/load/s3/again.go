package s3

import "time"

const (
	firstWait = 50 * time.Millisecond // before a request is tried again; twice as long before each later try
	maxWait   = 2 * time.Second
)

// again calls f, again as often as the store's Retries says if the store may be able to do later what it has not done.
func (c *Client) again(f func() error) error {
	aside := time.Duration(0)
	for try := 0; ; try++ {
		err := f()
		aside += c.Aside
		if c.Aside = aside; err == nil || try >= c.store.Retries || !passes(err) {
			return err
		}
		c.drop()
		c.Retried++
		time.Sleep(min(firstWait<<try, maxWait))
	}
}

// passes reports whether an error may be gone later.
func passes(err error) bool {
	switch KindOf(err) {
	case Throttled, TimedOut, Connection, Internal:
		return true
	}
	return false
}
