package usersuite

import (
	"fmt"
	"net/netip"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = servings.Case(validate.Case{
	ID:    "user.service.listeners",
	Title: "two processes may not listen for one request: each filter that keeps their requests apart, and none",
	Run:   servingListeners,
}, req.SAS2_4_10)

// Service IDs of the cases, which differ in the last byte.
const serviceA, serviceB = 0x0011223344556677, 0x0011223344556678

// listenPair is two listeners that a request may match both.
type listenPair struct {
	what     string
	a, b     schema.CMListen
	overlaps bool
}

// listenPairs returns pairs for each filter of a listener.
func listenPairs(port schema.PortID) []listenPair {
	type l = schema.CMListen
	adapter := schema.PortID{CA: port.CA}
	other := schema.PortID{CA: port.CA + 1, Num: port.Num}
	next := schema.PortID{CA: port.CA, Num: port.Num + 1}
	gid1, gid2 := ci.GID{0: 0xfe, 15: 1}, ci.GID{0: 0xfe, 15: 2}
	list := []listenPair{
		{"the same service", l{}, l{}, true},
		{"another service", l{}, l{ServiceID: serviceB}, false},
		{"another service in the bits of both masks", l{Mask: ^uint64(0x0f)}, l{ServiceID: serviceB}, true},
		{"another service outside of the bits of a mask", l{Mask: ^uint64(0x07)}, l{ServiceID: serviceB}, false},
		{"datagrams and connections", l{Datagram: true}, l{}, false},
		{"datagrams of both", l{Datagram: true}, l{Datagram: true}, true},
		{"an adapter and all", l{Port: adapter}, l{}, true},
		{"an adapter and another", l{Port: adapter}, l{Port: other}, false},
		{"a port and its adapter", l{Port: port}, l{Port: adapter}, true},
		{"a port and another", l{Port: port}, l{Port: next}, false},
		{"the same port", l{Port: port}, l{Port: port}, true},
		{"a GID and all", l{GID: gid1}, l{}, true},
		{"a GID and another", l{GID: gid1}, l{GID: gid2}, false},
		{"the same GID", l{GID: gid1}, l{GID: gid1}, true},
		{"a LID and all", l{LID: 5}, l{}, true},
		{"a LID and another", l{LID: 5}, l{LID: 6}, false},
		{"the same LID", l{LID: 5}, l{LID: 5}, true},
		{"a P_Key and all", l{PKey: 0x8001}, l{}, true},
		{"a P_Key and another", l{PKey: 0x8001}, l{PKey: 0x8002}, false},
		{"full and limited members of a partition", l{PKey: 0x8001}, l{PKey: 0x0001}, true},
		{"private data and any", l{Compare: []byte{1, 2}}, l{}, true},
		{"other private data", l{Compare: []byte{1, 2}}, l{Compare: []byte{1, 3}}, false},
		{"the same private data", l{Compare: []byte{1, 2}}, l{Compare: []byte{1, 2}}, true},
		{"more of the same private data", l{Compare: []byte{1, 2}}, l{Compare: []byte{1, 2, 3}}, true},
		{"private data at offsets without a common byte", l{Compare: []byte{1, 2}}, l{Offset: 2, Compare: []byte{9, 9}},
			true},
		{"private data at offsets with a byte that differs", l{Offset: 3, Compare: []byte{1, 2}},
			l{Offset: 4, Compare: []byte{9}}, false},
		{"private data at offsets with a byte that agrees", l{Offset: 3, Compare: []byte{1, 2}},
			l{Offset: 4, Compare: []byte{2, 7}}, true},
	}
	for i := range list {
		for _, x := range []*schema.CMListen{&list[i].a, &list[i].b} {
			if x.ServiceID == 0 {
				x.ServiceID = serviceA
			}
		}
	}
	return list
}

func servingListeners(t *validate.T) {
	s := newStage(t)
	s.withServices()
	x, y := s.patron(), s.patron()
	listen := func(p *patron, l schema.CMListen) (schema.Handle, error) {
		l.Services = p.services
		return p.create(schema.CmdCMListen, &l)
	}
	for _, v := range kit.Variants(t, "", listenPairs(x.port)) {
		for _, l := range [][2]schema.CMListen{{v.a, v.b}, {v.b, v.a}} {
			first, err := listen(x, l[0])
			kit.OK(t, err, "Service.Listen of one process")
			second, err := listen(y, l[1])
			if v.overlaps {
				kit.WantExactly(t, err, "Service.Listen of another process: "+v.what, ci.InvalidSetting)
				x.destroyed(first)
				second, err = listen(y, l[1])
				kit.OK(t, err, "Service.Listen after the other process has closed its listener")
			} else {
				kit.OK(t, err, "Service.Listen of another process: "+v.what)
				x.destroyed(first)
			}
			y.destroyed(second)
		}
	}
	t.Step("the end of a process with a listener")
	_, err := listen(x, schema.CMListen{ServiceID: serviceA})
	kit.OK(t, err, "Service.Listen")
	x.c.Close()
	s.await("Service.Listen after the end of the process that listened", "success", func() string {
		if _, err := listen(y, schema.CMListen{ServiceID: serviceA}); err != nil {
			return kit.Describe(err)
		}
		return ""
	})
}

var _ = servings.Case(validate.Case{
	ID:    "user.service.ports",
	Title: "ports of the port spaces that processes take: by address, shared, chosen, listened on and given back",
	Run:   servingPorts,
}, req.SAS2_4_10)

func servingPorts(t *validate.T) {
	s := newStage(t)
	s.withServices()
	x, y := s.patron(), s.patron()
	bind := func(p *patron, b schema.BindPort) (schema.BindPortReply, error) {
		var r schema.BindPortReply
		b.Services = p.services
		err := p.do(schema.CmdBindPort, &b, &r)
		return r, err
	}
	listen := func(p *patron, h schema.Handle, on bool) error {
		return p.do(schema.CmdListenPort, &schema.ListenPort{Port: h, Listen: on}, &schema.None{})
	}
	const num = 7471
	tcp := schema.BindPort{Space: uint16(rdmacm.TCP), Port: num}
	at := func(b schema.BindPort, family uint8, addr string) schema.BindPort {
		a := netip.MustParseAddr(addr)
		if b.Family = family; family == 4 {
			*(*[4]byte)(b.Addr[:]) = a.As4()
		} else {
			b.Addr = a.As16()
		}
		return b
	}
	shared := tcp
	shared.Reuse = true
	other := tcp
	other.Space = uint16(rdmacm.UDP)
	ib := tcp
	ib.Space = uint16(rdmacm.IB)
	for _, v := range kit.Variants(t, "", []struct {
		what     string
		a, b     schema.BindPort
		overlaps bool
	}{
		{"the same port", tcp, tcp, true},
		{"another space", tcp, other, false},
		{"a third space", tcp, ib, false},
		{"an address of IPv4 and all", at(tcp, 4, "10.0.0.1"), tcp, true},
		{"another address of IPv4", at(tcp, 4, "10.0.0.1"), at(tcp, 4, "10.0.0.2"), false},
		{"an address of IPv6 and all", at(tcp, 6, "fd00::1"), tcp, true},
		{"another address of IPv6", at(tcp, 6, "fd00::1"), at(tcp, 6, "fd00::2"), false},
		{"the same address of IPv6", at(tcp, 6, "fd00::1"), at(tcp, 6, "fd00::1"), true},
		{"one that shares the port", shared, tcp, true},
		{"both share the port", shared, shared, false},
	}) {
		for _, b := range [][2]schema.BindPort{{v.a, v.b}, {v.b, v.a}} {
			first, err := bind(x, b[0])
			kit.OK(t, err, "Ports.Bind of one process")
			kit.Equal(t, "port of the reply", first.Port, num)
			second, err := bind(y, b[1])
			if v.overlaps {
				kit.WantExactly(t, err, "Ports.Bind of another process: "+v.what, ci.InvalidSetting)
				x.destroyed(first.Handle)
				second, err = bind(y, b[1])
				kit.OK(t, err, "Ports.Bind after the other process has released the port")
			} else {
				kit.OK(t, err, "Ports.Bind of another process: "+v.what)
				x.destroyed(first.Handle)
			}
			y.destroyed(second.Handle)
		}
	}
	t.Step("a shared port that one process listens on")
	a, err := bind(x, shared)
	kit.OK(t, err, "Ports.Bind")
	b, err := bind(y, shared)
	kit.OK(t, err, "Ports.Bind")
	kit.WantExactly(t, listen(x, a.Handle, true), "Binding.Listen while another process has the port",
		ci.InvalidSetting)
	y.destroyed(b.Handle)
	kit.OK(t, listen(x, a.Handle, true), "Binding.Listen")
	_, err = bind(y, shared)
	kit.WantExactly(t, err, "Ports.Bind of a port that another process listens on", ci.InvalidSetting)
	kit.OK(t, listen(x, a.Handle, false), "the end of Binding.Listen")
	b, err = bind(y, shared)
	kit.OK(t, err, "Ports.Bind of a port that nobody listens on")
	t.Step("a port that the daemon chooses")
	chosen, err := bind(x, schema.BindPort{Space: tcp.Space})
	kit.OK(t, err, "Ports.Bind of port 0")
	kit.True(t, chosen.Port != 0, "port of the reply", "a port", "0")
	_, err = bind(y, schema.BindPort{Space: tcp.Space, Port: chosen.Port})
	kit.WantExactly(t, err, "Ports.Bind of a port that was chosen for another process", ci.InvalidSetting)
	t.Step("arguments")
	for _, family := range []uint8{1, 3, 5} {
		wrong := tcp
		wrong.Family = family
		_, err = bind(x, wrong)
		kit.WantExactly(t, err, fmt.Sprintf("Ports.Bind of family %d", family), ci.InvalidParameter)
	}
	_, err = bind(x, schema.BindPort{Space: 0x7777, Port: num})
	kit.WantExactly(t, err, "Ports.Bind of an unknown space", ci.InvalidParameter)
}

var _ = servings.Case(validate.Case{
	ID:    "user.service.limits",
	Title: "a process may have as many objects of the services as its quota permits; a destroyed one counts no longer",
	Run:   servingLimits,
}, req.SAS2_4_10)

func servingLimits(t *validate.T) {
	const most, mostServices = 3, 16
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) {
		cfg.Quota.Listeners, cfg.Quota.Agents, cfg.Quota.Ports = most, most, most
	})
	p := s.patron()
	serial := uint64(0)
	for _, v := range kit.Variants(t, "", []struct {
		what         string
		most, made   int
		create       func() (schema.Handle, error)
		hasNoParents bool
	}{
		{"listeners", most, 0, func() (schema.Handle, error) {
			serial++
			return p.create(schema.CmdCMListen, &schema.CMListen{Services: p.services, ServiceID: serial})
		}, false},
		{"agents", most, 0, func() (schema.Handle, error) {
			return p.create(schema.CmdRegisterAgent, &schema.RegisterAgent{Services: p.services, Port: p.port,
				Class: uint8(classFirst), Version: 1})
		}, false},
		{"ports", most, 0, func() (schema.Handle, error) {
			var r schema.BindPortReply
			err := p.do(schema.CmdBindPort, &schema.BindPort{Services: p.services, Space: uint16(rdmacm.TCP)}, &r)
			return r.Handle, err
		}, false},
		{"services", mostServices, 1, func() (schema.Handle, error) {
			return p.create(schema.CmdOpenServices, &schema.OpenServices{Async: p.queue})
		}, true},
	}) {
		var list []schema.Handle
		for range 3 { // what is given back can be used again, each time
			for len(list) < v.most-v.made {
				h, err := v.create()
				kit.OK(t, err, fmt.Sprintf("create %d of %d %s", len(list)+1+v.made, v.most, v.what))
				list = append(list, h)
			}
			_, err := v.create()
			kit.WantExactly(t, err, "create of more "+v.what+" than the quota permits", ci.InsufficientResources)
			if !v.hasNoParents {
				kit.WantExactly(t, p.destroy(p.services), "services.Close with "+v.what, ci.ResourceBusy)
			}
			kit.WantExactly(t, p.destroy(p.queue), "the destroy of the event queue of the services", ci.ResourceBusy)
			p.destroyed(list[0])
			kit.WantExactly(t, p.destroy(list[0]), "a second destroy", list[0].Kind().Invalid())
			list = list[1:]
		}
		for _, h := range list {
			p.destroyed(h)
		}
	}
	p.destroyed(p.services)
	err := p.do(schema.CmdQueryServices, &schema.Services{Services: p.services}, &schema.QueryServicesReply{})
	kit.WantExactly(t, err, "services.Query after services.Close", p.services.Kind().Invalid())
	p.destroyed(p.queue)
}

var _ = servings.Case(validate.Case{
	ID:    "user.service.steps",
	Title: "steps of an object that are pending: one at a time of a number, up to a limit, and canceled ones",
	Run:   servingSteps,
}, req.SAS2_4_10)

func servingSteps(t *validate.T) {
	const most = 64 // of package services
	s := newStage(t)
	s.withServices()
	p := s.patron()
	l, err := p.create(schema.CmdCMListen, &schema.CMListen{Services: p.services, ServiceID: serviceA})
	kit.OK(t, err, "Service.Listen")
	accept := func(op uint64) error {
		return p.do(schema.CmdCMAccept, &schema.CMAccept{Listener: l, Op: op}, &schema.None{})
	}
	take := func() (n schema.Notice) {
		kit.OK(t, p.do(schema.CmdTakeNotice, &schema.TakeNotice{Object: l}, &n), "services.Take")
		return n
	}
	kit.Equal(t, "kind of a notice of a listener without any", take().Kind, schema.NoticeNone)
	for op := uint64(1); op <= most; op++ {
		kit.OK(t, accept(op), fmt.Sprintf("accept %d", op))
	}
	kit.WantExactly(t, accept(1), "an accept with the number of one that is pending", ci.InvalidParameter)
	kit.WantExactly(t, accept(most+1), "an accept beyond the limit", ci.InsufficientResources)
	const canceled = 9
	for range 2 { // the second time there is no such step
		kit.OK(t, p.do(schema.CmdCancel, &schema.Cancel{Object: l, Op: canceled}, &schema.None{}), "services.Cancel")
	}
	var n schema.Notice
	s.await("the outcome of a canceled accept", "a notice", func() string {
		if n = take(); n.Kind == schema.NoticeNone {
			return "nothing"
		}
		return ""
	})
	kit.Equal(t, "kind, operation, error and number of those that wait",
		[4]uint64{uint64(n.Kind), n.Op, uint64(n.Error.Code), uint64(n.Waiting)},
		[4]uint64{uint64(schema.NoticeOutcome), canceled, uint64(schema.ErrorCanceled), 0})
	kit.Equal(t, "kind of a notice after the outcome", take().Kind, schema.NoticeNone)
	kit.OK(t, accept(canceled), "an accept with the number of one that has ended")
	kit.WantExactly(t, accept(most+1), "an accept beyond the limit", ci.InsufficientResources)
	p.destroyed(l)
	kit.WantExactly(t, accept(1), "an accept of a listener that is closed", l.Kind().Invalid())
}
