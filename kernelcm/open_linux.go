//go:build amd64 || arm64

package kernelcm

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/hca/verbs"
	"ciddk/softroce"
)

// Open opens RDMA devices of this machine, with an access layer and the kernel's connection manager. Manager.Close
// closes all of it. Errors: those of the configuration, of verbs.Open and of New; errors.ErrUnsupported on other
// systems.
func Open(cfg Config) (*rdmacm.Manager, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	names, err := cfg.devices()
	if len(names) == 0 && cfg.Software && cfg.Interface != "" {
		addr, addrErr := addressOfInterface(cfg.Interface)
		if addrErr != nil {
			return nil, errors.Join(err, addrErr)
		}
		log.Info("kernelcm: the interface has no RDMA device; opened the software adapter", "interface", cfg.Interface,
			"address", addr, "reason", err)
		return softroce.Open(addr, cfg.SoftRoCE)
	}
	if err != nil {
		return nil, err
	}
	var own []func() error
	closeAll := func() error {
		var errs []error
		for _, f := range slices.Backward(own) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	fail := func(err error) (*rdmacm.Manager, error) { return nil, errors.Join(err, closeAll()) }
	var hcas []*verbs.HCA
	for _, name := range names {
		hca, err := verbs.Open(verbs.Config{Device: name})
		if err != nil {
			return fail(err)
		}
		own = append(own, hca.Close)
		hcas = append(hcas, hca)
	}
	al := accesslayer.New(cfg.AccessLayer)
	own = append(own, al.Close)
	for _, hca := range hcas {
		if err := al.Register(hca); err != nil {
			return fail(err)
		}
	}
	s, err := New(al)
	if err != nil {
		return fail(err)
	}
	own = append(own, s.Close)
	client, err := al.Open(accesslayer.ClientConfig{Name: "kernelcm"})
	if err != nil {
		return fail(err)
	}
	own = append(own, client.Close)
	ids, err := cmid.New(client, cmid.Config{CM: s, Ports: s.Ports(), Resolver: s.Resolver(), OnClose: closeAll})
	if err != nil {
		return fail(err)
	}
	log.Info("kernelcm: opened RDMA devices of the machine", "devices", names)
	return rdmacm.New(ids), nil
}

// devices returns the names of the devices to open.
func (c *Config) devices() ([]string, error) {
	invalid := func(detail string) error {
		return &ci.Error{Verb: "kernelcm.Open", Status: ci.InvalidParameter, Detail: detail}
	}
	switch {
	case c.Device != "" && c.Interface != "":
		return nil, invalid("Device and Interface exclude each other")
	case c.Software && c.Interface == "":
		return nil, invalid("Software needs an Interface, on whose address the software adapter is opened")
	case c.Device != "":
		return []string{c.Device}, nil
	}
	names, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	if c.Interface != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return !isOn(name, c.Interface) })
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("kernelcm: no RDMA device on %s: rdma link shows those that exist",
			cmp.Or(c.Interface, "this machine"))
	}
	return names, nil
}

// isOn reports whether a port of a device sends through a network interface.
func isOn(device, ifname string) bool {
	files, _ := filepath.Glob(filepath.Join("/sys/class/infiniband", device, "ports/*/gid_attrs/ndevs/*"))
	return slices.ContainsFunc(files, func(f string) bool {
		b, err := os.ReadFile(f) // an entry without an interface cannot be read
		return err == nil && strings.TrimSpace(string(b)) == ifname
	})
}

// addressOfInterface returns the first address of an interface that is not link-local, or any.
func addressOfInterface(name string) (netip.Addr, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("the interface %s: %w", name, err)
	}
	list, err := ifi.Addrs()
	if err != nil {
		return netip.Addr{}, err
	}
	var found []netip.Addr
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			found = append(found, p.Addr())
		}
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int {
		rank := func(a netip.Addr) int {
			if a.IsLinkLocalUnicast() {
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	if len(found) == 0 {
		return netip.Addr{}, fmt.Errorf("the interface %s has no address", name)
	}
	return found[0].WithZone(zone(found[0], name)), nil
}

func zone(a netip.Addr, ifname string) string {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return ifname
	}
	return ""
}
