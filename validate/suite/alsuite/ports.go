package alsuite

import (
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// States of ports, as PnP reports them.
var ports = area()

// The case takes the link of a port down and up. A client that registers while the link is down gets the state, too.
var _ = ports.Add("al.pnp.port", "a port goes down and comes up", func(t *validate.T) {
	s := newStage(t)
	early, late := make(chan accesslayer.PortEvent, 64), make(chan accesslayer.PortEvent, 64)
	s.watch(early)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	num := t.Attr().Ports[0].Num
	kit.Equal(t, "first event of a port", portEvent(t, early, num).Type, accesslayer.PortAdd)
	kit.Equal(t, "event after the port was added", portEvent(t, early, num).Type, accesslayer.PortActive)
	t.SetLink(false)
	e := untilPort(t, early, num, accesslayer.PortDown)
	kit.True(t, e.Attr != nil && e.Attr.State != ci.PortActive, "attributes in the event of a port that is down",
		"a state other than active", "%+v", e.Attr)
	a, err := s.al.Adapter(s.guid(0))
	kit.OK(t, err, "AL.Adapter")
	p, err := a.Port(num)
	kit.OK(t, err, "Adapter.Port")
	kit.True(t, p.State != ci.PortActive, "cached state of a port that is down", "not active", "%v", p.State)
	s.watch(late)
	kit.Equal(t, "first event of a client that registers later", portEvent(t, late, num).Type, accesslayer.PortAdd)
	kit.Equal(t, "second event of a client that registers later", portEvent(t, late, num).Type, accesslayer.PortDown)
	t.SetLink(true)
	for _, c := range []chan accesslayer.PortEvent{early, late} {
		e := untilPort(t, c, num, accesslayer.PortActive)
		kit.Equal(t, "state in the event of a port that is up", e.Attr.State, ci.PortActive)
	}
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	for _, c := range []chan accesslayer.PortEvent{early, late} {
		untilPort(t, c, num, accesslayer.PortRemove)
		nonePort(t, c, num, "events of the port after the adapter was removed")
	}
	s.rec[0].shut(t)
}, req.SAS2_3_04, req.SAS2_2_05)

// watch sends the port events of the first adapter.
func (s *stage) watch(c chan<- accesslayer.PortEvent) {
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Port: func(a *accesslayer.Adapter, _ any, e accesslayer.PortEvent) {
			if a.GUID() == s.guid(0) {
				c <- e
			}
		}})
	kit.OK(s.t, err, "Client.RegisterPnP")
}

// portEvent waits for the next event of a port.
func portEvent(t *validate.T, c <-chan accesslayer.PortEvent, num uint8) accesslayer.PortEvent {
	for {
		if e := expect(t, c, "event of the port"); e.Port == num {
			return e
		}
	}
}

// nonePort fails the case if an event of a port comes within a short time.
func nonePort(t *validate.T, c <-chan accesslayer.PortEvent, num uint8, where string) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case e := <-c:
			kit.True(t, e.Port != num, where, "no further callback", "%v", e)
		case <-timer.C:
			return
		}
	}
}

// untilPort waits for an event of one type. Other events of the port may come first, such as those of its tables.
func untilPort(t *validate.T, c <-chan accesslayer.PortEvent, num uint8,
	want accesslayer.PortEventType) accesslayer.PortEvent {
	for {
		if e := expect(t, c, "event "+want.String()+" of the port"); e.Port == num && e.Type == want {
			return e
		}
	}
}
