package reference

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
)

// DirectConfig describes a port on a DirectLink.
type DirectConfig struct {
	// LID is the base LID, 1 to 0xBFFF; 0 has the lowest free one assigned, unless State is Init or Armed: then a subnet manager
	// assigns it.
	LID ci.LID
	// LMC is the number of low LID bits that do not matter, 0 to 7.
	LMC uint8
	// State is the logical state in which the port comes up: PortActive (also 0), as if a subnet manager had been there, or PortInit,
	// to wait for one, or PortArmed; or PortDown, with the cable out: see HCA.SetLink, which makes it Active.
	State ci.PortState
	// MTU is the largest path MTU; 0 is 4096 bytes.
	MTU ci.MTU
	// GUID is the port's; 0 derives it from the HCA's.
	GUID ci.GUID
	// PKeys are the first entries of the table of 16; nil is the default partition, 0xFFFF.
	PKeys []ci.PKey
}

// Direct makes a port on a link within this process. Its link layer is InfiniBand.
func Direct(l *DirectLink, c DirectConfig) PortConfig {
	return PortConfig{
		open: func(e portEnv) (rvt.Port, error) { return openDirect(l, c, e) },
		guid: func() ci.GUID { return ci.GUID(0x02dd<<48 | directGUIDs.Add(1)<<8) },
		link: ci.LinkInfiniBand,
	}
}

// directGUIDs counts HCAs without an address to take a GUID from: they differ within a process, and are the same in every run that
// makes the same HCAs in the same order.
var directGUIDs atomic.Uint64

const (
	directPKeys   = 16
	directGUIDCap = 8 // entries of the GUID table
)

// directPort is a port of InfiniBand link layer.
type directPort struct {
	link *DirectLink
	num  uint8
	rise ci.PortState // the state to come up in

	state   atomic.Uint32 // ci.PortState
	where   atomic.Uint32 // LID << 8 | LMC
	recv    rvt.Receiver  // set once, before started
	started atomic.Bool
	closed  atomic.Bool
	busy    atomic.Int64  // deliveries under way
	idle    chan struct{} // told when they end after Close
	// lost, if not nil, is told of packets received that go no further: see Capture.
	lost func(Dir, *rvt.Packet, string)

	mu    sync.Mutex // below; not held while the receiver is called
	info  mad.PortInfo
	guids [directGUIDCap]uint64 // GUID table
	pkeys [directPKeys]uint16
}

func openDirect(l *DirectLink, c DirectConfig, e portEnv) (rvt.Port, error) {
	if c.State == 0 {
		c.State = ci.PortActive
	}
	if c.MTU == 0 {
		c.MTU = ci.MTU4096
	}
	if c.GUID == 0 {
		c.GUID = e.guid + ci.GUID(e.num)
	}
	if c.PKeys == nil {
		c.PKeys = []ci.PKey{0xffff}
	}
	switch {
	case l == nil:
		return nil, errors.New("direct port: the link is nil: make one with NewDirectLink")
	case c.LID > maxUnicastLID:
		return nil, fmt.Errorf("direct port: LID %#x is no unicast LID: want 1 to %#x, or 0", c.LID, maxUnicastLID)
	case c.LMC > 7 || c.LID&(1<<c.LMC-1) != 0:
		return nil, fmt.Errorf("direct port: LMC %d with LID %#x: want an LMC of 0 to 7 and a LID whose low LMC bits are zero", c.LMC, c.LID)
	case c.LMC > 0 && c.LID == 0:
		return nil, fmt.Errorf("direct port: LMC %d needs a LID", c.LMC)
	case c.State < ci.PortDown || c.State > ci.PortActive:
		return nil, fmt.Errorf("direct port: state %v: want Down, Init, Armed or Active", c.State)
	case c.MTU > ci.MTU4096:
		return nil, fmt.Errorf("direct port: MTU code %d, want 1 (256 bytes) to 5 (4096), or 0", c.MTU)
	case len(c.PKeys) > directPKeys:
		return nil, fmt.Errorf("direct port: %d P_Keys, the table has %d", len(c.PKeys), directPKeys)
	}
	p := &directPort{link: l, num: e.num, rise: c.State, idle: make(chan struct{}, 1)}
	for i, k := range c.PKeys {
		p.pkeys[i] = uint16(k)
	}
	p.guids[0] = uint64(c.GUID)
	p.info = mad.PortInfo{
		GIDPrefix: 0xfe80 << 48, LMC: c.LMC, LocalPortNum: e.num, State: uint8(c.State), PhysState: physUp, LinkDownDefault: physPolling,
		WidthEnabled: 3, WidthSupported: 3, WidthActive: 2, SpeedSupported: 7, SpeedEnabled: 7, SpeedActive: 4,
		NeighborMTU: uint8(c.MTU), MTUCap: uint8(c.MTU), VLCap: 1, OperationalVLs: 1, GUIDCap: directGUIDCap, VLArbLowCap: 1,
		CapabilityMask: uint32(ci.PortCapReregister), RespTimeValue: 16,
	}
	switch c.State {
	case ci.PortDown:
		p.rise = ci.PortActive
		p.info.PhysState = physDisabled
	case ci.PortActive:
		p.info.SubnetTimeout = 18
	}
	p.state.Store(uint32(c.State))
	if err := l.add(p, c.LID, p.rise == ci.PortActive); err != nil {
		return nil, err
	}
	return p, nil
}

// lids gives base LID and LMC.
func (p *directPort) lids() (ci.LID, uint8) {
	w := p.where.Load()
	return ci.LID(w >> 8), uint8(w)
}

// setWhere publishes LID and LMC for the data path. The caller holds p.mu, or is alone.
func (p *directPort) setWhere() { p.where.Store(uint32(p.info.LID)<<8 | uint32(p.info.LMC)) }

// Start lets deliveries in.
func (p *directPort) Start(r rvt.Receiver) error {
	if p.closed.Load() {
		return errors.New("direct port: started after Close")
	}
	p.recv = r
	p.started.Store(true)
	return nil
}

// Close leaves the link, and returns when no delivery to the port is under way. Idempotent.
func (p *directPort) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.link.remove(p)
	for p.busy.Load() > 0 {
		<-p.idle
	}
	return nil
}

// deliver hands packets to the receiver, unless the port does not take them now.
func (p *directPort) deliver(pkts []rvt.Packet) {
	p.busy.Add(1)
	if !p.closed.Load() && p.started.Load() {
		if n := p.admit(pkts); n > 0 {
			p.recv.Deliver(pkts[:n], false, false)
		}
	}
	if p.busy.Add(-1) == 0 && p.closed.Load() {
		select {
		case p.idle <- struct{}{}:
		default:
		}
	}
}

// admit applies the port's state (IBTA volume 1, 7.2.7): data from Armed on, and the first makes an armed port active; subnet
// management from Init on. It moves what may pass to the front, and counts the rest.
func (p *directPort) admit(pkts []rvt.Packet) int {
	switch s := ci.PortState(p.state.Load()); {
	case s == ci.PortActive:
		return len(pkts)
	case s == ci.PortArmed && slices.ContainsFunc(pkts, func(p rvt.Packet) bool { return p.DestQP != 0 }):
		p.activate()
		return len(pkts)
	case s == ci.PortArmed || s == ci.PortInit:
		n := 0
		for i := range pkts {
			if pkts[i].DestQP == 0 {
				pkts[n] = pkts[i]
				n++
			} else {
				p.notForUs(&pkts[i])
			}
		}
		p.recv.Count(rvt.DropNotForUs, packetCount(pkts)-packetCount(pkts[:n]))
		return n
	}
	for i := range pkts {
		p.notForUs(&pkts[i])
	}
	p.recv.Count(rvt.DropNotForUs, packetCount(pkts))
	return 0
}

// notForUs shows a packet to a capture.
func (p *directPort) notForUs(pkt *rvt.Packet) {
	if p.lost != nil {
		p.lost(In, pkt, rvt.DropNotForUs.String())
	}
}

// maySend is the other direction: data only when active.
func (p *directPort) maySend(dest ci.QPN) bool {
	s := ci.PortState(p.state.Load())
	return !p.closed.Load() && (s == ci.PortActive || dest == 0 && s >= ci.PortInit)
}

func (p *directPort) count(c rvt.Counter, n int) {
	if p.started.Load() {
		p.recv.Count(c, n)
	}
}

// activate is what the first data packet does to an armed port.
func (p *directPort) activate() {
	p.mu.Lock()
	armed := p.info.State == uint8(ci.PortArmed)
	if armed {
		p.info.State = uint8(ci.PortActive)
		p.state.Store(uint32(ci.PortActive))
	}
	p.mu.Unlock()
	if armed {
		p.recv.PortEvent(ci.EventPortActive)
	}
}

// Hints: nothing is lost, and long trains cost nothing.
func (p *directPort) Hints() rvt.Hints { return rvt.Hints{MaxTrain: 1 << 20, Lossless: true} }

// gid gives an entry of the GID table in use.
func (p *directPort) gid(i uint16) (ci.GID, bool) {
	g := p.Attr().GIDs
	if int(i) >= len(g) || g[i].GID == (ci.GID{}) {
		return ci.GID{}, false
	}
	return g[i].GID, true
}

// Attr shows PortInfo and the tables.
func (p *directPort) Attr() ci.PortAttr {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := &p.info
	a := ci.PortAttr{
		Num: p.num, GUID: ci.GUID(p.guids[0]), Link: ci.LinkInfiniBand, State: ci.PortState(i.State), PhysState: i.PhysState,
		MTU: ci.MTU(i.NeighborMTU), MaxMTU: ci.MTU(i.MTUCap), MaxMsgSize: 1 << 31, LID: ci.LID(i.LID), SMLID: ci.LID(i.MasterSMLID),
		LMC: i.LMC, SMSL: i.MasterSMSL, MaxVLs: i.VLCap, WidthActive: i.WidthActive, SpeedActive: i.SpeedActive,
		SubnetTimeout: ci.TimeExp(i.SubnetTimeout), InitTypeReply: ci.InitType(i.InitTypeReply), Capability: ci.PortCap(i.CapabilityMask),
	}
	last := 0
	for k, g := range p.guids {
		if g != 0 {
			last = k
		}
	}
	for _, g := range p.guids[:last+1] {
		var e ci.GIDEntry
		if g != 0 {
			e.GID = mad.GID(i.GIDPrefix, g)
		}
		a.GIDs = append(a.GIDs, e)
	}
	for _, k := range p.pkeys {
		a.PKeys = append(a.PKeys, ci.PKey(k))
	}
	return a
}

// Modify: capability bits, shutdown, init type.
func (p *directPort) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown | ci.PortFieldInitType); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported, Detail: fmt.Sprintf("fields %#x are not the port's", uint32(rest))}
	}
	p.mu.Lock()
	changed := false
	if set&ci.PortFieldCapability != 0 {
		old := p.info.CapabilityMask
		p.info.CapabilityMask = old&^uint32(a.CapMask) | uint32(a.Capability&a.CapMask)
		changed = p.info.CapabilityMask != old
	}
	if set&ci.PortFieldInitType != 0 {
		p.info.InitType = uint8(a.InitType) & 15
	}
	p.mu.Unlock()
	if changed {
		p.recv.PortEvent(ci.EventPortTrap)
	}
	if set&ci.PortFieldShutdown != 0 {
		p.setLink(false)
	}
	return nil
}

// setLink plugs or pulls the cable. A port whose link comes up is where it was configured to be: Active without a subnet manager, or
// Init, waiting for one.
func (p *directPort) setLink(up bool) {
	p.mu.Lock()
	old := ci.PortState(p.info.State)
	now, phys := ci.PortDown, uint8(physDisabled)
	if up {
		now, phys = p.rise, physUp
	}
	event := old != now && (up == (old == ci.PortDown))
	if event {
		p.info.State, p.info.PhysState = uint8(now), phys
		p.state.Store(uint32(now))
	}
	p.mu.Unlock()
	switch {
	case event && now == ci.PortDown:
		p.recv.PortEvent(ci.EventPortDown)
	case event && now == ci.PortActive:
		p.recv.PortEvent(ci.EventPortActive)
	case event: // it waits for a subnet manager, which learns of it so
		p.recv.PortEvent(ci.EventPortInit)
	}
}
