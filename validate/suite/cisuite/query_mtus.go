package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

const numServiceLevels = 16

func queryMTUs(t *validate.T) {
	p := kit.NewPairInReset(t, kit.Type(ci.RC))
	port := p.A.QP.CA.Port
	kit.True(t, len(port.MTUs) <= numServiceLevels, "PortAttr.MTUs", "up to 16 entries", "%d", len(port.MTUs))
	for sl, m := range port.MTUs {
		kit.True(t, m.Bytes() > 0 && m <= port.MTU, fmt.Sprintf("PortAttr.MTUs[%d]", sl),
			"an MTU code that is at most MTU", "%d, MTU %d", m, port.MTU)
	}
	for _, sl := range smallerMTUs(port) {
		most := port.MTUOf(sl)
		p.A.To(ci.QPReset).Init()
		set, a := p.A.RTRAttr(p.B.QP)
		a.Primary.AV.SL, a.MTU = sl, most+1
		what := fmt.Sprintf("QP.Modify to RTR with service level %d and MTU code ", sl)
		kit.WantExactly(t, p.A.Modify(set, a), what+fmt.Sprint(a.MTU), ci.InvalidParameter)
		a.MTU = most
		kit.OK(t, p.A.Modify(set, a), what+fmt.Sprint(a.MTU))
	}
}

// smallerMTUs returns the service levels whose MTU is not that of the port.
func smallerMTUs(p *ci.PortAttr) (list []ci.SL) {
	for sl := range ci.SL(numServiceLevels) {
		if p.MTUOf(sl) < p.MTU {
			list = append(list, sl)
		}
	}
	return list
}

func queryMTUDatagram(t *validate.T) {
	p := kit.UD(t)
	ca := p.A.QP.CA
	list := smallerMTUs(ca.Port)
	if len(list) == 0 {
		t.Skip("all service levels of the port have its MTU")
	}
	for i, sl := range list {
		n := ca.Port.MTUOf(sl).Bytes()
		to := ca.AddressOf(p.B.QP.CA)
		to.SL = sl
		av, err := p.A.PD.CreateAV(to)
		kit.OK(t, err, "PD.CreateAV")
		wr := p.A.SendWR(uint64(2*i+1), 0, n)
		wr.To.AV = kit.Own(t, av, "AV")
		p.B.Recv(p.B.RecvWR(uint64(i+1), 0, grhLen+n))
		p.A.Send(wr)
		p.A.CQ.WaitOK(wr.ID)
		kit.Equal(t, fmt.Sprintf("length of the datagram with service level %d", sl),
			p.B.RecvCQ.WaitOK(uint64(i + 1))[0].Length, uint32(grhLen+n))
		wr.ID++
		wr.SGL = p.A.Buf.SGL(0, n+1)
		what := fmt.Sprintf("a datagram of %d bytes with service level %d", n+1, sl)
		if _, err := p.A.PostSend([]ci.SendWR{wr}); err != nil {
			kit.WantExactly(t, err, "QP.PostSend of "+what, ci.InvalidParameter)
			continue
		}
		p.A.CQ.WaitStatus(wr.ID, ci.WCLocalLenErr)
		p.A.Becomes(ci.QPSQError)
		kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQError to RTS")
	}
}
