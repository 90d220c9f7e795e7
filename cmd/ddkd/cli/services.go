package cli

import (
	"errors"
	"math/rand/v2"
	"slices"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/kproxy/services"
)

// accessServices are the services of the access layer that clients use.
type accessServices struct {
	own     []func() error // close, in order of creation
	service *services.Service
	rdmacm  *cmid.Manager // of unmodified verbs programs
	mads    mads.Service
}

// startServices starts the services on an access layer.
func startServices(al *accesslayer.AL) (s *accessServices, err error) {
	s = new(accessServices)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	m, err := mads.New(al, mads.Config{Name: "ddkd"})
	if err != nil {
		return s, err
	}
	s.own, s.mads = append(s.own, m.Close), m
	c, err := cm.New(al, m, cm.Config{})
	if err != nil {
		return s, err
	}
	s.own = append(s.own, c.Close)
	ports, err := cmid.NewPortTable([2]uint16{}, rand.Uint64)
	if err != nil {
		return s, err
	}
	if s.service, err = services.New(services.Config{AL: al, MAD: m, CM: c, Ports: ports}); err != nil {
		return s, err
	}
	s.own = append(s.own, s.service.Close)
	client, err := al.Open(accesslayer.ClientConfig{Name: "connections of verbs programs"})
	if err != nil {
		return s, err
	}
	s.own = append(s.own, client.Close)
	if s.rdmacm, err = cmid.New(client, cmid.Config{CM: c, MAD: m, Ports: ports}); err != nil {
		return s, err
	}
	s.own = append(s.own, s.rdmacm.Close)
	return s, nil
}

// close stops the services. No client is connected any more.
func (s *accessServices) close() error {
	var errs []error
	for _, v := range slices.Backward(s.own) {
		errs = append(errs, v())
	}
	return errors.Join(errs...)
}
