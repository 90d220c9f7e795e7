package reference

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// udpRoute is a compiled address, with one of the port's UDP source ports.
type udpRoute struct {
	key   routeKey
	src   uint16 // source port
	dst   netip.AddrPort
	lanes []udpRoute // of datagrams, if there are several source ports: the route for each
	gsi   *udpRoute  // of datagrams, if QP1 has a source port of its own
	flow4 wire.Flow4
	flow6 wire.Flow6
	os    osRoute // what the system wants for a destination
}

// routeKey is equal for routes whose packets may share a system call and a segmentation train.
type routeKey struct {
	gid        ci.GID
	class, hop uint8
	label      uint32 // IPv6 flow label; 0: the system's own choice
	lane       uint8  // index of the source port
}

// defaultHops is what packets get that do not ask; Linux RoCE uses it always.
const defaultHops = 64

// of returns the route for a packet: datagrams of several QPs share an address.
func (r *udpRoute) of(p *rvt.Packet) *udpRoute {
	if p.SrcQP == 1 && r.gsi != nil {
		return r.gsi
	}
	if r.lanes == nil {
		return r
	}
	return &r.lanes[laneOf(p.SrcQP, len(r.lanes))]
}

func (r *udpRoute) Peer() rvt.Addr { return rvt.Addr{GID: r.key.gid} }

// icrc begins the ICRC of a packet of n bytes, BTH to ICRC, with an IPv4 identification.
func (r *udpRoute) icrc(n int, id uint16) wire.ICRC {
	if r.dst.Addr().Is4() {
		return r.flow4.Start(n, id)
	}
	return r.flow6.Start(n)
}

var broadcast4 = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Route compiles an address. The GRH counts whether or not Global is set: there is nothing else on Ethernet.
func (p *udpPort) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) {
	const verb = "Port.Route"
	if av.GRH.SGIDIndex != 0 {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidIndex, Detail: fmt.Sprintf("source GID index %d, the port has GID 0 only", av.GRH.SGIDIndex)}
	}
	dst := addrOf(av.GRH.DGID)
	switch {
	case !av.Global:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "an address on an Ethernet port is its GID: AVAttr.Global must be set"}
	case !f.Datagram && dst.IsMulticast():
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf("a connection to the multicast group %v", dst)}
	case dst == broadcast4:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the destination is the IPv4 broadcast address"}
	case dst.IsUnspecified():
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the destination GID is zero"}
	case dst.Is4() != p.addr.Is4():
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf("destination %v and source %v are of different address families", dst, p.addr)}
	}
	r := &udpRoute{key: routeKey{gid: av.GRH.DGID, class: av.GRH.TrafficClass, hop: av.GRH.HopLimit}}
	if r.key.hop == 0 {
		r.key.hop = defaultHops
	}
	if dst.Is6() {
		r.key.label = av.GRH.FlowLabel & wire.MaskFlowLabel
	}
	if needsZone(dst) {
		dst = dst.WithZone(p.name)
	}
	r.dst = netip.AddrPortFrom(dst, p.udp)
	r.os = compileOS(r, p.index)
	if n := len(p.sources); n > 1 && f.Datagram {
		r.lanes = make([]udpRoute, n)
		for i := range r.lanes {
			r.lanes[i] = udpRoute{key: r.key, dst: r.dst, os: r.os}
			p.setLane(&r.lanes[i], uint8(i))
		}
	}
	if p.gsi != 0 && f.Datagram && !dst.IsMulticast() {
		r.gsi = &udpRoute{key: r.key, dst: r.dst, os: r.os}
		p.setLane(r.gsi, uint8(len(p.sources)))
	}
	p.setLane(r, laneOf(f.Local, len(p.sources)))
	return r, nil
}

// setLane gives a route one of the port's source ports.
func (p *udpPort) setLane(r *udpRoute, lane uint8) {
	r.key.lane, r.src = lane, p.gsi
	if int(lane) < len(p.sources) {
		r.src = p.sources[lane]
		if len(p.sources) > 1 {
			r.os.setSource(p.addr, p.index)
		}
	}
	if dst := r.dst.Addr(); dst.Is4() {
		r.flow4 = wire.NewFlow4(p.addr.As4(), dst.As4(), r.src, p.udp, wire.IPv4DontFragment)
	} else {
		r.flow6 = wire.NewFlow6(p.addr.As16(), dst.As16(), r.src, p.udp)
	}
}

// packetFlow is the same for receiving: the flow of packets from src to dst.
type packetFlow struct {
	src, dst netip.AddrPort
	odd      uint16 // what the IPv4 flags differ in from DF alone
	made     uint16 // odd of flow4
	flow4    wire.Flow4
	flow6    wire.Flow6
}

// set goes to a flow; false if it is the one before.
func (f *packetFlow) set(src, dst netip.AddrPort) bool {
	if f.src == src && f.dst == dst && f.made == f.odd {
		return false
	}
	f.src, f.dst, f.made = src, dst, f.odd
	if dst.Addr().Is4() {
		f.flow4 = wire.NewFlow4(src.Addr().As4(), dst.Addr().As4(), src.Port(), dst.Port(), wire.IPv4DontFragment^f.odd)
	} else {
		f.flow6 = wire.NewFlow6(src.Addr().As16(), dst.Addr().As16(), src.Port(), dst.Port())
	}
	return true
}

// check judges the ICRC of a packet, BTH to ICRC, that was segment i of what the system handed over. solved says that the IPv4
// identification, which the socket does not show, was computed, and is neither 0 nor i: of the ICRC's 32 bits, 16 were left to check.
// guess, if not 0, is what the identification probably is.
func (f *packetFlow) check(b []byte, i int, guess uint16) (id uint16, ok, solved bool) {
	end := len(b) - wire.ICRCLen
	if !f.dst.Addr().Is4() {
		return 0, f.flow6.Check(b), false
	}
	want := binary.LittleEndian.Uint32(b[end:])
	if guess == 0 {
		guess = uint16(i)
	}
	got := uint32(f.flow4.Start(len(b), guess).Transport(b[:end]))
	if got == want {
		return guess, true, guess != uint16(i) && guess != 0
	}
	// The ICRC is linear: what is solved for is the difference to the guess.
	id, ok = wire.SolveIPv4ID(got, want, end)
	id ^= guess
	return id, ok, id != uint16(i) && id != 0
}
