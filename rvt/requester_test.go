package rvt

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// Tests of the requester alone: what it sends for requests and responses. A rig replaces the QP.

type requesterRig struct {
	*halfRig
	r *requester
}

func newRequesterRig(t *testing.T, service wire.Service, hints Hints) *requesterRig {
	g := newHalfRig(t, service, hints)
	return &requesterRig{g, g.requester()}
}

// post queues requests and runs the requester.
func (x *requesterRig) post(wrs ...ci.SendWR) {
	x.t.Helper()
	require.Equal(x.t, len(wrs), x.e.sq.Post(wrs, nil))
	x.run(x.r.transmit)
}

// response delivers a response and runs the requester.
func (x *requesterRig) response(p Packet) {
	x.run(func(t *turn) {
		x.r.answer(t, &p)
		x.r.transmit(t)
	})
}

// ack delivers an acknowledgement or NAK of packet n.
func (x *requesterRig) ack(n int, syn wire.Syndrome) {
	p := x.packet(wire.OpAcknowledge, n)
	p.Syndrome = syn
	x.response(p)
}

func (x *requesterRig) sendWR(id uint64, size int) ci.SendWR {
	return ci.SendWR{ID: id, SGL: []ci.SGE{x.mr.SGE(0, uint32(size))}}
}

func (x *requesterRig) readWR(id uint64, size int) ci.SendWR {
	return ci.SendWR{ID: id, Op: ci.OpRead, SGL: []ci.SGE{x.mr.SGE(0, uint32(size))},
		Remote: ci.Remote{Addr: 0x1000, RKey: 5}}
}

func TestRequesterSends(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{MaxTrain: 1 << 16})
	copy(x.buf, "payload")
	x.post(x.sendWR(1, 3000))
	p := x.oneSent()
	assert.Equal(t, wire.OpSend, p.Op)
	assert.Equal(t, [3]bool{true, true, true}, [3]bool{p.Start, p.End, p.Ack})
	assert.EqualValues(t, halfPSN, p.PSN)
	assert.EqualValues(t, 3, p.N)
	assert.Equal(t, x.buf[:3000], p.Payload[0])
	assert.Equal(t, ci.QPN(8), p.DestQP)
	assert.Equal(t, x.e.route, p.Route)
	assert.Equal(t, x.clock.Elapsed()+timeout(14), x.r.nextDeadline())

	x.ack(1, wire.ACK(0))
	assert.Empty(t, x.poll(), "the last packet is not acknowledged")
	x.ack(2, wire.ACK(0))
	wcs := x.poll()
	require.Len(t, wcs, 1)
	assert.Equal(t, ci.WC{ID: 1, Op: ci.WCSend, QPN: 7, Length: 3000}, wcs[0])
	assert.Zero(t, x.r.nextDeadline())
	x.ack(2, wire.ACK(0))
	assert.Equal(t, 1, x.count(DropStale))
	assert.Empty(t, x.takeSent())
	assert.Zero(t, x.e.sq.Len(), "the slot is free")
}

// TestRequesterNAK checks go-back-N: one retry for a NAK, none for a second NAK of the same loss.
func TestRequesterNAK(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	x.post(x.sendWR(1, 3000))
	require.Len(t, x.takeSent(), 3, "without trains, each packet is sent alone")
	x.ack(1, wire.NAKPSNSequence)
	again := x.takeSent()
	require.Len(t, again, 2)
	assert.Equal(t, psnAdd(halfPSN, 1), again[0].PSN)
	assert.Equal(t, x.buf[1024:2048], again[0].Payload[0])
	assert.EqualValues(t, 1, x.r.retries)
	x.ack(1, wire.NAKPSNSequence)
	assert.Empty(t, x.takeSent(), "the gap is being filled already")
	x.ack(2, wire.ACK(0))
	assert.Equal(t, []ci.WCStatus{ci.WCSuccess}, x.statuses())
	assert.EqualValues(t, 2, x.r.retries, "progress restores the retries")
}

// TestRequesterLocalError checks that a request that fails after a part of it was sent leaves no timer.
func TestRequesterLocalError(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	bad := x.mr.SGE(0, 10)
	bad.LKey++
	x.post(ci.SendWR{ID: 1, SGL: []ci.SGE{x.mr.SGE(0, 1024), bad}})
	require.Len(t, x.takeSent(), 1)
	assert.Equal(t, []ci.WCStatus{ci.WCLocalProtErr}, x.statuses())
	assert.Equal(t, 1, x.errors, "the host takes the QP to Error")
	assert.Zero(t, x.r.nextDeadline())
}

func TestRequesterTimeouts(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	x.post(x.sendWR(1, 10))
	first := x.oneSent()
	for range x.e.attr.RetryCount {
		x.run(func(t *turn) {
			x.r.timedOut(t)
			x.r.transmit(t)
		})
		assert.Equal(t, first, x.oneSent())
	}
	assert.Zero(t, x.errors)
	x.run(x.r.timedOut)
	assert.Equal(t, 1, x.errors, "the host takes the QP to Error")
	assert.Equal(t, []ci.WCStatus{ci.WCTimeoutRetryErr}, x.statuses())
	assert.Empty(t, x.takeSent())
}

// TestRequesterMigrates checks that an armed requester uses its alternate path instead of an error when its retries are
// used up.
func TestRequesterMigrates(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	x.e.attr.APM, x.e.altRt = ci.APMArmed, &linkRoute{10}
	x.e.altPort, x.e.altPeer = x.e.port, Addr{LID: 10}
	x.e.attr.Alternate.AckTimeout = 14
	x.post(x.sendWR(1, 10))
	assert.Equal(t, &linkRoute{9}, x.oneSent().Route)
	for range x.e.attr.RetryCount + 1 {
		x.port.sent = nil
		x.run(func(t *turn) {
			x.r.timedOut(t)
			x.r.transmit(t)
		})
	}
	p := x.oneSent()
	assert.Equal(t, &linkRoute{10}, p.Route)
	assert.True(t, p.MigReq)
	assert.Zero(t, x.errors)
	assert.Equal(t, 1, x.count(CountMigrated))
}

func TestRequesterRNR(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	x.post(x.sendWR(1, 10))
	first := x.oneSent()
	for range x.e.attr.RNRRetry {
		x.ack(0, wire.RNRNAK(5))
		assert.Empty(t, x.takeSent())
		assert.Equal(t, x.clock.Elapsed()+wire.RNRTimer(5), x.r.nextDeadline())
		x.r.rnrAt = 0
		x.run(x.r.transmit)
		assert.Equal(t, first, x.oneSent())
	}
	x.ack(0, wire.RNRNAK(5))
	assert.Equal(t, 1, x.errors)
	assert.Equal(t, []ci.WCStatus{ci.WCRNRRetryErr}, x.statuses())
}

// TestRequesterReads checks the limit of outstanding READs, a fence, and the placement of a response.
func TestRequesterReads(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	fenced := x.sendWR(4, 8)
	fenced.Flags = ci.SendFence
	x.post(x.readWR(1, 2000), x.readWR(2, 8), x.readWR(3, 8), fenced)
	sent := x.takeSent()
	require.Len(t, sent, 2, "InitDepth is 2")
	assert.Equal(t, [2]ci.PSN{halfPSN, psnAdd(halfPSN, 2)}, [2]ci.PSN{sent[0].PSN, sent[1].PSN},
		"a READ takes the PSNs of its response")

	data := bytes.Repeat([]byte("r"), 2000)
	p := x.packet(wire.OpReadResponse, 0)
	p.N, p.Len, p.Payload = 2, 2000, [][]byte{data}
	x.response(p)
	assert.Equal(t, []ci.WCStatus{ci.WCSuccess}, x.statuses())
	assert.Equal(t, data, x.buf[:2000])
	assert.Equal(t, wire.OpReadRequest, x.oneSent().Op, "the third READ")

	for n := 2; n <= 3; n++ {
		p := x.packet(wire.OpReadResponse, n)
		p.Len, p.Payload = 8, [][]byte{data[:8]}
		x.response(p)
	}
	assert.Equal(t, wire.OpSend, x.oneSent().Op, "the fenced request waits for all READs")
}

// TestRequesterLostResponse checks that a response after a lost one leads to another request of the oldest READ.
func TestRequesterLostResponse(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	x.post(x.readWR(1, 8), x.readWR(2, 8))
	x.takeSent()
	p := x.packet(wire.OpReadResponse, 1)
	p.Len, p.Payload = 8, [][]byte{make([]byte, 8)}
	x.response(p)
	again := x.takeSent()
	require.Len(t, again, 2)
	assert.EqualValues(t, halfPSN, again[0].PSN)
	assert.Empty(t, x.poll())
	x.response(p)
	assert.Empty(t, x.takeSent(), "the answer to the first try shows the same loss")
}

func TestRequesterBadResponses(t *testing.T) {
	for name, tt := range map[string]struct {
		wr     func(x *requesterRig) ci.SendWR
		answer func(p *Packet)
		want   ci.WCStatus
	}{
		"remote access": {func(x *requesterRig) ci.SendWR { return x.sendWR(1, 8) },
			func(p *Packet) { p.Syndrome = wire.NAKRemoteAccess }, ci.WCRemAccessErr},
		"invalid request": {func(x *requesterRig) ci.SendWR { return x.sendWR(1, 8) },
			func(p *Packet) { p.Syndrome = wire.NAKInvalidRequest }, ci.WCRemInvalidReqErr},
		"READ data to a SEND": {func(x *requesterRig) ci.SendWR { return x.sendWR(1, 8) },
			func(p *Packet) { p.Op = wire.OpReadResponse }, ci.WCBadRespErr},
		"too short": {func(x *requesterRig) ci.SendWR { return x.readWR(1, 8) },
			func(p *Packet) { p.Op = wire.OpReadResponse }, ci.WCBadRespErr},
		"atomic to a READ": {func(x *requesterRig) ci.SendWR { return x.readWR(1, 8) },
			func(p *Packet) { p.Op = wire.OpAtomicAcknowledge }, ci.WCBadRespErr},
		"READ data with a NAK": {func(x *requesterRig) ci.SendWR { return x.readWR(1, 8) },
			func(p *Packet) {
				p.Op, p.Syndrome = wire.OpReadResponse, wire.NAKRemoteAccess
				p.Len, p.Payload = 8, [][]byte{make([]byte, 8)}
			}, ci.WCBadRespErr},
		"atomic with an RNR NAK": {func(x *requesterRig) ci.SendWR {
			w := x.readWR(1, 8)
			w.Op = ci.OpFetchAdd
			return w
		},
			func(p *Packet) { p.Op, p.Syndrome = wire.OpAtomicAcknowledge, wire.RNRNAK(1) }, ci.WCBadRespErr},
	} {
		t.Run(name, func(t *testing.T) {
			x := newRequesterRig(t, wire.RC, Hints{})
			x.post(tt.wr(x))
			p := x.packet(wire.OpAcknowledge, 0)
			tt.answer(&p)
			x.response(p)
			assert.Equal(t, []ci.WCStatus{tt.want}, x.statuses())
			assert.Equal(t, 1, x.errors)
		})
	}
}

// TestRequesterWindow checks that a window of bytes limits the outstanding data, and that a loss halves it.
func TestRequesterWindow(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{Window: 8 << 10})
	x.post(x.sendWR(1, 1<<14))
	require.Len(t, x.takeSent(), 8)
	x.ack(1, wire.ACK(0))
	require.Len(t, x.takeSent(), 2)
	x.ack(2, wire.NAKPSNSequence)
	require.Len(t, x.takeSent(), 4, "half of the window")
	assert.EqualValues(t, 4<<10, x.r.window)
}

// TestRequesterUnreliable checks that a request of UC is complete when it has been sent, and that an error stops the
// send queue alone.
func TestRequesterUnreliable(t *testing.T) {
	x := newRequesterRig(t, wire.UC, Hints{})
	x.post(x.sendWR(1, 10))
	assert.False(t, x.oneSent().Ack)
	assert.Equal(t, []ci.WCStatus{ci.WCSuccess}, x.statuses())
	bad := x.sendWR(2, 10)
	bad.SGL[0].LKey++
	x.post(bad, x.sendWR(3, 10))
	assert.Equal(t, []ci.WCStatus{ci.WCLocalProtErr, ci.WCFlushErr}, x.statuses())
	assert.Equal(t, ci.QPSQError, x.e.current())
	assert.Zero(t, x.errors)
	assert.Empty(t, x.takeSent())
}

// TestRequesterDrains checks that SQ draining ends when started requests are acknowledged, and that none starts
// meanwhile.
func TestRequesterDrains(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	x.post(x.sendWR(1, 10))
	x.takeSent()
	x.e.setState(ci.QPSQDraining)
	x.post(x.sendWR(2, 10))
	assert.Empty(t, x.takeSent())
	x.ack(0, wire.ACK(0))
	assert.Equal(t, ci.QPSQD, x.e.current())
	assert.Equal(t, []ci.WCStatus{ci.WCSuccess}, x.statuses())
}

// TestRequesterWakesHost checks that an invalidation completes only after an access in progress, and that the host is
// woken then.
func TestRequesterWakesHost(t *testing.T) {
	x := newRequesterRig(t, wire.RC, Hints{})
	m, err := x.pd.AllocFastRegMR(4)
	require.NoError(t, err)
	d, err := (&CA{hca: x.h}).MapDMA(ci.Bytes(make([]byte, 4096)))
	require.NoError(t, err)
	key := m.Region().LKey
	reg := &WorkExt{MR: m.(*MR), FastReg: ci.FastReg{MR: m, Key: key, Access: ci.LocalWrite,
		Pages: []uint64{d.Ranges()[0].Addr}, Length: 4096,
		PageShift: 12}}
	require.Equal(t, ci.WCSuccess, x.h.fastReg(x.e, reg))
	var other holds
	_, st := other.local(&x.h.keys, x.pd, ci.SGE{Length: 8, LKey: key}, true)
	require.Equal(t, ci.WCSuccess, st)

	x.post(ci.SendWR{ID: 1, Op: ci.OpLocalInv, Inv: key})
	assert.Empty(t, x.poll())
	assert.Zero(t, x.kicks)
	other.release()
	assert.Equal(t, 1, x.kicks)
	x.run(x.r.transmit)
	assert.Equal(t, []ci.WCStatus{ci.WCSuccess}, x.statuses())
}
