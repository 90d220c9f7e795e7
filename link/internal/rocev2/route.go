package rocev2

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// A Route is a compiled address, with one of the port's UDP source ports.
type Route struct {
	Key RouteKey
	Src uint16 // source port
	Dst netip.AddrPort
	// System is what CompileRoute of the port returned.
	System any

	port  *Port // that made it
	seen  atomic.Pointer[nearby]
	lanes []Route // of datagrams, if there are several source ports: the route for each
	gsi   *Route  // of datagrams, if QP1 has a source port of its own
	flow4 wire.Flow4
	flow6 wire.Flow6
}

// A RouteKey is equal for routes whose packets may share a system call and a segmentation train.
type RouteKey struct {
	GID             ci.GID
	Class, HopLimit uint8
	Label           uint32 // IPv6 flow label; 0: the system's own choice
	Lane            uint8  // index of the source port
}

// DefaultHops is the TTL or hop limit of packets that request none. Linux RoCE uses it always.
const DefaultHops = 64

// MaxSources is the most UDP ports that a port sends from.
const MaxSources = 64

// NewRoute returns a route from one address and port to another, for packets that no Port sends.
func NewRoute(src, dst netip.AddrPort) *Route {
	r := &Route{Src: src.Port(), Dst: dst, Key: RouteKey{GID: GIDOf(dst.Addr()), HopLimit: DefaultHops}}
	r.setFlow(src.Addr())
	return r
}

// setFlow prepares the ICRC.
func (r *Route) setFlow(src netip.Addr) {
	if dst := r.Dst.Addr(); dst.Is4() {
		r.flow4 = wire.NewFlow4(src.As4(), dst.As4(), r.Src, r.Dst.Port(), wire.IPv4DontFragment)
	} else {
		r.flow6 = wire.NewFlow6(src.As16(), dst.As16(), r.Src, r.Dst.Port())
	}
}

// of returns the route for a packet: datagrams of several QPs share an address.
func (r *Route) of(p *rvt.Packet) *Route {
	if p.SrcQP == 1 && r.gsi != nil {
		return r.gsi
	}
	if r.lanes == nil {
		return r
	}
	return &r.lanes[laneOf(p.SrcQP, len(r.lanes))]
}

// Peer returns the destination.
func (r *Route) Peer() rvt.Addr { return rvt.Addr{GID: r.Key.GID} }

// Local returns the GID of the port's address. It is zero for a route of NewRoute.
func (r *Route) Local() ci.GID {
	if r.port == nil {
		return ci.GID{}
	}
	return GIDOf(r.port.Addr)
}

// ICRC begins the ICRC of a packet of n bytes, BTH to ICRC, with an IPv4 identification.
func (r *Route) ICRC(n int, id uint16) wire.ICRC {
	if r.Dst.Addr().Is4() {
		return r.flow4.Start(n, id)
	}
	return r.flow6.Start(n)
}

// Broadcast4 is the IPv4 broadcast address.
var Broadcast4 = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Route compiles an address, for packets from p.Addr.
func (p *Port) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) {
	bad := func(s ci.Status, format string, args ...any) (rvt.Route, error) {
		return nil, &ci.Error{Verb: "Port.Route", Status: s, Detail: fmt.Sprintf(format, args...)}
	}
	dst := AddrOf(av.GRH.DGID)
	if p.Addr.Is4() {
		dst = from4(av.GRH.DGID)
	}
	switch {
	case !av.Global:
		return bad(ci.InvalidParameter, "an address on an Ethernet port is its GID: AVAttr.Global must be set")
	case !f.Datagram && dst.IsMulticast():
		return bad(ci.InvalidParameter, "a connection to the multicast group %v", dst)
	case dst == Broadcast4:
		return bad(ci.InvalidParameter, "the destination is the IPv4 broadcast address")
	case dst.IsUnspecified():
		return bad(ci.InvalidParameter, "the destination GID is zero")
	case dst.Is4() != p.Addr.Is4():
		return bad(ci.InvalidParameter, "destination %v and source %v are of different address families", dst, p.Addr)
	}
	r := &Route{port: p, Key: RouteKey{GID: GIDOf(dst), Class: av.GRH.TrafficClass, HopLimit: av.GRH.HopLimit}}
	if r.Key.HopLimit == 0 {
		r.Key.HopLimit = DefaultHops
	}
	if dst.Is6() {
		r.Key.Label = av.GRH.FlowLabel & wire.MaskFlowLabel
	}
	if NeedsZone(dst) {
		dst = dst.WithZone(p.Interface)
	}
	r.Dst = netip.AddrPortFrom(dst, p.UDP)
	if n := len(p.Sources); n > 1 && f.Datagram {
		r.lanes = make([]Route, n)
		for i := range r.lanes {
			r.lanes[i] = Route{Key: r.Key, Dst: r.Dst}
			p.setLane(&r.lanes[i], uint8(i))
		}
	}
	if p.GSI != 0 && f.Datagram && !dst.IsMulticast() {
		r.gsi = &Route{Key: r.Key, Dst: r.Dst}
		p.setLane(r.gsi, uint8(len(p.Sources)))
	}
	p.setLane(r, laneOf(f.Local, len(p.Sources)))
	return r, nil
}

// setLane sets the source port of a route: one of Sources or, behind those, GSI.
func (p *Port) setLane(r *Route, lane uint8) {
	r.Key.Lane, r.Src = lane, p.GSI
	several := false
	if int(lane) < len(p.Sources) {
		r.Src, several = p.Sources[lane], len(p.Sources) > 1
	}
	r.setFlow(p.Addr)
	if p.CompileRoute != nil {
		r.System = p.CompileRoute(r, several)
	}
}

// laneOf assigns a QP to one of n source ports.
func laneOf(q ci.QPN, n int) uint8 {
	if n == 1 {
		return 0
	}
	const golden = 0x9e3779b1 // 2^32 divided by the golden ratio: neighbouring numbers are spread
	return uint8((uint32(q) * golden >> 16) % uint32(n))
}

// Consecutive returns n port numbers.
func Consecutive(first uint16, n int) []uint16 {
	list := make([]uint16, n)
	for i := range list {
		list[i] = first + uint16(i)
	}
	return list
}
