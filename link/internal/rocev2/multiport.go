package rocev2

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
)

// A MultiPort is a port of Ethernet link layer with any number of addresses, each of which is an entry of its GID
// table. The packets of an address move through a Port with a socket of its own. Its owner sets the exported fields
// before the first Set.
//
// The index of an entry does not change. The entry of an address that is removed becomes empty. It is used again for
// the same address if that comes back, else for another address when no entry is unused.
type MultiPort struct {
	UDP uint16 // UDP port that it receives at
	MTU ci.MTU
	// StrictSource and PeerSource are rvt.Hints.StrictSource and PeerEntropy.
	StrictSource bool
	PeerSource   uint16
	// LinkLocal and RoCEv1 add entries to the GID table: see entries.
	LinkLocal, RoCEv1 bool
	// Open opens the sockets of an address and returns its Port, which Set completes and starts.
	Open func(a netip.Addr) (*Port, error)

	state   atomic.Uint32 // ci.PortState
	cap     atomic.Uint32 // ci.PortCap
	table   atomic.Pointer[gidTable]
	context atomic.Pointer[rvt.PortContext] // set by Start
	hints   rvt.Hints                       // of the first address; constant from Start on

	mu      sync.Mutex // guards the fields below, and changes of table and context
	closed  bool
	groups  map[netip.Addr]*membership
	retired map[string]uint64 // counters of addresses that were removed
}

// MaxGIDs is the maximum number of entries of the GID table of a MultiPort.
const MaxGIDs = 128

// gidTable is a snapshot of the GID table of a MultiPort. It does not change.
type gidTable struct {
	ports []*Port      // by index; nil: an empty entry
	addrs []netip.Addr // by index: the address that the entry has, or had last
}

// membership is a multicast group of a MultiPort.
type membership struct {
	joins int
	by    *Port // that has joined; nil if no address of the port has the group's family
}

// now returns the current table.
func (m *MultiPort) now() *gidTable {
	if t := m.table.Load(); t != nil {
		return t
	}
	return &gidTable{}
}

// Ports returns the ports of the addresses by GID index. Entries that are empty are nil. The caller must not change the
// result.
func (m *MultiPort) Ports() []*Port { return m.now().ports }

// Up sets the port's state to Active, without an event.
func (m *MultiPort) Up() { m.state.Store(uint32(ci.PortActive)) }

// Set replaces the addresses of the port by list, opens the sockets of those that are new and closes those of the
// others. If that changes the GID table, it raises one EventGIDChange. Addresses that cannot be used are left out; the
// error has the reasons.
func (m *MultiPort) Set(list []netip.Addr) error {
	changed, err := m.set(list)
	if changed {
		m.event(ci.EventGIDChange)
	}
	return err
}

func (m *MultiPort) set(list []netip.Addr) (changed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, errors.New("the port is closed")
	}
	old := m.now()
	t := &gidTable{ports: slices.Clone(old.ports), addrs: slices.Clone(old.addrs)}
	var removed []*Port
	for i, p := range t.ports {
		if p != nil && !slices.Contains(list, p.Addr) {
			removed = append(removed, p)
			t.ports[i] = nil
		}
	}
	var errs []error
	added := 0
	for _, a := range list {
		if slices.ContainsFunc(t.ports, func(p *Port) bool { return p != nil && p.Addr == a }) {
			continue
		}
		i := t.place(a)
		if i < 0 {
			errs = append(errs, fmt.Errorf("%v: the GID table has %d entries, which is the most", a, MaxGIDs))
			continue
		}
		p, err := m.open(a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if i == len(t.ports) {
			t.ports, t.addrs = append(t.ports, nil), append(t.addrs, netip.Addr{})
		}
		t.ports[i], t.addrs[i] = p, a
		added++
	}
	if added == 0 && len(removed) == 0 {
		return false, errors.Join(errs...)
	}
	m.table.Store(t)
	for _, p := range removed {
		m.retire(p)
	}
	m.regroup()
	return true, errors.Join(errs...)
}

// place returns the index for a new address: that of the entry that it had before, of an entry that has not been used
// yet, or else of any empty entry. It returns -1 if the table is full.
func (t *gidTable) place(a netip.Addr) int {
	if i := slices.Index(t.addrs, a); i >= 0 && t.ports[i] == nil {
		return i
	}
	if len(t.ports) < MaxGIDs {
		return len(t.ports)
	}
	return slices.Index(t.ports, nil)
}

// open opens the sockets of an address and starts to receive, if the port has been started. The caller holds mu.
func (m *MultiPort) open(a netip.Addr) (*Port, error) {
	p, err := m.Open(a)
	if err != nil {
		return nil, err
	}
	p.owner = m
	c := m.context.Load()
	if c == nil && m.hints == (rvt.Hints{}) {
		m.hints = p.Socket.Hints()
	}
	if c != nil {
		if err := p.start(c); err != nil {
			return nil, errors.Join(fmt.Errorf("%v: %w", a, err), p.Socket.Close())
		}
	}
	return p, nil
}

// retire closes the port of an address that was removed. The caller holds mu.
func (m *MultiPort) retire(p *Port) {
	_ = p.Close() // the address is not used any more, whatever the system reports
	if m.retired == nil {
		m.retired = map[string]uint64{}
	}
	p.addCounters(m.retired)
	for _, g := range m.groups {
		if g.by == p {
			g.by = nil
		}
	}
}

// regroup joins the groups that no address of the port has joined. The caller holds mu.
func (m *MultiPort) regroup() {
	for a, g := range m.groups {
		if g.by != nil {
			continue
		}
		if p := m.now().ofFamily(a); p != nil && p.Socket.Join(a) == nil {
			g.by = p
		}
	}
}

// ofFamily returns the first port whose address has the family of a, or nil.
func (t *gidTable) ofFamily(a netip.Addr) *Port {
	for _, p := range t.ports {
		if p != nil && p.Addr.Is4() == a.Is4() {
			return p
		}
	}
	return nil
}

// Start begins to receive.
func (m *MultiPort) Start(c rvt.PortContext) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.context.Load() != nil {
		return rvt.ErrPortStarted
	}
	m.context.Store(&c)
	for _, p := range m.now().ports {
		if p == nil {
			continue
		}
		if err := p.start(&c); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the sockets. A delivery under way has returned when Close does. It is idempotent.
func (m *MultiPort) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	var errs []error
	for _, p := range m.now().ports {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// Send sends trains, each from the address of its route. Trains of an address that was removed are dropped.
func (m *MultiPort) Send(pkts []rvt.Packet) {
	for len(pkts) > 0 {
		p := portOf(&pkts[0])
		n := 1
		for n < len(pkts) && portOf(&pkts[n]) == p {
			n++
		}
		if p == nil || p.owner != m { // an error of the engine, which a socket counts
			p = m.any()
		}
		if p != nil {
			p.Send(pkts[:n])
		}
		pkts = pkts[n:]
	}
}

// portOf returns the port that made the route of a packet, or nil.
func portOf(pkt *rvt.Packet) *Port {
	if r, ok := pkt.Route.(*Route); ok {
		return r.port
	}
	return nil
}

// any returns the port of some address, or nil.
func (m *MultiPort) any() *Port {
	for _, p := range m.now().ports {
		if p != nil {
			return p
		}
	}
	return nil
}

// Hints returns the socket's hints and the port's own.
func (m *MultiPort) Hints() rvt.Hints {
	h := m.hints
	if h == (rvt.Hints{}) { // the port has no address yet
		h = rvt.Hints{MaxTrain: 8 * m.MTU.Bytes(), Window: 64 << 10}
	}
	h.StrictSource, h.PeerEntropy = m.StrictSource, m.PeerSource
	return h
}

// Attr returns the attributes of an Ethernet link with one P_Key. The host does not report the speed; 4X at 10 Gb/s is
// a guess. The GID table has at least one entry.
func (m *MultiPort) Attr() ci.PortAttr {
	a := ci.PortAttr{
		Link: ci.LinkEthernet, HardwareAgents: true, State: ci.PortState(m.state.Load()), PhysState: physUp, MTU: m.MTU,
		MaxMTU:     ci.MTU4096,
		MaxMsgSize: 1 << 31, MaxVLs: 1, WidthActive: 2, SpeedActive: 4, Capability: ci.PortCap(m.cap.Load()),
		PKeys: []ci.PKey{0xffff},
	}
	if a.State == ci.PortDown {
		a.PhysState = physDisabled
	}
	ports := m.now().ports
	if len(ports) == 0 {
		ports = []*Port{nil}
	}
	for _, p := range ports {
		a.GIDs = m.appendEntries(a.GIDs, p)
	}
	return a
}

// perAddress returns the number of entries of the GID table that each address has.
func (m *MultiPort) perAddress() int {
	n := 1
	if m.LinkLocal {
		n *= 2
	}
	if m.RoCEv1 {
		n *= 2
	}
	return n
}

// appendEntries appends the entries of the GID table for an address: with LinkLocal, the link-local GID of an IPv4
// address, and the GID of the address; each with RoCEv1 as an entry of RoCEv1 and one of RoCEv2. Packets from any of
// them are those of RoCEv2 from the address. The entries of nil, and the link-local ones of an IPv6 address, are empty.
func (m *MultiPort) appendEntries(list []ci.GIDEntry, p *Port) []ci.GIDEntry {
	n := m.perAddress()
	for i := range n {
		e := ci.GIDEntry{Type: ci.GIDRoCEv2}
		if m.RoCEv1 && i%2 == 0 {
			e.Type = ci.GIDRoCEv1
		}
		isLinkLocal := m.LinkLocal && i < n/2
		if p != nil && !(isLinkLocal && p.Addr.Is6()) {
			e.GID, e.Interface = p.GID, p.Interface
			if isLinkLocal {
				e.GID = linkLocalOf(p.Addr)
			}
		}
		list = append(list, e)
	}
	return list
}

// Modify sets capability bits and shuts the port down. An Ethernet port has neither subnet manager nor init type.
func (m *MultiPort) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported,
			Detail: fmt.Sprintf("fields %#x do not exist on an Ethernet port", uint32(rest))}
	}
	if set&ci.PortFieldCapability != 0 && changeBits(&m.cap, uint32(a.CapMask), uint32(a.Capability)) {
		m.event(ci.EventPortTrap)
	}
	if set&ci.PortFieldShutdown != 0 {
		m.SetLink(false)
	}
	return nil
}

// event raises an event, if the port has been started.
func (m *MultiPort) event(t ci.EventType) {
	if c := m.context.Load(); c != nil {
		c.Receiver.PortEvent(t)
	}
}

// changeBits sets the bits of mask to those of v, and reports whether that changed anything.
func changeBits(w *atomic.Uint32, mask, v uint32) bool {
	for {
		old := w.Load()
		now := old&^mask | v&mask
		if now == old {
			return false
		}
		if w.CompareAndSwap(old, now) {
			return true
		}
	}
}

// SetLink plugs in or pulls out the cable.
func (m *MultiPort) SetLink(up bool) {
	s, e := ci.PortDown, ci.EventPortDown
	if up {
		s, e = ci.PortActive, ci.EventPortActive
	}
	if m.state.Swap(uint32(s)) != uint32(s) {
		m.event(e)
	}
}

// Group returns the multicast group of a GID (::ffff:a.b.c.d for an IPv4 group). Error: ci.InvalidGID for a GID that is
// no group, or of an address family that the port does not have.
func (m *MultiPort) Group(gid ci.GID) (netip.Addr, error) {
	g := AddrOf(gid)
	if !g.IsMulticast() || m.now().ofFamily(g) == nil {
		return g, &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID,
			Detail: fmt.Sprintf("%v is no group of an address family of the port", g)}
	}
	return g, nil
}

// JoinGroup receives what is sent to a multicast group, at the interface of the first address of the group's family.
func (m *MultiPort) JoinGroup(gid ci.GID) error {
	a, err := m.Group(gid)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[a]
	if g == nil {
		g = &membership{}
	}
	if g.by == nil {
		p := m.now().ofFamily(a)
		if p == nil {
			return &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID, Detail: "the port has lost its addresses"}
		}
		if err := p.Socket.Join(a); err != nil {
			return err
		}
		g.by = p
	}
	if m.groups == nil {
		m.groups = map[netip.Addr]*membership{}
	}
	m.groups[a] = g
	g.joins++
	return nil
}

// LeaveGroup undoes a JoinGroup.
func (m *MultiPort) LeaveGroup(gid ci.GID) error {
	a := AddrOf(gid)
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[a]
	if g == nil {
		return fmt.Errorf("multicast group %v is not joined", a)
	}
	if g.joins--; g.joins > 0 {
		return nil
	}
	delete(m.groups, a)
	if g.by == nil || m.closed {
		return nil
	}
	return g.by.Socket.Leave(a)
}

// Route compiles an address. It uses the GRH even if Global is not set, because every RoCE packet has one. Packets are
// sent from the address of entry SGIDIndex of the GID table. After that address is removed, packets of the route are
// dropped, even if the address is added again.
func (m *MultiPort) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) {
	t := m.now()
	n := m.perAddress()
	i, k := int(av.GRH.SGIDIndex)/n, int(av.GRH.SGIDIndex)%n
	if i >= len(t.ports) || m.appendEntries(nil, t.ports[i])[k].GID == (ci.GID{}) {
		return nil, &ci.Error{Verb: "Port.Route", Status: ci.InvalidIndex,
			Detail: fmt.Sprintf("source GID index %d: the entry does not exist or is empty; the table has %d entries",
				av.GRH.SGIDIndex, n*len(t.ports))}
	}
	return t.ports[i].Route(av, f)
}

// A mark of CatchUp has the index of a GID in the upper bits, and below them the mark of that address's socket.
const markBits = 48

// CatchUp implements rvt.BacklogPort, address by address.
func (m *MultiPort) CatchUp(mark uint64) (next uint64, done bool) {
	t := m.now()
	inner := mark & (1<<markBits - 1)
	for i := int(mark >> markBits); i < len(t.ports); i++ {
		if t.ports[i] != nil {
			n, done := t.ports[i].Socket.CatchUp(inner)
			if !done {
				return uint64(i)<<markBits | n, false
			}
		}
		inner = 0
	}
	return 0, true
}

// NodeGUID returns the GUID that the port suggests: that of its first address.
func (m *MultiPort) NodeGUID() ci.GUID {
	if p := m.any(); p != nil {
		return NodeGUID(p.Addr, m.UDP)
	}
	return 0
}

// AddCounters adds the counters of all addresses, those that were removed included, to c.
func (m *MultiPort) AddCounters(c map[string]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range m.retired {
		c[k] += v
	}
	for _, p := range m.now().ports {
		if p != nil {
			p.addCounters(c)
		}
	}
}
