package bench

import (
	"net/netip"
	"os"
)

// A Place is where the two processes of a case run. The zero value is loopback, with two addresses that other runs are
// unlikely to use.
type Place struct {
	Here, There netip.Addr // IPv4 addresses of this process and of its peer
	// Enter is the prefix of the peer's command that makes it run where There is: ip netns exec NAME.
	Enter []string
}

func (p Place) addresses() (here, there netip.Addr) {
	if p.Here.IsValid() {
		return p.Here, p.There
	}
	return addresses()
}

// addresses returns two loopback addresses that other runs on this machine are unlikely to use.
func addresses() (a, b netip.Addr) {
	pid := os.Getpid()
	at := func(d byte) netip.Addr { return netip.AddrFrom4([4]byte{127, byte(64 + pid>>8&63), byte(pid), d}) }
	return at(1), at(2)
}
