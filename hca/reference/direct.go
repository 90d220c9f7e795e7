package reference

import (
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// DirectLink joins ports of HCAs of this process, as an InfiniBand switch would that never loses, delays or reorders: a packet is
// delivered within the Send that sent it, trains whole, payload where it lies. Ports are found by LID; multicast goes to every port,
// the sender's own included, and the HCAs pick out what their QPs have joined. The zero value is a link without ports.
type DirectLink struct {
	mu    sync.Mutex
	ports []*directPort
	table atomic.Pointer[lidTable]
}

// NewDirectLink makes a link without ports. Each HCA opened with Direct(link, …) adds one, each one closed takes its own away.
func NewDirectLink() *DirectLink { return new(DirectLink) }

// lidTable is a snapshot of the link; it is replaced, never changed.
type lidTable struct {
	byLID map[ci.LID]*directPort
	all   []*directPort
}

// now gives the current table.
func (l *DirectLink) now() *lidTable {
	if t := l.table.Load(); t != nil {
		return t
	}
	return &emptyTable
}

var emptyTable lidTable

// rebuild makes the table anew. The caller holds l.mu.
func (l *DirectLink) rebuild() {
	t := &lidTable{byLID: make(map[ci.LID]*directPort)}
	for _, p := range l.ports {
		lid, lmc := p.lids()
		t.all = append(t.all, p)
		if lid == 0 {
			continue
		}
		for k := range ci.LID(1) << lmc {
			if _, taken := t.byLID[lid+k]; !taken {
				t.byLID[lid+k] = p
			}
		}
	}
	l.table.Store(t)
}

// refresh is rebuild for callers that hold nothing.
func (l *DirectLink) refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rebuild()
}

// add connects a port and gives it a LID if it wants one.
func (l *DirectLink) add(p *directPort, want ci.LID, assign bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := l.now().byLID
	if _, taken := used[want]; want != 0 && taken {
		return fmt.Errorf("direct port: LID %#x is taken on this link: give another, or 0 to have one assigned", want)
	}
	if want == 0 && assign {
		for want = 1; used[want] != nil; want++ {
		}
		if want > maxUnicastLID {
			return fmt.Errorf("direct port: all %d LIDs of the link are taken", maxUnicastLID)
		}
	}
	p.info.LID = uint16(want)
	if assign {
		p.info.MasterSMLID = uint16(want) // as if the manager ran here
	}
	p.setWhere()
	l.ports = append(l.ports, p)
	l.rebuild()
	return nil
}

func (l *DirectLink) remove(p *directPort) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range l.ports {
		if q == p {
			l.ports = append(l.ports[:i:i], l.ports[i+1:]...)
			break
		}
	}
	l.rebuild()
}

// LID ranges (IBTA volume 1, 4.1.3).
const (
	maxUnicastLID     = 0xbfff
	firstMulticastLID = 0xc000
	permissiveLID     = 0xffff
)

// directRoute is a compiled address.
type directRoute struct {
	from   *directPort
	dlid   ci.LID
	sl     ci.SL
	bits   uint8 // of the source LID
	global bool
	grh    wire.GRH // without length
	last   atomic.Pointer[routeHit]
}

// routeHit remembers a look-up for as long as the link's table is the same.
type routeHit struct {
	table *lidTable
	to    *directPort
}

// Peer is the destination's LID: within a subnet LIDs tell ports apart, with a GRH or without.
func (r *directRoute) Peer() rvt.Addr { return rvt.Addr{LID: r.dlid} }

// Route compiles an address: a LID, or with a GRH only and a link-local or own-subnet DGID, the LID of the port that has it. Multicast
// needs its GRH, which names the group.
func (p *directPort) Route(av *ci.AVAttr, _ rvt.Flow) (rvt.Route, error) {
	const verb = "Port.Route"
	bad := func(s ci.Status, format string, args ...any) (rvt.Route, error) {
		return nil, &ci.Error{Verb: verb, Status: s, Detail: fmt.Sprintf(format, args...)}
	}
	_, lmc := p.lids()
	r := &directRoute{from: p, dlid: av.DLID, sl: av.SL, bits: av.PathBits & (1<<lmc - 1), global: av.Global}
	if av.Global {
		sgid, ok := p.gid(av.GRH.SGIDIndex)
		if !ok {
			return bad(ci.InvalidIndex, "source GID index %d is not in use", av.GRH.SGIDIndex)
		}
		r.grh = wire.GRH{TrafficClass: av.GRH.TrafficClass, FlowLabel: av.GRH.FlowLabel, HopLimit: av.GRH.HopLimit,
			NextHeader: wire.NextHeaderIBA, SGID: sgid, DGID: av.GRH.DGID}
		if r.dlid == 0 {
			to := p.link.byGID(av.GRH.DGID)
			if to == nil {
				return bad(ci.InvalidParameter, "DLID 0, and no port of the link has the GID %x", av.GRH.DGID)
			}
			r.dlid, _ = to.lids()
		}
	}
	switch {
	case r.dlid == 0:
		return bad(ci.InvalidParameter, "DLID 0 names no port")
	case r.dlid >= firstMulticastLID && r.dlid != permissiveLID && !(av.Global && av.GRH.DGID[0] == 0xff):
		return bad(ci.InvalidParameter, "multicast DLID %#x without a GRH that names the group", r.dlid)
	}
	return r, nil
}

// byGID finds a port by one of its GIDs.
func (l *DirectLink) byGID(g ci.GID) *directPort {
	for _, p := range l.now().all {
		for _, e := range p.Attr().GIDs {
			if e.GID == g {
				return p
			}
		}
	}
	return nil
}

// to finds where packets of a route go; nil if nowhere. A permissive DLID (QP0) goes to the other end of a link of two.
func (r *directRoute) to() *directPort {
	t := r.from.link.now()
	if h := r.last.Load(); h != nil && h.table == t {
		return h.to
	}
	to := t.byLID[r.dlid]
	if r.dlid == permissiveLID && len(t.all) == 2 {
		if to = t.all[0]; to == r.from {
			to = t.all[1]
		}
	}
	r.last.Store(&routeHit{t, to})
	return to
}

// directCopy is one receiver's copy of a packet that goes to several, or the room for a GRH.
type directCopy struct {
	pkt  [1]rvt.Packet
	list [][]byte
	grh  [wire.GRHLen]byte
}

var directCopies = sync.Pool{New: func() any { return new(directCopy) }}

// Send delivers. What cannot be delivered is counted at the sender; a switch would have dropped it silently.
func (p *directPort) Send(pkts []rvt.Packet) {
	lost := 0
	for i := 0; i < len(pkts); {
		r, ok := pkts[i].Route.(*directRoute)
		if !ok || !p.maySend(pkts[i].DestQP) {
			lost += int(pkts[i].N)
			i++
			continue
		}
		if r.multicast() {
			p.flood(r, &pkts[i])
			i++
			continue
		}
		to := r.to()
		if to == nil {
			lost += int(pkts[i].N)
			i++
			continue
		}
		if r.global && pkts[i].Service == wire.UD {
			p.sendGlobal(r, to, pkts[i:i+1])
			i++
			continue
		}
		j := i
		for ; j < len(pkts) && pkts[j].Route == rvt.Route(r) && pkts[j].DestQP == pkts[i].DestQP; j++ {
			r.address(&pkts[j], to)
		}
		to.deliver(pkts[i:j])
		i = j
	}
	if lost > 0 {
		p.count(rvt.DropSendFailed, lost)
	}
}

func (r *directRoute) multicast() bool { return r.dlid >= firstMulticastLID && r.dlid != permissiveLID }

// address sets what the receiver learns of a packet's way.
func (r *directRoute) address(p *rvt.Packet, to *directPort) {
	slid, _ := r.from.lids()
	p.Src.LID, p.Dst.LID = slid|ci.LID(r.bits), r.dlid // the engine's packets come without addresses
	p.SL, p.PathBits = r.sl, 0
	if !r.multicast() {
		_, lmc := to.lids()
		p.PathBits = uint8(r.dlid) & (1<<lmc - 1)
	}
	if r.global {
		p.Dst.GID = r.grh.DGID
	}
}

// putGRH writes the header of a datagram.
func (r *directRoute) putGRH(b []byte, p *rvt.Packet) {
	op := wire.UDSendOnly
	if p.HasImm {
		op = wire.UDSendOnlyImm
	}
	g := r.grh
	g.PayloadLen = uint16(wire.PacketLen(op, int(p.Len)))
	g.Put(b)
}

// sendGlobal sends one datagram with its GRH.
func (p *directPort) sendGlobal(r *directRoute, to *directPort, pkt []rvt.Packet) {
	c := directCopies.Get().(*directCopy)
	r.address(&pkt[0], to)
	r.putGRH(c.grh[:], &pkt[0])
	pkt[0].GRH = c.grh[:]
	to.deliver(pkt)
	pkt[0].GRH = nil
	directCopies.Put(c)
}

// flood gives every port a copy of its own: a receiver may change packet and list, never the bytes.
func (p *directPort) flood(r *directRoute, pkt *rvt.Packet) {
	c := directCopies.Get().(*directCopy)
	for _, to := range p.link.now().all {
		c.pkt[0] = *pkt
		c.list = append(c.list[:0], pkt.Payload...)
		c.pkt[0].Payload = c.list
		r.address(&c.pkt[0], to)
		r.putGRH(c.grh[:], pkt)
		c.pkt[0].GRH = c.grh[:]
		to.deliver(c.pkt[:])
	}
	clear(c.list)
	c.pkt[0] = rvt.Packet{}
	directCopies.Put(c)
}
