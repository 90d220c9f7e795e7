package through

import (
	"context"
	"errors"
	"slices"
	"sync"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ual"
	"ciddk/ual/services"
	"ciddk/validate/suite/cmsuite"
)

// remoteHCA is an HCA of a daemon with the daemon's services.
type remoteHCA struct {
	ci.HCA
	p      *process
	client *ual.Client
}

var _ cmsuite.Host = (*remoteHCA)(nil)

// do executes an operation on the services of the HCA in the daemon process.
func (h *remoteHCA) do(op operation) error {
	_, err := h.p.call(context.Background(), &request{Op: op, GUID: h.Info().GUID}) // the watchdog limits its time
	return err
}

// Serve implements cmsuite.Host.
func (h *remoteHCA) Serve() (cmsuite.Services, error) {
	if err := h.do(opServe); err != nil {
		return nil, err
	}
	s, err := services.Open(h.client)
	if err != nil {
		return nil, errors.Join(err, h.do(opRetire))
	}
	return &remoteServices{h: h, s: s}, nil
}

// remoteServices are the daemon's services, reduced to one HCA.
type remoteServices struct {
	h *remoteHCA
	s *services.Services
}

// MAD implements cmsuite.Services.
func (r *remoteServices) MAD() mads.Service { return portsOf{r.s.MAD(), r.h.Info().GUID} }

// Manage implements cmsuite.Services.
func (r *remoteServices) Manage() (cm.Service, error) {
	if err := r.h.do(opManage); err != nil {
		return nil, err
	}
	return &remoteManager{Service: r.s.CM(), h: r.h}, nil
}

// Remove implements cmsuite.Services.
func (r *remoteServices) Remove() error {
	if err := r.h.do(opDepart); err != nil {
		return err
	}
	ports := map[mads.Port]bool{}
	empty := make(chan struct{})
	gone := sync.OnceFunc(func() { close(empty) })
	stop := r.MAD().Watch(func(p mads.Port, there bool) {
		if there {
			ports[p] = true
			return
		}
		delete(ports, p)
		if len(ports) == 0 {
			gone()
		}
	})
	defer stop()
	if len(r.MAD().Ports()) == 0 {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-r.h.p.done:
		return errors.New("the driver's process has ended")
	}
}

// Close implements cmsuite.Services.
func (r *remoteServices) Close() error { return errors.Join(r.s.Close(), r.h.do(opRetire)) }

// portsOf is a mads.Service with the ports of one HCA.
type portsOf struct {
	mads.Service
	guid ci.GUID
}

// Ports implements mads.Service.
func (s portsOf) Ports() []mads.Port {
	return slices.DeleteFunc(s.Service.Ports(), func(p mads.Port) bool { return p.CA != s.guid })
}

// Watch implements mads.Service.
func (s portsOf) Watch(f func(p mads.Port, there bool)) (stop func()) {
	return s.Service.Watch(func(p mads.Port, there bool) {
		if p.CA == s.guid {
			f(p, there)
		}
	})
}

// remoteManager is the daemon's connection manager of one HCA.
type remoteManager struct {
	cm.Service
	h *remoteHCA

	closing sync.Once
	err     error // of Close
}

// Listen implements cm.Service. It sets the HCA, by which the daemon selects the manager.
func (m *remoteManager) Listen(cfg cm.ListenConfig) (cm.Listener, error) {
	if cfg.Port == (mads.Port{}) { // a port number without a CA is an error
		cfg.Port.CA = m.h.Info().GUID
	}
	return m.Service.Listen(cfg)
}

// Close implements cm.Service. The services of package ual share a manager and do not close it.
func (m *remoteManager) Close() error {
	m.closing.Do(func() { m.err = m.h.do(opRelease) })
	return m.err
}
