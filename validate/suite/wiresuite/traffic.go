package wiresuite

import (
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
	"ciddk/wire"
)

// trafficArea: rules of form and of order that hold for every packet, judged over all that two QPs say to each other through the
// certifier: messages of each kind and of sizes around packet bounds, in both directions, with packets lost and doubled, receivers that are
// not ready, and a request that is refused. (IBTA 5.2, 7.8, 9.2, 9.3, 9.7; A17.)
func trafficArea() validate.Suite {
	s := validate.Suite{Requirements: []req.Requirement{
		req.Driver.Must(ruleICRC, "IBTA 7.8", "ICRC; annex A17", "The ICRC of each packet is the CRC of its invariant fields."),
		req.Driver.Must(ruleTVer, "IBTA 9.2", "TVer", "The transport version of each packet is 0."),
		req.Driver.Must(ruleReserved, "IBTA 9.2", "reserved fields", "The reserved bits of BTH and DETH are zero in each packet."),
		req.Driver.Must(rulePadCount, "IBTA 9.2", "PadCnt", "Only a packet that ends a message has pad bytes, as many as make its payload a multiple of four."),
		req.Driver.Must(rulePadZero, "IBTA 9.2", "pad", "Pad bytes are zero."),
		req.Driver.Must(rulePKey, "IBTA 9.2", "P_Key", "The P_Key of each packet is the one at the QP's index of the P_Key table."),
		req.Driver.Must(ruleOpcode, "IBTA 9.2", "OpCode", "Each packet has an opcode that the service of its QP defines, the extension headers of that opcode, payload only where it has one, and a QP of the peer as its destination."),
		req.Driver.Must(ruleUDP, "RoCEv2 A17.3", "UDP header", "Each packet goes to the UDP port of RoCEv2, and the UDP length is that of the packet."),
		req.Driver.Should(ruleSport, "RoCEv2 A17.3", "UDP source port", "All packets of a QP to one peer have the same UDP source port, so that the network keeps them in order."),
		req.Driver.Must(ruleIP, "RoCEv2 A17.3", "IP header", "The IP header has no options, no fragments with DF set, the packet's length, a TTL or hop limit, UDP for its protocol and a right checksum."),
		req.Driver.Must(ruleChecksum, "RoCEv2 A17.3", "UDP checksum", "The UDP checksum is zero or right."),
		req.Driver.Must(ruleSyndrome, "IBTA 9.3", "AETH syndrome", "AETH syndromes are those that are defined, and of ACK in READ responses and atomic acknowledges."),
		req.Driver.Must(ruleLRH, "IBTA 7.7", "LRH", "On an InfiniBand link the LRH has version 0, reserved bits of zero, the packet's length, a data VL of the port and the LID of the destination, and says whether a GRH follows: if the address vector has one."),
		req.Driver.Must(ruleVCRC, "IBTA 7.8", "VCRC", "On an InfiniBand link the VCRC of each packet is right."),
		req.Driver.Must(ruleLRHPath, "IBTA 7.7", "LRH SLID, SL", "The source LID is the port's, with the path bits of the address vector, and the service level is the address vector's."),
		req.Driver.Must(ruleGRH, "IBTA 8.3", "GRH", "A GRH has version 6, the next header of a BTH, the packet's length, the GID of the port for its source, and destination, traffic class, flow label and hop limit of the address vector."),
		req.Driver.Must(ruleClass, "RoCEv2 A17.3", "traffic class, hop limit", "The IP header has the hop limit of the address vector, and its traffic class but for the two bits of congestion notification."),
		req.Driver.Should(ruleLabel, "RoCEv2 A17.3", "IPv6 flow label", "All packets of a QP to one peer have the same IPv6 flow label, so that the network keeps them in order."),
		req.Driver.Must(ruleLabelAV, "RoCEv2 A17.3", "IPv6 flow label; ci, GRH.FlowLabel",
			"The IPv6 header has the flow label of the address vector, where that is not 0."),
		req.Driver.Must(ruleOrder, "IBTA 9.7.3", "OpCode sequence", "The packets of a message follow each other, FIRST, MIDDLE, LAST, with nothing else of the QP's requests between."),
		req.Driver.Must(rulePSN, "IBTA 9.7.3", "PSN", "A request packet has the PSN after that of the newest one, or it is one sent again."),
		req.Driver.Must(ruleAgain, "IBTA 9.7.3", "retransmission", "A request packet that is sent again has the opcode, headers and payload that it had; a READ may be asked for in part, from the PSN and address that belong together."),
		req.Driver.Must(ruleFull, "IBTA 9.7.3", "payload length", "Each packet of a message but the last is as long as the path MTU, and a LAST is not empty."),
		req.Driver.Must(ruleTotal, "IBTA 9.7.3", "RETH DMA length", "The payloads of a WRITE make up the length in its RETH."),
		req.Driver.Must(ruleDepth, "IBTA 9.7.3", "initiator depth", "No more READs and atomics are outstanding than the QP's initiator depth."),
		req.Driver.Must(ruleAnswer, "IBTA 9.7.5", "acknowledge", "An answer has the PSN of a request that has come, with all before it."),
		req.Driver.Must(ruleRead, "IBTA 9.7.5", "READ responses", "READ response packets follow each other, FIRST, MIDDLE, LAST, with PSNs of a READ that came, all but the last as long as the path MTU."),
		req.Driver.Must(ruleMSN, "IBTA 9.7.7", "AETH MSN", "The MSN of an answer counts the messages done, and never goes back."),
		req.Driver.Must(ruleAnyForm, "IBTA 9.6", "packet validation", "Whatever the certifier sends, right or wrong, the packets that leave have the form that the rules WIRE-Form ask for."),
	}}
	for _, x := range []struct{ id, title, rule string }{
		{"form.icrc", "the ICRC, computed anew", ruleICRC},
		{"form.tver", "TVer", ruleTVer},
		{"form.reserved", "reserved bits", ruleReserved},
		{"form.pad-count", "pad counts", rulePadCount},
		{"form.pad-zero", "pad bytes", rulePadZero},
		{"form.pkey", "P_Keys", rulePKey},
		{"form.opcode", "opcodes and their headers", ruleOpcode},
		{"form.udp", "UDP port and length", ruleUDP},
		{"form.source-port", "UDP source ports", ruleSport},
		{"form.ip", "IP headers", ruleIP},
		{"form.checksum", "UDP checksums", ruleChecksum},
		{"form.syndrome", "AETH syndromes", ruleSyndrome},
		{"form.lrh", "LRHs", ruleLRH},
		{"form.vcrc", "VCRCs", ruleVCRC},
		{"form.path", "source LIDs and service levels", ruleLRHPath},
		{"form.grh", "GRHs", ruleGRH},
		{"form.class", "traffic classes and hop limits", ruleClass},
		{"form.flow-label", "IPv6 flow labels", ruleLabel},
		{"form.flow-label-path", "IPv6 flow labels of address vectors", ruleLabelAV},
		{"traffic.opcodes", "opcodes in order", ruleOrder},
		{"traffic.psn", "PSNs of requests", rulePSN},
		{"traffic.again", "requests sent again", ruleAgain},
		{"traffic.full", "payload lengths", ruleFull},
		{"traffic.total", "WRITEs against their RETH", ruleTotal},
		{"traffic.depth", "READs and atomics outstanding", ruleDepth},
		{"traffic.answers", "PSNs of answers", ruleAnswer},
		{"traffic.reads", "READ responses in order", ruleRead},
		{"traffic.msn", "MSNs of answers", ruleMSN},
	} {
		s.Cases = append(s.Cases, validate.NewCase("wire."+x.id, x.title+", over all kinds of traffic", validate.FeatureWire, func(t *validate.T) { traffic(t, x.rule) }, x.rule))
	}
	return s
}

// traffic runs all kinds of it through a relay and judges one rule. That the traffic itself comes through is a matter of other cases, so its
// failures are of the set-up.
func traffic(t *validate.T, rule string) {
	endSetup := t.Setup()
	r := newRelay(t)
	defer func() {
		endSetup()
		r.stop()
		r.judge(rule)
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

// shows skips the case on links where what the rule is about does not show.
func (r *relay) shows(rule string) {
	is := func(list ...string) bool { return slices.Contains(list, rule) }
	i := &r.info
	switch {
	case i.Link != ci.LinkEthernet && is(ruleUDP, ruleSport, ruleIP, ruleChecksum, ruleClass, ruleLabel, ruleLabelAV):
		r.t.Skip("IP and UDP are of Ethernet links; this one is %s", validate.LinkName(i.Link))
	case i.Link != ci.LinkInfiniBand && is(ruleLRH, ruleVCRC, ruleLRHPath, ruleGRH):
		r.t.Skip("LRH, GRH and VCRC are of InfiniBand links; this one is %s", validate.LinkName(i.Link))
	case is(ruleLabel, ruleLabelAV) && v4(i.GID):
		r.t.Skip("flow labels are of IPv6; this link speaks IPv4")
	case is(ruleIP) && !i.Header:
		r.t.Skip("the certifier's end of this link does not show the IP header as it was on the wire")
	case is(ruleClass) && !(i.Class && i.Hops), is(ruleLabel, ruleLabelAV) && !i.Label:
		r.t.Skip("the certifier's end of this link does not show these fields of the IP header")
	case is(ruleChecksum) && !i.Checksum:
		r.t.Skip("the certifier's end of this link does not show the UDP checksum as it was on the wire")
	case !i.Raw && is(ruleICRC, ruleTVer, ruleReserved, rulePadZero, ruleVCRC, ruleLRH, ruleLRHPath, ruleGRH):
		r.t.Skip("packets do not leave the adapter as bytes on this link, so that nothing of it makes their form")
	}
}

// messages are one of each kind and size from one end to the other.
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

// swap sends wrs, as many at a time as both queues hold, and waits for them.
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

// reliable is a good connection, both ways.
func (r *relay) reliable() {
	p := r.pair(kit.Reads(2, 4), kit.AckTime(18))
	wrs, recvs := messages(r.t, p.A, p.B)
	swap(p.A, p.B, wrs, recvs)
	wrs, recvs = messages(r.t, p.B, p.A)
	swap(p.B, p.A, wrs, recvs)
}

// impaired is a connection that loses one packet of each kind, and gets some twice.
func (r *relay) impaired() {
	p := r.pair(kit.Reads(2, 4), kit.AckTime(14), kit.MinRNR(8))
	is := func(op wire.Opcode) func(*packet) bool { return func(p *packet) bool { return p.BTH.Opcode == op } }
	for _, op := range []wire.Opcode{wire.RCSendMiddle, wire.RCWriteLast, wire.RCWriteFirst, wire.RCReadResponseMiddle, wire.RCReadResponseLast, wire.RCReadRequest} {
		r.next(lost, is(op))
	}
	for _, op := range []wire.Opcode{wire.RCSendOnly, wire.RCAcknowledge, wire.RCReadResponseFirst} {
		r.next(twice, is(op))
	}
	if r.t.Attr().Atomicity != ci.AtomicNone {
		r.next(lost, is(wire.RCAtomicAcknowledge))
		r.next(twice, is(wire.RCFetchAdd))
	}
	wrs, recvs := messages(r.t, p.A, p.B)
	swap(p.A, p.B, wrs, recvs)
	// A receiver that is not ready, for a moment.
	p.A.Send(p.A.SendWR(1, 0, 2000))
	r.until(wire.Syndrome.IsRNRNAK)
	p.B.Recv(p.B.RecvWR(1, 0, 2000))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
}

// refused is a connection that ends with a NAK.
func (r *relay) refused() {
	p := r.pair(kit.AckTime(18))
	w := p.A.RDMA(ci.OpWrite, 1, 0, 8, p.B, 0)
	w.Remote.RKey ^= 0x5a00
	p.A.Send(w)
	p.A.CQ.WaitStatus(1, ci.WCRemAccessErr)
	r.until(func(s wire.Syndrome) bool { return s == wire.NAKRemoteAccess })
}

// unreliable is a UC connection.
func (r *relay) unreliable() {
	p := r.pair(kit.Type(ci.UC))
	wrs, recvs := messages(r.t, p.A, p.B)
	swap(p.A, p.B, wrs, recvs)
}

// datagrams are UD messages both ways.
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
