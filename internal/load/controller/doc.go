// Package controller has agents run a load together: it prepares all of them, measures their
// clocks, starts them at one time, and adds up what they send (L7).
package controller
