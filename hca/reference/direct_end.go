package reference

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// LinkEnd is a place on a DirectLink at which no HCA sits: whoever holds it speaks to the ports of the link in whole InfiniBand packets, LRH
// to VCRC, as a cable would carry them. What the HCAs send to its LID is encoded by their link layer, one packet for each of a train; what
// it sends is checked and decoded by theirs (direct_frame.go). It is for tests, certifiers and bridges; the HCAs among themselves
// go on without bytes.
//
// Methods may be called concurrently.
type LinkEnd struct {
	endQueue
	link *DirectLink
	port *directPort
}

// End puts an end in bytes on the link, with the LID, MTU and GUID of c as for a port. Errors: those of opening such a port.
func (l *DirectLink) End(c DirectConfig) (*LinkEnd, error) {
	p, err := openDirect(l, c, portEnv{guid: ci.GUID(0x02dd<<48 | directGUIDs.Add(1)<<8), num: 1})
	if err != nil {
		return nil, err
	}
	e := &LinkEnd{endQueue: newEndQueue(), link: l, port: p.(*directPort)}
	return e, e.port.Start(endReceiver{e})
}

// LID is the end's base LID.
func (e *LinkEnd) LID() ci.LID {
	lid, _ := e.port.lids()
	return lid
}

// GID is entry 0 of the end's GID table.
func (e *LinkEnd) GID() ci.GID {
	g, _ := e.port.gid(0)
	return g
}

// Send puts a packet on the link as it is, right or wrong, from whatever LID it says it comes from. It returns when the port with the
// packet's destination LID has dealt with it. As at a switch, a packet to a LID that no port has is lost, one to a multicast LID goes to
// every port. Errors: fewer bytes than an LRH; the end is closed.
func (e *LinkEnd) Send(b []byte) error {
	if e.port.closed.Load() {
		return errEndClosed
	}
	if len(b) < wire.LRHLen {
		return fmt.Errorf("end of the link: a packet of %d bytes: the LRH alone has %d", len(b), wire.LRHLen)
	}
	t := e.link.now()
	dlid := ci.LID(binary.BigEndian.Uint16(b[2:]))
	to := []*directPort{t.byLID[dlid]}
	if dlid >= firstMulticastLID {
		to = t.all
	}
	for _, p := range to {
		if p != nil && p != e.port {
			p.receive(b)
		}
	}
	return nil
}

// Close takes the end off the link. Idempotent.
func (e *LinkEnd) Close() error {
	if !e.shut() {
		return nil
	}
	return e.port.Close()
}

// endReceiver is the end as the rvt.Receiver of its own port.
type endReceiver struct{ e *LinkEnd }

// Deliver encodes what was sent to the end; what was sent to all is not for it.
func (r endReceiver) Deliver(pkts []rvt.Packet, _, _ bool) {
	for i := range pkts {
		if pkts[i].Dst.LID >= firstMulticastLID {
			continue
		}
		for _, b := range directFrames(&pkts[i]) {
			r.e.put(b)
		}
	}
}

func (endReceiver) FlushAcks()             {}
func (endReceiver) PortEvent(ci.EventType) {}
func (endReceiver) Count(rvt.Counter, int) {}
