package cmid

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"ciddk/mad"
)

// Addr is the address of one end of a connection. It is a net.Addr. Its text, which is also its form in JSON, is that
// of Network and String, with a space in between.
type Addr struct {
	Space    mad.PortSpace
	AddrPort netip.AddrPort // not embedded, because its text and its order have neither Space nor Service
	Service  mad.ServiceID  // of an ID with IDConfig.Service; then the port is 0
}

var _ net.Addr = Addr{}

// Addr returns the IP address. It is invalid if it stands for any address.
func (a Addr) Addr() netip.Addr { return a.AddrPort.Addr() }

// Port returns the port.
func (a Addr) Port() uint16 { return a.AddrPort.Port() }

var networks = map[mad.PortSpace]string{TCP: "rdma-tcp", UDP: "rdma-udp", IB: "rdma-ib"}

// Network returns "rdma-tcp", "rdma-udp" or "rdma-ib".
func (a Addr) Network() string { return network(a.Space) }

func network(s mad.PortSpace) string {
	if name, ok := networks[s]; ok {
		return name
	}
	return fmt.Sprintf("rdma-%#x", uint16(s))
}

func (a Addr) String() string {
	ip := ""
	if a.Addr().IsValid() {
		ip = a.Addr().String()
	}
	switch {
	case a.Service != 0:
		return fmt.Sprintf("[%s]#%016x", ip, uint64(a.Service))
	case ip == "": // any address
		return fmt.Sprintf(":%d", a.Port())
	}
	return a.AddrPort.String()
}

// MarshalText implements encoding.TextMarshaler.
func (a Addr) MarshalText() ([]byte, error) { return []byte(a.Network() + " " + a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler for the text of MarshalText.
func (a *Addr) UnmarshalText(text []byte) error {
	name, rest, _ := strings.Cut(string(text), " ")
	b, err := parseSpace(name)
	if err == nil {
		err = b.parse(rest)
	}
	if err != nil {
		return fmt.Errorf("rdmacm: address %q: %w", text, err)
	}
	*a = b
	return nil
}

// parseSpace parses the text of Network.
func parseSpace(name string) (Addr, error) {
	for s, n := range networks {
		if n == name {
			return Addr{Space: s}, nil
		}
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "rdma-"), 0, 16)
	return Addr{Space: mad.PortSpace(n)}, err
}

// parse parses the text of String.
func (a *Addr) parse(text string) error {
	if ip, service, ok := strings.Cut(text, "]#"); ok {
		n, err := strconv.ParseUint(service, 16, 64)
		var at netip.Addr
		if ip = strings.TrimPrefix(ip, "["); err == nil && ip != "" {
			at, err = netip.ParseAddr(ip)
		}
		a.AddrPort, a.Service = netip.AddrPortFrom(at, 0), mad.ServiceID(n)
		return err
	}
	if port, ok := strings.CutPrefix(text, ":"); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		a.AddrPort = netip.AddrPortFrom(netip.Addr{}, uint16(n))
		return err
	}
	var err error
	a.AddrPort, err = netip.ParseAddrPort(text)
	return err
}
