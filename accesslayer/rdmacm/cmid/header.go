package cmid

import (
	"net/netip"

	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
	"ciddk/mad"
)

// serviceID returns the service ID that a request contains, and that a listener listens on.
func (c *IDConfig) serviceID(port uint16) mad.ServiceID {
	if c.Service != 0 {
		return c.Service
	}
	return c.Space.ServiceID(port)
}

// privateData returns the private data of a request: the IP header, unless the service has none, and the application's
// data.
func (c *IDConfig) privateData(local netip.AddrPort, remote netip.Addr, data []byte, datagram bool) ([]byte, error) {
	limit := mad.REQPrivateLen
	if datagram {
		limit = mad.SIDRREQPrivateLen
	}
	head := 0
	if c.Service == 0 {
		head = mad.IPCMLen
	}
	if len(data) > limit-head {
		return nil, failure.Invalid("ID.Connect", "the private data has %d bytes, want at most %d", len(data),
			limit-head)
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

// caller contains the addresses of both ends from a request.
type caller struct {
	from netip.AddrPort
	to   netip.Addr
	data []byte // the application's
}

// parseCaller parses the private data of a request. Without an IP header, the GIDs are the addresses.
func (c *IDConfig) parseCaller(private []byte, from, to ci.GID) (caller, error) {
	if c.Service != 0 {
		return caller{from: netip.AddrPortFrom(address.AddrOf(from), 0), to: address.AddrOf(to), data: private}, nil
	}
	h, rest, err := mad.ParseIPCM(private)
	if err != nil {
		return caller{}, err
	}
	return caller{from: h.SourceAddr(), to: h.DestinationAddr(), data: rest}, nil
}

// check compares the header with the GIDs of the request, on links where a GID is an IP address. It reports whether the
// sender used its own address and the request is for this host.
func (c *caller) check(link ci.Link, from, to ci.GID) bool {
	return link != ci.LinkEthernet || address.GIDOf(c.from.Addr()) == from && address.GIDOf(c.to) == to
}
