package cm

import (
	"encoding/binary"
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

const permissiveLID = 0xffff

// A route is a path with the values from the port's tables that messages and address vectors need.
type route struct {
	Path
	port      *port
	pkeyIndex uint16
	gid       ci.GID // source GID
}

// resolve returns the route of a consumer's path. Status: InvalidPort, InvalidPKey, InvalidGID, InvalidLID,
// InvalidParameter.
func (m *Manager) resolve(verb, name string, path Path) (*route, error) {
	p, err := m.port(verb, path.Port)
	if err != nil {
		return nil, err
	}
	attr := p.attr()
	r := &route{Path: path, port: p}
	if r.PKey == 0 {
		r.PKey = 0xffff
	}
	if r.pkeyIndex, r.PKey, err = p.a.FindPKey(path.Port.Num, r.PKey); err != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPKey, Detail: name + ".PKey", Err: err}
	}
	if most := attr.MTUOf(r.AV.SL); r.MTU == 0 || r.MTU > most {
		r.MTU = most
	}
	r.AV.Port = path.Port.Num
	if p.isEthernet() {
		r.AV.Global = true
	}
	if int(r.AV.GRH.SGIDIndex) >= len(attr.GIDs) {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidGID, Detail: fmt.Sprintf("%s.AV.GRH.SGIDIndex is %d, the "+
			"port has %d GIDs", name,
			r.AV.GRH.SGIDIndex, len(attr.GIDs))}
	}
	r.gid = attr.GIDs[r.AV.GRH.SGIDIndex].GID
	switch {
	case r.AV.Global && r.AV.GRH.DGID == ci.GID{}:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidGID, Detail: name + ".AV.GRH.DGID is zero"}
	case !p.isEthernet() && r.AV.DLID == 0:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidLID, Detail: name + ".AV.DLID is zero"}
	case r.LifeTime > mad.MaxTimeExp:
		return nil, invalid(verb, "%s.LifeTime is %d, at most %d", name, uint8(r.LifeTime), uint8(mad.MaxTimeExp))
	case r.AV.GRH.FlowLabel > 1<<20-1:
		return nil, invalid(verb, "%s.AV.GRH.FlowLabel is %#x, at most 0xfffff", name, r.AV.GRH.FlowLabel)
	case r.AV.SL > 15:
		return nil, invalid(verb, "%s.AV.SL is %d, at most 15", name, r.AV.SL)
	case r.AV.StaticRate > 63:
		return nil, invalid(verb, "%s.AV.StaticRate is %d, at most 63", name, r.AV.StaticRate)
	}
	return r, nil
}

// address returns the address of the connection manager at the other end of the path.
func (r *route) address() mads.Address {
	a := mads.Address{AV: r.AV, QPN: 1, QKey: ci.QKey(mad.QKeyGSI), PKeyIndex: r.pkeyIndex}
	if r.RemoteLID != 0 {
		a.AV.DLID = r.RemoteLID
	}
	return a
}

// cmPath returns the path as it is described in REQ and LAP. Its timeout includes our CA's acknowledgement delay, since
// the peer waits for our acknowledgements (12.7.34).
func (r *route) cmPath() mad.CMPath {
	g := &r.AV.GRH
	p := mad.CMPath{
		LocalLID: permissiveLID, RemoteLID: permissiveLID, LocalGID: r.gid, RemoteGID: g.DGID,
		FlowLabel: g.FlowLabel, TrafficClass: g.TrafficClass, HopLimit: g.HopLimit, SubnetLocal: g.HopLimit <= 1,
		Rate: mad.Rate(r.AV.StaticRate), SL: uint8(r.AV.SL),
		AckTimeout: ackTimeout(r.LifeTime, mad.TimeExp(r.port.a.Attr().AckDelay)),
	}
	if !r.port.isEthernet() {
		p.SubnetLocal = !r.AV.Global
		if !r.isRouted() {
			p.LocalLID, p.RemoteLID = uint16(r.port.attr().LID)|uint16(r.AV.PathBits), uint16(r.AV.DLID)
		}
	}
	return p
}

// isRouted reports whether the path may leave the subnet. The peer then needs LIDs of its own subnet, which this end
// does not know. With permissive LIDs the peer uses those of the datagram that carries the REQ, as Linux does.
func (r *route) isRouted() bool { return r.AV.Global && r.AV.GRH.HopLimit > 1 }

// ackTimeout returns the exponent of the time nearest to two packet life times plus an acknowledgement delay. Rounding
// down is safe, because the timer may take up to four times as long (9.7.6.1.3).
func ackTimeout(life, delay mad.TimeExp) mad.TimeExp {
	d := 2*life.Duration() + delay.Duration()
	t := mad.TimeExpFor(d)
	if t > 0 && d < 3*(t-1).Duration()/2 {
		t--
	}
	return t
}

// ackTimeoutOf returns the acknowledgement timeout of a passive end's QP on a path that the peer describes. In a REQ, 0
// means no value (12.7.34); in a QP, it means no timeout. The result is at least 1, so that no peer can prevent this
// end from detecting that the peer has failed.
func ackTimeoutOf(p *mad.CMPath) ci.TimeExp { return ci.TimeExp(max(p.AckTimeout, 1)) }

// packetLifeTimeOf returns the approximate packet life time from which an acknowledgement timeout was calculated.
func packetLifeTimeOf(ack mad.TimeExp) mad.TimeExp { return max(ack, 1) - 1 }

// alternateReasons is the difference between the reject reasons of alternate paths and those of primary paths.
const alternateReasons = mad.RejAlternateGID - mad.RejPrimaryGID

// returnPath returns the route to the peer along a path that the peer describes. If the path is unusable, returnPath
// returns the reject reason of a primary path, and additional information with an acceptable value. from is the address
// of the peer's manager.
func (p *port) returnPath(cp *mad.CMPath, pkey ci.PKey, pkeyIndex uint16, mtu ci.MTU, from *mads.Address) (*route,
	mad.RejReason, []byte) {
	attr := p.a.Attr()
	num, index, found := accesslayer.FindGID(attr, p.id.Num, cp.RemoteGID)
	port := p.attr()
	switch {
	case found:
		port = &attr.Ports[num-1]
	case cp.RemoteGID != [16]byte{} || port.Link == ci.LinkEthernet || !cp.SubnetLocal:
		return nil, mad.RejPrimaryGID, firstGID(port)
	}
	r := &route{port: p, pkeyIndex: pkeyIndex}
	r.Path = Path{
		Port: mads.Port{CA: p.id.CA, Num: port.Num}, PKey: pkey, MTU: mtu, LifeTime: packetLifeTimeOf(cp.AckTimeout),
		AV: ci.AVAttr{
			Port: port.Num, SL: ci.SL(cp.SL), StaticRate: ci.Rate(cp.Rate), Global: true,
			GRH: ci.GRH{DGID: cp.LocalGID, SGIDIndex: index, FlowLabel: cp.FlowLabel, HopLimit: cp.HopLimit,
				TrafficClass: cp.TrafficClass},
		},
	}
	r.gid = cp.RemoteGID
	if cp.LocalGID == [16]byte{} && (port.Link == ci.LinkEthernet || !cp.SubnetLocal) {
		return nil, mad.RejPrimaryGID, firstGID(port)
	}
	if port.Link == ci.LinkEthernet {
		return r, 0, nil
	}
	mask := uint16(1)<<port.LMC - 1
	if cp.RemoteLID&^mask != uint16(port.LID)&^mask && (cp.SubnetLocal || cp.RemoteLID != permissiveLID) {
		return nil, mad.RejPrimaryLID, binary.BigEndian.AppendUint16(nil, uint16(port.LID))
	}
	isReceivingPort := port.Num == p.id.Num // only then the datagram's addresses are those of the path
	switch {
	case cp.RemoteLID != permissiveLID:
		r.AV.PathBits = uint8(cp.RemoteLID & mask)
	case isReceivingPort:
		r.AV.PathBits = from.AV.PathBits
	}
	r.AV.Global = !cp.SubnetLocal
	r.AV.DLID = ci.LID(cp.LocalLID)
	if cp.LocalLID == permissiveLID &&
		isReceivingPort { // from another subnet: the datagram has the router's LID and SL
		r.AV.DLID, r.AV.SL = from.AV.DLID, from.AV.SL
	}
	if r.AV.DLID == 0 || r.AV.DLID > 0xbfff {
		return nil, mad.RejPrimaryLID, binary.BigEndian.AppendUint16(nil, uint16(port.LID))
	}
	return r, 0, nil
}

// firstGID returns the first GID of a port, or nil if it has none.
func firstGID(p *ci.PortAttr) []byte {
	for _, e := range p.GIDs {
		if e.GID != (ci.GID{}) {
			return e.GID[:]
		}
	}
	return nil
}

// packetLifeTime returns the packet life time of the connection's path.
func (c *conn) packetLifeTime() time.Duration { return c.m.boundedTime(c.req.Primary.LifeTime) }
