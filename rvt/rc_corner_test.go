package rvt

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// train returns a SEND or WRITE of n packets of 1024 bytes, the last one shorter by 24, as one train.
func train(op wire.Op, k, n int, start, end bool, fill byte) Packet {
	b := make([]byte, n*1024)
	for i := range b {
		b[i] = fill + byte(i>>10)
	}
	if end {
		b = b[:len(b)-24]
	}
	return Packet{Op: op, Start: start, End: end, Ack: end, PSN: psnAt(k), N: uint32(n),
		Payload: [][]byte{b[:100], b[100:]}}
}

// TestPartlyOldTrain checks that the rest of a train whose beginning has been executed is executed.
func TestPartlyOldTrain(t *testing.T) {
	for old := 1; old < 5; old++ {
		for _, op := range []wire.Op{wire.OpSend, wire.OpWrite} {
			t.Run(fmt.Sprint(op, old), func(t *testing.T) {
				a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
				a.recv(ci.RecvWR{ID: 1, SGL: a.sge(0, 8192)})
				head := train(op, 0, old, true, false, 1)
				whole := train(op, 0, 5, true, true, 1)
				for _, p := range []*Packet{&head, &whole} {
					p.VA, p.RKey, p.DMALen = a.mr.Region().Addr, a.mr.Region().RKey, 5*1024-24
				}
				r.say(head)
				require.Empty(t, r.take())
				r.say(whole)
				p := r.one()
				require.True(t, p.Syndrome.IsACK())
				require.Equal(t, psnAt(4), p.PSN)
				require.EqualValues(t, 1, p.MSN)
				for i := range 5*1024 - 24 {
					require.Equal(t, byte(1+i>>10), a.buf[i], i)
				}
				if op == wire.OpSend {
					require.EqualValues(t, 5*1024-24, a.onlyWC().Length)
				}
				again := train(op, 0, 5, true, true, 100) // completely old: acknowledged, and not executed
				again.VA, again.RKey, again.DMALen = whole.VA, whole.RKey, whole.DMALen
				r.say(again)
				require.Equal(t, psnAt(4), r.one().PSN)
				require.Equal(t, byte(1), a.buf[0])
				require.Equal(t, ci.QPRTS, a.state())
			})
		}
	}
}

// TestPartlyOldResponse checks that the rest of a train of a READ response whose beginning has been received is used.
func TestPartlyOldResponse(t *testing.T) {
	for old := 1; old < 5; old++ {
		a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
		a.send(ci.SendWR{ID: 1, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(0, 5*1024-24)})
		r.one()
		head := train(wire.OpReadResponse, 0, old, true, false, 1)
		r.say(head)
		r.say(train(wire.OpReadResponse, 0, 5, true, true, 1))
		require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
		for i := range 5*1024 - 24 {
			require.Equal(t, byte(1+i>>10), a.buf[i], i)
		}
		require.Zero(t, a.hca.Counters()["retries"])
	}
}

// TestWriteImmediateWithoutReceive checks that only the last packet, which takes the receive, is rejected. The data
// before it is placed.
func TestWriteImmediateWithoutReceive(t *testing.T) {
	for _, whole := range []bool{true, false} {
		a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
		key := a.mr.Region()
		p := train(wire.OpWrite, 0, 3, true, true, 1)
		p.VA, p.RKey, p.DMALen = key.Addr, key.RKey, 3*1024-24
		p.HasImm, p.Imm = true, 5
		if whole {
			r.say(p)
		} else {
			for k := range uint32(3) {
				c := p
				c.MTU = 1024
				c.Len = 3*1024 - 24
				r.say(cut(&c, k))
			}
		}
		nak := r.one()
		require.True(t, nak.Syndrome.IsRNRNAK())
		require.Equal(t, psnAt(2), nak.PSN)
		require.Equal(t, byte(2), a.buf[2047])
		require.Zero(t, a.buf[2048])
		require.Empty(t, a.poll())
		a.recv(ci.RecvWR{ID: 6})
		last := train(wire.OpWrite, 2, 1, false, true, 3)
		last.HasImm, last.Imm = true, 5
		r.say(last)
		require.Equal(t, psnAt(2), r.one().PSN)
		require.Equal(t, ci.WC{ID: 6, Op: ci.WCRecvWrite, Length: 3*1024 - 24, QPN: a.qp.Num(), Flags: ci.WCImmediate,
			Imm: 5}, a.onlyWC())
		require.Equal(t, byte(3), a.buf[2048])
	}
}

// TestPolledAcks checks what acknowledgements wait for while a consumer's polls drive a port: FlushAcks, the consumer's
// next post, too many packets, an error, or the end of the QP.
func TestPolledAcks(t *testing.T) {
	ends := map[string]func(a *side, r *rawPeer){
		"flush": func(a *side, r *rawPeer) { receiverOf(a.hca, 0).FlushAcks() },
		"post":  func(a *side, r *rawPeer) { a.send(ci.SendWR{}) },
		"many": func(a *side, r *rawPeer) {
			for i := 3; i < ackEvery; i++ {
				r.polled(sendPkt(i, ""))
			}
		},
		"gap":     func(a *side, r *rawPeer) { r.polled(sendPkt(9, "")) },
		"reset":   func(a *side, r *rawPeer) { a.toState(ci.QPReset) },
		"error":   func(a *side, r *rawPeer) { a.toState(ci.QPError) },
		"destroy": func(a *side, r *rawPeer) { a.remake(ci.QPCreate{SendCQ: a.cq, RecvCQ: a.cq}) },
		"not polled": func(a *side, r *rawPeer) {
			p := sendPkt(3, "")
			r.say(p)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
			for range 50 {
				a.recv(ci.RecvWR{})
			}
			for i := range 3 {
				r.polled(sendPkt(i, ""))
			}
			require.Empty(t, r.take())
			end(a, r)
			got := r.take()
			require.NotEmpty(t, got)
			answers := 0
			for _, p := range got {
				if p.Op == wire.OpAcknowledge {
					answers++
					require.GreaterOrEqual(t, psnDiff(p.PSN, psnAt(2)), int32(0))
				}
			}
			require.Equal(t, 1, answers)
			receiverOf(a.hca, 0).FlushAcks()
			require.Empty(t, r.take(), "once")
		})
	}
}

// polled delivers one packet as a port does when a consumer's poll drives it.
func (r *rawPeer) polled(p Packet) {
	p.Service, p.DestQP, p.PKey = services[r.typ], r.side.qp.Num(), 0xffff
	p.MigReq, p.Src = true, Addr{LID: r.lid}
	p.N, p.MTU = 1, 1024
	for _, b := range p.Payload {
		p.Len += uint32(len(b))
	}
	receiverOf(r.side.hca, 0).Deliver([]Packet{p}, true, true)
}

// TestInbox checks that packets that arrive while the QP is busy wait for it, in order, as copies. Beyond a limit they
// are dropped, and a QP that is reset meanwhile drops them.
func TestInbox(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
	q := a.qp.(*QP)
	deliver := func(p Packet) {
		p.Service, p.DestQP, p.PKey = wire.RC, q.num, 0xffff
		p.MigReq, p.Src, p.N = true, Addr{LID: r.lid}, 1
		p.MTU = 1024
		p.Len = uint32(len(p.Payload[0]))
		receiverOf(a.hca, 0).Deliver([]Packet{p}, false, false)
	}
	for range 200 {
		a.recv(ci.RecvWR{SGL: a.sge(0, 10)})
	}
	q.mu.Lock()
	data := []byte("0")
	for i := range 5 {
		data[0] = byte('0' + i)
		p := sendPkt(i, "")
		p.Payload = [][]byte{data}
		deliver(p)
	}
	data[0] = 'x'
	require.Len(t, q.inbox.packets, 5)
	q.unlock()
	require.Len(t, a.poll(), 5)
	require.Equal(t, byte('4'), a.buf[0])
	require.Equal(t, psnAt(4), r.one().PSN, "one acknowledgement for all")

	q.mu.Lock()
	for i := range inboxLimit + 7 {
		deliver(sendPkt(5+i, "y"))
	}
	require.EqualValues(t, 7, a.hca.Counters()["drop_busy"])
	for i := range 3 { // acknowledgements that cover more replace those that cover less
		p := ack(i)
		p.Service, p.DestQP, p.PKey = wire.RC, q.num, 0xffff
		p.MigReq, p.Src, p.N = true, Addr{LID: r.lid}, 1
		receiverOf(a.hca, 0).Deliver([]Packet{p}, false, false)
	}
	require.Len(t, q.inbox.packets, inboxLimit)
	q.toReset()
	require.Empty(t, q.inbox.packets)
	q.unlock()
	require.Empty(t, a.poll())
	require.Equal(t, ci.QPReset, a.state())
	a.toRTS(a.attrTo(rawQPN, r.lid))
	require.Empty(t, a.poll(), "nothing of before comes after")
}

// TestReconnect checks that a reset QP starts afresh, whatever it had been doing.
func TestReconnect(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, nil)
	for round := range 5 {
		a.send(ci.SendWR{ID: 1, SGL: a.sge(0, 5000)}, ci.SendWR{ID: 2, Op: ci.OpRead, SGL: a.sge(0, 5000)})
		require.Equal(t, psn0, r.take()[0].PSN)
		switch round {
		case 0:
			r.say(nak(0, wire.RNRNAK(0)))
		case 1:
			r.say(nak(2, wire.NAKPSNSequence))
		case 2:
			c.Advance(timeout(14))
		case 3:
			r.say(train(wire.OpSend, 0, 2, true, false, 1)) // in the middle of a message, with a receive taken
		}
		r.take()
		a.toState(ci.QPReset)
		c.Advance(time.Hour)
		require.Empty(t, r.take())
		require.Empty(t, a.poll())
		require.Zero(t, c.Pending())
		a.toRTS(a.attrTo(rawQPN, r.lid))
		a.recv(ci.RecvWR{ID: 9, SGL: a.sge(0, 5000)})
		r.say(sendPkt(0, "fresh"))
		require.EqualValues(t, 9, a.onlyWC().ID)
		require.EqualValues(t, 1, r.one().MSN)
		a.toState(ci.QPReset)
		a.toRTS(a.attrTo(rawQPN, r.lid))
		a.recv(ci.RecvWR{ID: 9, SGL: a.sge(0, 5000)})
	}
}

// TestLocalOps checks that operations that send nothing complete in the order of the queue. An invalidation waits for
// all earlier requests, so that none of them is retransmitted with an invalid key. Later requests see its effect.
func TestLocalOps(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, nil)
	mem := make([]byte, 8192)
	d, err := a.ca.MapDMA(ci.Bytes(mem))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Destroy()) })
	mr, err := a.pd.AllocFastRegMR(4)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mr.Destroy()) })
	key := mr.Region().LKey&^0xff | 0x77
	reg := ci.SendWR{ID: 1, Op: ci.OpFastReg, Flags: ci.SendSignaled,
		Ext: &ci.SendExt{FastReg: ci.FastReg{MR: mr, Pages: []uint64{d.Ranges()[0].Addr},
			PageShift: 12, Length: 4096, IOVA: 0x10000, Key: key, Access: ci.LocalWrite | ci.RemoteWrite}}}
	sge := []ci.SGE{{Addr: 0x10000, Length: 100, LKey: key}}
	sg := ci.SendSignaled
	a.send(reg,
		ci.SendWR{ID: 2, Flags: sg, SGL: sge},
		ci.SendWR{ID: 3, Flags: sg, Op: ci.OpNop},
		ci.SendWR{ID: 4, Flags: sg, Op: ci.OpLocalInv, Inv: key},
		ci.SendWR{ID: 5, Flags: sg})
	require.EqualValues(t, 1, a.onlyWC().ID)
	require.Len(t, r.take(), 1, "the SEND, and nothing behind the invalidation")
	require.Len(t, r.after(c, timeout(14)), 1, "sent again with the key that is still alive")
	r.say(ack(0))
	wcs := a.poll()
	require.Len(t, wcs, 3)
	for i, wc := range wcs {
		require.Equal(t, ci.WC{ID: uint64(i + 2), Op: []ci.WCOp{ci.WCSend, ci.WCNop, ci.WCLocalInv}[i], QPN: a.qp.Num(),
			Length: []uint32{100, 0, 0}[i]}, wc)
	}
	require.Len(t, r.take(), 1)
	r.say(ack(1))
	a.onlyWC()

	// The peer invalidates it after it has been registered again.
	reg.Ext.FastReg.Key = key + 1
	a.send(reg)
	a.onlyWC()
	a.recv(ci.RecvWR{ID: 8})
	p := sendPkt(0, "")
	p.HasInv, p.Inv = true, key+1
	r.say(p)
	require.Equal(t, ci.WC{ID: 8, Op: ci.WCRecv, QPN: a.qp.Num(), Flags: ci.WCInvalidated, Imm: uint32(key + 1)},
		a.onlyWC())
	sge[0].LKey = key + 1
	a.send(ci.SendWR{ID: 9, SGL: sge})
	require.Equal(t, ci.WCLocalProtErr, a.onlyWC().Status)
}

// TestMessageSequence checks that packets that do not follow from each other within a message are rejected (IBTA volume
// 1, 9.7.4.1.4).
func TestMessageSequence(t *testing.T) {
	first, middle, last := train(wire.OpSend, 0, 1, true, false, 1), train(wire.OpSend, 1, 1, false, false, 1),
		train(wire.OpSend, 1, 1, false, true, 1)
	short := middle
	short.Payload = [][]byte{make([]byte, 1023)}
	empty := last
	empty.Payload = nil
	long := last
	long.Payload = [][]byte{make([]byte, 1025)}
	tests := map[string]Packet{
		"first in a message":   train(wire.OpSend, 1, 1, true, false, 1),
		"only in a message":    sendPkt(1, "x"),
		"WRITE in a SEND":      {Op: wire.OpWrite, PSN: psnAt(1), End: true, Payload: [][]byte{make([]byte, 10)}},
		"READ in a SEND":       {Op: wire.OpReadRequest, PSN: psnAt(1), Start: true, End: true},
		"atomic in a SEND":     {Op: wire.OpFetchAdd, PSN: psnAt(1), Start: true, End: true},
		"middle below MTU":     short,
		"last without data":    empty,
		"last above the MTU":   long,
		"middle above the MTU": func() Packet { p := long; p.End = false; return p }(),
	}
	for name, p := range tests {
		t.Run(name, func(t *testing.T) {
			a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
			a.recv(ci.RecvWR{ID: 3, SGL: a.sge(0, 8192)}, ci.RecvWR{ID: 4})
			r.say(first)
			require.Empty(t, r.take())
			r.say(p)
			nak := r.one()
			require.Equal(t, wire.NAKInvalidRequest, nak.Syndrome)
			require.Equal(t, psnAt(1), nak.PSN)
			wcs := a.poll()
			require.Len(t, wcs, 2)
			require.Equal(t, ci.WC{ID: 3, Op: ci.WCRecv, QPN: a.qp.Num(), Status: ci.WCRemInvalidReqErr}, wcs[0])
			require.Equal(t, ci.WCFlushErr, wcs[1].Status)
			a.wantEvent(ci.EventWQReqError)
			require.Equal(t, ci.QPError, a.state())
		})
	}
}
