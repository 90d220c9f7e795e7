package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
)

// A Port is a RoCE port over Ethernet frames. It implements rvt.Port, and of the optional interfaces GroupPort,
// CounterPort, CablePort, GUIDPort and EncoderPort.
type Port struct {
	c       Config
	mac     atomic.Pointer[[6]byte]
	table   atomic.Pointer[gidTable]
	state   atomic.Uint32 // ci.PortState
	cap     atomic.Uint32 // ci.PortCap
	context atomic.Pointer[rvt.PortContext]
	raw     atomic.Pointer[func(frame []byte)]
	id      atomic.Uint32 // IPv4 identification of the last packet
	stats   stats
	senders sync.Pool // of *sender
	loop    *queue    // frames for the port itself
	arp     *resolver // nil without Config.Resolve

	linkMu sync.Mutex // of changes of state

	mu      sync.Mutex
	started bool
	closed  bool
	groups  map[ci.GID]int // joins
}

var _ interface {
	rvt.Port
	rvt.GroupPort
	rvt.CounterPort
	rvt.CablePort
	rvt.GUIDPort
	rvt.EncoderPort
} = (*Port)(nil)

// stats counts what the engine does not.
type stats struct {
	sent, received, raw, dropped, unresolved atomic.Uint64
}

// New returns a port. The caller closes it, or passes it to the New of an adapter. Errors: a field is missing or out of
// range.
func New(c Config) (*Port, error) {
	if err := c.check(); err != nil {
		if c.Carrier != nil {
			err = errors.Join(err, c.Carrier.Close())
		}
		return nil, err
	}
	p := &Port{c: c, loop: newQueue(), groups: map[ci.GID]int{}}
	p.senders.New = func() any { return new(sender) }
	mac := c.MAC
	p.mac.Store(&mac)
	p.table.Store(newGIDTable(c.GIDs))
	p.state.Store(uint32(ci.PortActive))
	if c.Resolve {
		p.arp = newResolver(p)
	}
	return p, nil
}

// Start begins to receive.
func (p *Port) Start(c rvt.PortContext) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.closed {
		return fmt.Errorf("frame: %w", rvt.ErrPortStarted)
	}
	p.started = true
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	p.context.Store(&c)
	p.loop.start(newDecoder(p).frames)
	return p.c.Carrier.Start(newDecoder(p).frames, func(error) { p.SetLink(false) })
}

// Close stops the port and closes its carrier. It is idempotent.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	err := p.c.Carrier.Close()
	p.loop.close()
	if p.arp != nil {
		p.arp.close()
	}
	return err
}

func (p *Port) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// isActive reports whether the port sends and receives.
func (p *Port) isActive() bool { return ci.PortState(p.state.Load()) == ci.PortActive }

// MAC returns the port's address.
func (p *Port) MAC() [6]byte { return *p.mac.Load() }

// SetMAC sets the port's address. Routes that were made before send from the new one.
func (p *Port) SetMAC(mac [6]byte) { p.mac.Store(&mac) }

// SetGIDs replaces the GID table, and raises ci.EventGIDChange. Entries with a zero GID are empty. A route of an entry
// that has changed sends from the GID that the entry had. Entries beyond MaxGIDs are left out.
func (p *Port) SetGIDs(list []ci.GIDEntry) {
	p.table.Store(newGIDTable(list[:min(len(list), MaxGIDs)]))
	p.event(ci.EventGIDChange)
}

// OnFrame sets the function that takes the frames that are not RoCE packets for the port. The frame is valid during the
// call. Calls come from the goroutines that receive; fn must not close the port.
func (p *Port) OnFrame(fn func(frame []byte)) { p.raw.Store(&fn) }

// SendFrame sends a frame, without frame check sequence. It does not keep the frame. A frame that is too short or too
// long is dropped.
func (p *Port) SendFrame(frame []byte) {
	one := [1][]byte{frame}
	p.emit(one[:])
}

// emit sends frames, and delivers those for the port's own address to itself. It counts the dropped ones.
func (p *Port) emit(frames [][]byte) {
	if !p.isActive() {
		p.stats.dropped.Add(uint64(len(frames)))
		return
	}
	mac := p.MAC()
	for len(frames) > 0 {
		own := isFor(frames[0], mac)
		n := 1
		for n < len(frames) && isFor(frames[n], mac) == own {
			n++
		}
		dropped := 0
		if own {
			dropped = p.loop.put(frames[:n])
		} else {
			dropped = p.c.Carrier.Send(frames[:n])
		}
		p.stats.sent.Add(uint64(n - dropped))
		p.stats.dropped.Add(uint64(dropped))
		frames = frames[n:]
	}
}

// isFor reports whether a frame has a destination.
func isFor(frame []byte, mac [6]byte) bool { return len(frame) >= 6 && [6]byte(frame) == mac }

// physUp and physDisabled are IBTA port physical states.
const (
	physDisabled = 3
	physUp       = 5
)

// Attr returns the attributes of an Ethernet link with one P_Key. The GID table has at least one entry.
func (p *Port) Attr() ci.PortAttr {
	t := p.table.Load()
	a := ci.PortAttr{
		Link: ci.LinkEthernet, HardwareAgents: true, State: ci.PortState(p.state.Load()), PhysState: physUp,
		MTU: p.c.MTU, MaxMTU: ci.MTU4096, MaxMsgSize: 1 << 31, MaxVLs: 1, WidthActive: 2, SpeedActive: 4,
		Capability: ci.PortCap(p.cap.Load()), PKeys: []ci.PKey{0xffff},
		GIDs: append([]ci.GIDEntry(nil), t.list...),
	}
	if a.State == ci.PortDown {
		a.PhysState = physDisabled
	}
	if len(a.GIDs) == 0 {
		a.GIDs = []ci.GIDEntry{{Type: ci.GIDRoCEv2}}
	}
	return a
}

// Modify sets capability bits and shuts the port down. An Ethernet port has neither subnet manager nor init type.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported,
			Detail: fmt.Sprintf("fields %#x do not exist on an Ethernet port", uint32(rest))}
	}
	if set&ci.PortFieldCapability != 0 {
		mask, v := uint32(a.CapMask), uint32(a.Capability)
		old := p.cap.Load()
		for !p.cap.CompareAndSwap(old, old&^mask|v&mask) {
			old = p.cap.Load()
		}
		if old&^mask|v&mask != old {
			p.event(ci.EventPortTrap)
		}
	}
	if set&ci.PortFieldShutdown != 0 {
		p.SetLink(false)
	}
	return nil
}

// event raises an event, if the port has been started.
func (p *Port) event(t ci.EventType) {
	if c := p.context.Load(); c != nil {
		c.Receiver.PortEvent(t)
	}
}

// SetLink plugs in or pulls out the cable. It implements rvt.CablePort.
func (p *Port) SetLink(up bool) {
	s, e := ci.PortDown, ci.EventPortDown
	if up {
		s, e = ci.PortActive, ci.EventPortActive
	}
	if p.changeState(s) {
		p.event(e)
	}
}

// changeState reports whether the state is another one than before. The carrier shows it to its other side.
func (p *Port) changeState(s ci.PortState) bool {
	p.linkMu.Lock()
	defer p.linkMu.Unlock()
	if p.state.Swap(uint32(s)) == uint32(s) {
		return false
	}
	if c, ok := p.c.Carrier.(LinkCarrier); ok {
		c.SetLink(s == ci.PortActive)
	}
	return true
}

// Hints returns the window of the configuration.
func (p *Port) Hints() rvt.Hints {
	return rvt.Hints{MaxTrain: 16 * p.c.MTU.Bytes(), Window: p.c.Window}
}

// NodeGUID returns the EUI-64 of the MAC address. It implements rvt.GUIDPort.
func (p *Port) NodeGUID() ci.GUID {
	gid := LinkLocalGID(p.c.MAC)
	return ci.GUID(binary.BigEndian.Uint64(gid[8:]))
}

// AddCounters adds the counters of frames. It implements rvt.CounterPort.
func (p *Port) AddCounters(m map[string]uint64) {
	m["frame_sent"] += p.stats.sent.Load()
	m["frame_received"] += p.stats.received.Load()
	m["frame_raw"] += p.stats.raw.Load()
	m["frame_send_dropped"] += p.stats.dropped.Load()
	m["frame_unresolved"] += p.stats.unresolved.Load()
}

// JoinGroup receives what is sent to a multicast group. It implements rvt.GroupPort. Error: ci.InvalidGID for a GID
// that is no group.
func (p *Port) JoinGroup(gid ci.GID) error {
	if !addrOf(gid).IsMulticast() {
		return &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID,
			Detail: fmt.Sprintf("%v is no multicast group", addrOf(gid))}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups[gid]++
	return nil
}

// LeaveGroup undoes a JoinGroup.
func (p *Port) LeaveGroup(gid ci.GID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.groups[gid] {
	case 0:
		return fmt.Errorf("frame: multicast group %v is not joined", addrOf(gid))
	case 1:
		delete(p.groups, gid)
	default:
		p.groups[gid]--
	}
	return nil
}

// isMember reports whether the port has joined a group.
func (p *Port) isMember(gid ci.GID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.groups[gid] > 0
}
