//go:build !linux && !darwin

package udp

import "ciddk/link/internal/rocev2"

// shownRoom is the space of the control messages that showHeader enables.
const shownRoom = 0

// showHeader does nothing: these systems have no options that golang.org/x/net and x/sys know, and the GRH of a
// datagram then has the values that senders of this kit use by default.
func showHeader(int, bool) error { return nil }

func control(_ []byte, d *rocev2.Decoder) int {
	d.Class, d.HopLimit, d.Label = 0, 0, 0
	return 0
}
