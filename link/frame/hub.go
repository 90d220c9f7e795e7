package frame

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/wire"
)

// A Hub is an Ethernet switch within the process. It learns the addresses of its members, and sends frames for unknown
// addresses and groups to all. The zero value is ready to use. Methods may be called concurrently.
type Hub struct {
	mu      sync.Mutex // of changes
	members atomic.Pointer[[]*member]
	table   sync.Map // of [6]byte to *member
	known   atomic.Int64
}

// maxKnown is the most addresses that a hub learns. Frames for others are sent to all members.
const maxKnown = 4096

// NewHub returns a hub.
func NewHub() *Hub { return new(Hub) }

// member is a carrier at a hub.
type member struct {
	hub     *Hub
	in      *queue  // of Join
	carrier Carrier // of Connect
	once    sync.Once

	isDown    bool // the port of Join; guarded by hub.mu
	showsDown bool // what the carrier was told last; guarded by hub.mu
}

// forward passes frames to the member, and returns how many were dropped.
func (m *member) forward(frames [][]byte) (dropped int) {
	if m.carrier != nil {
		return m.carrier.Send(frames)
	}
	return m.in.put(frames)
}

// Join returns a carrier of the hub for a port.
func (h *Hub) Join() Carrier { return &member{hub: h, in: newQueue()} }

// Connect makes a carrier a member, which the hub closes when the returned function is called. failed, if not nil, is
// called when the carrier fails.
func (h *Hub) Connect(c Carrier, failed func(error)) (disconnect func() error, err error) {
	m := &member{hub: h, carrier: c}
	h.add(m)
	fail := func(err error) {
		if failed != nil {
			failed(err)
		}
	}
	if err := c.Start(func(frames [][]byte) { m.Send(frames) }, fail); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m.Close, nil
}

func (h *Hub) add(m *member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := append(slices.Clone(h.list()), m)
	h.members.Store(&list)
	h.setLinks()
}

// SetLink implements LinkCarrier for the port of Join.
func (m *member) SetLink(up bool) {
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	m.isDown = !up
	m.hub.setLinks()
}

// setLinks sets the links of the hub's carriers: up if another member's link is. mu is held.
func (h *Hub) setLinks() {
	list := h.list()
	for _, m := range list {
		c, ok := m.carrier.(LinkCarrier)
		if !ok {
			continue
		}
		isDown := !slices.ContainsFunc(list, func(x *member) bool { return x != m && !x.isDown })
		if isDown != m.showsDown {
			m.showsDown = isDown
			c.SetLink(!isDown)
		}
	}
}

func (h *Hub) list() []*member {
	if p := h.members.Load(); p != nil {
		return *p
	}
	return nil
}

// remove takes a member off the hub, with the addresses that it had.
func (h *Hub) remove(m *member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(h.list()), func(x *member) bool { return x == m })
	h.members.Store(&list)
	h.setLinks()
	h.table.Range(func(mac, x any) bool {
		if x == m && h.table.CompareAndDelete(mac, x) {
			h.known.Add(-1)
		}
		return true
	})
}

// Start puts the member on the hub.
func (m *member) Start(deliver func(frames [][]byte), _ func(error)) error {
	m.in.start(deliver)
	m.hub.add(m)
	return nil
}

// Send forwards frames. Runs of frames for one member are passed on together.
func (m *member) Send(frames [][]byte) (dropped int) {
	for len(frames) > 0 {
		to, ok := m.hub.route(m, frames[0])
		n := 1
		for n < len(frames) {
			if t, k := m.hub.route(m, frames[n]); t != to || k != ok {
				break
			}
			n++
		}
		switch {
		case !ok: // not a frame
			dropped += n
		case to == m: // a frame for its own sender goes nowhere, as on a switch
		case to != nil:
			dropped += to.forward(frames[:n])
		default:
			for _, x := range m.hub.list() {
				if x != m {
					x.forward(frames[:n])
				}
			}
		}
		frames = frames[n:]
	}
	return dropped
}

// route learns the sender of a frame, and returns the member that it is for, or nil for all. ok is false if it is too
// short or too long.
func (h *Hub) route(from *member, frame []byte) (to *member, ok bool) {
	if len(frame) < wire.EthernetLen || len(frame) > MaxFrame {
		return nil, false
	}
	h.learn([6]byte(frame[6:]), from)
	if isGroup(frame) {
		return nil, true
	}
	if x, found := h.table.Load([6]byte(frame)); found {
		return x.(*member), true
	}
	return nil, true
}

// isGroup reports whether a frame's destination is a group or all stations.
func isGroup(frame []byte) bool { return frame[0]&1 != 0 }

func (h *Hub) learn(mac [6]byte, m *member) {
	if mac[0]&1 != 0 {
		return
	}
	x, found := h.table.Load(mac)
	switch {
	case found && x == m:
	case found:
		h.table.Store(mac, m) // it has moved
	case h.known.Load() < maxKnown:
		if _, loaded := h.table.LoadOrStore(mac, m); !loaded {
			h.known.Add(1)
		}
	}
}

// Close takes the member off the hub, and closes the carrier that Connect was given.
func (m *member) Close() (err error) {
	m.once.Do(func() {
		if m.carrier != nil {
			err = m.carrier.Close()
		}
		m.hub.remove(m)
		if m.in != nil {
			m.in.close()
		}
	})
	return err
}
