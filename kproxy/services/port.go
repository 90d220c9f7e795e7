package services

import (
	"net/netip"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/mad"
)

// port is a port of a port space that a client has taken.
type port struct{ b cmid.Binding }

func (p *port) Destroy() error { p.Abandon(); return nil }
func (p *port) Abandon()       { p.b.Release() }
func (p *port) Status() string { return "" }

func (s *Service) bindPort(c *kproxy.Session, verb string, r *schema.BindPort) (any, error) {
	parent, err := find[*services](c, verb, schema.KindServices, r.Services)
	if err != nil {
		return nil, err
	}
	space := mad.PortSpace(r.Space)
	if space != cmid.TCP && space != cmid.UDP && space != cmid.IB {
		return nil, errorf(verb, ci.InvalidParameter, "port space %#x", r.Space)
	}
	var addr netip.Addr
	switch r.Family {
	case 0:
	case 4:
		addr = netip.AddrFrom4([4]byte(r.Addr[:4]))
	case 6:
		addr = netip.AddrFrom16(r.Addr).Unmap().WithZone(r.Zone)
	default:
		return nil, errorf(verb, ci.InvalidParameter, "address family %d, want 0, 4 or 6", r.Family)
	}
	item, err := c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindPort, Parent: parent.item, Bytes: bytesPerObject})
	if err != nil {
		return nil, err
	}
	b, err := s.cfg.Ports.Bind(space, netip.AddrPortFrom(addr, r.Port), r.Reuse)
	if err != nil {
		item.Remove()
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidSetting, Err: err}
	}
	if err := item.Commit(verb, &port{b: b}); err != nil {
		return nil, err // the session has been closed meanwhile
	}
	return &schema.BindPortReply{Handle: item.Handle(), Port: b.Port()}, nil
}

func listenPort(c *kproxy.Session, verb string, r *schema.ListenPort) (any, error) {
	p, err := find[*port](c, verb, schema.KindPort, r.Port)
	if err != nil {
		return nil, err
	}
	if !r.Listen {
		p.b.Unlisten()
	} else if err := p.b.Listen(); err != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidSetting, Err: err}
	}
	return &schema.None{}, nil
}
