package rvt

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// onlyWC polls the only completion.
func (s *side) onlyWC() ci.WC {
	s.t.Helper()
	wcs := s.poll()
	require.Len(s.t, wcs, 1)
	return wcs[0]
}

// TestRCRetryExhausted counts the transmissions of a request: one, plus one for each retry.
func TestRCRetryExhausted(t *testing.T) {
	for n := range uint8(8) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RetryCount = n })
			a.send(ci.SendWR{ID: 1, SGL: a.sge(0, 10)}, ci.SendWR{ID: 2, SGL: a.sge(0, 10)})
			sent := 0
			period := timeout(14)
			for c.Pending() > 0 {
				for _, p := range r.take() {
					if p.PSN == psn0 {
						sent++
					}
				}
				require.Less(t, sent, 20)
				c.Advance(period / 4)
			}
			require.Equal(t, int(n)+1, sent)
			wcs := a.poll()
			require.Len(t, wcs, 2)
			require.Equal(t, ci.WC{ID: 1, Status: ci.WCTimeoutRetryErr, QPN: a.qp.Num()}, wcs[0])
			require.Equal(t, ci.WC{ID: 2, Status: ci.WCFlushErr, QPN: a.qp.Num()}, wcs[1])
			require.Equal(t, ci.QPError, a.state())
		})
	}
}

// TestRCRetryTime checks the timeout of a QP: not earlier than 4.096 us * 2^n, not later than four times that (IBTA
// volume 1, 9.7.6.1.3).
func TestRCRetryTime(t *testing.T) {
	for n := ci.TimeExp(1); n < 32; n++ {
		a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.Primary.AckTimeout = n })
		a.send(ci.SendWR{SGL: a.sge(0, 10)})
		r.one()
		want := timeout(max(n, a.hca.attr.AckDelay))
		require.Empty(t, r.after(c, want-1), n)
		require.Len(t, r.after(c, 3*want+1), 4, n)
	}
	a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.Primary.AckTimeout = 0 })
	a.send(ci.SendWR{SGL: a.sge(0, 10)})
	r.one()
	require.Zero(t, c.Pending(), "0 is never")
	r.say(ack(0))
	require.Empty(t, a.poll())
}

// TestRCProgressRefillsRetries checks that the retry count applies to tries without any progress.
func TestRCProgressRefillsRetries(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RetryCount = 1 })
	for i := range 6 {
		a.send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, SGL: a.sge(0, 10)})
	}
	require.Len(t, r.take(), 6)
	for i := range 6 {
		require.Len(t, r.after(c, 2*timeout(14)-1), 6-i, "one retry")
		r.say(ack(i))
		require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
	}
	require.Equal(t, ci.QPRTS, a.state())
}

// TestRNRRetries checks that n retries are n+1 transmissions, and that 7 is unlimited.
func TestRNRRetries(t *testing.T) {
	for n := range uint8(8) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RNRRetry = n; q.RetryCount = 0 })
			a.send(ci.SendWR{ID: 1, SGL: a.sge(0, 10)})
			sent := 0
			for len(r.take()) == 1 {
				if sent++; sent == 50 {
					break
				}
				r.say(nak(0, wire.RNRNAK(12)))
				require.Empty(t, r.after(c, wire.RNRTimer(12)-1))
				c.Advance(1)
			}
			if n == 7 {
				require.Equal(t, 50, sent)
				r.say(ack(0))
				require.Empty(t, a.poll())
				require.Equal(t, ci.QPRTS, a.state())
				return
			}
			require.Equal(t, int(n)+1, sent)
			require.Equal(t, ci.WCRNRRetryErr, a.onlyWC().Status)
			require.Equal(t, ci.QPError, a.state())
		})
	}
}

func TestRNRTimerCodes(t *testing.T) {
	for code := range uint8(32) {
		// As requester: waits at least the time in the NAK.
		a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.MinRNRTimer = code })
		a.send(ci.SendWR{ID: 1, SGL: a.sge(0, 10)}, ci.SendWR{ID: 2, SGL: a.sge(0, 10)})
		require.Len(t, r.take(), 2)
		r.say(nak(0, wire.RNRNAK(code)))
		require.Empty(t, r.after(c, wire.RNRTimer(code)-1))
		require.Len(t, r.after(c, 1), 2)
		// As responder: sends the time that the consumer set.
		r.say(sendPkt(0, "x"))
		p := r.one()
		require.Equal(t, wire.RNRNAK(code), p.Syndrome)
		require.Equal(t, psn0, p.PSN)
	}
}

// TestRNRNakTwice checks that a NAK that the network duplicated, or that a duplicated request caused, costs one retry.
func TestRNRNakTwice(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RNRRetry = 1 })
	a.send(ci.SendWR{ID: 1, Flags: ci.SendSignaled, SGL: a.sge(0, 10)})
	r.one()
	r.say(nak(0, wire.RNRNAK(5)), nak(0, wire.RNRNAK(5)))
	r.say(nak(0, wire.RNRNAK(5)))
	require.Equal(t, ci.QPRTS, a.state())
	require.Len(t, r.after(c, wire.RNRTimer(5)), 1)
	r.say(ack(0))
	require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
}

// TestSequenceNakOncePerGap checks that there is one NAK per gap, whatever follows it, and another for a new gap.
func TestSequenceNakOncePerGap(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
	for i := range 10 {
		a.recv(ci.RecvWR{ID: uint64(i), SGL: a.sge(100*i, 100)})
	}
	r.say(sendPkt(0, "0"))
	require.Equal(t, psn0, r.one().PSN)
	r.say(sendPkt(2, "2"))
	p := r.one()
	require.Equal(t, wire.NAKPSNSequence, p.Syndrome)
	require.Equal(t, psnAt(1), p.PSN)
	require.EqualValues(t, 1, p.MSN)
	r.say(sendPkt(3, "3"), sendPkt(4, "4"))
	r.say(sendPkt(2, "2"))
	require.Empty(t, r.take())
	r.say(sendPkt(1, "1"))
	p = r.one()
	require.True(t, p.Syndrome.IsACK())
	require.Equal(t, psnAt(1), p.PSN)
	r.say(sendPkt(4, "4"))
	p = r.one()
	require.Equal(t, wire.NAKPSNSequence, p.Syndrome)
	require.Equal(t, psnAt(2), p.PSN)
	require.Len(t, a.poll(), 2)
}

// TestSequenceNakAndAckInOneBatch checks that executed packets are acknowledged even if the same delivery contains a
// gap.
func TestSequenceNakAndAckInOneBatch(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
	for i := range 3 {
		a.recv(ci.RecvWR{ID: uint64(i), SGL: a.sge(100*i, 100)})
	}
	r.say(sendPkt(1, "1"), sendPkt(0, "0"), sendPkt(1, "1"))
	require.Len(t, a.poll(), 2)
	got := r.take()
	require.NotEmpty(t, got)
	last := got[len(got)-1]
	require.True(t, last.Syndrome.IsACK(), "%v", last.Syndrome)
	require.Equal(t, psnAt(1), last.PSN)
}

// TestRequesterSequenceNak checks that everything from the NAK's PSN on is retransmitted once, however many NAKs report
// the same gap.
func TestRequesterSequenceNak(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RetryCount = 1 })
	for i := range 4 {
		a.send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, SGL: a.sge(0, 10)})
	}
	require.Len(t, r.take(), 4)
	r.say(nak(1, wire.NAKPSNSequence))
	require.EqualValues(t, 0, a.onlyWC().ID, "a NAK acknowledges what is before it")
	got := r.take()
	require.Len(t, got, 3)
	for i, p := range got {
		require.Equal(t, psnAt(1+i), p.PSN)
	}
	r.say(nak(1, wire.NAKPSNSequence))
	require.Empty(t, r.take())
	r.say(nak(0, wire.NAKPSNSequence)) // for a request acknowledged since
	require.Empty(t, r.take())
	r.say(nak(2, wire.NAKPSNSequence)) // progress, and a new gap
	require.Len(t, r.take(), 2)
	r.say(ack(3))
	require.Len(t, a.poll(), 3)
	require.Equal(t, ci.QPRTS, a.state())
}

func TestFatalNaks(t *testing.T) {
	for syn, want := range map[wire.Syndrome]ci.WCStatus{
		wire.NAKInvalidRequest: ci.WCRemInvalidReqErr, wire.NAKRemoteAccess: ci.WCRemAccessErr,
		wire.NAKRemoteOperation: ci.WCRemOpErr, wire.NAKInvalidRDRequest: ci.WCBadRespErr,
	} {
		t.Run(syn.String(), func(t *testing.T) {
			a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
			for i := range 3 {
				a.send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, SGL: a.sge(0, 10)})
			}
			r.say(nak(1, syn))
			wcs := a.poll()
			require.Len(t, wcs, 3)
			require.Equal(t, []ci.WCStatus{ci.WCSuccess, want, ci.WCFlushErr},
				[]ci.WCStatus{wcs[0].Status, wcs[1].Status, wcs[2].Status})
			require.Equal(t, ci.QPError, a.state())
		})
	}
}

// TestDuplicates checks that old SENDs and WRITEs are acknowledged again with the last executed PSN, that any part of
// an old READ is answered, that an old atomic is answered from memory, and that forgotten requests are dropped (IBTA
// volume 1, 9.7.5.1.2).
func TestDuplicates(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RespRes = 2 })
	for i := range a.buf[:5000] {
		a.buf[i] = byte(i * 7)
	}
	key := a.mr.Region()
	binary.NativeEndian.PutUint64(a.buf[8000:], 5)
	a.recv(ci.RecvWR{SGL: a.sge(9000, 10)})
	r.say(Packet{Op: wire.OpWrite, Start: true, End: true, PSN: psnAt(-3), VA: key.Addr, RKey: key.RKey})
	p := r.one()
	require.Equal(t, psnAt(-1), p.PSN, "nothing has been executed yet")
	require.Zero(t, p.MSN)

	r.say(sendPkt(0, "hello"))
	require.Equal(t, psn0, r.one().PSN)
	read := func(k, off, n int) Packet {
		return Packet{Op: wire.OpReadRequest, Start: true, End: true, Ack: true, PSN: psnAt(k),
			VA: key.Addr + uint64(off), RKey: key.RKey, DMALen: uint32(n)}
	}
	add := func(k int) Packet {
		return Packet{Op: wire.OpFetchAdd, Start: true, End: true, Ack: true, PSN: psnAt(k), VA: key.Addr + 8000,
			RKey: key.RKey, Swap: 10}
	}
	r.say(read(1, 0, 4500))
	got := r.take()
	require.Len(t, got, 5)
	require.True(t, got[0].Start && got[4].End)
	r.say(add(6))
	p = r.one()
	require.Equal(t, wire.OpAtomicAcknowledge, p.Op)
	require.EqualValues(t, 5, p.Swap)
	require.EqualValues(t, 3, p.MSN)

	r.say(sendPkt(0, "again"))
	p = r.one()
	require.Equal(t, psnAt(6), p.PSN, "the last executed")
	require.True(t, p.Syndrome.IsACK())

	r.say(add(6))
	p = r.one()
	require.EqualValues(t, 5, p.Swap)
	require.EqualValues(t, 3, p.MSN)
	require.EqualValues(t, 15, binary.NativeEndian.Uint64(a.buf[8000:]), "executed once")

	for from := range 5 { // every part that begins and ends with a packet
		for to := from + 1; to <= 5; to++ {
			n := min(to*1024, 4500) - from*1024
			r.say(read(1+from, from*1024, n))
			got := r.take()
			require.Len(t, got, to-from, "%d to %d", from, to)
			var all []byte
			for i, p := range got {
				require.Equal(t, psnAt(1+from+i), p.PSN)
				require.Equal(t, i == 0, p.Start)
				require.Equal(t, i == len(got)-1, p.End)
				require.EqualValues(t, 2, p.MSN)
				all = append(all, p.Payload[0]...)
			}
			require.Equal(t, a.buf[from*1024:from*1024+n], all)
		}
	}
	for _, bad := range []Packet{read(1, 1, 1024), read(2, 0, 1024), read(1, 0, 4501), read(6, 0, 8), add(3)} {
		r.say(bad)
		require.Empty(t, r.take(), "%v", bad)
	}
	other := read(1, 0, 1024)
	other.RKey++
	r.say(other)
	require.Empty(t, r.take())

	r.say(add(7)) // the READ is the oldest of three: forgotten
	r.one()
	r.say(read(1, 0, 1024))
	require.Empty(t, r.take())
	require.Equal(t, ci.QPRTS, a.state())
}

// TestDuplicatesBesideNew checks that RespRes limits new requests. A peer that retransmits requests that have been
// answered meanwhile, and continues, may have more than RespRes in one delivery.
func TestDuplicatesBesideNew(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RespRes = 2 })
	key := a.mr.Region()
	read := func(k int) Packet {
		return Packet{Op: wire.OpReadRequest, Start: true, End: true, Ack: true, PSN: psnAt(k), VA: key.Addr,
			RKey: key.RKey, DMALen: 100}
	}
	r.say(read(0), read(1))
	require.Len(t, r.take(), 2)
	r.say(read(0), read(1), read(2), read(3))
	got := r.take()
	require.Len(t, got, 4)
	for i, p := range got {
		require.Equal(t, wire.OpReadResponse, p.Op)
		require.Equal(t, psnAt(i), p.PSN)
	}
	require.Equal(t, ci.QPRTS, a.state())
	r.say(read(4), read(5), read(6)) // one too many
	p := r.take()
	require.Equal(t, wire.NAKInvalidRequest, p[len(p)-1].Syndrome)
	require.Equal(t, ci.QPError, a.state())
	require.Equal(t, ci.EventWQReqError, (<-a.events).Type)
}

// TestAckPastRead checks that an acknowledgement past an unanswered READ means that its response is lost.
func TestAckPastRead(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
	remote := ci.Remote{Addr: 64, RKey: 9}
	sg := ci.SendSignaled
	a.send(ci.SendWR{ID: 1, Op: ci.OpSend, Flags: sg}, ci.SendWR{ID: 2, Op: ci.OpRead, Flags: sg, SGL: a.sge(0, 3000),
		Remote: remote},
		ci.SendWR{ID: 3, Op: ci.OpSend, Flags: sg})
	require.Len(t, r.take(), 3)
	resp := func(k int, n int, start, end bool) Packet {
		return Packet{Op: wire.OpReadResponse, Start: start, End: end, PSN: psnAt(k),
			Payload: [][]byte{make([]byte, n)}, Syndrome: wire.ACK(wire.CreditsInvalid)}
	}
	r.say(resp(1, 1024, true, false))
	require.EqualValues(t, 1, a.onlyWC().ID, "the answer acknowledges the SEND")
	r.say(ack(4))
	got := r.take()
	require.Len(t, got, 2)
	require.Equal(t, wire.OpReadRequest, got[0].Op)
	require.Equal(t, psnAt(2), got[0].PSN)
	require.EqualValues(t, 64+1024, got[0].VA)
	require.EqualValues(t, 3000-1024, got[0].DMALen)
	require.Empty(t, a.poll())
	r.say(ack(4))
	require.Empty(t, r.take(), "asked for already")
	r.say(resp(2, 1024, true, false), resp(3, 3000-2048, false, true))
	require.EqualValues(t, 2, a.onlyWC().ID)
	r.say(ack(4))
	require.EqualValues(t, 3, a.onlyWC().ID)
}

// TestReadResponseLength checks that a response of the wrong length or with an unexpected opcode is a bad response.
func TestReadResponseLength(t *testing.T) {
	for name, p := range map[string]Packet{
		"short":  {Op: wire.OpReadResponse, Start: true, PSN: psn0, Payload: [][]byte{make([]byte, 1000)}},
		"long":   {Op: wire.OpReadResponse, Start: true, End: true, PSN: psn0, Payload: [][]byte{make([]byte, 1025)}},
		"atomic": {Op: wire.OpAtomicAcknowledge, Start: true, End: true, PSN: psn0},
		"train": {Op: wire.OpReadResponse, Start: true, End: true, PSN: psn0, N: 3,
			Payload: [][]byte{make([]byte, 3000)}},
		"not end": {Op: wire.OpReadResponse, Start: true, PSN: psn0, N: 2, Payload: [][]byte{make([]byte, 1500)}},
		"ends":    {Op: wire.OpReadResponse, Start: true, End: true, PSN: psn0, Payload: [][]byte{make([]byte, 1024)}},
		"middle":  {Op: wire.OpReadResponse, PSN: psn0, Payload: [][]byte{make([]byte, 1024)}},
	} {
		t.Run(name, func(t *testing.T) {
			a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
			a.send(ci.SendWR{ID: 1, Op: ci.OpRead, SGL: a.sge(0, 1500)}, ci.SendWR{ID: 2, Op: ci.OpRead,
				SGL: a.sge(0, 4000)})
			r.say(p)
			require.Equal(t, ci.WCBadRespErr, a.poll()[0].Status)
			require.Equal(t, ci.QPError, a.state())
		})
	}
}

// TestInitDepth counts packets on the wire: never more unanswered READs and atomics than the consumer permitted.
func TestInitDepth(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.InitDepth = 2 })
	for i := range 5 {
		op := []ci.SendOp{ci.OpRead, ci.OpFetchAdd, ci.OpCompareSwap}[i%3]
		a.send(ci.SendWR{ID: uint64(i), Op: op, Flags: ci.SendSignaled, SGL: a.sge(0, 8)})
	}
	a.send(ci.SendWR{ID: 5})
	for i := range 5 {
		got := r.take()
		switch i {
		case 0:
			require.Len(t, got, 2)
		case 4:
			require.Empty(t, got)
		case 3:
			require.Len(t, got, 2, "the last READ, and the SEND behind it")
		default:
			require.Len(t, got, 1)
		}
		op := wire.OpAtomicAcknowledge
		var data [][]byte
		if i%3 == 0 {
			op, data = wire.OpReadResponse, [][]byte{make([]byte, 8)}
		}
		r.say(Packet{Op: op, Start: true, End: true, PSN: psnAt(i), Payload: data, Swap: uint64(i)})
		require.EqualValues(t, i, a.onlyWC().ID)
	}
}

// TestFence checks that a fenced request starts when earlier READs and atomics are answered. SENDs do not delay it.
func TestFence(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, nil)
	a.send(ci.SendWR{ID: 0}, ci.SendWR{ID: 1, Flags: ci.SendFence}, ci.SendWR{ID: 2, Op: ci.OpRead, SGL: a.sge(0, 8)},
		ci.SendWR{ID: 3, Flags: ci.SendFence | ci.SendSignaled}, ci.SendWR{ID: 4})
	require.Len(t, r.take(), 3)
	r.say(ack(1))
	require.Empty(t, r.take())
	got := r.after(c, timeout(14)) // the READ again, and still nothing after it
	require.Len(t, got, 1)
	require.Equal(t, wire.OpReadRequest, got[0].Op)
	r.say(Packet{Op: wire.OpReadResponse, Start: true, End: true, PSN: psnAt(2), Payload: [][]byte{make([]byte, 8)}})
	require.Len(t, r.take(), 2)
}

// TestAckPolicy checks that every message requests an acknowledgement in its last packet.
func TestAckPolicy(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
	a.send(ci.SendWR{SGL: a.sge(0, 4*1024)}, ci.SendWR{SGL: a.sge(0, 1), Flags: ci.SendSolicited},
		ci.SendWR{Op: ci.OpWrite, SGL: a.sge(0, 2*1024)})
	got := r.take()
	require.Len(t, got, 7)
	for i, p := range got {
		require.Equal(t, i == 3 || i == 4 || i == 6, p.Ack, i)
		require.Equal(t, i == 4, p.SE, i)
		require.Equal(t, psnAt(i), p.PSN)
	}
	require.EqualValues(t, 2048, got[5].DMALen)
}

// TestTimerNeverLost checks that an idle QP has no timers, and that no timer is lost: each of many unacknowledged
// messages is retransmitted.
func TestTimerNeverLost(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, nil)
	for i := range 50 {
		a.send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled})
		r.one()
		if i%3 == 0 {
			require.Len(t, r.after(c, 2*timeout(14)-1), 1, i)
		}
		c.Advance(time.Duration(i) * time.Millisecond)
		r.take()
		r.say(ack(i))
		a.onlyWC()
	}
	for range 3 {
		c.Step()
	}
	require.Zero(t, c.Pending())
	require.Empty(t, r.take())
}

// TestSequenceErrorAfterTimeout loses the first transmission completely and the second partly. The NAK that follows is
// retried at once, though nothing has been acknowledged since. A further NAK without progress is not, and each costs
// the right number of retries.
func TestSequenceErrorAfterTimeout(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RetryCount = 2 })
	for i := range 3 {
		a.send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, SGL: a.sge(0, 10)})
	}
	require.Len(t, r.take(), 3)
	require.Len(t, r.after(c, timeout(14)), 3, "the timeout: one retry")
	r.say(nak(0, wire.NAKPSNSequence))
	require.Len(t, r.take(), 3, "at once: the second retry")
	for range 3 {
		r.say(nak(0, wire.NAKPSNSequence))
		require.Empty(t, r.take(), "the network doubles it")
	}
	require.Equal(t, ci.QPRTS, a.state(), "and that costs nothing")
	r.say(ack(0))
	require.EqualValues(t, 0, a.onlyWC().ID)
	require.Len(t, r.after(c, 2*timeout(14)), 4, "progress has given both retries back")
	r.say(nak(1, wire.NAKPSNSequence))
	wcs := a.poll()
	require.Len(t, wcs, 2, "and now there is none left")
	require.Equal(t, ci.WCTimeoutRetryErr, wcs[0].Status)
	require.Equal(t, ci.WCFlushErr, wcs[1].Status)
}

// TestImpliedErrorAfterTimeout does the same with a response that overtakes another one. The rest of the first
// response, which arrives after the second request, costs nothing.
func TestImpliedErrorAfterTimeout(t *testing.T) {
	a, r, c := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RetryCount = 2 })
	a.send(ci.SendWR{ID: 1, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(0, 8),
		Remote: ci.Remote{Addr: 0, RKey: 1}},
		ci.SendWR{ID: 2, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(8, 8), Remote: ci.Remote{Addr: 8, RKey: 1}})
	require.Len(t, r.take(), 2)
	second := Packet{Op: wire.OpReadResponse, Start: true, End: true, PSN: psnAt(1), N: 1,
		Syndrome: wire.ACK(wire.CreditsInvalid), MSN: 2,
		Payload: [][]byte{make([]byte, 8)}, Len: 8}
	require.Len(t, r.after(c, timeout(14)), 2, "one retry")
	for i := range 3 {
		r.say(second)
		require.Len(t, r.take(), 2*max(1-i, 0), "the first of them is retried at once, the others tell nothing new")
	}
	require.Equal(t, ci.QPRTS, a.state())
	first := second
	first.PSN, first.MSN = psnAt(0), 1
	r.say(first, second)
	wcs := a.poll()
	require.Len(t, wcs, 2)
	require.Equal(t, []ci.WCStatus{ci.WCSuccess, ci.WCSuccess}, []ci.WCStatus{wcs[0].Status, wcs[1].Status})
}
