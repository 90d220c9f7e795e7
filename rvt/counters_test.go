package rvt

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// linuxCounts returns the counters that Linux's tools read, of those that have changed since before.
func linuxCounts(t *testing.T, before, after map[string]uint64) map[string]uint64 {
	t.Helper()
	names := counterNames[CountMarked:]
	for name := range linuxNames {
		if name != "sent_pkts" && name != "rcvd_pkts" {
			names = append(slices.Clip(names), name)
		}
	}
	got := map[string]uint64{}
	for _, name := range names {
		require.Contains(t, after, name)
		if n := after[name] - before[name]; n > 0 {
			got[name] = n
		}
	}
	return got
}

// TestLinuxCounters checks what each situation changes among the counters that Linux's tools read.
func TestLinuxCounters(t *testing.T) {
	type counts = map[string]uint64
	for _, c := range []struct {
		name string
		do   func(a *side, r *rawPeer, c *fakeClock)
		want counts
	}{
		{"requests", func(a *side, r *rawPeer, _ *fakeClock) {
			k := a.mr.Region()
			r.say(Packet{Op: wire.OpWrite, Start: true, End: true, PSN: psnAt(0), VA: k.Addr, RKey: k.RKey},
				Packet{Op: wire.OpReadRequest, Start: true, End: true, PSN: psnAt(1), VA: k.Addr, RKey: k.RKey,
					DMALen: 8},
				Packet{Op: wire.OpFetchAdd, Start: true, End: true, PSN: psnAt(2), VA: k.Addr, RKey: k.RKey})
		}, counts{"rx_write_requests": 1, "rx_read_requests": 1, "rx_atomic_requests": 1}},
		{"a duplicate", func(_ *side, r *rawPeer, _ *fakeClock) { r.say(sendPkt(-1, "x")) },
			counts{"duplicate_request": 1}},
		{"a gap", func(_ *side, r *rawPeer, _ *fakeClock) { r.say(sendPkt(1, "x")) },
			counts{"out_of_sequence": 1, "out_of_seq_request": 1}},
		{"no receive", func(_ *side, r *rawPeer, _ *fakeClock) { r.say(sendPkt(0, "x")) },
			counts{"out_of_buffer": 1, "send_rnr_err": 1}},
		{"a receive too short", func(a *side, r *rawPeer, _ *fakeClock) {
			a.recv(ci.RecvWR{SGL: a.sge(0, 1)}, ci.RecvWR{SGL: a.sge(0, 1)})
			r.say(sendPkt(0, "xy"))
		}, counts{"resp_cqe_error": 2, "resp_cqe_flush_error": 1, "resp_local_length_error": 1}},
		{"a wrong key", func(a *side, r *rawPeer, _ *fakeClock) {
			r.say(Packet{Op: wire.OpWrite, Start: true, End: true, PSN: psnAt(0), DMALen: 1,
				RKey: a.mr.Region().RKey + 1, Payload: [][]byte{{1}}})
		}, counts{"resp_remote_access_errors": 1}},
		{"a sequence NAK", func(a *side, r *rawPeer, _ *fakeClock) {
			a.send(ci.SendWR{SGL: a.sge(0, 1)})
			r.say(nak(0, wire.NAKPSNSequence))
		}, counts{"packet_seq_err": 1, "rcvd_seq_err": 1, "completer_retry_err": 1}},
		{"an RNR NAK", func(a *side, r *rawPeer, _ *fakeClock) {
			a.send(ci.SendWR{SGL: a.sge(0, 1)})
			r.say(nak(0, wire.RNRNAK(1)))
		}, counts{"rnr_nak_retry_err": 1, "rcvd_rnr_err": 1}},
		{"a lost response", func(a *side, r *rawPeer, _ *fakeClock) {
			a.send(ci.SendWR{Op: ci.OpRead, SGL: a.sge(0, 1)}, ci.SendWR{SGL: a.sge(0, 1)})
			r.say(ack(1))
		}, counts{"implied_nak_seq_err": 1, "completer_retry_err": 1}},
		{"a timeout", func(a *side, _ *rawPeer, c *fakeClock) {
			a.send(ci.SendWR{SGL: a.sge(0, 1)})
			c.Advance(timeout(14))
		}, counts{"local_ack_timeout_err": 1, "completer_retry_err": 1}},
		{"no answer", func(a *side, _ *rawPeer, c *fakeClock) {
			a.send(ci.SendWR{SGL: a.sge(0, 1)}, ci.SendWR{SGL: a.sge(0, 1)})
			c.Advance(time.Hour)
		}, counts{"local_ack_timeout_err": 4, "completer_retry_err": 4, "req_cqe_error": 2, "req_cqe_flush_error": 1,
			"retry_exceeded_err": 1}},
		{"an access refused", func(a *side, r *rawPeer, _ *fakeClock) {
			a.send(ci.SendWR{SGL: a.sge(0, 1)})
			r.say(nak(0, wire.NAKRemoteAccess))
		}, counts{"req_cqe_error": 1, "req_remote_access_errors": 1}},
		{"a request refused", func(a *side, r *rawPeer, _ *fakeClock) {
			a.send(ci.SendWR{SGL: a.sge(0, 1)})
			r.say(nak(0, wire.NAKInvalidRequest))
		}, counts{"req_cqe_error": 1, "req_remote_invalid_request": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, r, clock := rawPair(t, &wireLink{}, ci.RC, func(q *ci.QPAttr) { q.RetryCount = 3 })
			before := a.hca.Counters()
			c.do(a, r, clock)
			require.Equal(t, c.want, linuxCounts(t, before, a.hca.Counters()))
		})
	}
}
