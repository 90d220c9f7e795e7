package rdmacm

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"ciddk/mad"
)

// defaultEphemeral is the range of Linux.
var defaultEphemeral = [2]uint16{32768, 60999}

// portTable contains the ports that are taken.
type portTable struct {
	low, high uint16 // the ephemeral range, both included
	rand      func() uint64

	mu    sync.Mutex
	taken map[spacePort][]*binding
}

type spacePort struct {
	space mad.PortSpace
	port  uint16
}

// binding is a port taken at an address.
type binding struct {
	spacePort
	addr      netip.Addr // in canonical form
	reuse     bool
	listening bool
}

func newPortTable(ephemeral [2]uint16, rand func() uint64) (*portTable, error) {
	if ephemeral == [2]uint16{} {
		ephemeral = defaultEphemeral
	}
	if ephemeral[0] == 0 || ephemeral[0] > ephemeral[1] {
		return nil, invalid("rdmacm.New", "Config.Ephemeral is %d to %d, want a first port from 1 up to the last port",
			ephemeral[0], ephemeral[1])
	}
	return &portTable{low: ephemeral[0], high: ephemeral[1], rand: rand, taken: map[spacePort][]*binding{}}, nil
}

// canonical returns an address as the table has it: invalid for any address of both families, unspecified for any of
// IPv4, or of IPv6 with only6.
func canonical(a netip.Addr, only6 bool) netip.Addr {
	a = a.Unmap()
	switch {
	case a.IsValid() && a != netip.IPv6Unspecified():
		return a
	case only6:
		return netip.IPv6Unspecified()
	}
	return netip.Addr{}
}

// overlap reports whether two canonical addresses, which may stand for several, have one in common.
func overlap(a, b netip.Addr) bool {
	switch {
	case !a.IsValid(), !b.IsValid(), a == b:
		return true
	case a.IsUnspecified(), b.IsUnspecified():
		return a.Is4() == b.Is4()
	}
	return false
}

// bind takes a port at a canonical address, or a free one of the ephemeral range if the port is 0. Errors: EADDRINUSE.
func (t *portTable) bind(space mad.PortSpace, at netip.AddrPort, reuse bool) (*binding, error) {
	b := &binding{spacePort: spacePort{space, at.Port()}, addr: at.Addr(), reuse: reuse}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.port != 0 {
		if c := t.conflict(b); c != nil {
			return nil, fmt.Errorf("%w: port %d of %s is %s", syscall.EADDRINUSE, b.port, network(space), c.state())
		}
		t.taken[b.spacePort] = append(t.taken[b.spacePort], b)
		return b, nil
	}
	b.reuse = false // a port that is chosen here is not shared
	n := uint64(t.high-t.low) + 1
	start := t.rand() % n
	for k := range n {
		b.port = t.low + uint16((start+k)%n)
		if t.conflict(b) == nil {
			b.reuse = reuse
			t.taken[b.spacePort] = append(t.taken[b.spacePort], b)
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: all ports of %s from %d to %d are taken",
		syscall.EADDRINUSE, network(space), t.low, t.high)
}

// conflict returns a binding that excludes b, or nil; the lock is held.
func (t *portTable) conflict(b *binding) *binding {
	for _, c := range t.taken[b.spacePort] {
		if c != b && overlap(b.addr, c.addr) && (!b.reuse || !c.reuse || b.listening || c.listening) {
			return c
		}
	}
	return nil
}

func (b *binding) state() string {
	if b.listening {
		return "listened on"
	}
	return "taken"
}

// listen marks a binding as that of a listener, which excludes all others.
func (t *portTable) listen(b *binding) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.listening = true
	if c := t.conflict(b); c != nil {
		b.listening = false
		return fmt.Errorf("%w: port %d of %s is %s", syscall.EADDRINUSE, b.port, network(b.space), c.state())
	}
	return nil
}

// unlisten undoes listen. b may be nil.
func (t *portTable) unlisten(b *binding) {
	if b == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b.listening = false
}

// release releases a port. b may be nil.
func (t *portTable) release(b *binding) {
	if b == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.DeleteFunc(t.taken[b.spacePort], func(c *binding) bool { return c == b })
	if len(list) == 0 {
		delete(t.taken, b.spacePort)
		return
	}
	t.taken[b.spacePort] = list
}
