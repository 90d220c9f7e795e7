package main

import (
	"net/netip"

	"ciddk/ci"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/validate"
	"ciddk/wire"
)

// endLID is the certifier's LID on the direct link, and the next is its second; the HCAs have the first two.
const endLID = 0x1000

// directEnd is the certifier's end of the direct link: whole InfiniBand packets.
type directEnd struct{ *direct.End }

func (e directEnd) Info() validate.WireInfo {
	return validate.WireInfo{Link: ci.LinkInfiniBand, GID: e.GID(), LID: e.LID(), OtherLID: e.LID() + 1, Raw: true}
}

// networkEnd is its end of the link network: whole IP packets.
type networkEnd struct {
	*sim.End
	at, other netip.Addr
}

func (e networkEnd) Info() validate.WireInfo {
	return validate.WireInfo{Link: ci.LinkEthernet, GID: e.at.As16(), Other: e.other.As16(), UDPPort: wire.RoCEv2Port, Raw: true, Header: true, Checksum: true,
		Class: true, Hops: true, Label: true, SendsHeader: true}
}
