//go:build !linux

package contest

// Used answers nothing here.
func Used(int, ...int) CPU { return CPU{} }

// Postmaster answers nothing here.
func Postmaster(int) int { return 0 }
