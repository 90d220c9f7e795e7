package usersuite

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// What a daemon permits to some processes only. (SAS 2.4.)
var privileges = area()

// ranked restarts the daemon so that its processes are privileged, or not, as the result says.
func (s *stage) ranked(changes ...func(*kproxy.Config)) *atomic.Bool {
	on := new(atomic.Bool)
	set := func(cfg *kproxy.Config) { cfg.Privileged = func(kproxy.Peer) bool { return on.Load() } }
	if s.t.Claims().Has(ci.CapSpecialQP) {
		s.withServices(append(changes, set)...)
	} else {
		s.restart(func(cfg *kproxy.Config) {
			set(cfg)
			for _, change := range changes {
				change(cfg)
			}
		})
	}
	return on
}

// permitted expects InvalidPermission, or anything else.
func permitted(t *validate.T, err error, where string, is bool) {
	if !is {
		kit.WantExactly(t, err, where, ci.InvalidPermission)
		return
	}
	kit.True(t, ci.StatusOf(err) != ci.InvalidPermission, where, "no InvalidPermission", "%s", kit.Describe(err))
}

var _ = privileges.Case(validate.Case{
	ID: "user.privilege.ports",
	Title: "a process without privileges changes no port, sends no datagram that could, sets no controlled Q_Key, " +
		"and sees no other process",
	Run: privilegePorts,
}, req.SAS2_4_10)

func privilegePorts(t *validate.T) {
	s := newStage(t)
	var text, got atomic.Pointer[string]
	say := func(reply string) { text.Store(&reply) }
	say("the reply")
	on := s.ranked(func(cfg *kproxy.Config) {
		cfg.Control = func(_ kproxy.Peer, operation string, request []byte) ([]byte, error) {
			was := fmt.Sprintf("%s %q", operation, request)
			got.Store(&was)
			if operation == "fails" {
				return nil, ci.ResourceBusy
			}
			return []byte(*text.Load()), nil
		}
	})
	x, other := s.speaker(), s.speaker()
	queue, _ := x.started()
	w := x.whole(0, queue)
	control := func(operation string) (r schema.ControlReply, err error) {
		err = x.do(schema.CmdControl, &schema.Control{Operation: operation, Request: []byte("the request")}, &r)
		return r, err
	}
	for _, is := range []bool{false, true, false} {
		on.Store(is)
		what := map[bool]string{false: " of a process without privileges", true: " of a privileged process"}[is]
		err := x.do(schema.CmdModifyCA, &schema.ModifyCA{CA: w.ca, Port: w.port.Num}, &schema.None{})
		permitted(t, err, "CA.Modify"+what, is)
		kit.True(t, !is || err == nil || ci.StatusOf(err) == ci.Unsupported, "CA.Modify of nothing"+what, "success",
			"%s", kit.Describe(err))
		for method := range 256 {
			r := &schema.LocalMAD{CA: w.ca, Port: w.port.Num}
			r.MAD[0], r.MAD[3] = mad.BaseVersion, byte(method) // of class 0, which nobody executes
			r.MAD[2], r.MAD[4] = 7, 9
			_, err := x.execute(schema.CmdLocalMAD, native.Append(nil, r))
			permitted(t, err, fmt.Sprintf("CA.LocalMAD with method %#x%s", method, what),
				is || method == int(mad.Get) || method == int(mad.GetTable))
		}
		_, err = control("add")
		permitted(t, err, "an operation of the daemon"+what, is)
		if w.ud == 0 {
			continue
		}
		for _, key := range []ci.QKey{0, 1<<31 - 1, 1 << 31, ^ci.QKey(0)} {
			for _, set := range []ci.QPField{ci.QPFieldQKey, 0} {
				m := &schema.ModifyQP{QP: w.ud, Set: ci.QPFieldState | ci.QPFieldPKeyIndex | ci.QPFieldPort | set}
				m.Attr.State, m.Attr.Port, m.Attr.QKey = ci.QPInit, w.port.Num, key
				err := x.do(schema.CmdModifyQP, m, &schema.Changed{})
				permitted(t, err, fmt.Sprintf("QP.Modify with Q_Key %#x%s", uint32(key), what),
					is || set == 0 || key>>31 == 0)
				if set != 0 && (is || key>>31 == 0) {
					kit.OK(t, err, fmt.Sprintf("QP.Modify with Q_Key %#x%s", uint32(key), what))
				}
				reset := &schema.ModifyQP{QP: w.ud, Set: ci.QPFieldState}
				reset.Attr.State = ci.QPReset
				kit.OK(t, x.do(schema.CmdModifyQP, reset, &schema.Changed{}), "QP.Modify to Reset")
			}
		}
	}

	t.Step("operations of the daemon")
	on.Store(true)
	r, err := control("add")
	kit.OK(t, err, "an operation of the daemon")
	kit.Equal(t, "operation and request at the daemon", *got.Load(), `add "the request"`)
	kit.Equal(t, "reply to an operation", string(r.Text), *text.Load())
	_, err = control("fails")
	kit.WantExactly(t, err, "an operation that fails", ci.ResourceBusy)
	long := strings.Repeat("x", schema.MaxControl)
	say(long)
	r, err = control("add")
	kit.OK(t, err, "an operation with the longest reply")
	kit.SameBytes(t, "reply to an operation", r.Text, []byte(long))
	say(long + "y")
	_, err = control("add")
	kit.WantExactly(t, err, "an operation whose reply is too long", ci.InsufficientResources)

	t.Step("the status of the daemon")
	names := func(p *speaker) (list []string) {
		var whole []byte
		for {
			var r schema.QueryStatusReply
			kit.OK(t, p.do(schema.CmdStatus, &schema.QueryStatus{Offset: uint64(len(whole))}, &r), "ual.Client.Status")
			whole = append(whole, r.Text...)
			if uint64(len(whole)) >= r.Total || len(r.Text) == 0 {
				kit.Equal(t, "bytes of the status", uint64(len(whole)), r.Total)
				break
			}
		}
		err := p.do(schema.CmdStatus, &schema.QueryStatus{Offset: uint64(len(whole)) + 1}, &schema.QueryStatusReply{})
		kit.WantExactly(t, err, "ual.Client.Status beyond the end", ci.InvalidParameter)
		last := schema.QueryStatusReply{}
		kit.OK(t, p.do(schema.CmdStatus, &schema.QueryStatus{Offset: uint64(len(whole))}, &last),
			"ual.Client.Status of the end")
		kit.Equal(t, "bytes at the end of the status", len(last.Text), 0)
		kit.OK(t, p.do(schema.CmdStatus, &schema.QueryStatus{Offset: uint64(len(whole)) - 3}, &last),
			"ual.Client.Status of the end")
		kit.SameBytes(t, "the end of the status", last.Text, whole[len(whole)-3:])
		var st struct {
			Clients []struct {
				Name    string
				Objects map[string]int
			}
		}
		kit.OK(t, json.Unmarshal(whole, &st), "the form of the status")
		for _, c := range st.Clients {
			list = append(list, fmt.Sprintf("%s with %d CQs", c.Name, c.Objects["cq"]))
		}
		return list
	}
	kit.Equal(t, "processes that a privileged process sees", fmt.Sprint(names(other)),
		"[certifier with 1 CQs certifier with 0 CQs]")
	on.Store(false)
	kit.Equal(t, "processes that a process without privileges sees", fmt.Sprint(names(other)),
		"[certifier with 0 CQs]")
	kit.Equal(t, "processes that a process without privileges sees", fmt.Sprint(names(x)), "[certifier with 1 CQs]")
}

var _ = privileges.Case(validate.Case{
	ID:    "user.privilege.none",
	Title: "a daemon without operations, one that permits no copies, and one that closes",
	Run:   privilegeNone,
}, req.SAS2_4_10)

func privilegeNone(t *validate.T) {
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.CanCopy = func(kproxy.Peer) bool { return false } })
	x := s.speaker()
	err := x.do(schema.CmdControl, &schema.Control{Operation: "add"}, &schema.ControlReply{})
	kit.WantExactly(t, err, "an operation of a daemon that has none", ci.Unsupported)
	queue, _ := x.started()
	pd := x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{
		CA: x.made("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})})
	w := &whole{memory: make([]byte, 100)}
	_, err = x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: pd, Memory: w.plain(0)})
	kit.WantExactly(t, err, "PD.RegisterMR of memory that the daemon may not copy", ci.InvalidPermission)
	m := s.sharedMemory(4096)
	f, _ := m.File()
	r := &schema.RegisterMR{PD: pd, Memory: schema.Memory{Addr: m.Addr(), Length: m.Len(), Shared: true}}
	mr, err := x.create(schema.CmdRegisterMR, r, f)
	kit.OK(t, err, "PD.RegisterMR of shared memory at a daemon that copies none")
	x.destroyed(mr)

	t.Step("a daemon that closes")
	kit.OK(t, s.core.Close(), "kproxy.Server.Close")
	kit.Equal(t, "processes of a daemon that has closed", len(s.core.Sessions()), 0)
	live := s.probe.living()
	kit.True(t, len(live) == 0, "objects at the driver of a daemon that has closed", "none", "%v", live)
	y := &speaker{s: s, c: s.connect(), buf: make([]byte, schema.MaxMessage)}
	defer y.c.Close()
	err = y.do(schema.CmdHello, &schema.Hello{Version: schema.Version, PointerBits: 64}, &schema.HelloReply{})
	kit.WantExactly(t, err, "Hello to a daemon that has closed", ci.InvalidState)
}

var _ = privileges.Case(validate.Case{
	ID:    "user.privilege.services",
	Title: "a process without privileges has no agent, listener or datagram by which it could disturb others",
	Needs: validate.Needs{Caps: ci.CapSpecialQP | ci.CapAV},
	Run:   privilegeServices,
}, req.SAS2_4_10)

func privilegeServices(t *validate.T) {
	s := newStage(t)
	on := s.ranked()
	p := s.patron()
	to := p.loopback(s.app().open())
	type agent = schema.RegisterAgent
	set := []uint8{uint8(mad.Set)}
	for _, is := range []bool{false, true} {
		on.Store(is)
		what := map[bool]string{false: " of a process without privileges", true: " of a privileged process"}[is]

		t.Step("agents%s", what)
		for _, v := range []struct {
			a         agent
			permitted bool
		}{
			{agent{SubnetManagement: true, Class: uint8(mad.ClassSubnetLID)}, false},
			{agent{}, false},
			{agent{Class: uint8(mad.ClassCM)}, false},
			{agent{Class: uint8(mad.ClassSubnetAdmin)}, true},
			{agent{Class: uint8(mad.ClassDevice)}, true},
			{agent{Class: uint8(mad.ClassDevice), Methods: set}, false},
			{agent{Class: uint8(mad.ClassVendor1First) - 1, Methods: set}, false},
			{agent{Class: uint8(mad.ClassVendor1First), Methods: set}, true},
			{agent{Class: uint8(mad.ClassVendor1Last), Methods: set}, true},
			{agent{Class: uint8(mad.ClassVendor1Last) + 1, Methods: set}, false},
			{agent{Class: uint8(mad.ClassVendor2First) - 1, Methods: set}, false},
			{agent{Class: uint8(mad.ClassVendor2First), Methods: set}, true},
			{agent{Class: uint8(mad.ClassVendor2Last), Methods: set}, true},
			{agent{Class: uint8(mad.ClassVendor2Last) + 1, Methods: set}, false},
			{agent{Class: uint8(classFirst), Undelivered: true}, false},
			{agent{Class: uint8(classFirst)}, true},
		} {
			v.a.Services, v.a.Port, v.a.Version = p.services, p.port, 1
			if mad.Class(v.a.Class).Vendor2() {
				v.a.OUI = [3]uint8{1, 2, 3}
			}
			h, err := p.create(schema.CmdRegisterAgent, &v.a)
			permitted(t, err, fmt.Sprintf("an agent of class %#x, methods %v%s", v.a.Class, v.a.Methods, what),
				is || v.permitted)
			if v.permitted {
				kit.OK(t, err, fmt.Sprintf("an agent of class %#x, methods %v%s", v.a.Class, v.a.Methods, what))
			}
			if err == nil {
				p.destroyed(h)
			}
		}

		t.Step("datagrams%s", what)
		asks, answers := p.agent(classFirst, 0, 0), p.agent(classFirst, mad.Set, 0)
		reads := p.made("mads.Register", schema.CmdRegisterAgent, &agent{Services: p.services, Port: p.port, Version: 1,
			Class: uint8(mad.ClassDevice)})
		for _, v := range []struct {
			what      string
			agent     schema.Handle
			class     mad.Class
			method    mad.Method
			tid, op   uint64
			permitted bool
		}{
			{"a request of a vendor's class", asks, classFirst, mad.Set, 5, 1, true},
			{"a datagram of a vendor's class", asks, classFirst, mad.Set, 5, 0, true},
			{"a response of an agent without methods", asks, classFirst, mad.GetResp, 5, 0, false},
			{"a response of an agent with methods", answers, classFirst, mad.GetResp, 1<<32 | 5, 0, true},
			{"the largest transaction ID of an own choice", asks, classFirst, mad.Send, 1<<32 - 1, 0, true},
			{"a transaction ID of the daemon", asks, classFirst, mad.Send, 1 << 32, 0, false},
			{"a transaction ID of a request", asks, classFirst, mad.Set, 1 << 32, 2, true},
			{"Get of another class", reads, mad.ClassDevice, mad.Get, 5, 3, true},
			{"GetTable of another class", reads, mad.ClassDevice, mad.GetTable, 5, 4, true},
			{"GetMulti of another class", reads, mad.ClassDevice, mad.GetMulti, 5, 5, true},
			{"Set of another class", reads, mad.ClassDevice, mad.Set, 5, 6, false},
			{"Trap of another class", reads, mad.ClassDevice, mad.Trap, 5, 0, false},
		} {
			b := make([]byte, lenDatagram)
			h := mad.Header{BaseVersion: mad.BaseVersion, Class: v.class, ClassVersion: 1, Method: v.method, TID: v.tid,
				Attribute: 0x11}
			h.Put(b)
			err := p.do(schema.CmdSendMAD, &schema.SendMAD{Agent: v.agent, Op: v.op, To: to, MAD: b, Timeout: 1e6},
				&schema.None{})
			permitted(t, err, v.what+what, is || v.permitted)
		}
		for n := range mad.HeaderLen {
			err := p.do(schema.CmdSendMAD, &schema.SendMAD{Agent: asks, To: to, MAD: make([]byte, n)}, &schema.None{})
			kit.WantExactly(t, err, fmt.Sprintf("a datagram of %d bytes%s", n, what), ci.InvalidParameter)
		}
		for _, h := range []schema.Handle{asks, answers, reads} {
			p.destroyed(h)
		}

		t.Step("listeners%s", what)
		for mask, isAlways := range map[uint64]bool{0: true, uint64(mad.ServiceIDExact): true, ^uint64(0xff): false,
			1: false} {
			h, err := p.create(schema.CmdCMListen, &schema.CMListen{Services: p.services, ServiceID: 0x1000000000007700,
				Mask: mask})
			permitted(t, err, fmt.Sprintf("Service.Listen with mask %#x%s", mask, what), is || isAlways)
			if is || isAlways {
				kit.OK(t, err, fmt.Sprintf("Service.Listen with mask %#x%s", mask, what))
				p.destroyed(h)
			}
		}
	}
}
