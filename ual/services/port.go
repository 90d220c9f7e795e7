package services

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/mad"
)

// ports implements cmid.Ports.
type ports struct{ s *Services }

var _ cmid.Ports = (*ports)(nil)

// Bind implements cmid.Ports.
func (p *ports) Bind(space mad.PortSpace, at netip.AddrPort, reuse bool) (cmid.Binding, error) {
	q := &schema.BindPort{Services: p.s.handle, Space: uint16(space), Port: at.Port(), Reuse: reuse}
	switch a := at.Addr(); {
	case !a.IsValid():
	case a.Is4():
		q.Family = 4
		b := a.As4()
		copy(q.Addr[:], b[:])
	default:
		q.Family, q.Addr, q.Zone = 6, a.As16(), a.Zone()
	}
	var r schema.BindPortReply
	if err := p.s.c.Do(schema.CmdBindPort, q, &r); err != nil {
		return nil, addrInUse(err)
	}
	b := &binding{s: p.s, handle: r.Handle, port: r.Port}
	p.s.mu.Lock()
	closed := p.s.closed
	if !closed {
		p.s.bindings[b] = struct{}{}
	}
	p.s.mu.Unlock()
	if closed {
		b.Release()
		return nil, closedError("Ports.Bind")
	}
	return b, nil
}

// addrInUse returns EADDRINUSE for the status that stands for it.
func addrInUse(err error) error {
	if e, ok := errors.AsType[*ci.Error](err); ok && e.Status == ci.InvalidSetting {
		return fmt.Errorf("%w: %s", syscall.EADDRINUSE, e.Detail)
	}
	return err
}

// binding implements cmid.Binding.
type binding struct {
	s       *Services
	handle  schema.Handle
	port    uint16
	release sync.Once
}

// Port implements cmid.Binding.
func (b *binding) Port() uint16 { return b.port }

// Listen implements cmid.Binding.
func (b *binding) Listen() error {
	return addrInUse(b.s.do(schema.CmdListenPort, &schema.ListenPort{Port: b.handle, Listen: true}))
}

// Unlisten implements cmid.Binding.
func (b *binding) Unlisten() {
	_ = b.s.do(schema.CmdListenPort, &schema.ListenPort{Port: b.handle}) // without a connection there is no binding
}

// Release implements cmid.Binding.
func (b *binding) Release() {
	b.release.Do(func() {
		_ = b.s.destroy(b.handle) // the daemon releases it at the latest with the client
		b.s.mu.Lock()
		delete(b.s.bindings, b)
		b.s.mu.Unlock()
	})
}
