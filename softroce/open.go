package softroce

import (
	"errors"
	"fmt"
	"net/netip"

	"ciddk/accesslayer/rdmacm"
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// Config describes the adapter and its connection manager. The zero value is ready for use.
type Config struct {
	// UDP describes the port, but for its Addr, which is an argument of Open.
	UDP udp.Config
	// HCA describes the adapter, but for its Ports, which Open makes. A Clock that is set is also that of the access
	// layer, unless that has its own.
	HCA reference.Config
	// Manager describes the services.
	Manager rdmacm.OpenConfig
}

// Open opens an adapter on an IP address of this machine and returns a connection manager. Manager.Close also closes
// the adapter. Errors: those of udp.New and reference.New (the machine does not have the address, or another program
// has UDP port 4791 there) and rdmacm.OpenHCA; a Config whose UDP.Addr or HCA.Ports is set.
func Open(addr netip.Addr, cfg Config) (*rdmacm.Manager, error) {
	switch {
	case cfg.UDP.Addr.IsValid():
		return nil, fmt.Errorf("softroce: Config.UDP.Addr is %v: give the address to Open alone", cfg.UDP.Addr)
	case cfg.HCA.Ports != nil:
		return nil, errors.New("softroce: Config.HCA.Ports is set: Open makes the port; for others, use " +
			"reference.New and rdmacm.OpenHCA")
	}
	cfg.UDP.Addr = addr
	port, err := udp.New(cfg.UDP)
	if err != nil {
		return nil, fmt.Errorf("softroce: opening an adapter on %v: %w", addr, err)
	}
	cfg.HCA.Ports = []rvt.Port{port}
	hca, err := reference.New(cfg.HCA)
	if err != nil {
		return nil, fmt.Errorf("softroce: opening an adapter on %v: %w", addr, err)
	}
	if cfg.Manager.AccessLayer.Clock == nil {
		cfg.Manager.AccessLayer.Clock = cfg.HCA.Clock
	}
	onClose := cfg.Manager.OnClose
	cfg.Manager.OnClose = func() error {
		err := hca.Close()
		if onClose != nil {
			err = errors.Join(err, onClose())
		}
		return err
	}
	m, err := rdmacm.OpenHCA(hca, cfg.Manager)
	if err != nil {
		return nil, errors.Join(err, hca.Close())
	}
	return m, nil
}
