package kernelcm

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

// spaces are the port spaces of the kernel.
var spaces = map[mad.PortSpace]uint16{cmid.TCP: abi.SpaceTCP, cmid.UDP: abi.SpaceUDP}

// ports implements cmid.Ports. A port is bound by an ID of the kernel, which becomes that of the connection or listener
// at the port.
type ports struct{ s *Service }

var _ cmid.Ports = ports{}

// binding implements cmid.Binding.
type binding struct {
	s     *Service
	space mad.PortSpace
	at    netip.AddrPort
	reuse bool

	mu       sync.Mutex
	x        *kernelID
	used     bool // x has, or had, a connection, and can have no other one
	released bool
}

// Bind implements cmid.Ports.
func (p ports) Bind(space mad.PortSpace, at netip.AddrPort, reuse bool) (cmid.Binding, error) {
	b := &binding{s: p.s, space: space, at: at, reuse: reuse}
	if err := b.bind(at); err != nil {
		return nil, err
	}
	a, err := b.x.addresses()
	if err != nil {
		b.x.destroy()
		return nil, err
	}
	b.at = netip.AddrPortFrom(at.Addr(), a.local.Port())
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.bindings = append(p.s.bindings, b)
	return b, nil
}

// bind creates an ID at an address.
func (b *binding) bind(at netip.AddrPort) error {
	space, ok := spaces[b.space]
	if !ok {
		return unsupported("Ports.Bind", fmt.Sprintf("port space %v", b.space))
	}
	x, err := b.s.d.newID(space, nil)
	if err != nil {
		return err
	}
	if err := x.bind(at, b.reuse); err != nil {
		x.destroy()
		return err
	}
	b.x = x
	return nil
}

// Port implements cmid.Binding.
func (b *binding) Port() uint16 { return b.at.Port() }

// Listen implements cmid.Binding. Service.Listen, which follows, excludes the other bindings.
func (b *binding) Listen() error { return nil }

// Unlisten implements cmid.Binding.
func (b *binding) Unlisten() {}

// Release implements cmid.Binding. A connection has its ID until it is closed.
func (b *binding) Release() {
	b.s.mu.Lock()
	b.s.bindings = slices.DeleteFunc(b.s.bindings, func(o *binding) bool { return o == b })
	b.s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.released && (!b.used || b.x.isIdle()) {
		b.x.destroy()
	}
	b.released = true
}

// isIdle reports whether the ID is destroyed, or nothing receives its events.
func (x *kernelID) isIdle() bool {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	return x.d.ids[x.uid] != x || x.handle == nil
}

// take returns the ID of the binding of a port for a new connection, from an address, or for a listener. handle gets
// its events. The ID is replaced if its connection has failed, or if it is bound to any address and an ID for one
// address is needed: the kernel's IDs have one family.
func (s *Service) take(verb string, service mad.ServiceID, from netip.Addr, handle func(*abi.EventResp)) (*kernelID,
	error) {
	space, port := mad.PortSpace(service>>16), uint16(service)
	s.mu.Lock()
	i := slices.IndexFunc(s.bindings, func(b *binding) bool {
		return b.space == space && b.Port() == port && b.isFree()
	})
	var b *binding
	if i >= 0 {
		b = s.bindings[i]
	}
	s.mu.Unlock()
	if b == nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter,
			Detail: fmt.Sprintf("port %d of port space %v is not bound: Service.Ports", port, space)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.at
	if from.IsValid() {
		at = netip.AddrPortFrom(from, port)
	}
	if b.used || at != b.at {
		b.x.destroy()
		if err := b.bind(at); err != nil {
			return nil, err
		}
	}
	b.used = true
	return b.x, b.x.setHandle(handle)
}

func (b *binding) isFree() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.used || b.x.isIdle()
}
