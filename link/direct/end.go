package direct

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/link/internal/inbox"
	"ciddk/rvt"
	"ciddk/wire"
)

// ErrClosed is the error of an End's methods after Close.
var ErrClosed = inbox.ErrClosed

// An End is a place on a Link at which no HCA sits. Its owner sends and receives whole InfiniBand packets, LRH to VCRC,
// as a cable carries them. What the HCAs send to its LID is encoded by their link layer, one packet for each of a
// train; what it sends is checked and decoded by theirs. The HCAs among themselves go on without bytes. Ends are for
// tests, certifiers and bridges.
//
// Methods may be called concurrently.
type End struct {
	inbox *inbox.Queue
	link  *Link
	port  *Port
}

// endGUIDs counts ends: their GUIDs differ within a process, and are the same in every run that makes the same ends in
// the same order.
var endGUIDs atomic.Uint64

// End puts an end on the link, with the LID, MTU and GUID of c as for a port. Errors: those of New.
func (l *Link) End(c Config) (*End, error) {
	p, err := New(l, c)
	if err != nil {
		return nil, err
	}
	e := &End{inbox: inbox.New(), link: l, port: p}
	guid := ci.GUID(0x02de<<48 | endGUIDs.Add(1)<<8)
	return e, p.Start(rvt.PortContext{Receiver: endReceiver{e}, Num: 1, Node: rvt.Node{GUID: guid, NumPorts: 1}})
}

// LID returns the end's base LID.
func (e *End) LID() ci.LID {
	lid, _ := e.port.lids()
	return lid
}

// GID returns entry 0 of the end's GID table.
func (e *End) GID() ci.GID {
	g, _ := e.port.gid(0)
	return g
}

// Recv returns the next packet in order of arrival. The slice is the caller's. Errors: the context's; ErrClosed.
func (e *End) Recv(ctx context.Context) ([]byte, error) { return e.inbox.Recv(ctx) }

// Send puts a packet on the link as it is, valid or not, with whatever source LID it has. It returns when the port with
// the packet's destination LID has handled it. As at a switch, a packet to a LID that no port has is dropped, and one
// to a multicast LID goes to every port. Errors: fewer bytes than an LRH; ErrClosed.
func (e *End) Send(b []byte) error {
	if e.port.visits.IsClosed() {
		return ErrClosed
	}
	if len(b) < wire.LRHLen {
		return fmt.Errorf("direct: a packet of %d bytes: the LRH alone has %d", len(b), wire.LRHLen)
	}
	t := e.link.now()
	dlid := ci.LID(binary.BigEndian.Uint16(b[2:]))
	to := []*Port{t.byLID[dlid]}
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

// Close takes the end off the link. It is idempotent.
func (e *End) Close() error {
	if !e.inbox.Close() {
		return nil
	}
	return e.port.Close()
}

// endReceiver is the rvt.Receiver of an end's port.
type endReceiver struct{ e *End }

// Deliver encodes packets that were sent to the end. It ignores multicast packets.
func (r endReceiver) Deliver(pkts []rvt.Packet, _, _ bool) {
	for i := range pkts {
		if pkts[i].Dst.LID >= firstMulticastLID {
			continue
		}
		for _, b := range encodeTrain(&pkts[i]) {
			r.e.inbox.Put(b)
		}
	}
}

func (endReceiver) FlushAcks()             {}
func (endReceiver) PortEvent(ci.EventType) {}
func (endReceiver) Count(rvt.Counter, int) {}
