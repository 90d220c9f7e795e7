package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"ciddk/ci"
	"ciddk/link/internal/rocev2"
	"ciddk/wire"
)

// Config describes a RoCEv2 port over UDP sockets of this process. Either Addr or Interface is required.
type Config struct {
	// Addr is the port's IPv4 or IPv6 address, one of this machine's (127.0.0.1, 127.0.0.2, … for experiments). A
	// link-local IPv6 address needs its zone. It becomes entry 0 of the GID table.
	Addr netip.Addr
	// Addrs are further addresses of the port, of either family: entries 1, 2, … of the GID table. With Addr, they
	// are at most 128.
	Addrs []netip.Addr
	// LinkLocalGIDs and RoCEv1GIDs add entries to the GID table, for programs that expect the table of another adapter.
	// With LinkLocalGIDs, the entry of an IPv4 address comes after one with a link-local GID. With RoCEv1GIDs, each
	// entry comes after one of RoCEv1 with the same GID. The added entries work as those of the address do: the packets
	// are those of RoCEv2.
	LinkLocalGIDs, RoCEv1GIDs bool
	// Interface, in place of Addr, is the name of a network interface, all of whose addresses the port has. Addresses
	// that come and go change the GID table and raise ci.EventGIDChange: the entry of a new address is added, and that
	// of an address that is removed becomes empty. The MTU is that of the interface at New.
	Interface string
	// Addresses reports the addresses of Interface; nil is SystemAddresses().
	Addresses AddressSource
	// Port is the UDP port; 0 is 4791, RoCEv2's. All peers must use the same.
	Port uint16
	// MTU is the largest path MTU; 0 is the largest that fits the interface of Addr, 4096 bytes on loopback.
	MTU ci.MTU
	// Portable turns off what only Linux has (batched system calls, segmentation offload, GRH.FlowLabel): one datagram
	// per call, as elsewhere.
	Portable bool
	// Privileged makes the whole IPv4 header of received packets visible (Linux only): every bit of the ICRC is
	// checked, where a plain socket leaves a residue (see the package documentation). It takes the capability
	// CAP_NET_RAW.
	Privileged bool
	// Near delivers what is for another Near port of this process at once, from engine to engine, as Linux's software
	// RoCE does for its own device: without a system call, and invisible to tcpdump. Both ports must have
	// been opened in the same network namespace. What passes a wrapper of the port (link/impair, link/capture) passes
	// it as before. Multicast takes the socket.
	Near bool
	// Within, if not nil, runs the functions that open sockets of the port, and returns their error: once in New, and
	// when the first QP attaches to a multicast group. A thread in a network namespace can open them, for instance.
	Within func(open func() error) error
	// SourcePorts is how many UDP ports the port sends from, 1 to 64; 0 is 1. With 1, packets leave from Port. With
	// more, each QP sends from one of as many other ports, by a hash of its number, so that routers which spread flows
	// over equal paths (ECMP) spread the QPs. The port receives at Port only. On Linux, without Portable, no other
	// program of the machine gets these ports while they are open, so a peer's StrictSource keeps out programs without
	// privileges.
	SourcePorts int
	// FirstSourcePort is the first of SourcePorts consecutive ports to send from, if SourcePorts is above 1; 0 lets the
	// system choose.
	FirstSourcePort uint16
	// StrictSource makes a connected QP drop packets that come from its peer's address and from another UDP port than
	// the peer's: than PeerSourcePort or, if that is 0, than that of the first packet in sequence. Path migration and a
	// new connection of the QP begin anew. RoCEv2 leaves the source port to the sender, so a peer may change it at any
	// time, though no adapter known to the authors does. Without StrictSource, changes are counted and reported: see
	// rvt.Suspicion.
	StrictSource bool
	// PeerSourcePort is the UDP port that all peers send from; 0: not known. Peers of this package with SourcePorts 1
	// send from Port.
	PeerSourcePort uint16
}

// port returns the UDP port to receive at.
func (c *Config) port() uint16 {
	if c.Port == 0 {
		return wire.RoCEv2Port
	}
	return c.Port
}

// addresses returns the configured addresses, which are the GID table.
func (c *Config) addresses() []netip.Addr {
	list := []netip.Addr{c.Addr.Unmap()}
	for _, a := range c.Addrs {
		list = append(list, a.Unmap())
	}
	return list
}

// check validates the fields that do not depend on this machine's interfaces. system is runtime.GOOS.
func (c *Config) check(system string) error {
	if err := c.checkAddresses(); err != nil {
		return err
	}
	if c.MTU > ci.MTU4096 {
		return fmt.Errorf("udp: MTU code %d: want 1 (256 bytes) to 5 (4096), or 0 for the interface's", c.MTU)
	}
	if err := c.checkSources(); err != nil {
		return err
	}
	return c.checkPrivileged(system)
}

// checkAddresses validates Addr, Addrs and Interface.
func (c *Config) checkAddresses() error {
	switch {
	case c.Interface != "" && (c.Addr.IsValid() || len(c.Addrs) > 0):
		return fmt.Errorf("udp: Config.Interface %q and Addr exclude each other: the port has the addresses of the "+
			"interface, or those of Addr and Addrs",
			c.Interface)
	case c.Interface != "":
		return nil
	case c.Addresses != nil:
		return errors.New("udp: Config.Addresses has a meaning with Interface only")
	case len(c.Addrs) >= rocev2.MaxGIDs:
		return fmt.Errorf("udp: Config.Addrs has %d addresses: at most %d with Addr", len(c.Addrs), rocev2.MaxGIDs)
	}
	list := c.addresses()
	for i, a := range list {
		field := "Addr"
		if i > 0 {
			field = fmt.Sprintf("Addrs[%d]", i-1)
		}
		if err := checkAddress(field, a); err != nil {
			return err
		}
		if slices.Contains(list[:i], a) {
			return fmt.Errorf("udp: Config.%s %v occurs twice", field, a)
		}
	}
	return nil
}

// checkAddress validates an address of the configuration.
func checkAddress(field string, a netip.Addr) error {
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return fmt.Errorf("udp: Config.%s is not set: give one address of this machine, such as 127.0.0.1; "+
			"an unspecified one will not do, since every packet's ICRC covers the address", field)
	case a.IsMulticast():
		return fmt.Errorf("udp: Config.%s %v is a multicast group: give a unicast address of this machine", field, a)
	case a == rocev2.Broadcast4:
		return fmt.Errorf("udp: Config.%s %v is the broadcast address: give a unicast address of this machine",
			field, a)
	case rocev2.NeedsZone(a) && a.Zone() == "":
		return fmt.Errorf("udp: Config.%s %v is link-local and needs the zone of its interface, such as "+
			"fe80::1%%eth0; %s", field, a, listInterfaces())
	}
	return nil
}

func (c *Config) checkPrivileged(system string) error {
	switch {
	case c.Privileged && system != "linux":
		return fmt.Errorf("udp: Config.Privileged is not available on %s, only on Linux", system)
	case c.Privileged && c.Portable:
		return errors.New("udp: Config.Privileged and Portable exclude each other: only Linux has sockets that show " +
			"IP headers")
	}
	return nil
}

func (c *Config) checkSources() error {
	switch {
	case c.SourcePorts < 0 || c.SourcePorts > rocev2.MaxSources:
		return fmt.Errorf("udp: SourcePorts is %d: want 1 to %d, or 0 for 1", c.SourcePorts, rocev2.MaxSources)
	case c.FirstSourcePort != 0 && (c.Interface != "" || len(c.Addrs) > 0):
		return fmt.Errorf("udp: FirstSourcePort is %d, but the port may have several addresses, each with source "+
			"ports of its own: set it to 0",
			c.FirstSourcePort)
	case c.FirstSourcePort != 0 && c.SourcePorts <= 1:
		return fmt.Errorf("udp: FirstSourcePort is %d, but SourcePorts is %d: packets leave from Port then",
			c.FirstSourcePort, c.SourcePorts)
	case c.FirstSourcePort != 0 && int(c.FirstSourcePort)+c.SourcePorts > 1<<16:
		return fmt.Errorf("udp: FirstSourcePort %d and SourcePorts %d go beyond port 65535",
			c.FirstSourcePort, c.SourcePorts)
	case c.FirstSourcePort != 0 && c.FirstSourcePort <= c.port() &&
		int(c.port()) < int(c.FirstSourcePort)+c.SourcePorts:
		return fmt.Errorf("udp: FirstSourcePort %d and SourcePorts %d include Port %d, which is for receiving",
			c.FirstSourcePort,
			c.SourcePorts, c.port())
	case c.PeerSourcePort != 0 && !c.StrictSource:
		return fmt.Errorf("udp: PeerSourcePort is %d, which has a meaning with StrictSource only", c.PeerSourcePort)
	}
	return nil
}

// sourcePort returns the UDP port to bind source i to; 0: any.
func (c *Config) sourcePort(i int) uint16 {
	if c.FirstSourcePort == 0 {
		return 0
	}
	return c.FirstSourcePort + uint16(i)
}

// A sourceError is the failure to open a socket to send from.
type sourceError struct {
	what string
	err  error
}

func (e *sourceError) Error() string { return fmt.Sprintf("udp: %s: %v", e.what, e.err) }

func (e *sourceError) Unwrap() error { return e.err }

// explainSource returns the error of opening source port i.
func (c *Config) explainSource(i int, err error) error {
	if port := c.sourcePort(i); port != 0 {
		return &sourceError{fmt.Sprintf("source port %d (set FirstSourcePort to a free range, or to 0 for ports that "+
			"the system chooses)", port), err}
	}
	return &sourceError{fmt.Sprintf("source port %d of %d", i+1, c.SourcePorts), err}
}
