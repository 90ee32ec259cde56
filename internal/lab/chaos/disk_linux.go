package main

import "syscall"

// mountDisk makes the folder a filesystem of 64 MiB, if this process may.
func mountDisk(dir string) *disk {
	err := syscall.Mount("pawl-chaos", dir, "tmpfs", 0, "size=64m")
	return &disk{dir: dir, mounted: err == nil}
}

func (d *disk) unmount() error {
	if !d.mounted {
		return nil
	}
	d.mounted = false
	return syscall.Unmount(d.dir, syscall.MNT_DETACH)
}
