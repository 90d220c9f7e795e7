package capture

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/impair"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/wire"
)

// shown is a sink that keeps all entries.
type shown struct {
	mu   sync.Mutex
	list []Frame
}

func (s *shown) take(f []Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, f...)
}

func (s *shown) frames() []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Frame(nil), s.list...)
}

// parsed returns the transport packet of a frame after checking its CRCs.
func parsed(t *testing.T, f Frame) wire.Packet {
	t.Helper()
	if f.Link == ci.LinkInfiniBand {
		var p wire.LinkPacket
		require.NoError(t, wire.ParseLinkPacket(f.Data, &p))
		require.NoError(t, wire.CheckLinkCRC(f.Data, &p))
		return p.Packet
	}
	var p wire.Frame
	require.NoError(t, wire.ParseIP(f.Data, &p))
	require.NoError(t, p.CheckICRC())
	udp := f.Data[wire.IPv4Len:]
	assert.True(t, wire.CheckUDP4(p.IP4.Src, p.IP4.Dst, udp), "UDP checksum")
	return p.Packet
}

// TestCapture runs every operation of RC. The tap gets each packet as sent and then as received, with the same
// contents.
func TestCapture(t *testing.T) {
	link := new(direct.Link)
	for _, tt := range []struct {
		name  string
		ports func() (rvt.Port, rvt.Port)
	}{
		{"direct", func() (rvt.Port, rvt.Port) {
			return testenv.Must(direct.New(link, direct.Config{})), testenv.Must(direct.New(link, direct.Config{}))
		}},
		{"udp", func() (rvt.Port, rvt.Port) {
			return testenv.Must(udp.New(udp.Config{Addr: linktest.Addr(), MTU: ci.MTU1024})),
				testenv.Must(udp.New(udp.Config{Addr: linktest.Addr(), MTU: ci.MTU1024}))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pa, pb := tt.ports()
			tap, s := new(Tap), new(shown)
			a, b := linktest.Open(t, ci.RC, 1<<20, testenv.Must(New(pa, tap))), linktest.Open(t, ci.RC, 1<<20,
				testenv.Must(New(pb, tap)))
			linktest.ConnectBoth(a, b)
			linktest.Exercise(t, a, b)
			assert.Empty(t, s.frames(), "the tap is off")
			require.NoError(t, tap.Start(s.take))
			assert.ErrorContains(t, tap.Start(s.take), "is on already")
			linktest.Exercise(t, a, b)
			tap.Stop()
			tap.Stop()
			list := s.frames()
			n := len(list)
			linktest.Exercise(t, a, b)
			assert.Len(t, s.frames(), n, "the tap is off again")

			sent := map[string]int{}
			ops := map[wire.Opcode]int{}
			for i, f := range list {
				p := parsed(t, f)
				assert.Empty(t, f.Drop)
				assert.Contains(t, []ci.GUID{a.HCA.Info().GUID, b.HCA.Info().GUID}, f.HCA)
				assert.EqualValues(t, 1, f.Port)
				if f.Direction == rvt.Sent {
					ops[p.BTH.Opcode]++
					sent[string(f.Data)]++
					continue
				}
				if assert.Positive(t, sent[string(f.Data)], "packet %d, %v, was received before it was sent",
					i, p.BTH.Opcode) {
					sent[string(f.Data)]--
				}
			}
			for _, op := range []wire.Opcode{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCWriteFirst,
				wire.RCWriteLastImm,
				wire.RCReadRequest, wire.RCReadResponseFirst, wire.RCReadResponseLast, wire.RCFetchAdd,
				wire.RCCompareSwap, wire.RCAtomicAcknowledge, wire.RCAcknowledge} {
				assert.Positive(t, ops[op], op)
			}
		})
	}
}

// drops returns the reasons for drops that a tap gets while f runs.
func drops(t *testing.T, tap *Tap, f func()) map[string][]Frame {
	t.Helper()
	s := new(shown)
	require.NoError(t, tap.Start(s.take))
	f()
	tap.Stop()
	m := map[string][]Frame{}
	for _, f := range s.frames() {
		m[f.Drop] = append(m[f.Drop], f)
	}
	return m
}

func TestCaptureReasons(t *testing.T) {
	link := new(direct.Link)
	tap := new(Tap)
	verdict := impair.Pass
	bad := testenv.Must(impair.New(testenv.Must(direct.New(link, direct.Config{})),
		impair.Config{Filter: func(d rvt.Direction, p *rvt.Packet) impair.Verdict {
			if d == rvt.Sent && p.Op == wire.OpSend {
				return verdict
			}
			return impair.Pass
		}}))
	a, b := linktest.Open(t, ci.UD, 4096, testenv.Must(New(bad, tap))),
		linktest.Open(t, ci.UD, 4096, testenv.Must(New(testenv.Must(direct.New(link, direct.Config{})), tap)))
	for _, n := range []*linktest.Node{a, b} {
		require.NoError(t, n.QP.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 5}))
		require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
		require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS}))
	}
	av, err := a.PD.CreateAV(a.AV(b))
	require.NoError(t, err)
	defer func() { require.NoError(t, av.Destroy()) }()
	to := ci.Dest{AV: av, QPN: b.QP.Num(), QKey: 5}
	send := func(to ci.Dest) func() {
		return func() {
			a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.SGE(0, 8), To: to})
			a.Poll(1)
		}
	}
	other := to
	other.QPN ^= 0x800000
	key := to
	key.QKey++
	for _, tt := range []struct {
		want string
		v    impair.Verdict
		to   ci.Dest
		dir  rvt.Direction
	}{
		{"impair_dropped", impair.Drop, to, rvt.Sent},
		{"impair_corrupted, drop_icrc", impair.Corrupt, to, rvt.Sent},
		{"drop_no_qp", impair.Pass, other, rvt.Received},
		{"drop_qkey", impair.Pass, key, rvt.Received},
		{"drop_no_receive", impair.Pass, to, rvt.Received},
	} {
		verdict = tt.v
		got := drops(t, tap, send(tt.to))
		require.Len(t, got[tt.want], 1, "%s: %v", tt.want, got)
		assert.Equal(t, tt.dir, got[tt.want][0].Direction)
		p := parsed(t, got[tt.want][0])
		assert.Equal(t, wire.UDSendOnly, p.BTH.Opcode)
		assert.EqualValues(t, tt.to.QKey, p.DETH.QKey)
	}

	verdict = impair.Pass
	require.NoError(t, a.HCA.SetLink(1, false))
	assert.Len(t, drops(t, tap, send(to))["drop_send_failed"], 1)
	require.NoError(t, a.HCA.SetLink(1, true))
	require.NoError(t, b.HCA.SetLink(1, false))
	assert.Len(t, drops(t, tap, send(to))["drop_not_for_us"], 1)
	require.NoError(t, b.HCA.SetLink(1, true))
}

// Packets that a UDP port drops are captured byte for byte.
func TestCaptureRefused(t *testing.T) {
	tap, s := new(Tap), new(shown)
	addr := linktest.Addr()
	n := linktest.Open(t, ci.RC, 4096, testenv.Must(New(testenv.Must(udp.New(udp.Config{Addr: addr})), tap)))
	require.NoError(t, tap.Start(s.take))
	c, err := net.Dial("udp", net.JoinHostPort(addr.String(), "4791"))
	require.NoError(t, err)
	defer c.Close()
	for want, b := range map[string][]byte{"drop_malformed": []byte("short"),
		"drop_icrc": bytes.Repeat([]byte{0xab}, 64)} {
		_, err := c.Write(b)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, _ = n.CQ.Poll(make([]ci.WC, 1)) // drives the port
			l := s.frames()
			return len(l) > 0 && l[len(l)-1].Drop == want
		}, testenv.Patience, time.Millisecond, want)
		l := s.frames()
		f := l[len(l)-1]
		assert.Equal(t, b, f.Data[wire.IPv4Len+wire.UDPLen:])
		assert.Equal(t, rvt.Received, f.Direction)
		assert.True(t, wire.CheckUDP4([4]byte(f.Data[12:]), [4]byte(f.Data[16:]), f.Data[wire.IPv4Len:]))
	}
	// The first identification of an address is accepted; a second one far from it is not.
	from := netip.MustParseAddrPort(c.LocalAddr().String())
	flow := wire.NewFlow4(from.Addr().As4(), addr.As4(), from.Port(), 4791, wire.IPv4DontFragment)
	for i, id := range []uint16{7000, 30000} {
		b := wire.AppendPacket(nil, &wire.Packet{BTH: wire.BTH{Opcode: 0x04, DestQP: 0xabcdef}})
		flow.Start(len(b), id).Transport(b[:len(b)-wire.ICRCLen]).Put(b[len(b)-wire.ICRCLen:])
		_, err = c.Write(b)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, _ = n.CQ.Poll(make([]ci.WC, 1))
			l := s.frames()
			return l[len(l)-1].Drop == []string{"drop_no_qp", "drop_ipv4_id"}[i]
		}, testenv.Patience, time.Millisecond, "%v", id)
	}
	m := n.HCA.Counters()
	assert.EqualValues(t, 1, m["drop_ipv4_id"])
	assert.EqualValues(t, 1, m["udp_ipv4_id_solved"])
	assert.EqualValues(t, 1, m["udp_ipv4_id_unchecked"])
	tap.Stop()
}

// A packet whose delivery does not end is captured nevertheless, and so are the packets after it.
func TestTapOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tap, s := new(Tap), new(shown)
		clock := clock.Real()
		require.Error(t, tap.Start(nil))
		require.NoError(t, tap.Start(s.take))
		stuck := &entry{Frame: Frame{Data: []byte{1}}, pending: true}
		tap.add(clock, []*entry{stuck})
		tap.add(clock, []*entry{{Frame: Frame{Data: []byte{2}}}})
		assert.Empty(t, s.frames())
		time.Sleep(maxWait + time.Millisecond)
		synctest.Wait()
		assert.Len(t, s.frames(), 2)
		assert.Equal(t, []byte{1}, s.frames()[0].Data)
		tap.settle([]*entry{stuck}) // too late to have an effect
		tap.Stop()
		assert.Len(t, s.frames(), 2)
	})
}

// Each packet has its own time, even on a port where some packet is always waiting.
func TestTapOverdueEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tap, s := new(Tap), new(shown)
		clock := clock.Real()
		require.NoError(t, tap.Start(s.take))
		stuck, young := &entry{pending: true}, &entry{pending: true}
		tap.add(clock, []*entry{stuck})
		time.Sleep(maxWait - time.Millisecond)
		tap.add(clock, []*entry{young})
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, s.frames(), 1)
		assert.True(t, tap.drop(young, "lost"))
		assert.False(t, tap.drop(young, "lost twice"))
		time.Sleep(maxWait)
		synctest.Wait()
		require.Len(t, s.frames(), 2)
		assert.Equal(t, "lost", s.frames()[1].Drop)
		tap.Stop()
	})
}

func TestAmong(t *testing.T) {
	assert.Equal(t, "drop_no_qp", among("drop_no_qp", 1, 1, true))
	assert.Equal(t, "drop_no_qp: some of the 3 packets that went together, or all", among("drop_no_qp", 1, 3, true))
	assert.Equal(t, "perhaps drop_no_qp: other packets were handled at the same time", among("drop_no_qp", 1, 1, false))
}
