package cmsuite

import (
	"fmt"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = datagrams.Case(validate.Case{
	ID:    "mad.address.qkeys",
	Title: "datagrams to QP1 and to other QPs have the Q_Key of their address, or else the well-known one of QP1",
	Run:   addressQKeys,
}, MADGSI01)

func addressQKeys(t *validate.T) {
	b := newBench(t, benchSetting{})
	from := b.agent(vendor())
	for i, v := range kit.Variants(t, "", []struct {
		qpn       ci.QPN
		key, want ci.QKey
	}{{1, 0, ci.QKey(mad.QKeyGSI)}, {1, ci.QKey(mad.QKeyGSI), ci.QKey(mad.QKeyGSI)}, {1, 0x1234, 0x1234},
		{2, 0, 0}, {0x3ffffe, 0, 0}, {0x3ffffe, 0x4321, 0x4321}}) {
		b.idle(from)
		b.sent()
		to := b.side.to(b.peer)
		to.QPN, to.QKey = v.qpn, v.key
		kit.OK(t, from.Send(&mads.Message{To: to, MAD: datagram(t, mad.Send, uint64(i)+1)}), "mads.Agent.Send")
		list := b.sent()
		where := fmt.Sprintf("QP and Q_Key of a datagram to QP %d with Q_Key %#x", v.qpn, v.key)
		kit.True(t, len(list) == 1, "datagrams that QP1 was given", "1", "%s", describeSent(list))
		kit.Equal(t, where, fmt.Sprintf("%d %#x", list[0].to.QPN, list[0].to.QKey),
			fmt.Sprintf("%d %#x", v.qpn, v.want))
	}
}
