package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// reactKind answers each kind of request with the responses of the others that have data.
func reactKind(t *validate.T) {
	reads := []wire.Opcode{wire.RCReadResponseOnly, wire.RCReadResponseFirst, wire.RCReadResponseMiddle,
		wire.RCReadResponseLast}
	atomic := []wire.Opcode{wire.RCAtomicAcknowledge}
	list := []struct {
		name    string
		op      ci.SendOp
		request wire.Opcode
		answers []wire.Opcode
	}{
		{"SEND", ci.OpSend, wire.RCSendOnly, append(atomic, reads...)},
		{"WRITE", ci.OpWrite, wire.RCWriteOnly, append(atomic, reads...)},
		{"READ", ci.OpRead, wire.RCReadRequest, atomic},
		{"compare and swap", ci.OpCompareSwap, wire.RCCompareSwap, reads},
		{"fetch and add", ci.OpFetchAdd, wire.RCFetchAdd, reads},
	}
	if t.Attr().Atomicity == ci.AtomicNone {
		list = list[:3]
	}
	s := open(t)
	for _, v := range kit.Variants(t, "", list) {
		for _, op := range kit.Variants(t, "answered with opcode", v.answers) {
			p := s.dial()
			p.blank()
			w := p.SendWR(1, 64, 8)
			w.Op, w.Remote = v.op, elsewhere8
			p.Send(w)
			p.expect("request", want{op: []wire.Opcode{v.request}, psn: p.from, length: -1})
			n := 8
			switch op {
			case wire.RCAtomicAcknowledge:
				n = 0
			case wire.RCReadResponseFirst, wire.RCReadResponseMiddle:
				n = p.mtu
			}
			p.answer(op, p.from, wire.ACK(wire.CreditsInvalid), 1, make([]byte, n), withOrig(77))
			p.CQ.WaitStatus(1, ci.WCBadRespErr)
			p.Buf.WantOnly(t, "memory after an answer of another kind", 0, nil)
			p.fatal()
			s.over(p, fmt.Sprintf("a %s that was answered with opcode %v", v.name, op))
		}
	}
}
