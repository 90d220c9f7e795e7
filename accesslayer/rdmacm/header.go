package rdmacm

import (
	"net/netip"

	"ciddk/ci"
	"ciddk/mad"
)

// serviceID is what a request asks for, and a listener listens to.
func (c *IDConfig) serviceID(port uint16) mad.ServiceID {
	if c.Service != 0 {
		return c.Service
	}
	return c.Space.ServiceID(port)
}

// privateData is the private data of a request: the IP header, unless the service has none, and the application's.
func (c *IDConfig) privateData(local netip.AddrPort, remote netip.Addr, data []byte, datagram bool) ([]byte, error) {
	room := mad.REQPrivateLen
	if datagram {
		room = mad.SIDRREQPrivateLen
	}
	head := 0
	if c.Service == 0 {
		head = mad.IPCMLen
	}
	if len(data) > room-head {
		return nil, invalid("ID.Connect", "%d bytes of private data, there is room for %d", len(data), room-head)
	}
	b := make([]byte, head+len(data))
	copy(b[head:], data)
	if head == 0 {
		return b, nil
	}
	h, err := mad.NewIPCM(local, remote)
	if err != nil {
		return nil, err
	}
	h.Put(b)
	return b, nil
}

// caller is what a request says of both ends.
type caller struct {
	from netip.AddrPort
	to   netip.Addr
	data []byte // the application's
}

// parseCaller takes the private data of a request apart. Without IP header the GIDs are the addresses.
func (c *IDConfig) parseCaller(private []byte, from, to ci.GID) (caller, error) {
	if c.Service != 0 {
		return caller{from: netip.AddrPortFrom(addrOf(from), 0), to: addrOf(to), data: private}, nil
	}
	h, rest, err := mad.ParseIPCM(private)
	if err != nil {
		return caller{}, err
	}
	return caller{from: h.SourceAddr(), to: h.DestinationAddr(), data: rest}, nil
}

// check holds what the header says against the GIDs of the request, on links where a GID is an IP address: nobody speaks for others, and a
// request for another machine is not answered.
func (c *caller) check(link ci.Link, from, to ci.GID) bool {
	return link != ci.LinkEthernet || gidOf(c.from.Addr()) == from && gidOf(c.to) == to
}

// gidOf is the GID of an IP address: IPv4 in its IPv6-mapped form (RoCEv2 annex A17.4), without zone.
func gidOf(a netip.Addr) ci.GID { return a.As16() }

// addrOf is the address that a GID stands for; invalid of none, as of the sender of a SIDR request without GRH.
func addrOf(g ci.GID) netip.Addr {
	if g == (ci.GID{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(g).Unmap()
}
