package rvt

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// A wrongPathRig is a QP of a RoCE adapter with two GIDs, which an attacker knows everything about: its number, PSNs
// and keys. It has sent one request and has posted one receive.
type wrongPathRig struct {
	s     *side
	raw   *rawPeer
	clock *fakeClock
}

// GIDs of both ends of the primary and the alternate path, and of others.
var (
	ownGIDs  = []ci.GID{{15: 1}, {15: 2}, {15: 3}}
	peerGIDs = []ci.GID{{14: 1, 15: 1}, {14: 1, 15: 2}, {14: 1, 15: 3}, {}}
)

func newWrongPathRig(t *testing.T, typ ci.QPType, state ci.APMState, isLoaded bool) *wrongPathRig {
	s, r, c := rawPair(t, &wireLink{hints: Hints{StrictSource: true}}, typ, nil)
	if isLoaded {
		require.NoError(t, s.qp.Modify(ci.QPFieldAlternate,
			ci.QPAttr{Alternate: ci.Path{AV: ci.AVAttr{Port: 1, DLID: r.lid}, AckTimeout: 14}}))
	}
	q := s.qp.(*QP)
	q.mu.Lock()
	q.peer, q.local = Addr{GID: peerGIDs[0]}, ownGIDs[0]
	if isLoaded {
		q.altPeer, q.altGID = Addr{GID: peerGIDs[1]}, ownGIDs[1]
	}
	q.attr.APM = state
	q.mu.Unlock()
	copy(s.buf, "nothing changes")
	s.recv(ci.RecvWR{SGL: s.sge(64, 64)})
	s.send(ci.SendWR{SGL: s.sge(0, 8), Flags: ci.SendSignaled})
	r.take()
	if typ == ci.UC {
		require.Len(t, s.poll(), 1, "a request without acknowledgement")
	}
	return &wrongPathRig{s: s, raw: r, clock: c}
}

// packets returns packets that change something if they come from the peer: requests and responses, with the expected
// PSNs and a valid key.
func (x *wrongPathRig) packets() map[string]Packet {
	remote := x.s.mr.Region().Remote(0)
	request := func(op wire.Op, size int) Packet {
		p := Packet{Op: op, Start: true, End: true, Ack: true, PSN: psnAt(0), VA: remote.Addr, RKey: remote.RKey,
			DMALen: uint32(size), Swap: 7}
		if op == wire.OpSend || op == wire.OpWrite {
			p.Payload = [][]byte{bytes.Repeat([]byte{0xee}, size)}
		}
		return p
	}
	list := map[string]Packet{"SEND": request(wire.OpSend, 16), "WRITE": request(wire.OpWrite, 16),
		"invalid WRITE": request(wire.OpWrite, 16), "READ": request(wire.OpReadRequest, 16),
		"atomic": request(wire.OpFetchAdd, 8), "ACK": ack(0), "NAK": nak(0, wire.NAKRemoteAccess),
		"RNR NAK": nak(0, wire.RNRNAK(1)), "READ response": {Op: wire.OpReadResponse, Start: true, End: true,
			PSN: psnAt(0), Syndrome: wire.ACK(wire.CreditsInvalid), Payload: [][]byte{make([]byte, 8)}}}
	p := list["invalid WRITE"]
	p.RKey++
	list["invalid WRITE"] = p
	return list
}

// say delivers a packet of a path with a source port of its own.
func (x *wrongPathRig) say(p Packet, from, to ci.GID, migReq bool, entropy uint16) {
	q := x.s.qp.(*QP)
	p.Service, p.DestQP, p.PKey = q.service, q.num, 0xffff
	p.N, p.MTU, p.MigReq = 1, 1024, migReq
	p.Src, p.Dst, p.Entropy = Addr{GID: from}, Addr{GID: to}, entropy
	for _, b := range p.Payload {
		p.Len += uint32(len(b))
	}
	receiverOf(x.s.hca, 0).Deliver([]Packet{p}, true, false)
}

// wrongPathState is what a packet could change.
type wrongPathState struct {
	attr     ci.QPAttr
	buf      string
	timers   int
	accepted uint64
	entropy  uint16
}

func (x *wrongPathRig) snapshot(t *testing.T) wrongPathState {
	a, err := x.s.qp.Query()
	require.NoError(t, err)
	return wrongPathState{attr: a, buf: string(x.s.buf[:256]), timers: x.clock.Pending(),
		accepted: counted(t, x.s).Accepted, entropy: x.s.qp.(*QP).origin.entropy}
}

// TestWrongPath sends packets whose source or destination GID is not that of the connection, for each state of path
// migration. None changes anything: the QP, memory, timers or what it sends. Afterwards its peer uses it.
func TestWrongPath(t *testing.T) {
	states := []struct {
		name     string
		apm      ci.APMState
		isLoaded bool
	}{
		{"no alternate path", ci.APMMigrated, false}, {"loaded", ci.APMMigrated, true},
		{"rearmed", ci.APMRearm, true}, {"armed", ci.APMArmed, true},
	}
	for _, typ := range []ci.QPType{ci.RC, ci.UC} {
		for _, st := range states {
			t.Run(fmt.Sprint(typ, " ", st.name), func(t *testing.T) {
				x := newWrongPathRig(t, typ, st.apm, st.isLoaded)
				before := x.snapshot(t)
				sent := 0
				for name, p := range x.packets() {
					for i, from := range peerGIDs {
						for k, to := range ownGIDs {
							for _, migReq := range []bool{false, true} {
								onAlternate := i == 1 && k == 1 && st.apm == ci.APMArmed && migReq
								if i == 0 && k == 0 || onAlternate {
									continue
								}
								x.say(p, from, to, migReq, 666)
								sent++
								require.Equal(t, before, x.snapshot(t), "%s from %d to %d, %v", name, i, k, migReq)
							}
						}
					}
				}
				require.Empty(t, x.raw.take(), "no answer")
				require.Empty(t, x.s.poll())
				require.EqualValues(t, sent, counted(t, x.s).WrongAddress)
				var event ci.EventType
				if st.isLoaded {
					event = ci.EventQPAPMError
				}
				x.s.onlyEvents(event)

				x.say(x.packets()["SEND"], peerGIDs[0], ownGIDs[0], false, 50000)
				if typ == ci.RC {
					x.say(ack(0), peerGIDs[0], ownGIDs[0], false, 50000)
				}
				require.Equal(t, byte(0xee), x.s.buf[64])
				require.Len(t, x.s.poll(), map[ci.QPType]int{ci.RC: 2, ci.UC: 1}[typ])
			})
		}
	}
}
