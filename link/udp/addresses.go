package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"ciddk/link/internal/rocev2"
)

// An AddressSource reports the addresses of network interfaces. Its methods may be called concurrently.
type AddressSource interface {
	// Addresses returns the addresses that an interface has now, in the order of the GID table of a new port. An IPv6
	// link-local address has the interface as its zone. The error wraps ErrNoInterface if there is no such interface.
	Addresses(name string) ([]netip.Addr, error)

	// Watch calls changed whenever the addresses may have changed, until stop is called. changed must not block. stop
	// waits for a running call. If the source does not notice changes, Watch fails with errors.ErrUnsupported, and the
	// port reads the addresses every second.
	Watch(changed func()) (stop func(), err error)
}

// ErrNoInterface is the error of an AddressSource for an interface that does not exist.
var ErrNoInterface = errors.New("no such network interface")

// SystemAddresses returns the source of the addresses of this machine. It is the default of Config.Addresses.
func SystemAddresses() AddressSource { return systemAddresses{} }

type systemAddresses struct{}

// Addresses implements AddressSource.
func (systemAddresses) Addresses(name string) ([]netip.Addr, error) {
	i, err := interfaceNamed(name)
	if err != nil {
		return nil, err
	}
	prefixes, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of interface %s: %w", name, err)
	}
	var list []netip.Addr
	for _, p := range prefixes {
		prefix, err := netip.ParsePrefix(p.String())
		if err != nil {
			continue // no IP address
		}
		a := prefix.Addr().Unmap()
		if rocev2.NeedsZone(a) {
			a = a.WithZone(name)
		}
		list = append(list, a)
	}
	return list, nil
}

// Watch implements AddressSource.
func (systemAddresses) Watch(changed func()) (stop func(), err error) { return watchAddresses(changed) }

// interfaceNamed returns an interface of this machine.
func interfaceNamed(name string) (*net.Interface, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("the interfaces of this machine cannot be listed: %w", err)
	}
	for i := range ifs {
		if ifs[i].Name == name {
			return &ifs[i], nil
		}
	}
	return nil, fmt.Errorf("%s: %w; %s", name, ErrNoInterface, listInterfaces())
}
