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
	// UDP describes the port. Its Addr is set by Open.
	UDP udp.Config
	// HCA describes the adapter. Its Ports are set by Open. A Clock that is set is also that of the access layer,
	// unless that has its own.
	HCA reference.Config
	// Manager describes the services.
	Manager rdmacm.OpenConfig
}

// Open opens an adapter on an IP address of this machine and returns a connection manager. Manager.Close also closes
// the adapter. Errors: those of udp.New and reference.New (the machine does not have the address, or another program
// has UDP port 4791 there) and rdmacm.OpenHCA.
func Open(addr netip.Addr, cfg Config) (*rdmacm.Manager, error) {
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
