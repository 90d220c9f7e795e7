package cmsuite

import (
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// A Host is an HCA with MAD services and connection managers of its own, such as an HCA behind a daemon that owns its
// special QPs. The cases use them in place of their own. A target of Hosts sets validate.Target.Services.
type Host interface {
	ci.HCA
	// Serve starts the services of the HCA for one case. They are open once at a time.
	Serve() (Services, error)
}

// Services are the services of a Host.
type Services interface {
	// MAD returns the MAD services of the HCA's ports, and of no other port.
	MAD() mads.Service
	// Manage starts a connection manager. The services have at most one; its Close has the effect of cm.Manager.Close.
	Manage() (cm.Service, error)
	// Remove ends the services as the removal of the HCA does. It returns when MAD has no port.
	Remove() error
	// Close ends the services.
	Close() error
}

// local are services in the process of the case, over the HCA's special QPs.
type local struct {
	s    *side
	mads *mads.Manager
}

var _ Services = (*local)(nil)

func newLocal(s *side) (Services, error) {
	m, err := mads.New(s.al, s.setting.mads)
	if err != nil {
		return nil, err
	}
	return &local{s, m}, nil
}

// MAD implements Services.
func (l *local) MAD() mads.Service { return l.mads }

// Manage implements Services.
func (l *local) Manage() (cm.Service, error) {
	m, err := l.start(cm.Config{})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// start starts a connection manager with settings of the case.
func (l *local) start(cfg cm.Config) (*cm.Manager, error) { return cm.New(l.s.al, l.mads, cfg) }

// Remove implements Services. The removal of the HCA from the access layer ends the services.
func (l *local) Remove() error { return nil }

// Close implements Services.
func (l *local) Close() error { return l.mads.Close() }

// serve starts the services of a side and ends them when the case is over.
func (s *side) serve() {
	start, where := func() (Services, error) { return newLocal(s) }, "mads.New"
	if h, ok := s.hca.(Host); ok {
		start, where = h.Serve, "services of the HCA's host"
	}
	var err error
	s.services, err = start()
	kit.OK(s.t, err, where)
	s.closeAtEnd(s.services.Close, "end of the MAD services")
	s.mads = s.services.MAD()
}

// closeAtEnd closes a part of the stage when the case is over.
func (s *side) closeAtEnd(closePart func() error, where string) {
	s.t.Cleanup(func() {
		if err := closePart(); err != nil {
			s.t.Report(validate.Failure{Where: where + " at the end of the case", Expected: "success",
				Got: kit.Describe(err)})
		}
	})
}

// remove removes the HCA.
func (s *side) remove() {
	kit.OK(s.t, s.services.Remove(), "end of the services of a removed HCA")
	kit.OK(s.t, s.al.Deregister(s.hca.Info().GUID), "AL.Deregister")
}
