package cisuite

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// primaryPortWorks moves both ends of a drained connection to other ports, which may be on another link. If the target
// has one adapter, only one end moves.
func primaryPortWorks(t *validate.T) {
	p := kit.RC(t)
	p.A.Exchange(p.B, 100)
	a, b := otherPort(t, p.A.QP.CA), p.B.QP.CA
	if b != p.A.QP.CA {
		b = otherPort(t, b)
	}
	for _, e := range []*kit.End{p.A, p.B} {
		e.To(ci.QPSQD)
		e.Becomes(ci.QPSQD)
	}
	continueOn(p.A, a, b)
	continueOn(p.B, b, a)
	p.A.Exchange(p.B, 100)
	p.B.Exchange(p.A, 100)
}

// The case moves a drained connection to another port of an adapter that does not claim to be able to.
var _ = claimsCases.Needing(validate.Needs{Ports: 2}).Add("claims.primary-port",
	"a drained connection is moved to another port", func(t *validate.T) {
		if t.Claims().Has(ci.CapChangePrimaryPort) {
			t.Skip("claimed: claims.works.primary-port tests whether it works")
		}
		p := kit.RC(t)
		a, b := otherPort(t, p.A.QP.CA), p.B.QP.CA
		if b != p.A.QP.CA {
			b = otherPort(t, b)
		}
		p.A.To(ci.QPSQD)
		p.A.Becomes(ci.QPSQD)
		before, err := p.A.Query()
		kit.OK(t, err, "QP.Query in SQD")
		for _, fields := range kit.Variants(t, "fields", []ci.QPField{ci.QPFieldPort,
			ci.QPFieldPort | ci.QPFieldPrimary, ci.QPFieldPort | ci.QPFieldPrimary | ci.QPFieldState}) {
			err := p.A.Modify(fields, ci.QPAttr{State: ci.QPRTS, Port: a.Port.Num,
				Primary: ci.Path{AV: a.AddressOf(b), AckTimeout: p.A.Config.AckTimeout}})
			kit.Want(t, err, "QP.Modify in SQD to another primary port", ci.Unsupported, ci.InvalidParameter)
			after, err := p.A.Query()
			kit.OK(t, err, "QP.Query in SQD")
			kit.Equal(t, "QPAttr.Port after the rejected QP.Modify", after.Port, before.Port)
			kit.Equal(t, "QPAttr.State after the rejected QP.Modify", after.State, ci.QPSQD)
		}
		kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
		p.A.Exchange(p.B, 100)
		p.B.Exchange(p.A, 100)
	}, ciClaims01, ciClaims03)

// otherPort returns the adapter with another active port of the same link layer.
func otherPort(t *validate.T, ca *kit.CA) *kit.CA {
	other := *ca
	for i := range ca.Attr.Ports {
		if x := &ca.Attr.Ports[i]; x.Num != ca.Port.Num && x.State == ci.PortActive && x.Link == ca.Port.Link {
			other.Port = x
			return &other
		}
	}
	t.Skip("the adapter has no second active port")
	return nil
}

// continueOn continues a drained connection on the port here, with a peer on the port there.
func continueOn(e *kit.End, here, there *kit.CA) {
	t := here.T
	key, ok := sharedPKey(here.Port, there.Port)
	kit.True(t, ok, "P_Key tables of the other ports", "a common partition", "%04x and %04x", here.Port.PKeys,
		there.Port.PKeys)
	fields := ci.QPFieldState | ci.QPFieldPort | ci.QPFieldPrimary
	if key != 0 {
		fields |= ci.QPFieldPKeyIndex
	}
	kit.OK(t, e.Modify(fields, ci.QPAttr{State: ci.QPRTS, Port: here.Port.Num,
		Primary: ci.Path{AV: here.AddressOf(there), PKeyIndex: key, AckTimeout: e.Config.AckTimeout}}),
		"QP.Modify from SQD to RTS with another primary port")
	a, err := e.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "QPAttr.Port", a.Port, here.Port.Num)
	kit.Equal(t, "P_Key index of QPAttr.Primary", a.Primary.PKeyIndex, key)
}

// sharedPKey returns the index at the port here of a P_Key that packets between both ports can have.
func sharedPKey(here, there *ci.PortAttr) (index uint16, ok bool) {
	const member = 1 << 15
	for i, k := range here.PKeys {
		for _, w := range there.PKeys {
			if k&^member != 0 && k&^member == w&^member && (k|w)&member != 0 {
				return uint16(i), true
			}
		}
	}
	return 0, false
}

// localMADWorks executes a management datagram: of subnet management on InfiniBand, otherwise of performance
// management.
func localMADWorks(t *validate.T) {
	if t.Attr().Ports[0].Link == ci.LinkInfiniBand {
		madNodeInfo(t)
	} else {
		performanceMAD(t, kit.Open(t))
	}
}

// Performance management (IBTA volume 1, 13.4 and 16.1.3).
const (
	classPerf     = 0x04
	attrClassInfo = 0x0001
	attrCounters  = 0x0012
	perfData      = 64
)

// performanceMAD gets the ClassPortInfo and the counters of the port, and checks the port number in the response.
func performanceMAD(t *validate.T, ca *kit.CA) {
	get := func(attr uint16, data ...byte) *ci.MAD {
		in := request(madGet, attr, 0)
		in[madClass] = classPerf
		copy(in[perfData:], data)
		out := execute(t, ca, in, "Get of performance management")
		kit.Equal(t, "method of the response", out[madMethod], madResponse)
		kit.Equal(t, "MAD status of the response", status(out), 0)
		kit.SameBytes(t, "transaction ID of the response", out[madTID:madTID+8], in[madTID:madTID+8])
		return out
	}
	out := get(attrClassInfo)
	kit.Equal(t, "ClassPortInfo.BaseVersion", out[perfData], 1)
	kit.Equal(t, "ClassPortInfo.ClassVersion", out[perfData+1], 1)
	out = get(attrCounters, 0, ca.Port.Num)
	kit.Equal(t, "PortCounters.PortSelect", out[perfData+1], ca.Port.Num)
}

// hardwareSMAWorks checks that the agent of the port works without the consumer. On InfiniBand the agent answers the
// peer's QP0. An Ethernet port has no subnet management: it is active, and it has neither QP0 nor LID.
func hardwareSMAWorks(t *validate.T) {
	ca := kit.Open(t)
	if ca.Port.Link != ci.LinkInfiniBand {
		kit.Equal(t, "PortAttr.State without subnet management", ca.Port.State, ci.PortActive)
		kit.Equal(t, "PortAttr.LID", ca.Port.LID, 0)
		if t.Claims().Has(ci.CapSpecialQP) {
			pd := ca.PD()
			q, err := pd.CreateSpecialQP(ca.Port.Num, small(ci.QP0, ca.CQ(pd, 4)))
			kit.WantRefused(t, q, err, "PD.CreateSpecialQP of QP0 on a port without subnet management", ci.Unsupported,
				ci.NotFound, ci.InvalidServiceType)
		}
		return
	}
	if !t.Claims().Has(ci.CapSpecialQP|ci.CapAV) || len(t.HCAs()) < 2 {
		t.Skip("only QP0 of a second adapter can query the agent of an InfiniBand port")
	}
	kit.OK(t, ca.Destroy(), "CA.Destroy")
	other := kit.OpenHCA(t, t.HCAs()[1])
	q := special(t, other, ci.QP0)
	q.Init().RTR(nil).RTS()
	av, err := q.PD.CreateAV(other.AddressOf(ca))
	kit.OK(t, err, "PD.CreateAV")
	q.Dest = ci.Dest{AV: kit.Own(t, av, "AV"), QPN: 0}
	copy(q.Buf.Bytes, request(madGet, attrNodeInfo, 0)[:])
	q.Recv(q.RecvWR(1, 1024, 40+256))
	q.Send(q.SendWR(2, 0, 256))
	q.CQ.WaitOK(2)
	q.RecvCQ.WaitOK(1)
	answer := q.Buf.Bytes[1024+40:]
	kit.Equal(t, "method of the response of the port's agent", answer[madMethod], madResponse)
	kit.Equal(t, "NodeInfo.NodeGUID", ci.GUID(binary.BigEndian.Uint64(answer[smpData+12:])), ca.Attr.GUID)
}

// portActiveWorks takes the link down and up again, or uses subnet management to do it, and expects the event.
func portActiveWorks(t *validate.T) {
	if t.Attr().Ports[0].Link == ci.LinkInfiniBand && t.Claims().Has(ci.CapLocalMAD) {
		madSetState(t)
		return
	}
	ca := kit.Open(t)
	t.SetLink(false)
	ca.Events.Wait(ci.EventPortDown)
	t.SetLink(true)
	e := ca.Events.Wait(ci.EventPortActive)
	kit.Equal(t, "Event.Port", e.Port, ca.Port.Num)
	kit.Equal(t, "PortAttr.State after the event port active", portOf(t, ca).State, ci.PortActive)
}
