package alsuite

import (
	"fmt"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Changes of an adapter's attributes, as the access layer reports and finds them.
var changes = area()

// edited stands above the driver. The case edits the ports that CA.Query returns.
type edited struct {
	mu   sync.Mutex
	edit func(ports []ci.PortAttr)
}

func (e *edited) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return editedCA{ciwrap.CA{CA: c}, e} }})
}

func (e *edited) set(edit func(ports []ci.PortAttr)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.edit = edit
}

type editedCA struct {
	ciwrap.CA
	e *edited
}

func (c editedCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err != nil {
		return nil, err
	}
	out := copyAttr(a)
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.e.edit != nil {
		c.e.edit(out.Ports)
	}
	return out, nil
}

// copyAttr returns a copy that a case may change.
func copyAttr(a *ci.CAAttr) *ci.CAAttr {
	out := *a
	out.Ports = slices.Clone(a.Ports)
	for i := range out.Ports {
		p := &out.Ports[i]
		p.GIDs, p.PKeys = slices.Clone(p.GIDs), slices.Clone(p.PKeys)
	}
	return &out
}

var CIChange01 = changes.Must("CI-Change-01", "CI access layer", "accesslayer, PortEvent",
	"Each change of a port has its events: the states that it passed, and what changed in its tables. Events of going "+
		"down come first, and those of coming up last. Tables are reported only from Armed on.")

var _ = changes.Case(validate.Case{
	ID:    "al.change.port",
	Title: "every change of a port, alone and with others",
	Run:   changePort,
}, CIChange01)

// portRow is what a query returns of a port, compared with its first attributes, and the events that follow.
type portRow struct {
	name string
	edit func(p *ci.PortAttr)
	want []accesslayer.PortEventType
}

var portRows = func() []portRow {
	const (
		down   = accesslayer.PortDown
		start  = accesslayer.PortInit
		armed  = accesslayer.PortArmed
		active = accesslayer.PortActive
		lid    = accesslayer.PortLID
		sm     = accesslayer.PortSM
		pkey   = accesslayer.PortPKey
		gid    = accesslayer.PortGID
	)
	type events = []accesslayer.PortEventType
	state := func(s ci.PortState) func(p *ci.PortAttr) { return func(p *ci.PortAttr) { p.State = s } }
	otherPKeys := func(p *ci.PortAttr) { p.PKeys = append(p.PKeys, 0x8123) }
	otherGIDs := func(p *ci.PortAttr) { p.GIDs = append(p.GIDs, ci.GIDEntry{GID: ci.GID{1, 15: 9}}) }
	both := func(a, b func(p *ci.PortAttr)) func(p *ci.PortAttr) { return func(p *ci.PortAttr) { a(p); b(p) } }
	none := func(*ci.PortAttr) {}
	otherLID := func(p *ci.PortAttr) { p.LID ^= 0x10 }
	return []portRow{
		{"nothing", none, nil},
		{"another LID", otherLID, events{lid}}, {"the first LID", none, events{lid}},
		{"another LMC", func(p *ci.PortAttr) { p.LMC ^= 1 }, events{lid}}, {"the first LMC", none, events{lid}},
		{"another LID of the SM", func(p *ci.PortAttr) { p.SMLID ^= 1 }, events{sm}},
		{"another SL of the SM instead", func(p *ci.PortAttr) { p.SMSL ^= 1 }, events{sm}},
		{"the first SL of the SM", none, events{sm}},
		{"another P_Key", otherPKeys, events{pkey}}, {"the first P_Keys", none, events{pkey}},
		{"another GID", otherGIDs, events{gid}}, {"the first GIDs", none, events{gid}},
		{"everything", func(p *ci.PortAttr) {
			otherPKeys(p)
			otherGIDs(p)
			p.LID, p.SMLID = p.LID^1, p.SMLID^1
		}, events{lid, sm, pkey, gid}},
		{"everything at first", none, events{lid, sm, pkey, gid}},
		{"Down", state(ci.PortDown), events{down}},
		{"another LID while Down", both(state(ci.PortDown), otherLID), events{lid}},
		{"other P_Keys and GIDs while Down", both(state(ci.PortDown), both(otherPKeys, otherGIDs)), events{lid}},
		{"Init with them", both(state(ci.PortInit), both(otherPKeys, otherGIDs)), events{start}},
		{"Init without them", state(ci.PortInit), nil},
		{"Armed", state(ci.PortArmed), events{armed}},
		{"Armed with other P_Keys", both(state(ci.PortArmed), otherPKeys), events{pkey}},
		{"Active without them", state(ci.PortActive), events{pkey, active}},
		{"a deferred Active", state(ci.PortActiveDefer), nil},
		{"Armed after Active, with other P_Keys", both(state(ci.PortArmed), otherPKeys), events{down, pkey, start, armed}},
		{"Active with another LID", both(state(ci.PortActive), otherLID), events{lid, pkey, active}},
		{"an unknown state", state(0), events{down, lid}},
		{"Active from an unknown state", state(ci.PortActive), events{start, armed, active}},
		{"Init after Active, with other P_Keys and GIDs", both(state(ci.PortInit), both(otherPKeys, otherGIDs)),
			events{down, start}},
		{"Active after Init", state(ci.PortActive), events{armed, active}},
	}
}()

func changePort(t *validate.T) {
	d := &edited{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	num := t.Attr().Ports[0].Num
	// The timeout changes with each row, so that each row has an event.
	apply := func(row int, edit func(*ci.PortAttr)) func(ports []ci.PortAttr) {
		return func(ports []ci.PortAttr) {
			p := &ports[0]
			p.State, p.SubnetTimeout = ci.PortActive, ci.TimeExp(row%2)
			edit(p)
		}
	}
	d.set(apply(1, func(*ci.PortAttr) {}))
	events := make(chan accesslayer.PortEvent, 64)
	s.watch(events)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	kit.Equal(t, "first event of a port", portEvent(t, events, num).Type, accesslayer.PortAdd)
	kit.Equal(t, "event after the port was added", portEvent(t, events, num).Type, accesslayer.PortActive)
	ca := s.open(s.client, 0)
	for i, row := range kit.Variants(t, "", portRows) {
		d.set(apply(i, row.edit))
		// The events of going down and of addresses come before that of the timeout, and the others after it.
		at := slices.IndexFunc(row.want, func(e accesslayer.PortEventType) bool {
			return e != accesslayer.PortLID && e != accesslayer.PortSM && e != accesslayer.PortDown
		})
		if at < 0 {
			at = len(row.want)
		}
		want := slices.Insert(slices.Clone(row.want), at, accesslayer.PortSubnetTimeout)
		kit.OK(t, ca.Modify(num, 0, ci.PortModify{}), "CA.Modify of no fields")
		var got []accesslayer.PortEventType
		for range want {
			e := portEvent(t, events, num)
			got = append(got, e.Type)
			kit.Equal(t, "PortEvent.Attr.SubnetTimeout, "+row.name, e.Attr.SubnetTimeout, ci.TimeExp(i%2))
		}
		kit.Equal(t, "events of a port with "+row.name, fmt.Sprintf("%v", got), fmt.Sprintf("%v", want))
		a, err := s.al.Adapter(s.guid(0))
		kit.OK(t, err, "AL.Adapter")
		p, err := a.Port(num)
		kit.OK(t, err, "Adapter.Port")
		kit.Equal(t, "cached SubnetTimeout, "+row.name, p.SubnetTimeout, ci.TimeExp(i%2))
	}
	nonePort(t, events, num, "events after the last change")
	late := make(chan accesslayer.PortEvent, 64)
	s.watch(late)
	kit.Equal(t, "first event of a late client", portEvent(t, late, num).Type, accesslayer.PortAdd)
	e := portEvent(t, late, num)
	kit.Equal(t, "second event of a late client", e.Type, accesslayer.PortActive)
	d.set(nil)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}

var CIChange02 = changes.Must("CI-Change-02", "CI access layer",
	"accesslayer, Adapter.FindPKey, FindGID, AL.AdapterByPort",
	"A partition is found by the low 15 bits of its P_Key, and the entry of a full member is preferred. A GID is "+
		"found at the preferred port, and in the entry of the newer packet format. A port is found by its GUID.")

var _ = changes.Case(validate.Case{
	ID:    "al.change.find",
	Title: "search tables with several entries for the same partition and GID",
	Run:   changeFind,
}, CIChange02)

func changeFind(t *validate.T) {
	d := &edited{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	one, two, three := ci.GID{0xfe, 0x80, 15: 1}, ci.GID{0x20, 1, 15: 2}, ci.GID{0x20, 1, 15: 3}
	d.set(func(ports []ci.PortAttr) {
		p := &ports[0]
		p.PKeys = []ci.PKey{0x7fff, 0x1234, 0, 0x8000, 0xffff, 0x9235, 0x1235}
		p.GIDs = []ci.GIDEntry{{GID: one, Type: ci.GIDRoCEv1}, {GID: two, Type: ci.GIDRoCEv1}, {}, {GID: one,
			Type: ci.GIDRoCEv2}, {GID: one, Type: ci.GIDRoCEv2}, {GID: three, Type: ci.GIDRoCEv2}}
	})
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	a, err := s.al.Adapter(s.guid(0))
	kit.OK(t, err, "AL.Adapter")
	num := a.Attr().Ports[0].Num
	for _, v := range kit.Variants(t, "", []struct {
		pkey  ci.PKey
		index uint16
		entry ci.PKey
	}{{0xffff, 4, 0xffff}, {0x7fff, 4, 0xffff}, {0x1234, 1, 0x1234}, {0x9234, 1, 0x1234}, {0x1235, 5, 0x9235}}) {
		where := fmt.Sprintf("Adapter.FindPKey of %#04x", uint16(v.pkey))
		index, entry, err := a.FindPKey(num, v.pkey)
		kit.OK(t, err, where)
		kit.Equal(t, where+": index", index, v.index)
		kit.Equal(t, where+": entry", entry, v.entry)
	}
	for _, absent := range []ci.PKey{0, 0x8000, 0x1236} {
		_, _, err := a.FindPKey(num, absent)
		kit.WantExactly(t, err, fmt.Sprintf("Adapter.FindPKey of %#04x", uint16(absent)), ci.NotFound)
	}
	for _, bad := range []uint8{0, uint8(len(a.Attr().Ports)) + 1, 255} {
		_, _, err := a.FindPKey(bad, 0xffff)
		kit.WantExactly(t, err, fmt.Sprintf("Adapter.FindPKey on port %d", bad), ci.InvalidPort)
	}
	for _, v := range kit.Variants(t, "", []struct {
		gid   ci.GID
		index uint16
	}{{one, 3}, {two, 1}, {three, 5}}) {
		port, index, err := a.FindGID(v.gid)
		where := fmt.Sprintf("Adapter.FindGID of %x", v.gid)
		kit.OK(t, err, where)
		kit.Equal(t, where+": port and index", [2]uint16{uint16(port), index}, [2]uint16{uint16(num), v.index})
		owner, port, err := s.al.AdapterByGID(v.gid)
		kit.OK(t, err, "AL.AdapterByGID")
		kit.True(t, owner == a && port == num, "AL.AdapterByGID", "the adapter and its port", "another one")
	}
	for _, absent := range []ci.GID{{}, {1}} {
		_, _, err := a.FindGID(absent)
		kit.WantExactly(t, err, fmt.Sprintf("Adapter.FindGID of %x", absent), ci.NotFound)
	}
	// A table with two ports: the preferred port comes first, then the packet format.
	table := &ci.CAAttr{Ports: []ci.PortAttr{
		{Num: 1, GIDs: []ci.GIDEntry{{GID: one, Type: ci.GIDRoCEv1}, {GID: two, Type: ci.GIDRoCEv1}}},
		{Num: 2, GIDs: []ci.GIDEntry{{GID: three}, {GID: one, Type: ci.GIDRoCEv2}}},
	}}
	for _, v := range []struct {
		preferred, port uint8
		gid             ci.GID
		index           uint16
	}{{0, 2, one, 1}, {1, 1, one, 0}, {2, 2, one, 1}, {2, 1, two, 1}, {1, 2, three, 0}} {
		port, index, ok := accesslayer.FindGID(table, v.preferred, v.gid)
		where := fmt.Sprintf("FindGID of %x with preferred port %d", v.gid, v.preferred)
		kit.True(t, ok, where, "an entry", "none")
		kit.Equal(t, where, [2]uint16{uint16(port), index}, [2]uint16{uint16(v.port), v.index})
	}
	for i := range a.Attr().Ports {
		p := &a.Attr().Ports[i]
		if p.GUID == 0 {
			continue
		}
		owner, port, err := s.al.AdapterByPort(p.GUID)
		kit.OK(t, err, "AL.AdapterByPort")
		kit.True(t, owner == a && port == p.Num, "AL.AdapterByPort", fmt.Sprintf("port %d", p.Num), "port %d", port)
	}
	_, _, err = s.al.AdapterByPort(0x0102030405060708)
	kit.WantExactly(t, err, "AL.AdapterByPort of an unknown GUID", ci.NotFound)
	d.set(nil)
	s.rec[0].clean(t)
}

var CIChange03 = changes.Must("CI-Change-03", "CI access layer", "accesslayer, PnPConfig, Client.RegisterPnP",
	"A client whose Add fails gets no further callbacks for that adapter, and others are not affected. A registration "+
		"that ends, also in its own callback, gets Remove for each adapter that it has accepted, and nothing more.")

var _ = changes.Case(validate.Case{
	ID:    "al.change.clients",
	Title: "clients that reject an adapter, and that end their registration in a callback",
	Run:   changeClients,
}, CIChange03)

func changeClients(t *validate.T) {
	s := newStage(t)
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{})
	kit.WantExactly(t, err, "Client.RegisterPnP without callbacks", ci.InvalidParameter)
	calls := make(chan string, 256)
	register := func(name string, add func() error) *accesslayer.PnP {
		p, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
			Add: func(*accesslayer.Adapter) (any, error) { calls <- name + " add"; return name, add() },
			Remove: func(_ *accesslayer.Adapter, data any) {
				calls <- fmt.Sprintf("%s remove %v", name, data)
			},
			Port: func(_ *accesslayer.Adapter, data any, e accesslayer.PortEvent) {
				if e.Port == 1 && (e.Type == accesslayer.PortAdd || e.Type == accesslayer.PortRemove) {
					calls <- fmt.Sprintf("%s port %v %v", name, e.Type, data)
				}
			}})
		kit.OK(t, err, "Client.RegisterPnP")
		return p
	}
	accepts := func() error { return nil }
	first := register("first", accepts)
	register("second", func() error { return fmt.Errorf("not this one") })
	var third *accesslayer.PnP
	third = register("third", func() error { return third.DestroyAsync(nil) })
	fourth := register("fourth", accepts)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	order := func(where string, want ...string) {
		for i, w := range want {
			kit.Equal(t, fmt.Sprintf("callback %d %s", i+1, where), expect(t, calls, where), w)
		}
	}
	order("for a new adapter", "first add", "second add", "third add", "fourth add", "first port add first",
		"fourth port add fourth", "third port remove third", "third remove third")
	kit.OK(t, fourth.Destroy(), "PnP.Destroy")
	order("for a registration that ends", "fourth port remove fourth", "fourth remove fourth")
	fifth := register("fifth", accepts)
	order("for a client that registers later", "fifth add", "fifth port add fifth")
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	order("for a removed adapter", "fifth port remove fifth", "first port remove first", "fifth remove fifth",
		"first remove first")
	kit.OK(t, first.Destroy(), "PnP.Destroy after the adapter was removed")
	kit.WantExactly(t, first.Destroy(), "second PnP.Destroy", ci.InvalidHandle)
	kit.OK(t, fifth.Destroy(), "PnP.Destroy after the adapter was removed")
	kit.OK(t, s.al.WaitPnP(t.Context()), "AL.WaitPnP")
	none(t, calls, "callbacks without an adapter")
	s.rec[0].shut(t)
}
