package fabric

import (
	"time"

	"ciddk/ci"
)

// A parcel is what the switches look at in a packet or in a train of packets of one size.
type parcel struct {
	slid, dlid ci.LID
	sl         ci.SL
	pkey       ci.PKey
	srcQP      ci.QPN // of datagrams
	destQP     ci.QPN
	management bool   // on VL 15: neither states, lanes nor partitions stop it, except Down
	packets    uint32 // in the train
	largest    uint32 // bytes of payload in the largest packet
	bytes      uint64 // on the link, from LRH to ICRC, of all packets
}

// maxHops bounds the switches that a packet passes. A packet beyond them is in a routing loop, and is discarded as if
// its lifetime had expired (IBTA volume 1, 18.2.5.4).
const maxHops = 64

// carry moves a unicast parcel from a port to the port that has its DLID, and counts it at each port of the way. It
// returns nil if the parcel is dropped. t is the time at which the parcel leaves, and then that of its arrival.
func (f *Fabric) carry(from *Port, x *parcel, t *time.Duration) *Port {
	if from.node.sw == nil {
		if !from.maySend(x) {
			from.drop(dropState, x)
			return nil
		}
		if from.owns(x.dlid) {
			return from // through the adapter, without the link
		}
		to := f.cross(from, x, t)
		if to == nil || to.node.sw == nil {
			return to.acceptLID(x)
		}
		return f.relay(to, x, t)
	}
	if from.owns(x.dlid) {
		return from
	}
	return f.relay(from, x, t)
}

// relay moves a parcel that has arrived at a port of a switch, or that its port 0 sends.
func (f *Fabric) relay(in *Port, x *parcel, t *time.Duration) *Port {
	for range maxHops {
		n := in.node
		if base := &n.ports[0]; base.owns(x.dlid) {
			return base
		}
		num := n.soft.Route(x.dlid)
		if num == 0 || int(num) >= len(n.ports) {
			in.drop(dropNoRoute, x)
			return nil
		}
		out := &n.ports[num]
		if !n.switchOver(in, out, x) {
			return nil
		}
		to := f.cross(out, x, t)
		if to == nil {
			return nil
		}
		if to.node.sw == nil {
			return to.acceptLID(x)
		}
		in = to
	}
	in.drop(dropLoop, x)
	return nil
}

// acceptLID returns p if the parcel is for one of its LIDs. p may be nil.
func (p *Port) acceptLID(x *parcel) *Port {
	if p == nil || p.owns(x.dlid) || x.management && p.fast.load().lid() == 0 {
		return p
	}
	p.drop(dropNotForUs, x)
	return nil
}

// switchOver checks what a switch checks between its ports in and out: their states, the lane, the MTU and the
// partitions (7.2.7, 7.6, 18.2.4).
func (n *node) switchOver(in, out *Port, x *parcel) bool {
	if in == out {
		in.drop(dropNoRoute, x)
		return false
	}
	if x.management {
		return true
	}
	a, b := in.fast.load(), out.fast.load()
	if in.num != 0 {
		switch s := a.state(); {
		case s == ci.PortArmed:
			in.activate()
		case s != ci.PortActive:
			in.drop(dropState, x)
			return false
		}
		if a.enforceIn() && !n.soft.PKeys(in.num).Has(x.pkey) {
			in.drop(dropPKeyIn, x)
			in.violation(x)
			return false
		}
	}
	lane := n.soft.VL(in.num, out.num, uint8(x.sl))
	switch {
	case b.state() != ci.PortActive:
		out.drop(dropInactive, x)
		return false
	case lane >= b.lanes():
		out.drop(dropLane, x)
		return false
	case x.largest > out.laneMTU(b, lane):
		out.drop(dropMTU, x)
		return false
	case b.enforceOut() && !n.soft.PKeys(out.num).Has(x.pkey):
		out.drop(dropPKeyOut, x)
		out.violation(x)
		return false
	}
	return true
}

// maySend reports whether the state of an adapter's port allows it to send the parcel: data in Active only.
func (p *Port) maySend(x *parcel) bool {
	s := p.fast.load().state()
	return s == ci.PortActive || x.management && s >= ci.PortInit
}

// cross moves a parcel over the cable of a port. It returns the port at the other end, or nil if the link is down.
func (f *Fabric) cross(out *Port, x *parcel, t *time.Duration) *Port {
	in := out.peer.Load()
	if in == nil || out.fast.load().state() < ci.PortInit || in.fast.load().state() < ci.PortInit {
		out.drop(dropInactive, x)
		return nil
	}
	out.count.sent(x)
	in.count.received(x)
	if f.timing {
		*t = out.occupy(*t, x.bytes, f.cfg.HopLatency)
	}
	return in
}

// freeAt returns the time from which the link of the port is free.
func (p *Port) freeAt() time.Duration {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	return p.line.free
}

// occupy reserves a link from the time t on for a number of bytes, after those that it carries already. It returns the
// time of arrival at the other end.
func (p *Port) occupy(t time.Duration, bytes uint64, latency time.Duration) time.Duration {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	start := max(t, p.line.free)
	p.line.free = start + time.Duration(bytes*uint64(p.line.picos)/1000)
	return p.line.free + latency
}
