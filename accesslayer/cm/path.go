package cm

import (
	"encoding/binary"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

const permissiveLID = 0xffff

// way is a path that was looked up: what goes into messages, and into address vectors.
type way struct {
	Path
	port      *port
	pkeyIndex uint16
	gid       ci.GID // ours
}

// resolve fills in a path that a consumer gave. Status: InvalidPort, InvalidPKey, InvalidGID, InvalidLID, InvalidParameter.
func (m *Manager) resolve(verb, name string, path Path) (*way, error) {
	p, err := m.port(verb, path.Port)
	if err != nil {
		return nil, err
	}
	attr := p.attr()
	w := &way{Path: path, port: p}
	if w.PKey == 0 {
		w.PKey = 0xffff
	}
	if w.pkeyIndex, w.PKey, err = p.a.FindPKey(path.Port.Num, w.PKey); err != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPKey, Detail: name + ".PKey", Err: err}
	}
	if w.MTU == 0 || w.MTU > attr.MTU {
		w.MTU = attr.MTU
	}
	w.AV.Port = path.Port.Num
	if p.ethernet() {
		w.AV.Global = true
	}
	if int(w.AV.GRH.SGIDIndex) >= len(attr.GIDs) {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidGID, Detail: name + ".AV.GRH.SGIDIndex is beyond the port's table"}
	}
	w.gid = attr.GIDs[w.AV.GRH.SGIDIndex].GID
	switch {
	case w.AV.Global && w.AV.GRH.DGID == ci.GID{}:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidGID, Detail: name + ".AV.GRH.DGID is zero"}
	case !p.ethernet() && w.AV.DLID == 0:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidLID, Detail: name + ".AV.DLID is zero"}
	case w.LifeTime > mad.MaxTimeExp:
		return nil, invalid(verb, "%s.LifeTime is above %d", name, uint8(mad.MaxTimeExp))
	case w.AV.GRH.FlowLabel > 1<<20-1:
		return nil, invalid(verb, "%s.AV.GRH.FlowLabel has more than 20 bits", name)
	case w.AV.SL > 15:
		return nil, invalid(verb, "%s.AV.SL is above 15", name)
	case w.AV.StaticRate > 63:
		return nil, invalid(verb, "%s.AV.StaticRate is above 63", name)
	}
	return w, nil
}

// address is where the manager at the other end of a path is.
func (w *way) address() mads.Address {
	a := mads.Address{AV: w.AV, QPN: 1, QKey: ci.QKey(mad.QKeyGSI), PKeyIndex: w.pkeyIndex}
	if w.RemoteLID != 0 {
		a.AV.DLID = w.RemoteLID
	}
	return a
}

// wire is the path as REQ and LAP have it. Who acknowledges to us needs our CA's delay (12.7.34).
func (w *way) wire() mad.CMPath {
	g := &w.AV.GRH
	p := mad.CMPath{LocalLID: permissiveLID, RemoteLID: permissiveLID, LocalGID: w.gid, RemoteGID: g.DGID, FlowLabel: g.FlowLabel,
		Rate: mad.Rate(w.AV.StaticRate), TrafficClass: g.TrafficClass, HopLimit: g.HopLimit, SL: uint8(w.AV.SL),
		SubnetLocal: g.HopLimit <= 1, AckTimeout: ackTimeout(w.LifeTime, mad.TimeExp(w.port.a.Attr().AckDelay))}
	if !w.port.ethernet() {
		p.SubnetLocal = !w.AV.Global
		if !w.routed() {
			p.LocalLID, p.RemoteLID = uint16(w.port.attr().LID)|uint16(w.AV.PathBits), uint16(w.AV.DLID)
		}
	}
	return p
}

// routed tells whether the path may leave the subnet. Then the LIDs that the peer needs are of its own subnet, and not known here: permissive ones
// have it take those of the datagram that asks, as Linux does.
func (w *way) routed() bool { return w.AV.Global && w.AV.GRH.HopLimit > 1 }

// ackTimeout is the exponent nearest to two packet life times and an acknowledgement delay: the timer takes up to four times as
// long as it is told (9.7.6.1.3), so rounding down is no harm.
func ackTimeout(life, delay mad.TimeExp) mad.TimeExp {
	d := 2*life.Duration() + delay.Duration()
	t := mad.TimeExpFor(d)
	if t > 0 && d < 3*(t-1).Duration()/2 {
		t--
	}
	return t
}

// ackTimeoutOf is the acknowledgement timeout of a passive end's QP on a path that its peer describes. 0 says nothing there (12.7.34), and to a QP
// that it waits for ever: no peer takes away from this end that it notices when the peer is gone.
func ackTimeoutOf(p *mad.CMPath) ci.TimeExp { return ci.TimeExp(max(p.AckTimeout, 1)) }

// lifeTime is about what the sender of an acknowledgement timeout thinks of the packet life time.
func lifeTime(ack mad.TimeExp) mad.TimeExp { return max(ack, 1) - 1 }

// Reject reasons of an alternate path follow those of a primary one at this distance.
const alternateReasons = mad.RejAlternateGID - mad.RejPrimaryGID

// pathFrom is the way back along a path that a peer describes, or the reason for which it is none, of a primary path, with what would do. from is
// where the peer's manager is.
func (p *port) pathFrom(cp *mad.CMPath, pkey ci.PKey, pkeyIndex uint16, mtu ci.MTU, from *mads.Address) (*way, mad.RejReason, []byte) {
	attr := p.a.Attr()
	num, index, found := accesslayer.FindGID(attr, p.id.Num, cp.RemoteGID)
	port := p.attr()
	switch {
	case found:
		port = &attr.Ports[num-1]
	case cp.RemoteGID != [16]byte{} || port.Link == ci.LinkEthernet || !cp.SubnetLocal:
		return nil, mad.RejPrimaryGID, firstGID(port)
	}
	w := &way{port: p, pkeyIndex: pkeyIndex}
	w.Path = Path{Port: mads.Port{CA: p.id.CA, Num: port.Num}, PKey: pkey, MTU: mtu, LifeTime: lifeTime(cp.AckTimeout),
		AV: ci.AVAttr{Port: port.Num, SL: ci.SL(cp.SL), StaticRate: ci.Rate(cp.Rate), Global: true, GRH: ci.GRH{DGID: cp.LocalGID, SGIDIndex: index,
			FlowLabel: cp.FlowLabel, HopLimit: cp.HopLimit, TrafficClass: cp.TrafficClass}}}
	w.gid = cp.RemoteGID
	if cp.LocalGID == [16]byte{} && (port.Link == ci.LinkEthernet || !cp.SubnetLocal) {
		return nil, mad.RejPrimaryGID, firstGID(port)
	}
	if port.Link == ci.LinkEthernet {
		return w, 0, nil
	}
	mask := uint16(1)<<port.LMC - 1
	if cp.RemoteLID&^mask != uint16(port.LID)&^mask && (cp.SubnetLocal || cp.RemoteLID != permissiveLID) {
		return nil, mad.RejPrimaryLID, binary.BigEndian.AppendUint16(nil, uint16(port.LID))
	}
	here := port.Num == p.id.Num // for another port of ours, the datagram says nothing
	switch {
	case cp.RemoteLID != permissiveLID:
		w.AV.PathBits = uint8(cp.RemoteLID & mask)
	case here:
		w.AV.PathBits = from.AV.PathBits
	}
	w.AV.Global = !cp.SubnetLocal
	w.AV.DLID = ci.LID(cp.LocalLID)
	if cp.LocalLID == permissiveLID && here { // from another subnet: the router's is that of the datagram, and so is the SL to it
		w.AV.DLID, w.AV.SL = from.AV.DLID, from.AV.SL
	}
	if w.AV.DLID == 0 || w.AV.DLID > 0xbfff {
		return nil, mad.RejPrimaryLID, binary.BigEndian.AppendUint16(nil, uint16(port.LID))
	}
	return w, 0, nil
}

func firstGID(p *ci.PortAttr) []byte {
	for _, e := range p.GIDs {
		if e.GID != (ci.GID{}) {
			return e.GID[:]
		}
	}
	return nil
}

// life is how long a packet takes on the connection's path.
func (c *conn) life() time.Duration { return c.m.span(c.req.Primary.LifeTime) }
