package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/kproxy"
	"ciddk/kproxy/native/server"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// daemon is adapters, the access layer and the proxy.
type daemon struct {
	al   *accesslayer.AL
	hcas []*reference.HCA
	core *kproxy.Server
	srv  *server.Server
}

// start creates everything except the socket.
func start(c *config, log *slog.Logger) (*daemon, error) {
	d := &daemon{al: accesslayer.New(accesslayer.Config{Logger: log})}
	if err := d.open(c, log); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *daemon) open(c *config, log *slog.Logger) (err error) {
	network := sim.NewNetwork(sim.NetworkConfig{})
	for i := range c.Adapters {
		if err := d.add(&c.Adapters[i], network, log); err != nil {
			return fmt.Errorf("adapter %d: %w", i+1, err)
		}
	}
	d.core, err = kproxy.New(kproxy.Config{AL: d.al, Logger: log, Quota: c.Quota.quota(), MaxClients: c.MaxClients,
		MaxClientsPerUser: c.MaxClientsPerUser})
	if err != nil {
		return err
	}
	d.srv = server.New(d.core, clock.Real())
	return nil
}

// add opens an adapter and registers it.
func (d *daemon) add(a *adapterConfig, network *sim.Network, log *slog.Logger) error {
	var port rvt.Port
	var err error
	var addr netip.Addr
	if a.Address != "" {
		addr = netip.MustParseAddr(a.Address) // check has parsed it
	}
	if a.Link == "network" {
		port, err = sim.New(network, sim.Config{Addr: addr})
	} else {
		port, err = udp.New(udp.Config{Addr: addr, Interface: a.Interface, Port: a.Port})
	}
	if err != nil {
		return err
	}
	h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	if err != nil {
		return err
	}
	d.hcas = append(d.hcas, h)
	if err := d.al.Register(h); err != nil {
		return err
	}
	log.Info("adapter", "guid", fmt.Sprintf("%016x", uint64(h.Info().GUID)), "link", a.Link, "address", a.Address,
		"interface", a.Interface)
	return nil
}

// stop closes the connections and destroys everything.
func (d *daemon) stop() error {
	if d.srv != nil {
		d.srv.Close()
	}
	var errs []error
	if d.core != nil {
		errs = append(errs, d.core.Close())
	}
	errs = append(errs, d.al.Close())
	for _, h := range d.hcas {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}
