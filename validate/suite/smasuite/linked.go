package smasuite

import (
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// A linked is a port as it is in use: the kit's MAD services hold QP0 and QP1 of the driver, and a subnet manager is at
// another port of the link. If the adapter has no agents, the kit is the agent and CA.LocalMAD does what the hardware
// does (SAS-2.1-13); otherwise, the kit must not answer a second time (SAS-2.1-18).
type linked struct {
	*port
	mads   *mads.Manager
	mu     sync.Mutex
	events []accesslayer.PortEventType
}

// link starts the kit on the driver and a manager at another port.
func link(t *validate.T) *linked { return linkOver(t, t.HCA(), mads.Config{}) }

// linkOver is link for the driver behind a wrapper, and for MAD services with settings.
func linkOver(t *validate.T, h ci.HCA, c mads.Config) *linked {
	l := &linked{port: &port{t: t, tid: firstTID}}
	end := t.Setup()
	poll := time.Duration(-1) // no queries: the kit sees each Set that it passes on
	if t.Attr().HasHardwareAgents(1) {
		poll = late // the driver has no events for some changes
	}
	al := accesslayer.New(accesslayer.Config{
		Logger:       slog.New(slog.NewTextHandler(io.Discard, nil)), // the cases check the results
		PollInterval: poll,
		Clock:        later{clock.Real()},
		DrainTimeout: t.Remaining() / 2,
	})
	closing(t, "AL.Close", al.Close)
	kit.OK(t, al.Register(h), "Registrar.Register")
	client, err := al.Open(accesslayer.ClientConfig{Name: "certifier"})
	kit.OK(t, err, "AL.Open")
	in, err := client.HCA(h.Info().GUID)
	kit.OK(t, err, "Client.HCA")
	l.ca = kit.OpenHCA(t, in)
	m, err := mads.New(al, c)
	kit.OK(t, err, "mads.New")
	l.mads = m
	closing(t, "mads.Manager.Close", m.Close)
	_, err = client.RegisterPnP(accesslayer.PnPConfig{Sync: true, Port: l.add})
	kit.OK(t, err, "Client.RegisterPnP")
	end()
	l.peer = newPeer(t, l.ca, ci.QP0)
	l.probe()
	return l
}

// later is the clock of a machine that has been on for an hour.
type later struct{ clock.Clock }

func (c later) Elapsed() time.Duration { return c.Clock.Elapsed() + time.Hour }

// closing closes a service of the kit at the end of the case.
func closing(t *validate.T, what string, f func() error) {
	t.Cleanup(func() {
		if err := f(); err != nil {
			t.Report(validate.Failure{Where: what + " at the end of the case", Expected: "success",
				Got: kit.Describe(err)})
		}
	})
}

// add records an event of the port.
func (l *linked) add(_ *accesslayer.Adapter, _ any, e accesslayer.PortEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e.Type)
}

// probe waits until the port is served: the kit opens QP0 after mads.New.
func (l *linked) probe() {
	q := l.smp(mad.Get, mad.AttrNodeInfo, 0)
	var m ci.MAD
	q.Put(m[:])
	for {
		l.peer.send(&m)
		if _, ok := l.peer.take(late, isResponse(q.TID)); ok {
			return
		}
		if l.t.Remaining() < time.Second {
			l.t.Failf("response to "+name(q)+" from another port of the link", "a response", "none")
		}
	}
}

// await waits for an event of the port at the consumers of the access layer.
func (l *linked) await(e accesslayer.PortEventType, after string) {
	var seen []accesslayer.PortEventType
	if !await(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		seen = slices.Clone(l.events)
		return slices.Contains(seen, e)
	}) {
		l.t.Failf("events of the port at consumers after "+after, e.String(), "%v", seen)
	}
}

// forget drops the events so far.
func (l *linked) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = nil
}
