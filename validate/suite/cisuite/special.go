package cisuite

import (
	"bytes"
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// wellKnownQKey is the Q_Key of QP1 (IBTA 10.2.5).
const wellKnownQKey ci.QKey = 0x80010000

// specialCases are the cases of QP0 and QP1 of a port. (IBTA 10.2.4.5, 11.2.4.1.)
var specialCases = &validate.Area{Feature: validate.FeatureSpecial, Needs: validate.Needs{Caps: ci.CapSpecialQP}}

var _ = specialCases.Add("special.qp1.once", "QP1 created twice", func(t *validate.T) { specialOnce(t, ci.QP1) },
	specialCases.Must("CI-SpecialQP-01", "IBTA 11.2.4.1", "ci_create_spl_qp (24)",
		"QP1 of a port can be created once, and again after it was destroyed. A second one fails with ResourceBusy."))

var ciSpecialQP10 = specialCases.Must("CI-SpecialQP-10", "IBTA 10.3.1", "ci_modify_qp (25)",
	"A special QP has the states of a UD QP and needs no port attribute.")

var _ = specialCases.Add("special.qp1.optional", "every transition of QP1 with its optional attributes",
	func(t *validate.T) { specialOptional(t, ci.QP1) }, ciSpecialQP10)

var ciSpecialQP02 = specialCases.Must("CI-SpecialQP-02", "IBTA 11.2.4.1", "ci_create_spl_qp (24)",
	"QP0 of an InfiniBand port can be created once, and again after it was destroyed. An Ethernet port has no QP0.")

var _ = specialCases.Needing(validate.Needs{Caps: ci.CapSpecialQP, Links: []ci.Link{ci.LinkInfiniBand}}).Add(
	"special.qp0.once", "QP0 created twice", func(t *validate.T) { specialOnce(t, ci.QP0) }, ciSpecialQP02)

var _ = specialCases.Needing(validate.Needs{Caps: ci.CapSpecialQP, Links: []ci.Link{ci.LinkInfiniBand}}).Add(
	"special.qp0.optional", "every transition of QP0 with its optional attributes",
	func(t *validate.T) { specialOptional(t, ci.QP0) }, ciSpecialQP10)

// special creates QP0 or QP1 of the CA's port, in Reset, with a buffer.
func special(t *validate.T, ca *kit.CA, typ ci.QPType) *kit.End {
	pd := ca.PD()
	e := &kit.End{CQ: ca.CQ(pd, 32), RecvCQ: ca.CQ(pd, 32), Buf: ca.Buf(pd, 4096, kit.AllAccess)}
	c := kit.Options(ca, ca, kit.Type(typ), kit.QKey(wellKnownQKey))
	if typ == ci.QP0 {
		c.QKey = 0
	}
	e.QP = &kit.QP{CA: ca, PD: pd, SendCQ: e.CQ, RecvCQ: e.RecvCQ, Events: kit.NewEvents(t), Config: c}
	in, err := pd.CreateSpecialQP(ca.Port.Num, e.Create())
	kit.OK(t, err, "PD.CreateSpecialQP of "+typ.String())
	e.QP.QP = kit.Own(t, in, typ.String())
	return e
}

// small returns the attributes of a special QP with the smallest sizes.
func small(typ ci.QPType, cq *kit.CQ) ci.QPCreate {
	return ci.QPCreate{
		Type:   typ,
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
		SendCQ: cq.CQ,
		RecvCQ: cq.CQ,
	}
}

func specialOnce(t *validate.T, typ ci.QPType) {
	ca := kit.Open(t)
	first := special(t, ca, typ)
	kit.Equal(t, "QP.Num", first.Num(), ci.QPN(typ-ci.QP0))
	second, err := first.PD.CreateSpecialQP(ca.Port.Num, small(typ, first.CQ))
	kit.WantRefused(t, second, err, "PD.CreateSpecialQP of a second "+typ.String(), ci.ResourceBusy)
	first.Init().RTR(nil).RTS()
	kit.Destroy(t, first.QP.QP, typ.String())
	again := special(t, ca, typ)
	again.Init().RTR(nil).RTS().WantState(ci.QPRTS)
}

var _ = specialCases.Needing(validate.Needs{Caps: ci.CapSpecialQP, Links: []ci.Link{ci.LinkEthernet}}).Add(
	"special.qp0.ethernet", "QP0 of an Ethernet port", specialNoQP0, ciSpecialQP02)

func specialNoQP0(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	q, err := pd.CreateSpecialQP(ca.Port.Num, small(ci.QP0, ca.CQ(pd, 4)))
	kit.WantRefused(t, q, err, "PD.CreateSpecialQP of QP0 of an Ethernet port", ci.Unsupported, ci.NotFound,
		ci.InvalidServiceType)
}

var _ = specialCases.Add("special.bad-port", "special QPs of ports 0 and n+1", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 4)
	for _, n := range kit.Variants(t, "port", []uint8{0, uint8(len(ca.Attr.Ports) + 1), 255}) {
		q, err := pd.CreateSpecialQP(n, small(ci.QP1, cq))
		kit.WantRefused(t, q, err, fmt.Sprintf("PD.CreateSpecialQP of QP1 of port %d of %d", n, len(ca.Attr.Ports)),
			ci.InvalidPort)
	}
}, specialCases.Must("CI-SpecialQP-03", "IBTA 11.2.4.1", "ci_create_spl_qp (24)",
	"A port that the CA does not have fails with InvalidPort."))

var _ = specialCases.Add("special.type", "wrong types for both verbs", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 4)
	for _, typ := range kit.Variants(t, "type", []ci.QPType{ci.RC, ci.UD, 77}) {
		q, err := pd.CreateSpecialQP(ca.Port.Num, small(typ, cq))
		kit.WantRefused(t, q, err, "PD.CreateSpecialQP of type "+typ.String(), ci.InvalidServiceType,
			ci.InvalidParameter)
	}
	for _, typ := range kit.Variants(t, "type", []ci.QPType{ci.QP0, ci.QP1}) {
		q, err := pd.CreateQP(small(typ, cq))
		kit.WantRefused(t, q, err, "PD.CreateQP of type "+typ.String(), ci.InvalidServiceType, ci.InvalidParameter)
	}
	for _, x := range kit.Variants(t, "", []struct {
		typ ci.QPType
		bit ci.Caps
	}{{ci.RawIPv6, ci.CapRawIPv6}, {ci.RawEther, ci.CapRawEther}}) {
		q, err := pd.CreateSpecialQP(ca.Port.Num, small(x.typ, cq))
		if err == nil {
			kit.Own(t, q, x.typ.String())
		}
		kit.Claim(t, x.bit, err, "PD.CreateSpecialQP of type "+x.typ.String())
	}
}, specialCases.Must("CI-SpecialQP-04", "IBTA 11.2.4.1", "ci_create_spl_qp (24)",
	"A type that is not special fails with InvalidServiceType, and CreateQP rejects special types."))

var _ = specialCases.Add("special.sizes", "sizes above the limits", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	a := ca.Attr
	for _, x := range kit.Variants(t, "", []struct {
		name  string
		set   func(*ci.QPCaps)
		get   func(*ci.QPCaps) int
		limit int
	}{
		{"SendDepth", func(c *ci.QPCaps) { c.SendDepth = a.MaxWRs + 1 }, func(c *ci.QPCaps) int { return c.SendDepth },
			a.MaxWRs},
		{"RecvDepth", func(c *ci.QPCaps) { c.RecvDepth = a.MaxWRs + 1 }, func(c *ci.QPCaps) int { return c.RecvDepth },
			a.MaxWRs},
		{"SendSGE", func(c *ci.QPCaps) { c.SendSGE = a.MaxSGEs + 1 }, func(c *ci.QPCaps) int { return c.SendSGE },
			a.MaxSGEs},
		{"RecvSGE", func(c *ci.QPCaps) { c.RecvSGE = a.MaxSGEs + 1 }, func(c *ci.QPCaps) int { return c.RecvSGE },
			a.MaxSGEs},
	}) {
		c := small(ci.QP1, cq)
		x.set(&c.QPCaps)
		where := "PD.CreateSpecialQP with " + x.name + " above the limit"
		q, err := pd.CreateSpecialQP(ca.Port.Num, c)
		kit.WantRefused(t, q, err, where, ci.InvalidSetting)
		e, ok := errors.AsType[*ci.Error](err)
		kit.True(t, ok && e.Most != nil, where, "Error.Most with the largest possible sizes", "%v without Error.Most",
			err)
		kit.True(t, x.get(e.Most) >= 1 && x.get(e.Most) <= x.limit, where+": Error.Most."+x.name,
			fmt.Sprintf("1 to %d", x.limit), "%d", x.get(e.Most))
		c.QPCaps = *e.Most
		q, err = pd.CreateSpecialQP(ca.Port.Num, c)
		kit.OK(t, err, "PD.CreateSpecialQP with the sizes of Error.Most")
		kit.Destroy(t, kit.Own(t, q, "QP1"), "QP1")
	}
}, specialCases.Must("CI-SpecialQP-05", "CI context", "ci_create_spl_qp (24)",
	"Sizes above the limits fail with InvalidSetting and the largest possible sizes, which must then be granted."))

var _ = specialCases.Add("special.states", "states of QP1", func(t *validate.T) {
	q := special(t, kit.Open(t), ci.QP1)
	n, err := q.PostSend([]ci.SendWR{q.SendWR(1, 0, 8)})
	kit.WantTaken(t, "QP.PostSend to QP1 in Reset", n, err, 0, ci.InvalidQPState)
	q.Init()
	q.Recv(q.RecvWR(1, 0, 300))
	q.WantState(ci.QPInit)
	a, err := q.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "QPAttr.Port", a.Port, q.QP.CA.Port.Num)
	kit.Equal(t, "QPAttr.Type", a.Type, ci.QP1)
	q.RTR(nil).WantState(ci.QPRTR)
	q.RTS().WantState(ci.QPRTS)
	q.To(ci.QPError)
	q.RecvCQ.WaitStatus(1, ci.WCFlushErr)
	q.To(ci.QPReset)
	q.Init().RTR(nil).RTS().WantState(ci.QPRTS)
}, ciSpecialQP10)

// specialOptional requests each transition of a special QP with each of its optional attributes, and with all of them.
func specialOptional(t *validate.T, typ ci.QPType) {
	q := special(t, kit.Open(t), typ)
	steps := []func(){func() { q.Init() }, func() { q.RTR(nil) }, func() { q.RTS() }, func() {
		q.To(ci.QPSQD)
		q.Becomes(ci.QPSQD)
	}}
	for _, e := range kit.Variants(t, "", edges(ci.UD)) {
		if e.from == ci.QPSQError {
			continue // only a failure leads to this state
		}
		rule := qpRules(ci.UD)[e]
		may := rule.may &^ ci.QPFieldPort // set at creation
		for _, set := range optionalSets(may) {
			q.To(ci.QPReset)
			for _, step := range steps[:e.from-ci.QPReset] {
				step()
			}
			f := ci.QPFieldState | rule.need&^ci.QPFieldPort | set
			a := ci.QPAttr{State: e.to, QKey: q.Config.QKey, SQPSN: q.PSN}
			kit.OK(t, q.Modify(f, a), fmt.Sprintf("QP.Modify of %s from %s with the optional fields %#x", typ, e,
				uint32(set)))
		}
	}
}

// specials returns special QPs of two adapters in RTS with the addresses of each other.
func specials(t *validate.T, typ ci.QPType) (a, b *kit.End) {
	ca, cb := kit.OpenPair(t)
	a, b = special(t, ca, typ), special(t, cb, typ)
	for _, x := range [][2]*kit.End{{a, b}, {b, a}} {
		e, peer := x[0], x[1]
		e.Init().RTR(nil).RTS()
		av, err := e.PD.CreateAV(e.QP.CA.AddressOf(peer.QP.CA))
		kit.OK(t, err, "PD.CreateAV")
		e.AV = kit.Own(t, av, "AV")
		e.Dest = ci.Dest{AV: e.AV, QPN: peer.Num(), QKey: e.Config.QKey}
	}
	return a, b
}

// swap sends a datagram with the length of a MAD in each direction.
func swap(t *validate.T, a, b *kit.End, typ ci.QPType) {
	for i, x := range [][2]*kit.End{{a, b}, {b, a}} {
		from, to := x[0], x[1]
		want := from.Buf.Fill(t, 0, 256)
		if typ == ci.QP0 { // adapters whose own agent answers SMPs drop what is none, and pass responses up
			copy(want, []byte{1, 0x01, 1, madGet | 0x80}) // a SubnGetResp by LID (IBTA 14.2.1)
		}
		clear(to.Buf.Bytes[1024:])
		to.Recv(to.RecvWR(uint64(10+i), 1024, 40+256))
		from.Send(from.SendWR(uint64(20+i), 0, 256))
		from.CQ.WaitOK(uint64(20 + i))
		wc := to.RecvCQ.WaitOK(uint64(10 + i))[0]
		kit.Equal(t, "WC.Length", wc.Length, 40+256)
		kit.Equal(t, "WC.SrcQP", wc.SrcQP, from.Num())
		kit.Equal(t, "WC.QPN", wc.QPN, to.Num())
		kit.SameBytes(t, "datagram to "+typ.String(), to.Buf.Bytes[1024+40:1024+296], want)
		if typ == ci.QP1 {
			kit.Equal(t, "WC.PKeyIndex", wc.PKeyIndex, 0)
		}
		if from.QP.CA.Port.Link == ci.LinkInfiniBand {
			kit.Equal(t, "WC.SLID", wc.SLID, from.QP.CA.Port.LID)
		}
	}
}

var _ = specialCases.Needing(validate.Needs{Caps: ci.CapSpecialQP, HCAs: 2}).Add("special.qp1.exchange",
	"QP1 to QP1", specialExchange,
	specialCases.Must("CI-SpecialQP-06", "IBTA 10.2.4.5", "ci_create_spl_qp (24)",
		"QP1 sends datagrams of 256 bytes with the P_Key index of each request. It receives them with the sender's "+
			"QP number and the P_Key index."))

func specialExchange(t *validate.T) {
	a, b := specials(t, ci.QP1)
	swap(t, a, b, ci.QP1)
	wr := a.SendWR(1, 0, 8)
	wr.To.PKeyIndex = uint16(len(a.QP.CA.Port.PKeys)) // beyond the table
	n, err := a.PostSend([]ci.SendWR{wr})
	if err != nil {
		kit.WantTaken(t, "QP.PostSend to QP1 with a P_Key index beyond the table", n, err, 0, ci.InvalidPKey,
			ci.InvalidParameter, ci.InvalidIndex)
		return
	}
	wc := a.CQ.Wait(1)[0]
	kit.True(t, wc.ID == 1 && wc.Status != ci.WCSuccess, "completion of a request with a P_Key index beyond the table",
		"an error", "%s", kit.Completions([]ci.WC{wc}))
}

var _ = specialCases.Needing(validate.Needs{Caps: ci.CapSpecialQP, HCAs: 2}).Add("special.qp1.qkey",
	"datagrams to QP1 with other Q_Keys", func(t *validate.T) {
		a, b := specials(t, ci.QP1)
		// A UD QP with its own Q_Key replaces QP1 of the sender.
		u := a.QP.CA.QP(a.PD, a.CQ, a.RecvCQ, kit.Type(ci.UD), kit.QKey(0x22222222)).Init().RTR(nil).RTS()
		b.Recv(b.RecvWR(1, 0, 300))
		for i, key := range kit.Variants(t, "key", []ci.QKey{
			0x22222222,    // the Q_Key of the UD QP
			0x00010000,    // the well-known one without its highest bit
			wellKnownQKey, // with the highest bit, the QP's own Q_Key is used (IBTA 10.2.5)
		}) {
			wr := a.SendWR(uint64(i+1), 0, 16)
			wr.To.QKey = key
			u.Send(wr)
			a.CQ.WaitOK(uint64(i + 1))
		}
		want := a.Buf.Fill(t, 0, 32)
		a.Send(a.SendWR(9, 0, 32))
		a.CQ.WaitOK(9)
		wc := b.RecvCQ.WaitOK(1)[0]
		kit.Equal(t, "WC.SrcQP of the only datagram with the well-known Q_Key", wc.SrcQP, a.Num())
		kit.SameBytes(t, "datagram to QP1", b.Buf.Bytes[40:72], want)
		b.RecvCQ.Quiet(quiet / 4)
	}, specialCases.Must("CI-SpecialQP-07", "IBTA 10.2.5", "ci_create_spl_qp (24)",
		"QP1 accepts only datagrams with the well-known Q_Key, and a request cannot set that key."))

var _ = specialCases.Needing(
	validate.Needs{Caps: ci.CapSpecialQP, HCAs: 2, Links: []ci.Link{ci.LinkInfiniBand}}).Add("special.qp0.exchange",
	"QP0 to QP0", specialQP0,
	specialCases.Must("CI-SpecialQP-08", "IBTA 10.2.4.5", "ci_create_spl_qp (24)",
		"QP0 exchanges datagrams of 256 bytes with QP0 of the peer."))

func specialQP0(t *validate.T) {
	a, b := specials(t, ci.QP0)
	swap(t, a, b, ci.QP0)
}

// process is a client process without memory.
type process struct{}

func (process) PID() int         { return 1 }
func (process) PointerBits() int { return 64 }
func (process) Memory(uint64, uint64, ci.Access) (ci.Memory, error) {
	return nil, ci.InvalidPermission
}

var _ = specialCases.Needing(validate.Needs{Caps: ci.CapSpecialQP | ci.CapUser}).Add("special.user",
	"a special QP for a process", func(t *validate.T) {
		ca := kit.Open(t)
		u, err := ca.OpenUser(process{}, &ci.UserBuffer{})
		kit.OK(t, err, "CA.OpenUser")
		t.Cleanup(func() { kit.OK(t, u.Destroy(), "UserCA.Destroy") })
		pd, err := u.AllocatePD(ci.PDNormal, &ci.UserBuffer{})
		kit.OK(t, err, "UserCA.AllocatePD")
		kit.Own(t, pd, "PD of a process")
		own := ca.PD()
		q, err := pd.CreateSpecialQP(ca.Port.Num, small(ci.QP1, ca.CQ(own, 4)))
		kit.WantRefused(t, q, err, "PD.CreateSpecialQP with the PD of a process", ci.InvalidPermission, ci.Unsupported,
			ci.InvalidPDHandle, ci.InvalidParameter)
		c := small(ci.QP1, ca.CQ(own, 4))
		c.User = &ci.UserBuffer{}
		q, err = own.CreateSpecialQP(ca.Port.Num, c)
		kit.WantRefused(t, q, err, "PD.CreateSpecialQP with private data of a user library", ci.InvalidParameter,
			ci.InvalidPermission)
	}, specialCases.Must("CI-SpecialQP-09", "CI context", "ci_create_spl_qp (24)",
		"A process cannot create a special QP."))

var _ = specialCases.Needing(validate.Needs{Caps: ci.CapSpecialQP | ci.CapAV}).Add("special.undelivered",
	"datagrams of QP1 to an address at which nothing receives", func(t *validate.T) {
		to := t.Unreachable()
		r, ok := ci.As[ci.UndeliveredReporter](t.HCA())
		if !ok {
			t.Skip("the driver has no reports of the network (ci.UndeliveredReporter)")
		}
		ca := kit.Open(t)
		e := special(t, ca, ci.QP1)
		e.Init().RTR(nil).RTS()
		av := ca.AddressOf(ca)
		av.Global, av.GRH.DGID, av.GRH.HopLimit = true, to, 64
		in, err := e.PD.CreateAV(av)
		kit.OK(t, err, "PD.CreateAV of an address at which nothing receives")
		kit.Own(t, in, "AV")
		type report struct {
			port    uint8
			to      ci.GID
			payload []byte
			err     error
		}
		listen := func() (<-chan report, func()) {
			got := make(chan report, 64)
			return got, r.OnUndelivered(func(u ci.Undelivered) {
				select {
				case got <- report{u.Port, u.To, bytes.Clone(u.Payload), u.Err}:
				default:
				}
			})
		}
		first, stopFirst := listen()
		second, stopSecond := listen()
		defer stopSecond()
		send := func(id uint64) []byte {
			data := kit.Random(t, e.Buf.Bytes[:256])
			data[1] = 0x3f // a class that no agent has
			w := e.SendWR(id, 0, 256)
			w.To = ci.Dest{AV: in, QPN: 1, QKey: wellKnownQKey}
			e.Send(w)
			e.CQ.WaitOK(id)
			return bytes.Clone(data)
		}
		check := func(got <-chan report, data []byte, what string) {
			u := expect(t, got, what)
			kit.Equal(t, "Undelivered.Port", u.port, ca.Port.Num)
			kit.Equal(t, "Undelivered.To", u.to, to)
			kit.True(t, len(u.payload) > 24 && len(u.payload) <= 256, "Undelivered.Payload",
				"the beginning of the payload, of more than a header", "%d bytes", len(u.payload))
			kit.SameBytes(t, "Undelivered.Payload", u.payload, data[:len(u.payload)])
			kit.True(t, u.err != nil, "Undelivered.Err", "a cause", "nil")
		}
		for id := range uint64(3) { // a report may make the next send fail inside of the driver
			data := send(id)
			check(first, data, "report of a datagram")
			check(second, data, "report to the second function of a datagram")
		}
		stopFirst()
		stopFirst()
		data := send(9)
		check(second, data, "report after another function was removed")
		select {
		case u := <-first:
			t.Failf("reports after stop", "none", "one of a datagram to %x", u.to)
		default:
		}
	}, specialCases.Must("CI-SpecialQP-11", "CI", "ci, UndeliveredReporter",
		"A driver with reports of the network reports each datagram of QP1 that did not reach its destination, to "+
			"each function that is registered, with its port, address and beginning. QP1 works on."))
