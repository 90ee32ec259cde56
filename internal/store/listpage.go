package store

// ListPage is how many records of a list are read at once.
const ListPage = 500

// EachOf calls f with each record of each page, until a page is empty or f fails. read
// returns the page after the last record that f was called with.
func EachOf[T any](read func() ([]T, error), f func(T) error) error {
	for {
		page, err := read()
		if err != nil || len(page) == 0 {
			return err
		}
		for _, v := range page {
			if err := f(v); err != nil {
				return err
			}
		}
	}
}
