package api

import "errors"

// placedPage returns a page of a list that can be read from a place.
func placedPage[T any](w Window, filter []any, read func(after string, limit int) (items []T, next string, err error)) (*body[page[T]], error) {
	after, err := w.after(filter...)
	if err != nil {
		return nil, err
	}
	items, next, err := read(after, w.Limit)
	if err != nil {
		return nil, err
	}
	return pageOf(items, nextOf(next, filter...)), nil
}

// errPageFull ends the reading of a list once a page is full.
var errPageFull = errors.New("the page is full")

// sortedPage returns a page of a short list that each yields in the order of a key: it is
// read from its beginning.
func sortedPage[T any](w Window, filter []any, key func(*T) string, each func(func(*T) error) error) (*body[page[T]], error) {
	return placedPage(w, filter, func(after string, limit int) (items []T, next string, err error) {
		err = each(func(v *T) error {
			if after != "" && key(v) <= after {
				return nil
			}
			if len(items) == limit {
				next = key(&items[limit-1])
				return errPageFull
			}
			items = append(items, *v)
			return nil
		})
		if errors.Is(err, errPageFull) {
			err = nil
		}
		return items, next, err
	})
}
