package wiresuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// The case answers the first transmission with a NAK of a sequence error, which costs one retry as a timeout does.
var _ = reactCases.Add("wire.react.nak-count", "a NAK of a sequence error, and no further answer", func(t *validate.T) {
	s := open(t)
	for _, n := range kit.Variants(t, "retry count", []uint8{1, 2, 3}) {
		p := s.dial(kit.AckTime(tick+2), kit.Retry(n))
		p.Send(p.SendWR(1, 0, 8))
		p.sendOf(0, "first transmission of a SEND")
		p.answer(wire.RCAcknowledge, p.from, wire.NAKPSNSequence, 0, nil)
		for i := range int(n) {
			p.sendOf(0, fmt.Sprintf("transmission %d of a SEND with a retry count of %d, after a NAK", i+2, n))
		}
		p.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
		p.fatal()
		s.over(p, fmt.Sprintf("%d transmissions", n+1))
	}
}, wireReact11)
