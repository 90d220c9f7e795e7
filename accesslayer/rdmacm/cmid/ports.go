package cmid

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/mad"
)

// Ports assigns the ports of the port spaces. A Manager has a PortTable of its own, unless several processes share the
// ports of an adapter. All methods of Ports and Binding may be called concurrently.
type Ports interface {
	// Bind takes a port at an address, or a free port of the ephemeral range if the port is 0. An invalid address
	// stands for any address of both families, an unspecified one for any of its family. Bindings with reuse share a
	// port as long as none of them listens. Errors: EADDRINUSE, with ErrAnyAddr if one of the two addresses stands for
	// several.
	Bind(space mad.PortSpace, at netip.AddrPort, reuse bool) (Binding, error)
}

// Binding is a port that was taken at an address.
type Binding interface {
	// Port returns the port.
	Port() uint16
	// Listen excludes all other bindings of the port at the address. Errors: as Bind.
	Listen() error
	// Unlisten undoes Listen.
	Unlisten()
	// Release releases the port. It is idempotent.
	Release()
}

// defaultEphemeral is the range of Linux.
var defaultEphemeral = [2]uint16{32768, 60999}

// PortTable is a table of the ports that are taken. It implements Ports.
type PortTable struct {
	low, high uint16 // the ephemeral range, both included
	rand      func() uint64

	mu    sync.Mutex
	taken map[spacePort][]*binding
}

var _ Ports = (*PortTable)(nil)

type spacePort struct {
	space mad.PortSpace
	port  uint16
}

// binding is a port taken at an address. PortTable.mu guards listening.
type binding struct {
	t *PortTable
	spacePort
	addr      netip.Addr // in canonical form
	reuse     bool
	listening bool
}

// NewPortTable returns an empty table. ephemeral is as in Config. random returns the numbers that free ports are chosen
// with, under the table's lock. Status: InvalidParameter (an empty range).
func NewPortTable(ephemeral [2]uint16, random func() uint64) (*PortTable, error) {
	if ephemeral == [2]uint16{} {
		ephemeral = defaultEphemeral
	}
	if ephemeral[0] == 0 || ephemeral[0] > ephemeral[1] {
		return nil, failure.Invalid("cmid.New",
			"Config.Ephemeral is %d to %d, want a first port from 1 up to the last port", ephemeral[0], ephemeral[1])
	}
	return &PortTable{low: ephemeral[0], high: ephemeral[1], rand: random, taken: map[spacePort][]*binding{}}, nil
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

// overlap reports whether two canonical addresses, which may stand for several, have one in common. An address without
// a zone is that of every interface.
func overlap(a, b netip.Addr) bool {
	switch {
	case !a.IsValid(), !b.IsValid(), a == b:
		return true
	case a.Zone() == "" || b.Zone() == "":
		if a.WithZone("") == b.WithZone("") {
			return true
		}
	}
	switch {
	case a.IsUnspecified(), b.IsUnspecified():
		return a.Is4() == b.Is4()
	}
	return false
}

// Bind implements Ports.
func (t *PortTable) Bind(space mad.PortSpace, at netip.AddrPort, reuse bool) (Binding, error) {
	b := &binding{t: t, spacePort: spacePort{space, at.Port()}, addr: at.Addr(), reuse: reuse}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.port != 0 {
		if c := t.conflict(b); c != nil {
			return nil, b.inUse(c)
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
func (t *PortTable) conflict(b *binding) *binding {
	for _, c := range t.taken[b.spacePort] {
		if c != b && overlap(b.addr, c.addr) && (!b.reuse || !c.reuse || b.listening || c.listening) {
			return c
		}
	}
	return nil
}

// inUse returns the error of b, which c excludes.
func (b *binding) inUse(c *binding) error {
	state := "taken"
	if c.listening {
		state = "listened on"
	}
	err := fmt.Errorf("%w: port %d of %s is %s", syscall.EADDRINUSE, b.port, network(b.space), state)
	if b.isAny() || c.isAny() {
		err = fmt.Errorf("%w %w", err, ErrAnyAddr)
	}
	return err
}

// isAny reports whether the address stands for several.
func (b *binding) isAny() bool { return !b.addr.IsValid() || b.addr.IsUnspecified() }

// Port implements Binding.
func (b *binding) Port() uint16 { return b.port }

// Listen implements Binding.
func (b *binding) Listen() error {
	t := b.t
	t.mu.Lock()
	defer t.mu.Unlock()
	b.listening = true
	if c := t.conflict(b); c != nil {
		b.listening = false
		return b.inUse(c)
	}
	return nil
}

// Unlisten implements Binding.
func (b *binding) Unlisten() {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	b.listening = false
}

// Release implements Binding.
func (b *binding) Release() {
	t := b.t
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.DeleteFunc(t.taken[b.spacePort], func(c *binding) bool { return c == b })
	if len(list) == 0 {
		delete(t.taken, b.spacePort)
		return
	}
	t.taken[b.spacePort] = list
}
