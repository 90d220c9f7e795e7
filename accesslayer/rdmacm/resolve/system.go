package resolve

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

// System is the usual Resolver. It chooses, in this order: the port that has the remote address itself; the
// port with the address from which the operating system would send; of the ports whose address is of the same kind
// (loopback, link-local, other), the one that has the most leading bits in common with the remote address, at least 8
// of IPv4, 16 of IPv6. On InfiniBand ports the 64 bits of the subnet prefix must be equal.
//
// A path on Ethernet has the port's MTU and hop limit 64. Paths on InfiniBand come from the subnet administrator,
// and are cached (sa.Paths): they are dropped with age, with changes of the subnet, and when a peer does not answer.
type System struct {
	al     *accesslayer.AL
	subnet *subnetPaths // nil: none

	// routed returns the operating system's source address towards another; tests replace it.
	routed func(to netip.Addr) netip.Addr
}

var _ Resolver = (*System)(nil)

// NewSystem returns a System for the HCAs of an access layer. client finds paths on InfiniBand; if it is nil, there are
// none. The client belongs to the caller. Close the System after use, and before the client.
func NewSystem(al *accesslayer.AL, client *sa.Client) *System {
	r := &System{al: al, routed: routed}
	if client != nil {
		r.subnet = &subnetPaths{client: client}
	}
	return r
}

// Close ends requests to subnet administrators, and drops the paths. It is idempotent.
func (r *System) Close() error {
	if r.subnet == nil {
		return nil
	}
	return r.subnet.close()
}

// routed connects a UDP socket, which neither sends nor waits and needs no privilege, and returns its own address.
func routed(to netip.Addr) netip.Addr {
	if !to.IsValid() {
		return netip.Addr{}
	}
	const discard = 9 // any port has the same route
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, discard)))
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	a, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap()
}

// sources returns the addresses of all active ports.
func sources(al *accesslayer.AL) (list []Source) {
	for _, a := range al.Adapters() {
		attr := a.Attr()
		for _, p := range attr.Ports {
			if p.State != ci.PortActive {
				continue
			}
			for i, g := range p.GIDs {
				if g.GID == (ci.GID{}) || g.Type == ci.GIDRoCEv1 && p.Link == ci.LinkEthernet {
					continue
				}
				list = append(list, Source{Port: mads.Port{CA: attr.GUID, Num: p.Num}, Link: p.Link,
					GIDIndex: uint16(i), GID: g.GID, Addr: address.Zoned(address.AddrOf(g.GID), p.GIDs, i)})
			}
		}
	}
	return list
}

// inZone reports whether a source is on the interface that the zone of an address names, by its name or its number. An
// address without a zone is on every interface, and so is a source that has no interface.
func inZone(s Source, a netip.Addr) bool {
	zone, at := a.Zone(), s.Addr.Zone()
	if zone == "" || at == "" && s.Addr.IsLinkLocalUnicast() || zone == at {
		return true
	}
	ifi, err := net.InterfaceByName(at)
	return err == nil && zone == strconv.Itoa(ifi.Index)
}

// Local returns the port that has an address. Errors: EADDRNOTAVAIL, which lists the addresses that there are.
func Local(al *accesslayer.AL, a netip.Addr) (Source, error) { return local(sources(al), a) }

func local(list []Source, a netip.Addr) (Source, error) {
	s, ok := own(list, a)
	if !ok {
		return Source{}, fmt.Errorf("%w: no HCA has %v; the addresses are: %s", syscall.EADDRNOTAVAIL, a, names(list))
	}
	return s, nil
}

// own finds the port that has an address.
func own(list []Source, a netip.Addr) (Source, bool) {
	for _, s := range list {
		if s.GID == address.GIDOf(a) && inZone(s, a) {
			return s, true
		}
	}
	return Source{}, false
}

// ResolveAddr implements Resolver. It calls done before it returns.
func (r *System) ResolveAddr(ctx context.Context, q Query, done func(Source, error)) {
	s, err := r.source(q)
	if ctx.Err() != nil {
		s, err = Source{}, ctx.Err()
	}
	done(s, err)
}

func (r *System) source(q Query) (Source, error) {
	remote, at := q.Remote.Addr().Unmap(), q.Local.Addr().Unmap()
	list := sources(r.al)
	switch {
	case !remote.IsValid():
		return Source{}, fmt.Errorf("%w: the remote address is not set", syscall.EADDRNOTAVAIL)
	case remote.IsUnspecified():
		return Source{}, fmt.Errorf("%w: %v is not the address of a host", syscall.EADDRNOTAVAIL, remote)
	case at.IsValid() && !at.IsUnspecified():
		s, err := local(list, at)
		if err != nil {
			return Source{}, err
		}
		if !inZone(s, remote) {
			return Source{}, fmt.Errorf("%w: %v is on another interface than %v",
				syscall.EHOSTUNREACH, remote, s.Addr)
		}
		if at.Is4() != remote.Is4() {
			return Source{}, fmt.Errorf("%w: %v and %v are of different IP versions",
				syscall.EADDRNOTAVAIL, at, remote)
		}
		return s, nil
	}
	if s, ok := own(list, remote); ok {
		return s, nil
	}
	from := r.routed(remote)
	if s, ok := own(list, from); ok && from.IsValid() && inZone(s, remote) {
		return s, nil
	}
	if s, ok := closest(list, remote); ok {
		return s, nil
	}
	why := "the operating system has no route"
	if from.IsValid() {
		why = fmt.Sprintf("the operating system would send from %v", from)
	}
	return Source{}, fmt.Errorf("%w: no HCA has an address that reaches %v (%s); the addresses are: %s",
		syscall.EHOSTUNREACH, remote, why, names(list))
}

// closest returns the source with the most leading bits in common with an address.
func closest(list []Source, remote netip.Addr) (Source, bool) {
	best, common := -1, 0
	for i, s := range list {
		if n := commonBits(s, remote); n > common {
			best, common = i, n
		}
	}
	if best < 0 {
		return Source{}, false
	}
	return list[best], true
}

// commonBits returns the number of leading bits that a source has in common with an address, 0 if they are too few.
func commonBits(s Source, remote netip.Addr) int {
	least := 16
	switch {
	case s.Addr.Is4() != remote.Is4() || kind(s.Addr) != kind(remote) || !inZone(s, remote):
		return 0
	case s.Link == ci.LinkInfiniBand:
		least = 64
	case remote.Is4():
		least = 8
	}
	n, b := 0, remote.AsSlice()
	for i, octet := range s.Addr.AsSlice() {
		x := bits.LeadingZeros8(octet ^ b[i])
		n += x
		if x < 8 {
			break
		}
	}
	if n < least {
		return 0
	}
	return n
}

// kind returns 1 for a loopback address, 2 for a link-local one, 0 for any other.
func kind(a netip.Addr) int {
	switch {
	case a.IsLoopback():
		return 1
	case a.IsLinkLocalUnicast():
		return 2
	}
	return 0
}

// names returns the addresses and ports of a list for an error message.
func names(list []Source) string {
	if len(list) == 0 {
		return "no active port of any HCA"
	}
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%v (HCA %016x port %d)", s.Addr, uint64(s.Port.CA), s.Port.Num)
	}
	return b.String()
}

// ResolveRoute implements Resolver. On Ethernet it calls done before it returns.
func (r *System) ResolveRoute(ctx context.Context, q Query, from Source, done func(cm.Path, error)) {
	p, err := address.PortAttr(r.al, from.Port)
	switch {
	case err != nil:
	case p.State != ci.PortActive:
		err = fmt.Errorf("%w: port %d of HCA %016x is %v",
			syscall.EHOSTUNREACH, from.Port.Num, uint64(from.Port.CA), p.State)
	case p.Link != ci.LinkInfiniBand:
		done(ethernetPath(q, from, p), nil)
		return
	case r.subnet == nil:
		err = errors.New("resolve: paths on InfiniBand need the subnet administrator (set cmid.Config.MAD) " +
			"or another Resolver")
	default:
		err = r.startPath(ctx, q, from, p, done)
	}
	if err != nil {
		done(cm.Path{}, err)
	}
}

// ethernetPath returns the path to an address of the same IP network or behind routers.
func ethernetPath(q Query, from Source, p *ci.PortAttr) cm.Path {
	grh := ci.GRH{DGID: address.GIDOf(q.Remote.Addr().Unmap()), SGIDIndex: from.GIDIndex, HopLimit: address.HopLimit,
		TrafficClass: q.TrafficClass, FlowLabel: flowLabel(netip.AddrPortFrom(from.Addr, q.Local.Port()), q.Remote)}
	return cm.Path{Port: from.Port, AV: ci.AVAttr{Port: from.Port.Num, Global: true, GRH: grh}, PKey: q.PKey,
		MTU: p.MTU, LifeTime: q.LifeTime}
}

// PathOf returns a path record as this end uses it. A GRH is for paths that leave the subnet (IBTA 8.2.3). It is also
// used within the subnet, because the passive end of a connection cannot tell our GIDs apart without it.
func PathOf(rec *mad.PathRecord, from Source, p *ci.PortAttr) cm.Path {
	av := ci.AVAttr{Port: from.Port.Num, SL: ci.SL(rec.SL), PathBits: uint8(rec.SLID) & (1<<p.LMC - 1),
		DLID: ci.LID(rec.DLID), GRH: ci.GRH{DGID: rec.DGID, SGIDIndex: from.GIDIndex, FlowLabel: rec.FlowLabel,
			HopLimit: rec.HopLimit, TrafficClass: rec.TrafficClass}}
	av.Global = rec.HopLimit > 1 || [8]byte(rec.DGID[:8]) != [8]byte(from.GID[:8])
	if rec.Rate.Mbps() < portMbps(p) {
		av.StaticRate = ci.Rate(rec.Rate)
	}
	return cm.Path{Port: from.Port, PKey: ci.PKey(rec.PKey), MTU: ci.MTU(rec.MTU), LifeTime: rec.LifeTime, AV: av}
}

// portMbps returns the nominal rate of a port (14.2.5.6): 2.5 Gb/s times the speed's factor, times the lanes.
func portMbps(p *ci.PortAttr) int {
	lane := 2500 * int(p.SpeedActive)
	switch p.SpeedExt {
	case 1:
		lane = 14000
	case 2:
		lane = 25000
	}
	lanes := map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12}[p.WidthActive]
	return lane * lanes
}

// flowLabel distributes connections over source ports, from which routers choose between paths. Both ends use the same
// label, which the REQ carries (A17.4.6 leaves the choice to the sender).
func flowLabel(a, b netip.AddrPort) uint32 {
	h := fnv.New32a()
	for _, x := range []netip.AddrPort{a, b} {
		ip := x.Addr().As16()
		h.Write(ip[:])
		h.Write([]byte{byte(x.Port() >> 8), byte(x.Port())})
	}
	const mask = 1<<20 - 1
	v := h.Sum32()
	return max((v^v>>20)&mask, 1) // 0 is no label
}
