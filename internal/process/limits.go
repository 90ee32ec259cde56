package process

// any reports whether a limit is set.
func (l Limits) any() bool { return l != Limits{} }

// traced reports whether a limit is set that the program does not inherit from its
// starter.
func (l Limits) traced() bool {
	l.Nice = nil
	return l.any()
}
