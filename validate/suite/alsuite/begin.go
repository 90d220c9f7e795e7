package alsuite

import (
	"errors"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// What Register asks of a driver, and what it does with one that is not ready.
var begins = area()

var CIBegin01 = begins.Must("CI-Begin-01", "CI access layer", "accesslayer, AL.Register",
	"Register returns the error of a driver that cannot be opened or queried, and rejects one of another major "+
		"version and attributes that contradict each other. Then the CA is closed, the GUID is free, and no client is "+
		"notified.")

var _ = begins.Case(validate.Case{
	ID:    "al.begin.refused",
	Title: "register adapters that cannot be opened, or whose attributes contradict each other",
	Run:   beginRefused,
}, CIBegin01)

// withoutReregister makes the ports ones that Register leaves as they are: it sets no capability of Ethernet ports.
func withoutReregister(a *ci.CAAttr) *ci.CAAttr {
	for i := range a.Ports {
		a.Ports[i].Link = ci.LinkEthernet
	}
	return a
}

func beginRefused(t *validate.T) {
	d := &scripted{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	calls := make(chan ci.GUID, 64)
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{
		Add:    func(a *accesslayer.Adapter) (any, error) { calls <- a.GUID(); return nil, nil },
		Remove: func(a *accesslayer.Adapter, _ any) { calls <- a.GUID() },
	})
	kit.OK(t, err, "Client.RegisterPnP")
	busy := &ci.Error{Verb: "a verb of the driver", Status: ci.InsufficientResources}
	early := func(raise func(ci.Event)) error { // an event before OpenCA has returned
		raise(ci.Event{Type: ci.EventLIDChange, Port: 1})
		return nil
	}
	attr := func(edit func(*ci.CAAttr)) func(*scripted) {
		return func(d *scripted) {
			d.open = early
			d.query = func(_ int, a *ci.CAAttr) (*ci.CAAttr, error) { edit(withoutReregister(a)); return a, nil }
		}
	}
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		set    func(*scripted)
		want   ci.Status
		counts [3]int // opens, queries, calls of Modify
	}{
		{"GUID 0", func(d *scripted) { d.info = func(i *ci.HCAInfo) { i.GUID = 0 } }, ci.InvalidParameter, [3]int{}},
		{"the next major version", func(d *scripted) {
			d.info = func(i *ci.HCAInfo) { i.Version = ci.InterfaceVersion + 1<<16 }
		}, ci.Unsupported, [3]int{}},
		{"the major version before", func(d *scripted) {
			d.info = func(i *ci.HCAInfo) { i.Version = ci.InterfaceVersion - 1 }
		}, ci.Unsupported, [3]int{}},
		{"OpenCA fails", func(d *scripted) {
			d.open = func(raise func(ci.Event)) error { return errors.Join(early(raise), busy) }
		}, ci.InsufficientResources, [3]int{1}},
		{"Query fails", func(d *scripted) {
			d.open = early
			d.query = func(int, *ci.CAAttr) (*ci.CAAttr, error) { return nil, busy }
		}, ci.InsufficientResources, [3]int{1, 1}},
		{"Query returns nothing", func(d *scripted) {
			d.query = func(int, *ci.CAAttr) (*ci.CAAttr, error) { return nil, nil }
		}, ci.InvalidParameter, [3]int{1, 1}},
		{"another GUID in the attributes", attr(func(a *ci.CAAttr) { a.GUID ^= 1 }), ci.InvalidParameter, [3]int{1, 1}},
		{"no ports", attr(func(a *ci.CAAttr) { a.Ports = nil }), ci.InvalidParameter, [3]int{1, 1}},
		{"ports that are counted from 0", attr(func(a *ci.CAAttr) {
			for i := range a.Ports {
				a.Ports[i].Num--
			}
		}), ci.InvalidParameter, [3]int{1, 1}},
		{"two ports of the same number", attr(func(a *ci.CAAttr) { a.Ports = append(a.Ports[:1:1], a.Ports[0]) }),
			ci.InvalidParameter, [3]int{1, 1}},
		{"Query fails after a capability was set", func(d *scripted) {
			d.modify = func(uint8, ci.PortField, ci.PortModify) {}
			d.query = func(n int, a *ci.CAAttr) (*ci.CAAttr, error) {
				if n > 1 {
					return nil, busy
				}
				return withReregister(a, false), nil
			}
		}, ci.InsufficientResources, [3]int{1, 2, 1}},
		{"other ports after a capability was set", func(d *scripted) {
			d.modify = func(uint8, ci.PortField, ci.PortModify) {}
			d.query = func(n int, a *ci.CAAttr) (*ci.CAAttr, error) {
				if n > 1 {
					a.Ports = nil
				}
				return withReregister(a, false), nil
			}
		}, ci.InvalidParameter, [3]int{1, 2, 1}},
	}) {
		d.set(v.set)
		opens, closes := s.rec[0].count("HCA.OpenCA"), s.rec[0].count("CA.Destroy")
		where := "Registrar.Register of an adapter: " + v.name
		kit.WantExactly(t, s.al.Register(s.hcas[0]), where, v.want)
		kit.Equal(t, "opens, queries and calls of Modify in "+where, d.counts(), v.counts)
		kit.Equal(t, "closes of the driver's CA, like opens, in "+where, s.rec[0].count("CA.Destroy")-closes,
			s.rec[0].count("HCA.OpenCA")-opens)
		d.set(nil)
		kit.Equal(t, "adapters after "+where, len(s.al.Adapters()), 0)
		kit.WantExactly(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister after "+where, ci.NotFound)
		_, err := s.client.OpenCA(s.guid(0), nil)
		kit.WantExactly(t, err, "Client.OpenCA after "+where, ci.NotFound)
		kit.OK(t, s.al.WaitPnP(t.Context()), "AL.WaitPnP")
		kit.Equal(t, "callbacks of clients after "+where, len(calls), 0)
	}
	d.set(func(d *scripted) { d.info = func(i *ci.HCAInfo) { i.Version = ci.InterfaceVersion | 0xffff } })
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register of an adapter with another minor version")
	kit.Equal(t, "adapter that clients are notified of", expect(t, calls, "add callback"), s.guid(0))
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}

// withReregister makes the first port an InfiniBand port, with or without the capability that Register sets, and the
// others Ethernet ports.
func withReregister(a *ci.CAAttr, has bool) *ci.CAAttr {
	withoutReregister(a)
	for i := range a.Ports[:min(1, len(a.Ports))] {
		p := &a.Ports[i]
		p.Link, p.Capability = ci.LinkInfiniBand, p.Capability&^ci.PortCapReregister
		if has {
			p.Capability |= ci.PortCapReregister
		}
	}
	return a
}

var CIBegin02 = begins.Must("CI-Begin-02", "CI access layer", "accesslayer, AL.Register",
	"Register sets IsClientReregistrationSupported of InfiniBand ports that do not have it, and of no others. A "+
		"driver that cannot set it is registered all the same.")

var _ = begins.Case(validate.Case{
	ID:    "al.begin.reregister",
	Title: "the capability of ports that Register sets",
	Run:   beginReregister,
}, CIBegin02)

func beginReregister(t *validate.T) {
	d := &scripted{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	fails := &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported}
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		ib     bool // the first port is an InfiniBand port
		has    bool // with the capability
		fail   error
		counts [3]int
	}{
		{"an InfiniBand port without it", true, false, nil, [3]int{1, 2, 1}},
		{"an InfiniBand port with it", true, true, nil, [3]int{1, 1, 0}},
		{"an InfiniBand port that does not allow it", true, false, fails, [3]int{1, 1, 1}},
		{"an Ethernet port", false, false, nil, [3]int{1, 1, 0}},
	}) {
		type change struct {
			num uint8
			f   ci.PortField
			a   ci.PortModify
		}
		changes := make(chan change, 64)
		d.set(func(d *scripted) {
			has := v.has
			d.fail = v.fail
			d.modify = func(num uint8, f ci.PortField, a ci.PortModify) {
				changes <- change{num, f, a}
				has = has || v.fail == nil
			}
			d.query = func(_ int, a *ci.CAAttr) (*ci.CAAttr, error) {
				a = withReregister(a, has)
				if !v.ib {
					a = withoutReregister(a)
				}
				return a, nil
			}
		})
		kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register with "+v.name)
		kit.Equal(t, "opens, queries and calls of Modify, with "+v.name, d.counts(), v.counts)
		a, err := s.al.Adapter(s.guid(0))
		kit.OK(t, err, "AL.Adapter")
		num := a.Attr().Ports[0].Num
		kit.Equal(t, "cached IsClientReregistrationSupported, with "+v.name,
			a.Attr().Ports[0].Capability&ci.PortCapReregister != 0, v.ib && v.fail == nil)
		for range v.counts[2] {
			kit.Equal(t, "CA.Modify by Register, with "+v.name, expect(t, changes, "CA.Modify"), change{num,
				ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapReregister, Capability: ci.PortCapReregister}})
		}
		d.set(nil)
		kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
		s.rec[0].shut(t)
	}
}

var CIBegin03 = begins.Must("CI-Begin-03", "CI access layer", "accesslayer, AL.Register, AL.Deregister",
	"If the driver refuses to close an adapter whose registration has failed, the GUID stays reserved until "+
		"Deregister has closed it.")

var _ = begins.Case(validate.Case{
	ID:    "al.begin.stuck",
	Title: "a registration fails, and the driver refuses to close the CA",
	Run:   beginStuck,
}, CIBegin03)

func beginStuck(t *validate.T) {
	d, refusing, lost := &scripted{}, newStubborn(), make(chan error, 16)
	cfg := accesslayer.Config{DestroyRetries: numRetries, OnDestroyError: func(err error) { lost <- err }}
	s := newStageOver(t, cfg, func(h ci.HCA) ci.HCA { return d.over(refusing.over(h)) })
	const refused = 1 + 1 + numRetries // of Register itself, and of its repetitions
	refusing.refuse("CA", refused, ci.InvalidState)
	d.set(func(d *scripted) {
		d.query = func(int, *ci.CAAttr) (*ci.CAAttr, error) {
			return nil, &ci.Error{Verb: "CA.Query", Status: ci.InsufficientResources}
		}
	})
	kit.WantExactly(t, s.al.Register(s.hcas[0]), "Registrar.Register of an adapter that cannot be queried or closed",
		ci.InsufficientResources)
	kit.Want(t, expect(t, lost, "Config.OnDestroyError"), "error of Config.OnDestroyError", ci.InvalidState)
	kit.Equal(t, "calls of CA.Destroy that the driver refused", refusing.count("CA"), refused)
	d.set(nil)
	kit.WantExactly(t, s.al.Register(s.hcas[0]), "Registrar.Register of an adapter that is not closed", ci.ResourceBusy)
	kit.Equal(t, "adapters", len(s.al.Adapters()), 0)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister of an adapter that is not closed")
	kit.Equal(t, "calls of CA.Destroy", refusing.count("CA"), refused+1)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register after it was closed")
	ca := s.open(s.client, 0)
	ca.CQ(ca.PD(), 4)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	none(t, lost, "Config.OnDestroyError after the last refusal")
	s.rec[0].shut(t)
}
