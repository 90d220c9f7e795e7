package fabric

import (
	"errors"
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
	"ciddk/wire"
)

// Errors of Port.Send. A request that fails with one of them gets no response.
var (
	// ErrDiscarded reports a datagram that was discarded on its way or at its destination. The counters of the fabric
	// and its ports have the reason.
	ErrDiscarded = errors.New("fabric: the datagram was discarded")
	// ErrClosed reports a fabric that was closed.
	ErrClosed = errors.New("fabric: closed")
)

// A Datagram is a management datagram at a port, sent or received.
type Datagram struct {
	SLID, DLID    ci.LID // permissive in directed route SMPs
	SL            ci.SL
	SrcQP, DestQP ci.QPN // 0: subnet management
	PKey          ci.PKey
	QKey          ci.QKey
	GRH           []byte // wire.GRHLen bytes, or nil
	MAD           *ci.MAD
}

// maxSteps bounds the nodes that a directed route SMP and its response visit: 64 hops and two LID-routed parts each
// way.
const maxSteps = 4 * mad.MaxHops

// smpBytes is the length of an SMP on the link, from LRH to ICRC.
const smpBytes = wire.LRHLen + wire.BTHLen + wire.DETHLen + mad.Size + wire.ICRCLen

func smpParcel(d *Datagram) parcel {
	return parcel{slid: d.SLID, dlid: d.DLID, sl: d.SL, management: true, packets: 1, largest: mad.Size,
		bytes: smpBytes}
}

// subnet moves an SMP that a manager or adapter at p sends to its destination, and the response back. It changes d and
// its datagram on the way.
func (f *Fabric) subnet(p *Port, d *Datagram) error {
	t := f.now()
	if mad.Class(d.MAD[1]) == mad.ClassSubnetDirected {
		v, ok := departed(p, d.MAD)
		if !ok {
			v = p.node.agent.Send(p.num, d.MAD)
		}
		return f.follow(p, v, d, true, &t)
	}
	x := smpParcel(d)
	to := f.carry(p, &x, &t)
	switch {
	case to == nil:
		return ErrDiscarded
	case to == p:
		return f.follow(p, p.node.agent.Send(p.num, d.MAD), d, true, &t)
	}
	return f.follow(to, to.node.agent.Receive(to.num, d.SLID, d.MAD), d, false, &t)
}

// departed returns the verdict for a directed route request whose sender has executed the first step of the SMI itself,
// as Linux does before it passes an SMP to the adapter: the hop pointer is 1 (IBTA volume 1, 14.2.2.1).
func departed(p *Port, m *ci.MAD) (v sma.Verdict, ok bool) {
	const hopPointer, hopCount, initialPath = 6, 7, 128
	isRequest := uint16(m[4])<<8&mad.StatusDirection == 0
	if !isRequest || p.num == 0 || m[hopPointer] != 1 || m[hopCount] == 0 || m[initialPath+1] != p.num {
		return v, false
	}
	return sma.Verdict{Action: sma.Forward, Port: p.num}, true
}

// follow does what agents decide until the SMP has arrived. at is the port at which an agent took the datagram, and v
// what it decided. own reports that the datagram comes from a manager at this port.
func (f *Fabric) follow(at *Port, v sma.Verdict, d *Datagram, own bool, t *time.Duration) error {
	for range maxSteps {
		f.settle()
		switch v.Action {
		case sma.Forward, sma.Reply:
			if own && v.Action == sma.Reply {
				return f.present(at.manager(), d, *t)
			}
			to := f.move(at, v, d, t)
			if to == nil {
				return ErrDiscarded
			}
			own, at = false, to
			v = to.node.agent.Receive(to.num, d.SLID, d.MAD)
		case sma.Deliver:
			// Without a manager there is no response, as on Linux: a standby manager takes over after timeouts alone.
			return f.present(at.manager(), d, *t)
		default:
			return ErrDiscarded
		}
	}
	return ErrDiscarded
}

// move sends an SMP from a node as an agent's verdict demands. It returns the port where it arrived, or nil.
func (f *Fabric) move(at *Port, v sma.Verdict, d *Datagram, t *time.Duration) *Port {
	if !v.ByLID {
		d.SLID, d.DLID = permissiveLID, permissiveLID
		x := smpParcel(d)
		out := at.node.port(v.Port)
		if out == nil {
			at.drop(dropRoute, &x)
			return nil
		}
		return f.cross(out, &x, t)
	}
	from := at.manager()
	to := v.LID
	if v.Action == sma.Reply {
		to = d.SLID
	}
	d.SLID, d.DLID = from.fast.load().lid(), to
	x := smpParcel(d)
	return f.carry(from, &x, t)
}

// manager returns the port at which managers of the node sit: port 0 of a switch.
func (p *Port) manager() *Port {
	if p.node.sw != nil {
		return &p.node.ports[0]
	}
	return p
}

// trap sends a trap of a node's agent to the subnet manager.
func (f *Fabric) trap(p *Port, to sma.Manager, m *ci.MAD) {
	c := *m
	d := Datagram{SLID: to.Own, DLID: to.LID, SL: to.SL, MAD: &c}
	_ = f.subnet(p, &d) // a lost trap is repeated
}
