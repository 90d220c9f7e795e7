package fabric

import "sync/atomic"

// A dropReason is why a port discarded a packet.
type dropReason uint8

const (
	dropState    dropReason = iota // the port's state does not admit it
	dropInactive                   // the output port is not active, or its link is down
	dropNoRoute                    // the forwarding table has no port for the LID
	dropLoop                       // more than maxHops switches
	dropNotForUs                   // it arrived at an adapter without its LID
	dropLane                       // SLtoVL has no lane that the port operates
	dropMTU                        // longer than the MTU of the output port
	dropPKeyIn                     // partition enforcement of the input port
	dropPKeyOut                    // partition enforcement of the output port
	dropManager                    // a datagram that no manager or adapter at the port takes
	dropRoute                      // a directed route that is not valid
	numDropReasons
)

var dropNames = [numDropReasons]string{"state", "inactive", "no_route", "loop", "not_for_us", "lane", "mtu", "pkey_in",
	"pkey_out", "no_manager", "bad_route"}

// traffic are the counters of a port.
type traffic struct {
	xmitPackets, xmitBytes       atomic.Uint64 // multicast ones included
	rcvPackets, rcvBytes         atomic.Uint64
	xmitMulticast, rcvMulticast  atomic.Uint64
	xmitDiscards, rcvErrors      atomic.Uint64
	relayErrors                  atomic.Uint64
	xmitConstraint, rcvViolation atomic.Uint64
	linkDowned, vl15Dropped      atomic.Uint64
}

func (c *traffic) sent(x *parcel) {
	c.xmitPackets.Add(uint64(x.packets))
	c.xmitBytes.Add(x.bytes)
	if x.dlid >= firstMulticastLID && x.dlid != permissiveLID {
		c.xmitMulticast.Add(uint64(x.packets))
	}
}

func (c *traffic) received(x *parcel) {
	c.rcvPackets.Add(uint64(x.packets))
	c.rcvBytes.Add(x.bytes)
	if x.dlid >= firstMulticastLID && x.dlid != permissiveLID {
		c.rcvMulticast.Add(uint64(x.packets))
	}
}

// drop counts a discarded parcel at a port, and for the fabric.
func (p *Port) drop(r dropReason, x *parcel) {
	n := uint64(x.packets)
	p.node.fabric.drops[r].Add(n)
	c := &p.count
	switch r {
	case dropInactive, dropMTU, dropLoop:
		c.xmitDiscards.Add(n)
	case dropNoRoute, dropLane:
		c.relayErrors.Add(n)
	case dropPKeyIn:
		c.rcvViolation.Add(n)
	case dropPKeyOut:
		c.xmitConstraint.Add(n)
	case dropState:
		if x.management {
			c.vl15Dropped.Add(n)
		}
	}
}

// AddCounters adds the packets that the fabric dropped to m, by reason with the prefix "fabric_drop_".
func (f *Fabric) AddCounters(m map[string]uint64) {
	for r, name := range dropNames {
		m["fabric_drop_"+name] += f.drops[r].Load()
	}
}
