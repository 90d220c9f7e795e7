package storm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/rvt"
	"ciddk/wire"
)

// TestReplay checks that two runs with one seed have the same packets, with the same times and verdicts, and the same
// completions.
func TestReplay(t *testing.T) {
	for name, v6 := range versions {
		t.Run(name, func(t *testing.T) {
			hashes := map[[32]byte]bool{}
			for _, n := range []uint64{*seed, *seed, *seed + 1} {
				r, err := Run(Config{Seed: n, Messages: scale(5000), IPv6: v6})
				require.NoError(t, err)
				hashes[r.Hash] = true
				if n == *seed {
					require.Len(t, hashes, 1, "two runs of one seed differ")
				}
			}
			require.Len(t, hashes, 2, "runs of two seeds do not differ")
		})
	}
}

// TestCalm checks that, without impairment, queue pairs fail only because of invalid requests, and retransmit only
// after RNR NAKs.
func TestCalm(t *testing.T) {
	r, err := Run(Config{Seed: *seed, Messages: scale(5000), Impairment: &impair.Model{}})
	require.NoError(t, err)
	require.Zero(t, r.Failures[ci.WCTimeoutRetryErr.String()]-r.Unanswered)
	require.Zero(t, r.NAKs)
	require.Equal(t, r.Packets, r.Faults["passed"])
}

// through wraps a port with a function that decides about each packet.
func through(f func(rvt.Direction, *rvt.Packet) impair.Verdict) func(rvt.Port) rvt.Port {
	return func(p rvt.Port) rvt.Port {
		return testenv.Must(impair.New(p, impair.Config{Filter: func(d rvt.Direction, p *rvt.Packet) impair.Verdict {
			if v := f(d, p); v != impair.Chance {
				return v
			}
			return impair.Pass
		}}))
	}
}

// every wraps a port, and calls f for every nth sent packet for which a function returns true.
func every(n int, which func(*rvt.Packet) bool, f func(*rvt.Packet)) func(rvt.Port) rvt.Port {
	seen := 0
	return through(func(d rvt.Direction, p *rvt.Packet) impair.Verdict {
		if d == rvt.Sent && which(p) {
			if seen++; seen%n == 0 {
				f(p)
			}
		}
		return impair.Chance
	})
}

func ack(p *rvt.Packet) bool { return p.Op == wire.OpAcknowledge && p.Syndrome.IsACK() }

// flipFirst changes a byte of the payload. It copies the payload first, which may be a consumer's memory.
func flipFirst(p *rvt.Packet) {
	b := slices.Concat(p.Payload...)
	b[0] ^= 1
	p.Payload = [][]byte{b}
}

// TestOracleCatches checks that the oracle finds the defects of engines with deliberate faults. Their wrong packets
// have a correct ICRC, or are sent at the wrong time.
func TestOracleCatches(t *testing.T) {
	payload := func(op wire.Op) func(*rvt.Packet) bool {
		return func(p *rvt.Packet) bool { return p.Op == op && p.Len > 0 }
	}
	is := func(op wire.Op) func(*rvt.Packet) bool { return func(p *rvt.Packet) bool { return p.Op == op } }
	nak := func(syn wire.Syndrome) func(*rvt.Packet) bool {
		return func(p *rvt.Packet) bool { return p.Op == wire.OpAcknowledge && p.Syndrome == syn }
	}
	for _, c := range []struct {
		name    string
		port    func(rvt.Port) rvt.Port
		connect func(*ci.QPAttr)
		calm    bool   // no impairment, but many invalid requests
		want    string // pattern of the error
	}{
		{name: "one retry too few", connect: func(a *ci.QPAttr) { a.RetryCount = max(a.RetryCount, 1) - 1 },
			want: "nothing is to complete"},
		{name: "one retry too many", connect: func(a *ci.QPAttr) { a.RetryCount = min(a.RetryCount+1, 7) },
			want: "error state|retries are exhausted|is due and has not come"},
		{name: "one RNR retry too few", calm: true, connect: func(a *ci.QPAttr) {
			a.RNRRetry -= min(a.RNRRetry&^7+a.RNRRetry%7, 1)
		}, want: "nothing is to complete"},
		{name: "one RNR retry too many", calm: true, connect: func(a *ci.QPAttr) { a.RNRRetry = min(a.RNRRetry+1, 7) },
			want: "is due and has not come|error state"},
		{name: "twice the timeout",
			connect: func(a *ci.QPAttr) { a.Primary.AckTimeout = max(a.Primary.AckTimeout, 10) + 1 },
			want:    "timer was due|turn|is due and has not come"},
		{name: "half the timeout", connect: func(a *ci.QPAttr) { a.Primary.AckTimeout = min(a.Primary.AckTimeout, 10) },
			want: "turn|nothing is to complete"},
		{name: "more READs at once than agreed", connect: func(a *ci.QPAttr) { a.InitDepth++; a.RespRes += 2 },
			want: "answers outstanding"},
		{name: "an immediate changed", port: every(20, func(p *rvt.Packet) bool { return p.HasImm },
			func(p *rvt.Packet) { p.Imm++ }), want: "not what was posted"},
		{name: "an address changed", port: every(20, is(wire.OpWrite), func(p *rvt.Packet) { p.VA++ }),
			want: "not what was posted"},
		{name: "an operand changed", port: every(20, is(wire.OpFetchAdd), func(p *rvt.Packet) { p.Swap++ }),
			want: "not what was posted"},
		{name: "a byte of a SEND changed", port: every(20, payload(wire.OpSend), flipFirst), want: "belongs"},
		{name: "a byte of a WRITE changed", port: every(20, payload(wire.OpWrite), flipFirst), want: "belongs"},
		{name: "a byte of a READ response changed", port: every(20, payload(wire.OpReadResponse), flipFirst),
			want: "belongs"},
		{name: "an atomic response changed", port: every(20, is(wire.OpAtomicAcknowledge),
			func(p *rvt.Packet) { p.Swap ^= 1 << 40 }), want: "is answered by"},
		{name: "acknowledged before it arrived", port: every(20, ack, func(p *rvt.Packet) {
			p.PSN = (p.PSN +
				1) & wire.Mask24
		}), want: "is acknowledged"},
		{name: "a wrong MSN", port: every(20, ack, func(p *rvt.Packet) { p.MSN++ }), want: "messages are complete"},
		{name: "a sequence error not reported", port: through(func(d rvt.Direction, p *rvt.Packet) impair.Verdict {
			if d == rvt.Sent && nak(wire.NAKPSNSequence)(p) {
				return impair.Drop
			}
			return impair.Chance
		}), want: "is due and was not sent"},
		{name: "an acknowledgement not sent", port: through(func(d rvt.Direction, p *rvt.Packet) impair.Verdict {
			if d == rvt.Sent && ack(p) {
				return impair.Drop
			}
			return impair.Chance
		}), want: "acknowledgement is due"},
		{name: "a sequence error reported for the wrong packet", port: every(20, nak(wire.NAKPSNSequence),
			func(p *rvt.Packet) { p.PSN = (p.PSN + 1) & wire.Mask24 }),
			want: "is sent; due is"},
		{name: "an invented sequence error", port: every(20, ack,
			func(p *rvt.Packet) { p.Syndrome = wire.NAKPSNSequence; p.PSN = (p.PSN + 1) & wire.Mask24 }),
			want: "is sent; due is"},
		{name: "another status for a wrong request", calm: true, port: every(1, nak(wire.NAKRemoteAccess),
			func(p *rvt.Packet) { p.Syndrome = wire.NAKRemoteOperation }),
			want: "is sent; due is"},
		{name: "a shorter wait for a receiver", port: every(1,
			func(p *rvt.Packet) bool { return p.Op == wire.OpAcknowledge && p.Syndrome.IsRNRNAK() },
			func(p *rvt.Packet) { p.Syndrome = wire.RNRNAK(p.Syndrome.Value() - 1) }), want: "is sent; due is"},
		{name: "packets sent out of order", port: through(func(d rvt.Direction, p *rvt.Packet) impair.Verdict {
			if d == rvt.Sent && p.Op == wire.OpWrite && p.Start && !p.End {
				return impair.Reorder
			}
			return impair.Chance
		}), want: "turn"},
		{name: "an operand that differs from the packet", port: through(func(d rvt.Direction,
			p *rvt.Packet) impair.Verdict {
			if d == rvt.Received && p.Op == wire.OpFetchAdd {
				p.Swap++
			}
			return impair.Chance
		}), want: "is answered by"},
		{name: "a packet received that is lost in the HCA", port: through(func(d rvt.Direction,
			p *rvt.Packet) impair.Verdict {
			if d == rvt.Received && p.Op == wire.OpSend {
				return impair.Drop
			}
			return impair.Chance
		}), want: "is due and|due is"},
		{name: "an acknowledgement received that is ignored", port: through(func(d rvt.Direction,
			p *rvt.Packet) impair.Verdict {
			if d == rvt.Received && ack(p) {
				return impair.Drop
			}
			return impair.Chance
		}), want: "is due and has not come|turn"},
		{name: "nothing wrong", port: through(func(rvt.Direction,
			*rvt.Packet) impair.Verdict {
			return impair.Chance
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 40000 // maximum; the first violation ends the storm
			if c.want == "" {
				n = scale(n)
			}
			cfg := Config{Seed: *seed, Messages: n, Port: c.port, Connect: c.connect}
			if c.calm {
				cfg.Impairment, cfg.Wrong = &impair.Model{}, 20
			}
			_, err := Run(cfg)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err, "the oracle found no violation")
			require.Regexp(t, c.want, err.Error())
		})
	}
}
