package main

import (
	"net/netip"

	"ciddk/ci"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/validate"
	"ciddk/wire"
)

// endLID is the certifier's LID on the direct link. Its second LID is the next one. The HCAs have LIDs 1 and 2.
const endLID = 0x1000

// directEnd is the certifier's end of the direct link. It has whole InfiniBand packets.
type directEnd struct{ *direct.End }

// Info implements validate.Wire.
func (d directEnd) Info() validate.WireInfo {
	return validate.WireInfo{Link: ci.LinkInfiniBand, GID: d.GID(), LID: d.LID(), OtherLID: d.LID() + 1, Raw: true}
}

// networkEnd is the certifier's end of the link network. It has whole IP packets.
type networkEnd struct {
	*sim.End
	at, other netip.Addr
}

// Info implements validate.Wire.
func (n networkEnd) Info() validate.WireInfo {
	return validate.WireInfo{
		Link: ci.LinkEthernet, GID: n.at.As16(), Other: n.other.As16(), UDPPort: wire.RoCEv2Port, Raw: true,
		Header: true, Checksum: true, Class: true, Hops: true, Label: true, SendsHeader: true,
	}
}
