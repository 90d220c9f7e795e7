package rvt

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// Tests of the responder alone: what it stores, completes and answers. A rig replaces the QP.

type responderRig struct {
	*halfRig
	r *responder
}

func newResponderRig(t *testing.T, service wire.Service) *responderRig {
	g := newHalfRig(t, service, Hints{MaxTrain: 1 << 16})
	return &responderRig{g, g.responder()}
}

// recv posts a receive buffer of size bytes at offset off.
func (x *responderRig) recv(id, off uint64, size uint32) {
	x.e.rq.Post([]ci.RecvWR{{ID: id, SGL: []ci.SGE{x.mr.SGE(off, size)}}})
}

// request delivers a request and runs the responder.
func (x *responderRig) request(p Packet) {
	x.run(func(t *turn) {
		if x.e.service == wire.UC {
			x.r.requestUC(t, &p)
		} else {
			x.r.request(t, &p)
		}
		x.r.respond(t)
	})
}

// send returns packet n as a SEND of s.
func (x *responderRig) send(n int, s string) Packet {
	p := x.packet(wire.OpSend, n)
	p.Ack, p.Len, p.Payload = true, uint32(len(s)), [][]byte{[]byte(s)}
	return p
}

// remote returns packet n as a request for memory at off.
func (x *responderRig) remote(op wire.Op, n int, off uint64, size uint32) Packet {
	p := x.packet(op, n)
	p.Ack, p.VA = true, x.mr.Addr+off
	p.RKey, p.DMALen = x.mr.RKey, size
	return p
}

// requireAck checks the only packet sent.
func (x *responderRig) requireAck(n int, syn wire.Syndrome) {
	x.t.Helper()
	p := x.oneSent()
	require.Equal(x.t, wire.OpAcknowledge, p.Op)
	require.Equal(x.t, psnAdd(halfPSN, uint32(n)), p.PSN)
	require.Equal(x.t, syn, p.Syndrome)
}

var plainACK = wire.ACK(wire.CreditsInvalid)

func TestResponderReceives(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	x.recv(1, 100, 64)
	x.request(x.send(0, "hello"))
	x.requireAck(0, plainACK)
	wcs := x.poll()
	require.Len(t, wcs, 1)
	assert.Equal(t, ci.WC{ID: 1, Op: ci.WCRecv, QPN: 7, Length: 5}, wcs[0])
	assert.Equal(t, "hello", string(x.buf[100:105]))
}

// TestResponderGap checks that a gap is reported once, and that later packets are not executed.
func TestResponderGap(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	x.recv(1, 0, 64)
	x.request(x.send(1, "b"))
	x.requireAck(0, wire.NAKPSNSequence)
	x.request(x.send(2, "c"))
	assert.Empty(t, x.takeSent())
	assert.Empty(t, x.poll())
	x.request(x.send(0, "a"))
	x.requireAck(0, plainACK)
	assert.Equal(t, byte('a'), x.buf[0])
	assert.Equal(t, 2, x.count(DropSequence))
}

func TestResponderNotReady(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	x.request(x.send(0, "a"))
	x.requireAck(0, wire.RNRNAK(5))
	x.recv(1, 0, 64)
	x.request(x.send(0, "a"))
	x.requireAck(0, plainACK)
	assert.Equal(t, []ci.WCStatus{ci.WCSuccess}, x.statuses())
}

// TestResponderDuplicates checks that no request is executed twice: a SEND is acknowledged again, a READ is answered
// again, and an atomic is answered with the value that it found the first time.
func TestResponderDuplicates(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	x.recv(1, 512, 64)
	binary.NativeEndian.PutUint64(x.buf, 41)
	add := x.remote(wire.OpFetchAdd, 1, 0, 0)
	add.Swap = 1
	read := x.remote(wire.OpReadRequest, 2, 0, 8)
	x.request(x.send(0, "once"))
	x.request(add)
	x.request(read)
	x.takeSent()
	require.Len(t, x.poll(), 1)

	x.request(x.send(0, "twice"))
	x.requireAck(2, plainACK)
	assert.Equal(t, "once", string(x.buf[512:516]))
	x.request(add)
	p := x.oneSent()
	assert.Equal(t, wire.OpAtomicAcknowledge, p.Op)
	assert.EqualValues(t, 41, p.Swap)
	assert.EqualValues(t, 42, binary.NativeEndian.Uint64(x.buf))
	x.request(read)
	p = x.oneSent()
	assert.Equal(t, wire.OpReadResponse, p.Op)
	assert.EqualValues(t, 42, binary.NativeEndian.Uint64(p.Payload[0]))
	assert.Empty(t, x.poll())
}

// TestResponderRefuses checks requests that end the connection: the NAK is sent first, then the host moves the QP to
// Error.
func TestResponderRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		p    func(x *responderRig) Packet
		nak  wire.Syndrome
		want []ci.WCStatus // of the posted receive
	}{
		"wrong key": {func(x *responderRig) Packet { p := x.remote(wire.OpWrite, 0, 0, 4); p.RKey++; return p },
			wire.NAKRemoteAccess, nil},
		"out of bounds": {func(x *responderRig) Packet { return x.remote(wire.OpReadRequest, 0, 1<<16-4, 8) },
			wire.NAKRemoteAccess, nil},
		"odd atomic": {func(x *responderRig) Packet { return x.remote(wire.OpFetchAdd, 0, 4, 8) },
			wire.NAKInvalidRequest, nil},
		"middle first": {func(x *responderRig) Packet { p := x.send(0, "x"); p.Start = false; return p },
			wire.NAKInvalidRequest, nil},
		"long for receive": {func(x *responderRig) Packet { return x.send(0, "longer than eight bytes") },
			wire.NAKInvalidRequest, []ci.WCStatus{ci.WCLocalLenErr}},
		"no right": {func(x *responderRig) Packet {
			x.e.attr.Access = 0
			return x.remote(wire.OpReadRequest, 0, 0, 8)
		}, wire.NAKInvalidRequest, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := newResponderRig(t, wire.RC)
			x.recv(1, 0, 8)
			p := tt.p(x)
			if p.Op == wire.OpWrite {
				p.Len, p.Payload = 4, [][]byte{make([]byte, 4)}
			}
			x.request(p)
			x.requireAck(0, tt.nak)
			assert.Equal(t, 1, x.errors)
			assert.Equal(t, tt.want, x.statuses())
			x.request(x.send(0, "x"))
			assert.Empty(t, x.takeSent())
		})
	}
}

// TestResponderDefersAck checks that a turn driven by a poll leaves the acknowledgement to the host, and that the next
// turn sends it.
func TestResponderDefersAck(t *testing.T) {
	x := newResponderRig(t, wire.RC)
	x.recv(1, 0, 8)
	p := x.send(0, "a")
	x.run(func(t *turn) {
		t.polled = true
		x.r.request(t, &p)
		x.r.respond(t)
	})
	assert.Empty(t, x.takeSent())
	assert.Equal(t, 1, x.deferred)
	assert.True(t, x.e.ackWaits.Load())
	x.run(x.r.respond)
	x.requireAck(0, plainACK)
	assert.False(t, x.e.ackWaits.Load())
}

// TestResponderResources checks that more READs than RespRes, rounded up to a power of two, are refused.
func TestResponderResources(t *testing.T) {
	for resources, room := range map[uint8]int{0: 0, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8} {
		x := newResponderRig(t, wire.RC)
		x.r.attr.RespRes = resources
		x.run(func(t *turn) {
			for n := range room + 1 {
				p := x.remote(wire.OpReadRequest, n, 0, 8)
				x.r.request(t, &p)
			}
			x.r.respond(t)
		})
		sent := x.takeSent()
		require.Len(t, sent, room+1)
		assert.Equal(t, wire.NAKInvalidRequest, sent[room].Syndrome)
		assert.Equal(t, 1, x.errors)
	}
}

// TestResponderUnreliable checks that UC drops a message with a missing packet, reuses its receive buffer, and sends no
// responses.
func TestResponderUnreliable(t *testing.T) {
	x := newResponderRig(t, wire.UC)
	x.recv(1, 0, 4096)
	first := x.packet(wire.OpSend, 0)
	first.End, first.Len, first.Payload = false, 1024, [][]byte{make([]byte, 1024)}
	last := x.send(2, "end")
	last.Start = false
	x.request(first)
	x.request(last)
	assert.Empty(t, x.poll())
	x.request(x.send(3, "whole"))
	wcs := x.poll()
	require.Len(t, wcs, 1)
	assert.EqualValues(t, 1, wcs[0].ID)
	assert.Equal(t, "whole", string(x.buf[:5]))
	assert.Empty(t, x.takeSent())
}
