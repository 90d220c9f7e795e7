package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

// SystemResolver is the usual Resolver. For an address it takes, in this order: the port that has it as its own; the port with the
// address from which the operating system would send; of the ports whose address is of the same kind (loopback, link-local, other) the one that has
// the most leading bits in common with it, at least 8 of IPv4, 16 of IPv6. On InfiniBand ports the subnet prefix decides, 64 bits.
//
// Paths on Ethernet are made from the port's MTU, with hop limit 64; on InfiniBand they come from the subnet administrator.
type SystemResolver struct {
	al *accesslayer.AL
	sa *sa.Client // nil: none

	// routed asks the operating system for the source address towards another; tests replace it.
	routed func(ctx context.Context, to netip.Addr) netip.Addr
}

var _ Resolver = (*SystemResolver)(nil)

// NewResolver makes a SystemResolver for the HCAs of an access layer. svc may be nil: then there are no paths on InfiniBand. Close it.
func NewResolver(al *accesslayer.AL, svc mads.Service) *SystemResolver {
	r := &SystemResolver{al: al, routed: routed}
	if svc != nil {
		r.sa = sa.New(al, svc, sa.Config{})
	}
	return r
}

// Close ends questions to subnet administrators. It is idempotent.
func (r *SystemResolver) Close() error {
	if r.sa == nil {
		return nil
	}
	return r.sa.Close()
}

// routed connects a UDP socket, which sends nothing and needs no privilege, and looks at its own address.
func routed(ctx context.Context, to netip.Addr) netip.Addr {
	var d net.Dialer
	const discard = 9 // any port will do
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(to, discard).String())
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	a, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap().WithZone("")
}

// sources lists the addresses of all active ports.
func (r *SystemResolver) sources() []Source { return sources(r.al) }

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
				list = append(list, Source{Port: mads.Port{CA: attr.GUID, Num: p.Num}, Link: p.Link, GIDIndex: uint16(i), GID: g.GID, Addr: addrOf(g.GID)})
			}
		}
	}
	return list
}

// own finds the port that has an address.
func own(list []Source, a netip.Addr) (Source, bool) {
	for _, s := range list {
		if s.GID == gidOf(a) {
			return s, true
		}
	}
	return Source{}, false
}

// ResolveAddr implements Resolver.
func (r *SystemResolver) ResolveAddr(ctx context.Context, q Query) (Source, error) {
	remote, local := q.Remote.Addr().Unmap(), q.Local.Addr().Unmap()
	list := r.sources()
	switch {
	case !remote.IsValid():
		return Source{}, fmt.Errorf("%w: no address given", syscall.EADDRNOTAVAIL)
	case remote.IsUnspecified():
		return Source{}, fmt.Errorf("%w: %v is nobody's address", syscall.EADDRNOTAVAIL, remote)
	case local.IsValid() && !local.IsUnspecified():
		s, ok := own(list, local)
		if !ok {
			return Source{}, fmt.Errorf("%w: no HCA has %v; there are: %s", syscall.EADDRNOTAVAIL, local, names(list))
		}
		if local.Is4() != remote.Is4() {
			return Source{}, fmt.Errorf("%w: %v and %v are of different IP versions", syscall.EADDRNOTAVAIL, local, remote)
		}
		return s, nil
	}
	if s, ok := own(list, remote); ok {
		return s, nil
	}
	from := r.routed(ctx, remote)
	if s, ok := own(list, from); ok && from.IsValid() {
		return s, nil
	}
	if err := ctx.Err(); err != nil {
		return Source{}, err
	}
	best, common := -1, 0
	for i, s := range list {
		if n := likeness(s, remote); n > common {
			best, common = i, n
		}
	}
	if best >= 0 {
		return list[best], nil
	}
	why := "the operating system has no route"
	if from.IsValid() {
		why = fmt.Sprintf("the operating system would send from %v", from)
	}
	return Source{}, fmt.Errorf("%w: no HCA has an address that reaches %v (%s); there are: %s", syscall.EHOSTUNREACH, remote, why, names(list))
}

// likeness is how many leading bits two addresses share, 0 if that is too few to guess that they are neighbours.
func likeness(s Source, remote netip.Addr) int {
	least := 16
	switch {
	case s.Addr.Is4() != remote.Is4() || kind(s.Addr) != kind(remote):
		return 0
	case s.Link == ci.LinkInfiniBand:
		least = 64
	case remote.Is4():
		least = 8
	}
	a, b, n := s.Addr.AsSlice(), remote.AsSlice(), 0
	for i := range a {
		x := bits.LeadingZeros8(a[i] ^ b[i])
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

func kind(a netip.Addr) int {
	switch {
	case a.IsLoopback():
		return 1
	case a.IsLinkLocalUnicast():
		return 2
	}
	return 0
}

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

// hopLimit of packets over IP, the usual one.
const hopLimit = 64

// ResolveRoute implements Resolver.
func (r *SystemResolver) ResolveRoute(ctx context.Context, q Query, from Source) (cm.Path, error) {
	p, err := portAttr(r.al, from.Port)
	if err != nil {
		return cm.Path{}, err
	}
	if p.State != ci.PortActive {
		return cm.Path{}, fmt.Errorf("%w: port %d of HCA %016x is %v", syscall.EHOSTUNREACH, from.Port.Num, uint64(from.Port.CA), p.State)
	}
	dgid := gidOf(q.Remote.Addr().Unmap())
	grh := ci.GRH{DGID: dgid, SGIDIndex: from.GIDIndex, HopLimit: hopLimit, TrafficClass: q.TrafficClass}
	if p.Link != ci.LinkInfiniBand {
		grh.FlowLabel = flowLabel(netip.AddrPortFrom(from.Addr, q.Local.Port()), q.Remote)
		return cm.Path{Port: from.Port, AV: ci.AVAttr{Port: from.Port.Num, Global: true, GRH: grh}, PKey: q.PKey, MTU: p.MTU, LifeTime: q.LifeTime}, nil
	}
	if r.sa == nil {
		return cm.Path{}, errors.New("paths on InfiniBand come from the subnet administrator: give Config.MAD, or a Resolver that knows them")
	}
	rec, err := r.sa.Path(ctx, from.Port, sa.PathQuery{SGID: from.GID, DGID: dgid, PKey: q.PKey, Service: q.Service, TrafficClass: q.TrafficClass})
	if err != nil {
		if _, ok := errors.AsType[*sa.StatusError](err); ok {
			return cm.Path{}, fmt.Errorf("%w: %w", syscall.EHOSTUNREACH, err)
		}
		return cm.Path{}, err
	}
	return pathOf(rec, from, p), nil
}

// pathOf is a path record as this side uses it. A GRH is for paths that leave the subnet (IBTA 8.2.3), and does no harm within; without it the
// passive end of a connection could not tell our GIDs apart.
func pathOf(rec *mad.PathRecord, from Source, p *ci.PortAttr) cm.Path {
	c := cm.Path{Port: from.Port, PKey: ci.PKey(rec.PKey), MTU: ci.MTU(rec.MTU), LifeTime: rec.LifeTime,
		AV: ci.AVAttr{Port: from.Port.Num, SL: ci.SL(rec.SL), PathBits: uint8(rec.SLID) & (1<<p.LMC - 1), DLID: ci.LID(rec.DLID),
			GRH: ci.GRH{DGID: rec.DGID, SGIDIndex: from.GIDIndex, FlowLabel: rec.FlowLabel, HopLimit: rec.HopLimit, TrafficClass: rec.TrafficClass}}}
	c.AV.Global = rec.HopLimit > 1 || [8]byte(rec.DGID[:8]) != [8]byte(from.GID[:8])
	if rec.Rate.Mbps() < portMbps(p) {
		c.AV.StaticRate = ci.Rate(rec.Rate)
	}
	return c
}

// portMbps is a port's nominal rate (14.2.5.6): 2.5 Gb/s times the speed's factor, times the lanes.
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

// flowLabel spreads connections over source ports, and so over the paths that routers choose by those; both ends get the same one, with the
// REQ (A17.4.6 leaves it free).
func flowLabel(a, b netip.AddrPort) uint32 {
	h := fnv.New32a()
	for _, x := range []netip.AddrPort{a, b} {
		ip := x.Addr().As16()
		h.Write(ip[:])
		h.Write([]byte{byte(x.Port() >> 8), byte(x.Port())})
	}
	const mask = 1<<20 - 1
	v := h.Sum32()
	return max((v^v>>20)&mask, 1) // 0 stands for none
}

// portAttr finds a port's attributes. Status: NotFound, InvalidPort.
func portAttr(al *accesslayer.AL, p mads.Port) (*ci.PortAttr, error) {
	a, err := al.Adapter(p.CA)
	if err != nil {
		return nil, err
	}
	return a.Port(p.Num)
}
