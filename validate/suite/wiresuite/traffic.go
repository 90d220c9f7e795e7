package wiresuite

import (
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
	"ciddk/wire"
)

// trafficCases are the cases of the rules of form and order, which hold for every packet. They are checked on traffic
// of all kinds that two QPs exchange through the certifier: each kind of message, sizes around packet boundaries, both
// directions, lost and duplicated packets, receivers that are not ready, and a request that gets a NAK. (IBTA 5.2, 7.8,
// 9.2, 9.3, 9.7; RoCEv2 A17.)
var trafficCases = area()

var wireForm01 = trafficCases.Must(ruleICRC, "IBTA 7.8", "ICRC; annex A17",
	"The ICRC of each packet is the CRC of its invariant fields.")

var wireForm02 = trafficCases.Must(ruleTVer, "IBTA 9.2", "TVer", "The transport version of each packet is 0.")

var wireForm03 = trafficCases.Must(ruleReserved, "IBTA 9.2", "reserved fields",
	"The reserved bits of the BTH and DETH are zero in each packet.")

var wireForm04 = trafficCases.Must(rulePadCount, "IBTA 9.2", "PadCnt",
	"Only the last packet of a message has pad bytes, as many as make its payload a multiple of four bytes.")

var wireForm05 = trafficCases.Must(rulePadZero, "IBTA 9.2", "pad", "Pad bytes are zero.")

var wireForm06 = trafficCases.Must(rulePKey, "IBTA 9.2", "P_Key",
	"The P_Key of each packet is the one at the QP's index in the P_Key table.")

var wireForm07 = trafficCases.Must(ruleOpcode, "IBTA 9.2", "OpCode",
	"Each packet has an opcode that the service of its QP defines and the extension headers of that opcode. It "+
		"has a payload only if the opcode permits one, and its destination is a QP of the peer.")

var wireForm08 = trafficCases.Must(ruleUDP, "RoCEv2 A17.3", "UDP header",
	"Each packet goes to the UDP port of RoCEv2, and its UDP length is correct.")

var wireForm09 = trafficCases.Should(ruleSport, "RoCEv2 A17.3", "UDP source port",
	"All packets of a QP to one peer have the same UDP source port, so that the network keeps them in order.")

var wireForm10 = trafficCases.Must(ruleIP, "RoCEv2 A17.3", "IP header",
	"The IP header has no options, DF set without fragments, the correct length, a TTL or hop limit above 0, "+
		"protocol UDP and a correct checksum.")

var wireForm11 = trafficCases.Must(ruleChecksum, "RoCEv2 A17.3", "UDP checksum",
	"The UDP checksum is zero or correct.")

var wireForm12 = trafficCases.Must(ruleSyndrome, "IBTA 9.3", "AETH syndrome",
	"AETH syndromes are defined values. Those of READ responses and atomic acknowledges are ACK syndromes.")

var wireForm13 = trafficCases.Must(ruleLRH, "IBTA 7.7", "LRH",
	"On an InfiniBand link the LRH has version 0, reserved bits of zero, the packet's length, a data VL of the "+
		"port and the destination LID. It announces a GRH exactly if the address vector has one.")

var wireForm14 = trafficCases.Must(ruleVCRC, "IBTA 7.8", "VCRC",
	"On an InfiniBand link the VCRC of each packet is correct.")

var wireForm16 = trafficCases.Must(ruleLRHPath, "IBTA 7.7", "LRH SLID, SL",
	"The source LID is that of the port with the path bits of the address vector. The service level is that of "+
		"the address vector.")

var wireForm17 = trafficCases.Must(ruleGRH, "IBTA 8.3", "GRH",
	"A GRH has version 6, the next header of a BTH, the correct length, and the GID of the port as its source. "+
		"Its destination, traffic class, flow label and hop limit are those of the address vector.")

var wireForm18 = trafficCases.Must(ruleClass, "RoCEv2 A17.3", "traffic class, hop limit",
	"The IP header has the hop limit of the address vector and its traffic class, except for the two bits of "+
		"congestion notification.")

var wireForm19 = trafficCases.Should(ruleLabel, "RoCEv2 A17.3", "IPv6 flow label",
	"All packets of a QP to one peer have the same IPv6 flow label, so that the network keeps them in order.")

var wireForm20 = trafficCases.Must(ruleLabelAV, "RoCEv2 A17.3", "IPv6 flow label; ci, GRH.FlowLabel",
	"The IPv6 header has the flow label of the address vector, unless that is 0.")

var wireSeq01 = trafficCases.Must(ruleOrder, "IBTA 9.7.3", "OpCode sequence",
	"The packets of a message are consecutive, FIRST, MIDDLE, LAST, with no other request of the QP between them.")

var wireSeq02 = trafficCases.Must(rulePSN, "IBTA 9.7.3", "PSN",
	"A request packet has the PSN after that of the newest one, or it is a retransmission.")

var wireSeq03 = trafficCases.Must(ruleAgain, "IBTA 9.7.3", "retransmission",
	"A retransmitted request packet has the opcode, headers and payload of the first transmission. A READ may be "+
		"repeated in part, with a PSN and an address that match.")

var wireSeq04 = trafficCases.Must(ruleFull, "IBTA 9.7.3", "payload length",
	"Each packet of a message except the last is as long as the path MTU, and a LAST is not empty.")

var wireSeq05 = trafficCases.Must(ruleTotal, "IBTA 9.7.3", "RETH DMA length",
	"The payloads of a WRITE add up to the length in its RETH.")

var wireSeq06 = trafficCases.Must(ruleDepth, "IBTA 9.7.3", "initiator depth",
	"The number of outstanding READs and atomics is at most the QP's initiator depth.")

var wireRsp01 = trafficCases.Must(ruleAnswer, "IBTA 9.7.5", "acknowledge",
	"An answer has the PSN of a request that has arrived together with all requests before it.")

var wireRsp02 = trafficCases.Must(ruleRead, "IBTA 9.7.5", "READ responses",
	"The packets of a READ response are consecutive, FIRST, MIDDLE, LAST, with the PSNs of a READ that arrived. "+
		"All except the last are as long as the path MTU.")

var wireRsp03 = trafficCases.Must(ruleMSN, "IBTA 9.7.7", "AETH MSN",
	"The MSN of an answer counts the executed messages and does not decrease.")

var _ = trafficCases.Must(ruleAnyForm, "IBTA 9.6", "packet validation",
	"All packets that the adapter sends have the form that the WIRE-Form rules require, whether the certifier's "+
		"packets are valid or not.")

// trafficRule is a rule that holds for every packet.
type trafficRule struct {
	id, title string
	rule      *req.Requirement
}

var trafficRules = []trafficRule{
	{"form.icrc", "the ICRC, computed again", wireForm01},
	{"form.tver", "TVer", wireForm02},
	{"form.reserved", "reserved bits", wireForm03},
	{"form.pad-count", "pad counts", wireForm04},
	{"form.pad-zero", "pad bytes", wireForm05},
	{"form.pkey", "P_Keys", wireForm06},
	{"form.opcode", "opcodes and their headers", wireForm07},
	{"form.udp", "UDP port and length", wireForm08},
	{"form.source-port", "UDP source ports", wireForm09},
	{"form.ip", "IP headers", wireForm10},
	{"form.checksum", "UDP checksums", wireForm11},
	{"form.syndrome", "AETH syndromes", wireForm12},
	{"form.lrh", "LRHs", wireForm13},
	{"form.vcrc", "VCRCs", wireForm14},
	{"form.path", "source LIDs and service levels", wireForm16},
	{"form.grh", "GRHs", wireForm17},
	{"form.class", "traffic classes and hop limits", wireForm18},
	{"form.flow-label", "IPv6 flow labels", wireForm19},
	{"form.flow-label-path", "IPv6 flow labels of address vectors", wireForm20},
	{"traffic.opcodes", "opcodes in order", wireSeq01},
	{"traffic.psn", "PSNs of requests", wireSeq02},
	{"traffic.again", "retransmitted requests", wireSeq03},
	{"traffic.full", "payload lengths", wireSeq04},
	{"traffic.total", "lengths of WRITEs and their RETHs", wireSeq05},
	{"traffic.depth", "outstanding READs and atomics", wireSeq06},
	{"traffic.answers", "PSNs of answers", wireRsp01},
	{"traffic.reads", "READ responses in order", wireRsp02},
	{"traffic.msn", "MSNs of answers", wireRsp03},
}

var _ = validate.Matrix(trafficCases, trafficRules, func(r trafficRule) (validate.Case, []*req.Requirement) {
	return validate.Case{
		ID:      "wire." + r.id,
		Title:   r.title + ", over all kinds of traffic",
		Feature: validate.FeatureWire,
		Run:     func(t *validate.T) { traffic(t, r.rule.ID) },
	}, []*req.Requirement{r.rule}
})

// traffic runs all kinds of traffic through a relay and checks one rule. Other cases test whether the traffic arrives,
// so its failures count as failures of the set-up.
func traffic(t *validate.T, rule string) {
	endSetup := t.Setup()
	r := newRelay(t)
	defer func() {
		endSetup()
		r.stop()
		r.report(rule)
	}()
	r.shows(rule)
	r.reliable()
	if r.info.Link == ci.LinkInfiniBand {
		r.routed = true
		r.reliable()
		if t.Claims().Has(ci.CapUD | ci.CapAV) {
			r.datagrams()
		}
		r.routed = false
	}
	r.impaired()
	r.refused()
	if t.Claims().Has(ci.CapUC) {
		r.unreliable()
	}
	if t.Claims().Has(ci.CapUD | ci.CapAV) {
		r.datagrams()
	}
}

// shows skips the case on links where the rule cannot be observed.
func (r *relay) shows(rule string) {
	is := func(list ...string) bool { return slices.Contains(list, rule) }
	i := &r.info
	switch {
	case i.Link != ci.LinkEthernet && is(ruleUDP, ruleSport, ruleIP, ruleChecksum, ruleClass, ruleLabel, ruleLabelAV):
		r.t.Skip("only packets on Ethernet links have IP and UDP headers; this link is %s", validate.LinkName(i.Link))
	case i.Link != ci.LinkInfiniBand && is(ruleLRH, ruleVCRC, ruleLRHPath, ruleGRH):
		r.t.Skip("only packets on InfiniBand links have LRH, GRH and VCRC; this link is %s", validate.LinkName(i.Link))
	case is(ruleLabel, ruleLabelAV) && isIPv4(i.GID):
		r.t.Skip("only IPv6 has flow labels; this link uses IPv4")
	case is(ruleIP) && !i.Header:
		r.t.Skip("the certifier's end of this link does not receive the IP header as it was sent")
	case is(ruleClass) && !(i.Class && i.Hops), is(ruleLabel, ruleLabelAV) && !i.Label:
		r.t.Skip("the certifier's end of this link does not receive these fields of the IP header")
	case is(ruleChecksum) && !i.Checksum:
		r.t.Skip("the certifier's end of this link does not receive the UDP checksum as it was sent")
	case !i.Raw && is(ruleICRC, ruleTVer, ruleReserved, rulePadZero, ruleVCRC, ruleLRH, ruleLRHPath, ruleGRH):
		r.t.Skip("the adapter does not send packets as bytes on this link, so it does not produce their format")
	}
}

// messages returns one message of each kind and size from one end to the other, and the receives for them.
func messages(t *validate.T, from, to *kit.End) (wrs []ci.SendWR, recvs []ci.RecvWR) {
	mtu := from.PathMTU()
	id := uint64(0)
	add := func(w ci.SendWR) {
		id++
		w.ID, w.Flags = id, w.Flags|ci.SendSignaled
		wrs = append(wrs, w)
	}
	rc := from.Config.Type == ci.RC
	for _, n := range kit.Variants(t, "bytes", []int{0, 1, mtu - 1, mtu, mtu + 1, 3*mtu + 2}) {
		add(from.SendWR(0, 0, n))
		add(from.RDMA(ci.OpWrite, 0, 0, n, to, 0))
		if rc {
			add(from.RDMA(ci.OpRead, 0, 32<<10, n, to, 0))
		}
	}
	for _, n := range kit.Variants(t, "bytes", []int{3, 2*mtu + 1}) {
		w := from.SendWR(0, 0, n)
		w.Flags, w.Imm = w.Flags|ci.SendImmediate|ci.SendSolicited, 0x01020304
		add(w)
		w = from.RDMA(ci.OpWrite, 0, 0, n, to, 0)
		w.Flags, w.Imm = w.Flags|ci.SendImmediate, 0x01020304
		add(w)
	}
	if rc && t.Attr().Atomicity != ci.AtomicNone {
		for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpFetchAdd, ci.OpCompareSwap}) {
			w := from.RDMA(op, 0, 48<<10, 8, to, 0)
			w.Atomic = ci.Atomic{Compare: 1, Swap: 2}
			add(w)
		}
	}
	for i, w := range wrs {
		if w.Op == ci.OpSend || w.Flags&ci.SendImmediate != 0 {
			recvs = append(recvs, to.RecvWR(uint64(i+1), 40<<10, 4*mtu))
		}
	}
	return wrs, recvs
}

// swap posts wrs, as many at a time as both queues hold, and waits for their completions.
func swap(from, to *kit.End, wrs []ci.SendWR, recvs []ci.RecvWR) {
	for i := 0; i < len(wrs); {
		n := 0
		var ids, got []uint64
		for ; n < 12 && i+n < len(wrs); n++ {
			w := &wrs[i+n]
			ids = append(ids, w.ID)
			if len(recvs) > 0 && (w.Op == ci.OpSend || w.Flags&ci.SendImmediate != 0) {
				to.Recv(recvs[0])
				got = append(got, recvs[0].ID)
				recvs = recvs[1:]
			}
		}
		from.Send(wrs[i : i+n]...)
		from.CQ.WaitOK(ids...)
		if len(got) > 0 {
			to.RecvCQ.WaitOK(got...)
		}
		i += n
	}
}

// reliable runs traffic over a connection without losses, in both directions.
func (r *relay) reliable() {
	p := r.pair(kit.Reads(2, 4), kit.AckTime(18))
	wrs, recvs := messages(r.t, p.A, p.B)
	swap(p.A, p.B, wrs, recvs)
	wrs, recvs = messages(r.t, p.B, p.A)
	swap(p.B, p.A, wrs, recvs)
}

// impaired runs traffic over a connection that loses one packet of each kind and duplicates some.
func (r *relay) impaired() {
	p := r.pair(kit.Reads(2, 4), kit.AckTime(14), kit.MinRNR(8))
	is := func(op wire.Opcode) func(*packet) bool { return func(p *packet) bool { return p.BTH.Opcode == op } }
	for _, op := range []wire.Opcode{wire.RCSendMiddle, wire.RCWriteLast, wire.RCWriteFirst, wire.RCReadResponseMiddle,
		wire.RCReadResponseLast, wire.RCReadRequest} {
		r.next(lose, is(op))
	}
	for _, op := range []wire.Opcode{wire.RCSendOnly, wire.RCAcknowledge, wire.RCReadResponseFirst} {
		r.next(duplicate, is(op))
	}
	if r.t.Attr().Atomicity != ci.AtomicNone {
		r.next(lose, is(wire.RCAtomicAcknowledge))
		r.next(duplicate, is(wire.RCFetchAdd))
	}
	wrs, recvs := messages(r.t, p.A, p.B)
	swap(p.A, p.B, wrs, recvs)
	// The receiver has no receive posted for a moment.
	p.A.Send(p.A.SendWR(1, 0, 2000))
	r.until(wire.Syndrome.IsRNRNAK)
	p.B.Recv(p.B.RecvWR(1, 0, 2000))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
}

// refused runs a connection that ends with a NAK.
func (r *relay) refused() {
	p := r.pair(kit.AckTime(18))
	w := p.A.RDMA(ci.OpWrite, 1, 0, 8, p.B, 0)
	w.Remote.RKey ^= 0x5a00
	p.A.Send(w)
	p.A.CQ.WaitStatus(1, ci.WCRemAccessErr)
	r.until(func(s wire.Syndrome) bool { return s == wire.NAKRemoteAccess })
}

// unreliable runs traffic over a UC connection.
func (r *relay) unreliable() {
	p := r.pair(kit.Type(ci.UC))
	wrs, recvs := messages(r.t, p.A, p.B)
	swap(p.A, p.B, wrs, recvs)
}

// datagrams sends UD messages in both directions.
func (r *relay) datagrams() {
	p := r.pair(kit.Type(ci.UD))
	for _, x := range []struct{ from, to *kit.End }{{p.A, p.B}, {p.B, p.A}} {
		for i, n := range []int{0, 1, 2, 3, 500} {
			w := x.from.SendWR(uint64(i+1), 0, n)
			if i%2 == 1 {
				w.Flags, w.Imm = w.Flags|ci.SendImmediate, 5
			}
			x.to.Recv(x.to.RecvWR(uint64(i+1), 0, 40+n))
			x.from.Send(w)
			x.from.CQ.WaitOK(w.ID)
			x.to.RecvCQ.WaitOK(w.ID)
		}
	}
}
