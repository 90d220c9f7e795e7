package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

// iface is the network interface of the host that has the port's address; index is 0 if it was not found.
type iface struct {
	name  string
	index int
	bytes int // MTU
	up    bool
	// hardware is the hardware address, "" if there is none.
	hardware string
}

func ifaceOf(i *net.Interface) iface {
	return iface{i.Name, i.Index, i.MTU, i.Flags&net.FlagUp != 0, i.HardwareAddr.String()}
}

// listInterfaces returns the list of this machine's interfaces, as the end of an error about a zone.
func listInterfaces() string {
	ifs, err := net.Interfaces()
	if err != nil {
		return fmt.Sprintf("the interfaces of this machine cannot be listed: %v", err)
	}
	var names []string
	for _, i := range ifs {
		names = append(names, i.Name)
	}
	return "interfaces here: " + strings.Join(names, ", ")
}

// explainBind adds advice to an error of opening the socket. on is the interface of the address.
func explainBind(err error, at netip.AddrPort, on iface) error {
	if source, ok := errors.AsType[*sourceError](err); ok {
		return source
	}
	switch {
	case errors.Is(err, errAddrInUse):
		return fmt.Errorf("udp: %v: %w: another process (or another HCA of this one, or the kernel's Soft-RoCE) has "+
			"it, and there can be "+
			"one per address and port: end that one, take another address (on loopback 127.0.0.2, 127.0.0.3, … are "+
			"free without setup), "+
			"or give both ends of a private test another Port", at, err)
	case errors.Is(err, errAddrNotAvail) && on.index != 0 && !on.up:
		return fmt.Errorf("udp: %v: %w: interface %s is down: bring it up first (on Linux: ip link set %s up)", at, err,
			on.name, on.name)
	case errors.Is(err, errAddrNotAvail):
		return fmt.Errorf("udp: %v: %w: Addr must be an address of this machine (on some systems only 127.0.0.1 of "+
			"loopback is, until others are added)", at, err)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("udp: %v: %w", at, err) // with advice from openRaw
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("udp: %v: %w: ports below 1024 need privileges; RoCEv2's 4791 does not", at, err)
	}
	return fmt.Errorf("udp: %v: %w", at, err)
}

// findInterface returns the interface of addr: that of its zone (a name or an index), the loopback interface for a
// loopback address, or else the one that has it.
func findInterface(addr netip.Addr) iface {
	ifs, err := net.Interfaces()
	if err != nil {
		return iface{}
	}
	for _, i := range ifs {
		found := ifaceOf(&i)
		if zone := addr.Zone(); zone != "" {
			// The same link-local address may be on several interfaces, so the zone is needed.
			if i.Name == zone || strconv.Itoa(i.Index) == zone {
				return found
			}
			continue
		}
		if addr.IsLoopback() && i.Flags&net.FlagLoopback != 0 {
			return found
		}
		as, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range as {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == addr {
				return found
			}
		}
	}
	return iface{}
}
