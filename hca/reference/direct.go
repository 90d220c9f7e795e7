package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// DirectLink is an InfiniBand link layer inside the process: its ports reach each other by LID, as over a switch, and packets are
// moved from one HCA's memory to the other's without being written down in between. The zero value is ready.
type DirectLink struct {
	mu    sync.Mutex
	ports atomic.Pointer[map[ci.LID]*directPort] // replaced, never changed
}

// DirectConfig describes a port on a DirectLink.
type DirectConfig struct {
	LID   ci.LID    // 0: the lowest that is free
	MTU   ci.MTU    // 0: 4096 bytes
	PKeys []ci.PKey // nil: the default partition, full member
	Down  bool      // starts with the cable out
}

// Direct makes a port on a link.
func Direct(l *DirectLink, c DirectConfig) PortConfig {
	return PortConfig{
		open: func(e portEnv) (rvt.Port, error) { return l.open(c, e) },
		guid: func() ci.GUID { return ci.GUID(0x02ddcd<<40 | directGUIDs.Add(1)<<8) },
		link: ci.LinkInfiniBand,
	}
}

// directGUIDs numbers the HCAs of this process that have no other identity.
var directGUIDs atomic.Uint64

const (
	directTrain   = 1 << 20
	lastUnicast   = ci.LID(0xbfff)
	firstMcast    = ci.LID(0xc000)
	permissiveLID = ci.LID(0xffff)
)

// defaultPrefix is the subnet prefix of a GID that no subnet manager has set (IBTA volume 1, 4.1.1).
const defaultPrefix = 0xfe80 << 48

func (l *DirectLink) open(c DirectConfig, e portEnv) (*directPort, error) {
	if c.MTU == 0 {
		c.MTU = ci.MTU4096
	}
	if c.MTU.Bytes() == 0 {
		return nil, fmt.Errorf("direct port: MTU code %d, want 1 (256 bytes) to 5 (4096)", c.MTU)
	}
	if c.PKeys == nil {
		c.PKeys = []ci.PKey{0xffff}
	}
	if c.LID > lastUnicast {
		return nil, fmt.Errorf("direct port: LID %#x is no unicast LID: give 0x0001 to 0xbfff, or 0 for a free one", c.LID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.snapshot()
	if c.LID == 0 {
		for c.LID = 1; old[c.LID] != nil; c.LID++ {
			if c.LID == lastUnicast {
				return nil, errors.New("direct port: no LID is free on this link")
			}
		}
	}
	if old[c.LID] != nil {
		return nil, fmt.Errorf("direct port: LID %#x is taken on this link", c.LID)
	}
	p := &directPort{link: l, lid: c.LID, mtu: c.MTU, pkeys: c.PKeys, guid: e.guid}
	binary.BigEndian.PutUint64(p.gid[:8], defaultPrefix)
	binary.BigEndian.PutUint64(p.gid[8:], uint64(e.guid))
	p.state.Store(uint32(ci.PortActive))
	if c.Down {
		p.state.Store(uint32(ci.PortDown))
	}
	l.change(func(m map[ci.LID]*directPort) { m[c.LID] = p })
	return p, nil
}

func (l *DirectLink) snapshot() map[ci.LID]*directPort {
	if m := l.ports.Load(); m != nil {
		return *m
	}
	return nil
}

// change replaces the table. The caller holds mu.
func (l *DirectLink) change(f func(map[ci.LID]*directPort)) {
	m := maps.Clone(l.snapshot())
	if m == nil {
		m = make(map[ci.LID]*directPort)
	}
	f(m)
	l.ports.Store(&m)
}

// directPort is a port of InfiniBand link layer.
type directPort struct {
	link  *DirectLink
	lid   ci.LID
	mtu   ci.MTU
	pkeys []ci.PKey
	guid  ci.GUID
	gid   ci.GID
	recv  atomic.Pointer[rvt.Receiver] // nil: not started, or closed
	state atomic.Uint32                // ci.PortState
	cap   atomic.Uint32                // ci.PortCap
	grh   sync.Pool                    // *[wire.GRHLen]byte
}

// directRoute is an address on the link.
type directRoute struct {
	dlid ci.LID
	dst  rvt.Addr
	grh  *wire.GRH // nil: none
}

func (r *directRoute) Peer() rvt.Addr { return rvt.Addr{LID: r.dlid} }

// Start begins to receive.
func (p *directPort) Start(r rvt.Receiver) error {
	if !p.recv.CompareAndSwap(nil, &r) {
		return errors.New("direct port: started twice")
	}
	return nil
}

// Close takes the port off the link.
func (p *directPort) Close() error {
	p.link.mu.Lock()
	if p.link.snapshot()[p.lid] == p {
		p.link.change(func(m map[ci.LID]*directPort) { delete(m, p.lid) })
	}
	p.link.mu.Unlock()
	p.recv.Store(nil)
	return nil
}

// Attr: a 4X link at 10 Gb/s a lane, as of 2008.
func (p *directPort) Attr() ci.PortAttr {
	a := ci.PortAttr{
		GUID: p.guid, Link: ci.LinkInfiniBand, State: ci.PortState(p.state.Load()), PhysState: physUp, MTU: p.mtu, MaxMTU: ci.MTU4096,
		MaxMsgSize: 1 << 31, LID: p.lid, SMLID: p.lid, MaxVLs: 1, WidthActive: 2, SpeedActive: 4, SubnetTimeout: 18,
		Capability: ci.PortCap(p.cap.Load()), GIDs: []ci.GIDEntry{{GID: p.gid}}, PKeys: p.pkeys,
	}
	if a.State == ci.PortDown {
		a.PhysState = physPolling
	}
	return a
}

// Modify: capability bits, shutdown.
func (p *directPort) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported, Detail: fmt.Sprintf("fields %#x", uint32(rest))}
	}
	if set&ci.PortFieldCapability != 0 && changeBits(&p.cap, uint32(a.CapMask), uint32(a.Capability)) {
		p.event(ci.EventPortTrap)
	}
	if set&ci.PortFieldShutdown != 0 {
		p.setLink(false)
	}
	return nil
}

func (p *directPort) event(t ci.EventType) {
	if r := p.recv.Load(); r != nil {
		(*r).PortEvent(t)
	}
}

func (p *directPort) count(c rvt.Counter, n int) {
	if r := p.recv.Load(); r != nil {
		(*r).Count(c, n)
	}
}

// setLink plugs or pulls the cable.
func (p *directPort) setLink(up bool) {
	s, e := ci.PortDown, ci.EventPortDown
	if up {
		s, e = ci.PortActive, ci.EventPortActive
	}
	if p.state.Swap(uint32(s)) != uint32(s) {
		p.event(e)
	}
}

func (p *directPort) active() bool { return ci.PortState(p.state.Load()) == ci.PortActive }

// Route compiles an address: by DLID, with a GRH where the address is global.
func (p *directPort) Route(av *ci.AVAttr, _ rvt.Flow) (rvt.Route, error) {
	if av.DLID == 0 {
		return nil, &ci.Error{Status: ci.InvalidParameter, Detail: "an InfiniBand address needs a DLID"}
	}
	r := &directRoute{dlid: av.DLID}
	if av.Global {
		if av.GRH.SGIDIndex != 0 {
			return nil, &ci.Error{Status: ci.InvalidIndex, Detail: "the port has one GID, at index 0"}
		}
		r.dst.GID = av.GRH.DGID
		r.grh = &wire.GRH{TrafficClass: av.GRH.TrafficClass, FlowLabel: av.GRH.FlowLabel, HopLimit: av.GRH.HopLimit,
			NextHeader: wire.NextHeaderIBA, SGID: p.gid, DGID: av.GRH.DGID}
	}
	if av.DLID >= firstMcast && av.DLID != permissiveLID && !av.Global {
		return nil, &ci.Error{Status: ci.InvalidParameter, Detail: "a multicast address needs a GRH"}
	}
	r.dst.LID = av.DLID
	return r, nil
}

// Hints: nothing is lost, and trains are as long as a message.
func (p *directPort) Hints() rvt.Hints { return rvt.Hints{MaxTrain: directTrain, Lossless: true} }

// Send hands packets to the ports they are for, in this call.
func (p *directPort) Send(pkts []rvt.Packet) {
	if !p.active() {
		p.count(rvt.DropSendFailed, len(pkts))
		return
	}
	ports := p.link.snapshot()
	for i := 0; i < len(pkts); {
		rt, ok := pkts[i].Route.(*directRoute)
		if !ok {
			p.count(rvt.DropSendFailed, 1)
			i++
			continue
		}
		j := i
		for ; j < len(pkts); j++ {
			if q, _ := pkts[j].Route.(*directRoute); q != rt {
				break
			}
			pkts[j].Src, pkts[j].Dst = rvt.Addr{LID: p.lid}, rt.dst
		}
		if rt.grh != nil && pkts[i].Service == wire.UD {
			for k := i; k < j; k++ {
				p.global(ports, rt, pkts[k:k+1])
			}
		} else {
			p.forward(ports, rt, pkts[i:j])
		}
		i = j
	}
}

// global sends one datagram with its GRH in front.
func (p *directPort) global(ports map[ci.LID]*directPort, rt *directRoute, pkt []rvt.Packet) {
	b, _ := p.grh.Get().(*[wire.GRHLen]byte)
	if b == nil {
		b = new([wire.GRHLen]byte)
	}
	h := *rt.grh
	op, _ := wire.Make(wire.UD, wire.OpSend, true, true, pkt[0].HasImm, false)
	h.PayloadLen = uint16(wire.PacketLen(op, int(pkt[0].Len)))
	h.Put(b[:])
	pkt[0].GRH = b[:]
	p.forward(ports, rt, pkt)
	pkt[0].GRH = nil
	p.grh.Put(b)
}

// forward delivers packets to one port, or a multicast to all.
func (p *directPort) forward(ports map[ci.LID]*directPort, rt *directRoute, pkts []rvt.Packet) {
	if rt.dlid >= firstMcast && rt.dlid != permissiveLID {
		for _, q := range ports {
			q.deliver(pkts)
		}
		return
	}
	if q := ports[rt.dlid]; q != nil {
		q.deliver(pkts)
	} else {
		p.count(rvt.DropSendFailed, len(pkts))
	}
}

func (p *directPort) deliver(pkts []rvt.Packet) {
	r := p.recv.Load()
	if r == nil {
		return
	}
	if !p.active() {
		(*r).Count(rvt.DropNotForUs, len(pkts))
		return
	}
	(*r).Deliver(pkts, false, false)
}
