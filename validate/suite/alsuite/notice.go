package alsuite

import (
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// How events of the driver, and changes without events, reach clients; and clients that block.
var noticing = area()

var CINotice01 = noticing.Must("CI-Notice-01", "CI access layer", "accesslayer, CA, EventHandler, Adapter",
	"Each event of the adapter reaches every open of it and every handler with its own context. If it announces a "+
		"change, the attributes have been queried before.")

var _ = noticing.Case(validate.Case{
	ID:    "al.notice.events",
	Title: "each event of a driver, with a change of the attributes",
	Run:   noticeEvents,
}, CINotice01)

// changing are the events that announce a change of the attributes, and others those that do not.
var changing = []ci.EventType{
	ci.EventPortActive, ci.EventPortDown, ci.EventPortInit, ci.EventPortTrap, ci.EventSystemGUIDTrap, ci.EventLIDChange,
	ci.EventPKeyChange, ci.EventSMChange, ci.EventGIDChange, ci.EventReregister, ci.EventResetEnd,
}

var others = []ci.EventType{
	ci.EventPKeyTrap, ci.EventQKeyTrap, ci.EventMKeyTrap, ci.EventBufferOverrun, ci.EventLinkIntegrity,
	ci.EventFlowControlError, ci.EventBKeyTrap, ci.EventResetDriver, ci.EventResetClient, ci.EventResetFailed,
	ci.EventResetForRemove, ci.EventLocalFatal,
}

// withTimeout is a query that returns the value as the timeout of the first port, which is Active.
func withTimeout(value ci.TimeExp) func(*scripted) {
	return func(d *scripted) {
		d.query = func(_ int, a *ci.CAAttr) (*ci.CAAttr, error) {
			a.Ports[0].State, a.Ports[0].SubnetTimeout = ci.PortActive, value
			return a, nil
		}
	}
}

func noticeEvents(t *validate.T) {
	d := &scripted{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	d.set(withTimeout(0))
	events := make(chan accesslayer.PortEvent, 64)
	s.watch(events)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	num := t.Attr().Ports[0].Num
	kit.Equal(t, "first event of a port", portEvent(t, events, num).Type, accesslayer.PortAdd)
	kit.Equal(t, "second event of a port", portEvent(t, events, num).Type, accesslayer.PortActive)
	a, err := s.al.Adapter(s.guid(0))
	kit.OK(t, err, "AL.Adapter")
	type notice struct {
		to      string
		e       ci.Event
		timeout ci.TimeExp // in the cache
	}
	notices := make(chan notice, 64)
	record := func(to string, e ci.Event) { notices <- notice{to, e, a.Attr().Ports[0].SubnetTimeout} }
	first, err := s.client.OpenCA(s.guid(0), func(_ *accesslayer.CA, e ci.Event) { record("first open", e) })
	kit.OK(t, err, "Client.OpenCA")
	second, err := s.newClient("another").OpenCA(s.guid(0), func(ca *accesslayer.CA, e ci.Event) {
		if ca.Adapter() != a {
			record("a CA of another adapter", e)
			return
		}
		record("second open", e)
	})
	kit.OK(t, err, "Client.OpenCA")
	silent, err := s.client.OpenCA(s.guid(0), nil) // without a callback, but with a handler
	kit.OK(t, err, "Client.OpenCA without a callback")
	_, err = first.NewEventHandler(nil, nil)
	kit.WantExactly(t, err, "CA.NewEventHandler without a callback", ci.InvalidParameter)
	handler, err := first.NewEventHandler(func(e ci.Event) { record("handler", e) }, "context")
	kit.OK(t, err, "CA.NewEventHandler")
	_, err = silent.NewEventHandler(func(e ci.Event) { record("handler of the third open", e) }, 3)
	kit.OK(t, err, "CA.NewEventHandler")
	value := ci.TimeExp(0)
	each := func(e ci.EventType, isChange bool, want map[string]any) {
		if isChange {
			value ^= 1
			d.set(withTimeout(value))
		}
		d.event(ci.Event{Type: e, Port: num})
		got := map[string]any{}
		for range want {
			n := expect(t, notices, fmt.Sprintf("callbacks for event %v", e))
			kit.Equal(t, "Event.Type at "+n.to, n.e.Type, e)
			kit.Equal(t, "Event.Port at "+n.to, n.e.Port, num)
			kit.Equal(t, fmt.Sprintf("cached SubnetTimeout in a callback for event %v", e), n.timeout, value)
			got[n.to] = n.e.Context
		}
		kit.Equal(t, fmt.Sprintf("receivers of event %v and their contexts", e), fmt.Sprint(got), fmt.Sprint(want))
		if isChange {
			kit.Equal(t, fmt.Sprintf("PortEvent.Type after event %v", e), portEvent(t, events, num).Type,
				accesslayer.PortSubnetTimeout)
		}
		if e == ci.EventReregister {
			kit.Equal(t, "PortEvent.Type after EventReregister", portEvent(t, events, num).Type,
				accesslayer.PortReregister)
		}
	}
	all := map[string]any{"first open": nil, "second open": nil, "handler": "context", "handler of the third open": 3}
	for _, e := range kit.Variants(t, "event", changing) {
		each(e, true, all)
	}
	for _, e := range kit.Variants(t, "event", others) {
		each(e, false, all)
	}
	for _, bad := range []uint8{0, uint8(len(a.Attr().Ports)) + 1, 255} { // nothing follows from such an event
		d.event(ci.Event{Type: ci.EventReregister, Port: bad})
		for range all {
			expect(t, notices, "callbacks for EventReregister of a port that does not exist")
		}
	}
	kit.OK(t, handler.Destroy(), "EventHandler.Destroy")
	kit.OK(t, second.Destroy(), "CA.Destroy")
	each(ci.EventReregister, true, map[string]any{"first open": nil, "handler of the third open": 3})
	kit.OK(t, s.al.WaitPnP(t.Context()), "AL.WaitPnP")
	none(t, notices, "callbacks for the last event")
	nonePort(t, events, num, "port events after the last event")
	d.set(nil)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	d.event(ci.Event{Type: ci.EventLocalFatal})
	none(t, notices, "callbacks for an event of a removed adapter")
	s.rec[0].shut(t)
}

var CINotice02 = noticing.Must("CI-Notice-02", "CI access layer",
	"accesslayer, Config.PollInterval, Adapter.Poll",
	"Changes that the driver does not report are found by queries, every PollInterval and after Adapter.Poll. A query "+
		"that fails, or that returns contradictory attributes, changes nothing. A removed adapter is not queried.")

var (
	_ = noticing.Case(validate.Case{
		ID:    "al.notice.poll",
		Title: "changes without an event, found by Adapter.Poll",
		Run:   func(t *validate.T) { noticePoll(t, 0) },
	}, CINotice02)
	_ = noticing.Case(validate.Case{
		ID:    "al.notice.interval",
		Title: "changes without an event, found by queries at an interval",
		Run:   func(t *validate.T) { noticePoll(t, time.Millisecond) },
	}, CINotice02)
)

func noticePoll(t *validate.T, interval time.Duration) {
	d := &scripted{}
	s := newStageOver(t, accesslayer.Config{PollInterval: interval}, d.over)
	d.set(withTimeout(0))
	events := make(chan accesslayer.PortEvent, 64)
	s.watch(events)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	num := t.Attr().Ports[0].Num
	kit.Equal(t, "first event of a port", portEvent(t, events, num).Type, accesslayer.PortAdd)
	kit.Equal(t, "second event of a port", portEvent(t, events, num).Type, accesslayer.PortActive)
	a, err := s.al.Adapter(s.guid(0))
	kit.OK(t, err, "AL.Adapter")
	queried := make(chan struct{}, 1)
	// bad returns wrong attributes, and announces the second query, which begins after the first was used.
	bad := func(wrong func(*ci.CAAttr) (*ci.CAAttr, error)) func(*scripted) {
		return func(d *scripted) {
			d.query = func(n int, a *ci.CAAttr) (*ci.CAAttr, error) {
				if n == 2 {
					queried <- struct{}{}
				}
				a.Ports[0].SubnetTimeout = 9
				return wrong(a)
			}
		}
	}
	value := ci.TimeExp(0)
	for _, v := range kit.Variants(t, "", []struct {
		name  string
		wrong func(*ci.CAAttr) (*ci.CAAttr, error)
	}{
		{"a query that fails", func(*ci.CAAttr) (*ci.CAAttr, error) {
			return nil, &ci.Error{Verb: "CA.Query", Status: ci.ErrorStatus}
		}},
		{"no attributes", func(*ci.CAAttr) (*ci.CAAttr, error) { return nil, nil }},
		{"another GUID", func(a *ci.CAAttr) (*ci.CAAttr, error) { a.GUID ^= 1; return a, nil }},
		{"one more port", func(a *ci.CAAttr) (*ci.CAAttr, error) {
			more := a.Ports[0]
			more.Num = uint8(len(a.Ports)) + 1
			a.Ports = append(a.Ports, more)
			return a, nil
		}},
		{"no port", func(a *ci.CAAttr) (*ci.CAAttr, error) { a.Ports = nil; return a, nil }},
	}) {
		d.set(bad(v.wrong))
		if interval == 0 {
			a.Poll()
			a.Poll()
		}
		expect(t, queried, "a second query after "+v.name)
		kit.Equal(t, "cached SubnetTimeout after "+v.name, a.Attr().Ports[0].SubnetTimeout, value)
		kit.Equal(t, "ports in the cache after "+v.name, len(a.Attr().Ports), len(t.Attr().Ports))
		value ^= 1
		d.set(withTimeout(value))
		if interval == 0 {
			a.Poll()
		}
		e := portEvent(t, events, num)
		kit.Equal(t, "PortEvent.Type for a change after "+v.name, e.Type, accesslayer.PortSubnetTimeout)
		kit.Equal(t, "PortEvent.Attr.SubnetTimeout for a change after "+v.name, e.Attr.SubnetTimeout, value)
	}
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	a.Poll()
	untilPort(t, events, num, accesslayer.PortRemove)
	nonePort(t, events, num, "events of the port after the adapter was removed")
	s.rec[0].shut(t)
}

var CINotice03 = noticing.Must("CI-Notice-03", "CI access layer",
	"accesslayer, PnPConfig, AL.Deregister, Client.OpenCA",
	"While a callback for PnP blocks, a registration with Sync and Deregister return Timeout. The registration is "+
		"then void. The removal continues: the adapter cannot be opened or registered before its end.")

var _ = noticing.Case(validate.Case{
	ID:    "al.notice.blocked",
	Title: "callbacks for an adapter that is added and removed block",
	Run:   noticeBlocked,
}, CINotice03)

func noticeBlocked(t *validate.T) {
	s := newStageOver(t, accesslayer.Config{DrainTimeout: 20 * time.Millisecond}, nil)
	entered, release := make(chan string, 8), make(chan struct{})
	var isReleased bool
	free := func() {
		if !isReleased {
			isReleased = true
			close(release)
		}
	}
	defer free()
	adding := make(chan struct{})
	blocks := accesslayer.PnPConfig{
		Add:    func(*accesslayer.Adapter) (any, error) { entered <- "add"; <-adding; return nil, nil },
		Remove: func(*accesslayer.Adapter, any) { entered <- "remove"; <-release },
	}
	_, err := s.client.RegisterPnP(blocks)
	kit.OK(t, err, "Client.RegisterPnP")
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register, which does not wait for clients")
	kit.Equal(t, "callback", expect(t, entered, "add callback"), "add")
	void := make(chan string, 8)
	p, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Add:    func(*accesslayer.Adapter) (any, error) { void <- "add"; return nil, nil },
		Remove: func(*accesslayer.Adapter, any) { void <- "remove" },
	})
	kit.WantExactly(t, err, "Client.RegisterPnP with Sync while a callback blocks", ci.Timeout)
	kit.True(t, p == nil, "registration that was not made", "nil", "%v", p)
	close(adding)
	kit.OK(t, s.al.WaitPnP(t.Context()), "AL.WaitPnP")
	ca, err := s.client.OpenCA(s.guid(0), nil)
	kit.OK(t, err, "Client.OpenCA")
	kit.WantExactly(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister while a callback blocks", ci.Timeout)
	kit.Equal(t, "callback", expect(t, entered, "remove callback"), "remove")
	kit.WantExactly(t, s.al.Deregister(s.guid(0)), "second Registrar.Deregister while a callback blocks", ci.Timeout)
	_, err = s.client.OpenCA(s.guid(0), nil)
	kit.WantExactly(t, err, "Client.OpenCA of an adapter that is being removed", ci.InvalidState)
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "Client.OpenCA of an adapter that is being removed", "ErrClosed",
		"%v", err)
	_, err = s.client.HCA(s.guid(0))
	kit.WantExactly(t, err, "Client.HCA of an adapter that is being removed", ci.NotFound)
	kit.WantExactly(t, s.al.Register(s.hcas[0]), "Registrar.Register of an adapter that is being removed",
		ci.ResourceBusy)
	_, err = ca.Query()
	kit.OK(t, err, "CA.Query before the end of the callback")
	free()
	err = s.al.Deregister(s.guid(0))
	for ci.StatusOf(err) == ci.Timeout && t.Context().Err() == nil { // a busy machine
		err = s.al.Deregister(s.guid(0))
	}
	if ci.StatusOf(err) != ci.NotFound { // the removal has ended before
		kit.OK(t, err, "Registrar.Deregister after the end of the callback")
	}
	none(t, entered, "further callbacks")
	none(t, void, "callbacks of a registration that was not made")
	s.rec[0].shut(t)
}

var CINotice04 = noticing.Must("CI-Notice-04", "CI access layer", "accesslayer, AL.Close",
	"AL.Close returns the error of a driver that refuses to close its adapter, and closes the others. It can be "+
		"called again.")

var _ = noticing.Case(validate.Case{
	ID:    "al.notice.close",
	Title: "the access layer is closed while a driver refuses to close its adapter",
	Run:   noticeClose,
}, CINotice04)

func noticeClose(t *validate.T) {
	d := newStubborn()
	s := newStageOver(t, accesslayer.Config{DestroyRetries: numRetries}, nil)
	kit.OK(t, s.al.Register(d.over(s.hcas[0])), "Registrar.Register")
	for _, h := range s.hcas[1:] {
		kit.OK(t, s.al.Register(h), "Registrar.Register")
	}
	ca := s.open(s.client, 0)
	ca.CQ(ca.PD(), 4)
	d.refuse("CA", 2*(numRetries+1), ci.InvalidState)
	for i := range 2 {
		where := fmt.Sprintf("call %d of AL.Close while a driver refuses", i+1)
		kit.WantExactly(t, s.al.Close(), where, ci.InvalidState)
		kit.Equal(t, "calls of CA.Destroy after "+where, d.count("CA"), (i+1)*(numRetries+1))
		for k := range s.hcas[1:] {
			s.rec[k+1].shut(t)
		}
	}
	kit.OK(t, s.al.Close(), "AL.Close when the driver does not refuse any more")
	kit.Equal(t, "calls of CA.Destroy", d.count("CA"), 2*(numRetries+1)+1)
	kit.OK(t, s.al.Close(), "AL.Close of a closed access layer")
	s.rec[0].shut(t)
	reopened(t, t.HCA())
}
