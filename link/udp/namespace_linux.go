package udp

import "golang.org/x/sys/unix"

// namespace returns the number of the network namespace that sockets of this thread belong to. It reports false where
// the system does not tell, as without /proc.
func namespace() (uint64, bool) {
	var s unix.Stat_t
	err := unix.Stat("/proc/thread-self/ns/net", &s)
	return s.Ino, err == nil
}
