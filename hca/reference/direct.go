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
		return fmt.Errorf("direct port: LID %d is taken on this link: give another, or 0 to have one assigned", want)
	}
	if want == 0 && assign {
		for want = 1; used[want] != nil; want++ {
		}
		if want > maxUnicastLID {
			return fmt.Errorf("direct port: all %d LIDs of the link are taken", maxUnicastLID)
		}
	}
	p.info.LID = uint16(want)
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

// directBatch is the receivers' copy of a batch: they may change the packets they get.
type directBatch struct {
	pkts  [64]rvt.Packet
	grh   [64][wire.GRHLen]byte
	n     int
	to    *directPort
	lists [][]byte // gather lists of packets that go to several ports
}

var directBatches = sync.Pool{New: func() any { return new(directBatch) }}

// Send delivers. What cannot be delivered is counted at the sender; a switch would have dropped it silently.
func (p *directPort) Send(pkts []rvt.Packet) {
	b := directBatches.Get().(*directBatch)
	lost := 0
	for i := range pkts {
		r, ok := pkts[i].Route.(*directRoute)
		if !ok || !p.maySend(pkts[i].DestQP) {
			lost += int(pkts[i].N)
			continue
		}
		if r.dlid >= firstMulticastLID && r.dlid != permissiveLID {
			b.flush()
			for _, to := range p.link.now().all {
				b.add(&pkts[i], r, to)
				b.ownList()
				b.flush()
			}
			continue
		}
		to := r.to()
		if to == nil {
			lost += int(pkts[i].N)
			continue
		}
		if to != b.to || b.n == len(b.pkts) {
			b.flush()
		}
		b.add(&pkts[i], r, to)
	}
	b.flush()
	clear(b.lists)
	b.lists = b.lists[:0]
	directBatches.Put(b)
	if lost > 0 {
		p.count(rvt.DropSendFailed, lost)
	}
}

// add appends the receiver's copy of a packet.
func (b *directBatch) add(src *rvt.Packet, r *directRoute, to *directPort) {
	b.to = to
	p := &b.pkts[b.n]
	*p = *src
	p.Route = nil
	slid, _ := r.from.lids()
	p.Src, p.Dst = rvt.Addr{LID: slid | ci.LID(r.bits)}, rvt.Addr{LID: r.dlid}
	p.SL = r.sl
	_, lmc := to.lids()
	p.PathBits = uint8(r.dlid) & (1<<lmc - 1)
	if r.dlid >= firstMulticastLID {
		p.PathBits = 0
	}
	p.GRH = nil
	if r.global {
		p.Dst.GID = r.grh.DGID
		if p.Service == wire.UD {
			g := r.grh
			op := wire.UDSendOnly
			if p.HasImm {
				op = wire.UDSendOnlyImm
			}
			g.PayloadLen = uint16(wire.PacketLen(op, int(p.Len)))
			p.GRH = b.grh[b.n][:]
			g.Put(p.GRH)
		}
	}
	b.n++
}

// ownList gives the last packet a gather list that no other receiver changes.
func (b *directBatch) ownList() {
	p := &b.pkts[b.n-1]
	at := len(b.lists)
	b.lists = append(b.lists, p.Payload...)
	p.Payload = b.lists[at:len(b.lists):len(b.lists)]
}

func (b *directBatch) flush() {
	if b.n > 0 {
		b.to.deliver(b.pkts[:b.n])
		clear(b.pkts[:b.n])
	}
	b.n, b.to = 0, nil
}
