package cmsuite

import (
	"context"
	"io"
	"log/slog"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// side is one adapter with an access layer of its own, like a host.
type side struct {
	t        *validate.T
	al       *accesslayer.AL
	client   *accesslayer.Client
	hca      ci.HCA
	ca       *kit.CA // opened through the access layer, which tracks all objects of package kit
	services Services
	mads     mads.Service
	port     mads.Port
	setting  setting
}

// setting holds what a case chooses for the services of a side. Services in another process have none.
type setting struct {
	clock clock.Clock // of the access layer and of the services; nil: the machine's
	mads  mads.Config
}

// sides returns the adapter under test and its peer, with MAD services.
func sides(t *validate.T) (a, b *side) {
	ha, hb := t.Pair()
	return newSide(t, ha), newSide(t, hb)
}

func newSide(t *validate.T, h ci.HCA) *side { return newSideWith(t, h, setting{}) }

func newSideWith(t *validate.T, h ci.HCA, set setting) *side {
	defer t.Setup()()
	s := &side{t: t, hca: h, setting: set, al: accesslayer.New(accesslayer.Config{
		Clock:        set.clock,
		Logger:       slog.New(slog.NewTextHandler(io.Discard, nil)), // the cases check the results
		PollInterval: -1,                                             // no queries except those of the case
		DrainTimeout: t.Remaining() / 2,
	})}
	s.closeAtEnd(s.al.Close, "AL.Close")
	kit.OK(t, s.al.Register(h), "Registrar.Register")
	var err error
	s.client, err = s.al.Open(accesslayer.ClientConfig{Name: "certifier"})
	kit.OK(t, err, "AL.Open")
	in, err := s.client.HCA(h.Info().GUID)
	kit.OK(t, err, "Client.HCA")
	s.ca = kit.OpenHCA(t, in)
	s.serve()
	s.port = mads.Port{CA: h.Info().GUID, Num: s.ca.Port.Num}
	return s
}

// manager returns a connection manager over the side's MAD services.
func (s *side) manager() cm.Service {
	defer s.t.Setup()()
	m, err := s.services.Manage()
	kit.OK(s.t, err, "start of a connection manager")
	s.closeAtEnd(m.Close, "cm.Service.Close")
	return m
}

// agent registers an agent on the side's port.
func (s *side) agent(cfg mads.AgentConfig) mads.Agent {
	cfg.Port = s.port
	a, err := s.mads.Register(cfg)
	kit.OK(s.t, err, "mads.Service.Register")
	return a
}

// to returns the address of another side's QP1.
func (s *side) to(peer *side) mads.Address {
	return mads.Address{AV: s.ca.AddressOf(peer.ca), QPN: 1}
}

// gid returns the side's GID that a peer uses for the address that to returns.
func (s *side) gid(peer *side) ci.GID {
	return s.ca.Port.GIDs[s.ca.AddressOf(peer.ca).GRH.SGIDIndex].GID
}

// path returns the path to another side. A request contains the peer's GID, even where packets have no GRH.
func (s *side) path(peer *side) cm.Path {
	av := s.ca.AddressOf(peer.ca)
	if !av.Global {
		av.GRH.DGID = peer.ca.Port.GIDs[0].GID
	}
	return cm.Path{Port: s.port, AV: av, LifeTime: 2}
}

// wait returns a context for one wait of the case.
func wait(t *validate.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), t.Remaining())
}

// result runs a blocking call on another goroutine. The returned function waits for its result.
func result[V any](t *validate.T, where string, call func(context.Context) (V, error)) func() (V, error) {
	type outcome struct {
		v   V
		err error
	}
	ctx, cancel := wait(t)
	t.Cleanup(cancel)
	done := make(chan outcome, 1)
	t.Go(func() {
		v, err := call(ctx)
		done <- outcome{v, err}
	})
	return func() (V, error) {
		select {
		case o := <-done:
			return o.v, o.err
		case <-t.Context().Done():
			t.Failf(where, "a result by the deadline", "none")
			panic("not reached: Failf ends the case")
		}
	}
}

// deadline returns a context that ends at the given time or with the case.
func deadline(t *validate.T, end time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(t.Context(), end)
}
