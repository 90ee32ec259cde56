package main

import "time"

// outZone is the zone of the times that stdout shows to people.
func (a *app) outZone() *time.Location { return a.zone(a.width() > 0) }

// talkZone is the zone of the times that stderr shows to people.
func (a *app) talkZone() *time.Location { return a.zone(a.screen.Terminal) }

// zone is that of people at a terminal, unless they want UTC. What is not a terminal gets UTC.
func (a *app) zone(terminal bool) *time.Location {
	if !terminal || a.utc {
		return nil
	}
	return a.local
}
