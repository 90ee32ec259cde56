package process

// any tells whether a limit is set.
func (l Limits) any() bool { return l != Limits{} }

// traced tells whether a limit is set that the program does not inherit.
func (l Limits) traced() bool {
	l.Nice = nil
	return l.any()
}
