package s3

import "time"

const (
	firstWait = 50 * time.Millisecond // before a request is tried again; twice as long before each later try
	maxWait   = 2 * time.Second
)

const stopEvery = 100 * time.Millisecond // how long a pause lasts at most until Stop is asked again

// again calls f, again as often as the store's Retries says if the store may be able to do later what it has not done,
// unless Stop says that there is no time for it.
func (c *Client) again(f func() error) error {
	aside := time.Duration(0)
	for try := 0; ; try++ {
		err := f()
		aside += c.Aside
		if c.Aside = aside; err == nil || try >= c.store.Retries || !passes(err) {
			return err
		}
		c.drop()
		if !c.pause(min(firstWait<<try, maxWait)) {
			return err
		}
		c.Retried++
	}
}

// pause waits before a request is tried again, and reports whether it is to be.
func (c *Client) pause(left time.Duration) bool {
	for ; left > 0 && !c.stopped(); left -= stopEvery {
		time.Sleep(min(left, stopEvery))
	}
	return !c.stopped()
}

func (c *Client) stopped() bool { return c.Stop != nil && c.Stop() }

// passes reports whether an error may be gone later.
func passes(err error) bool {
	switch KindOf(err) {
	case Throttled, TimedOut, Connection, Internal:
		return true
	}
	return false
}
