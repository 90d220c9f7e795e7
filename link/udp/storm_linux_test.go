package udp

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
)

// tools/check runs the full length as a step.
var stormMessages = flag.Int("udpstorm.messages", 4000, "messages of TestUDPStorm, for each kind of port")

const (
	stormShare = 0.02 // percentage of packets dropped, duplicated, reordered, delayed and corrupted, each
	stormQPs   = 8
	stormDepth = 8    // messages of a QP in flight, in each direction
	stormSlot  = 4096 // bytes of a message

	stormSilence = 30 * time.Second // after that time something hangs
)

// A dirtySocket corrupts a fraction of the packets that it sends to the real network. Corruption by package impair
// would be detected before the packet leaves.
type dirtySocket struct {
	*mmsgSocket
	mu      sync.Mutex
	rnd     *rand.Rand
	buf     []byte
	damaged atomic.Int64
}

func (s *dirtySocket) Send(pkts []rvt.Packet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clean := 0
	for i := range pkts {
		if s.rnd.Float64() >= stormShare || pkts[i].N != 1 {
			continue
		}
		s.mmsgSocket.Send(pkts[clean:i])
		clean = i + 1
		c := rocev2.Cutter{Trains: pkts[i : i+1]}
		if !c.Next() {
			continue
		}
		dst := c.Route.Dst
		s.buf = c.AppendPacket(s.buf[:0], 0)
		// After the byte of the BTH that the ICRC does not cover.
		b := s.buf[5:]
		if kind := s.rnd.IntN(len(linktest.Damages) + 1); kind < len(linktest.Damages) {
			linktest.Damages[kind].Do(s.rnd, b)
		} else {
			linktest.Flip(s.rnd, b, 1)
		}
		if s.raw(s.buf, dst) == nil {
			s.damaged.Add(1)
		}
	}
	s.mmsgSocket.Send(pkts[clean:])
}

// raw sends bytes from the port's socket.
func (s *dirtySocket) raw(b []byte, dst netip.AddrPort) error {
	m := s.mmsgSocket
	m.sends.RLock()
	defer m.sends.RUnlock()
	if m.closed.Load() {
		return net.ErrClosed
	}
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: int(dst.Port()), Addr: dst.Addr().As16()}
	if dst.Addr().Is4() {
		to = &unix.SockaddrInet4{Port: int(dst.Port()), Addr: dst.Addr().As4()}
	}
	raceSent()
	return unix.Sendto(m.fd, b, unix.MSG_DONTWAIT, to)
}

// stormPort opens a UDP port that impairs what it sends.
func stormPort(t *testing.T, c Config, seed uint64) (rvt.Port, *dirtySocket) {
	p, err := New(c)
	require.NoError(t, err)
	dirty := &dirtySocket{mmsgSocket: p.core.Socket.(*mmsgSocket), rnd: rand.New(rand.NewPCG(seed, 9))}
	p.core.Socket = dirty
	m := impair.Model{Drop: stormShare, Duplicate: stormShare, Reorder: stormShare, Delay: stormShare}
	bad, err := impair.New(p, impair.Config{Seed: seed, Out: m})
	require.NoError(t, err)
	return bad, dirty
}

// A stormSide is one HCA in the storm; a stormEnd is one of its QPs.
type stormSide struct {
	*linktest.Node
	cq    ci.CQ // totals of all ends
	ends  []*stormEnd
	byNum map[ci.QPN]*stormEnd
	wcs   []ci.WC
}

type stormEnd struct {
	side *stormSide
	peer *stormEnd
	qp   ci.QP
	seed uint64
	// area is the offset of stormDepth slots each for sends, receives, the peer's WRITEs, READs, and the peer's READs.
	area   int
	total  int
	posted int
	done   int       // completed here
	last   time.Time // of a completion
	seen   int       // number of the peer's next SEND or WRITE
}

// Messages take these kinds in turn.
const (
	stormSend = iota
	stormWrite
	stormRead
	stormKinds
)

func (e *stormEnd) slot(area, i int) int { return e.area + (area*stormDepth+i%stormDepth)*stormSlot }

// contents returns the content of message i, which begins with its number.
func (e *stormEnd) contents(b []byte, i int) []byte {
	r := rand.New(rand.NewPCG(e.seed, uint64(i)))
	b = b[:8+8*r.IntN(stormSlot/8-1)]
	binary.LittleEndian.PutUint64(b, uint64(i))
	for k := 8; k < len(b); k += 8 {
		binary.LittleEndian.PutUint64(b[k:], r.Uint64())
	}
	return b
}

// post keeps stormDepth messages in flight. A READ reads the peer's slot of the same number, which is filled here.
func (e *stormEnd) post(t *testing.T) {
	for ; e.posted < e.total && e.posted-min(e.seen, e.done) < stormDepth; e.posted++ {
		i := e.posted
		wr := ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled | ci.SendImmediate, Imm: uint32(i)}
		mem, peer := e.side.Buf, e.peer.side
		from := e.slot(0, i)
		switch i % stormKinds {
		case stormRead:
			from = e.peer.slot(4, i)
			n := len(e.contents(peer.Buf[from:from+stormSlot], i))
			wr.Op, wr.Flags, wr.Remote = ci.OpRead, ci.SendSignaled, peer.MR.Region().Remote(uint64(from))
			wr.SGL = e.side.SGE(e.slot(3, i), n)
		case stormWrite:
			wr.Op, wr.Remote = ci.OpWrite, peer.MR.Region().Remote(uint64(e.peer.slot(2, i)))
			wr.SGL = e.side.SGE(from, len(e.contents(mem[from:from+stormSlot], i)))
		default:
			wr.Op, wr.SGL = ci.OpSend, e.side.SGE(from, len(e.contents(mem[from:from+stormSlot], i)))
		}
		_, err := e.qp.PostSend([]ci.SendWR{wr})
		require.NoError(t, err)
	}
}

// recvNext posts the receive for message i of the peer.
func (e *stormEnd) recvNext(t *testing.T, i int) {
	_, err := e.qp.PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: e.side.SGE(e.slot(1, i), stormSlot)}})
	require.NoError(t, err)
}

// arrived checks the bytes of message i.
func (e *stormEnd) arrived(t *testing.T, i int, got []byte) {
	var b [stormSlot]byte
	want := e.contents(b[:], i)
	if !bytes.Equal(want, got[:len(want)]) {
		require.FailNow(t, "wrong bytes", "message %d of QP %#x", i, uint32(e.qp.Num()))
	}
}

// take handles completions.
func (s *stormSide) take(t *testing.T) bool {
	n, err := s.cq.Poll(s.wcs)
	require.NoError(t, err)
	for _, wc := range s.wcs[:n] {
		e := s.byNum[wc.QPN]
		if wc.Status == ci.WCSuccess {
			e.last = time.Now()
		}
		require.Equal(t, ci.WCSuccess, wc.Status, "a QP is lost: %v, %v after its last completion; counters %v, of "+
			"the peer %v", wc, time.Since(e.last), s.HCA.Counters(), e.peer.side.HCA.Counters())
		switch wc.Op {
		case ci.WCRecv, ci.WCRecvWrite:
			// The peer's SENDs and WRITEs arrive in the order of their numbers.
			p := e.peer
			i := int(wc.Imm)
			require.Equal(t, p.seen, i, "the order of messages")
			at := e.slot(1, int(wc.ID))
			if wc.Op == ci.WCRecvWrite {
				at = e.slot(2, i)
			}
			p.arrived(t, i, s.Buf[at:])
			if p.seen++; p.seen < p.total && p.seen%stormKinds == stormRead {
				p.seen++
			}
			e.recvNext(t, int(wc.ID)+stormDepth)
		default:
			i := int(wc.ID)
			require.Equal(t, e.done, i, "the order of completions")
			if i%stormKinds == stormRead {
				e.arrived(t, i, s.Buf[e.slot(3, i):])
			}
			e.done++
		}
	}
	return n > 0
}

func newStormSide(t *testing.T, p rvt.Port, wake chan struct{}) *stormSide {
	s := &stormSide{Node: linktest.Open(t, ci.RC, stormQPs*5*stormDepth*stormSlot, p), byNum: map[ci.QPN]*stormEnd{},
		wcs: make([]ci.WC, 64)}
	var err error
	s.cq, err = s.PD.CreateCQ(ci.CQCreate{Size: 1000, OnCompletion: func(any) {
		select {
		case wake <- struct{}{}:
		default: // one is pending
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.cq.Destroy()) })
	for i := range stormQPs {
		qp, err := s.PD.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: s.cq, RecvCQ: s.cq, QPCaps: ci.QPCaps{SendDepth: 16,
			RecvDepth: 16, SendSGE: 1, RecvSGE: 1}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, qp.Destroy()) })
		e := &stormEnd{side: s, qp: qp, area: i * 5 * stormDepth * stormSlot}
		s.ends = append(s.ends, e)
		s.byNum[qp.Num()] = e
	}
	return s
}

// otherAddr6 returns a second global IPv6 address of this machine beside ::1.
func otherAddr6(t *testing.T) netip.Addr {
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is6() && !p.Addr().Is4In6() && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	t.Skip("this machine has no IPv6 address beside ::1, and the two HCAs need one each")
	return netip.Addr{}
}

// TestUDPStorm runs two HCAs over real UDP. Each drops, duplicates, reorders, delays and corrupts packets. No QP fails,
// and every message arrives once, in order, with the right content. Every corrupted packet is dropped; where all 32
// bits of the ICRC are checked, by the ICRC alone.
func TestUDPStorm(t *testing.T) {
	port := uint16(20000 + os.Getpid()%10000)
	for _, c := range []struct {
		name   string
		at     func(t *testing.T) [2]netip.Addr
		priv   bool
		strict bool
	}{
		{"IPv6", func(t *testing.T) [2]netip.Addr { return [2]netip.Addr{netip.IPv6Loopback(), otherAddr6(t)} }, false,
			true},
		{"IPv4 privileged", func(t *testing.T) [2]netip.Addr {
			needRaw(t)
			return [2]netip.Addr{linktest.Addr(),
				linktest.Addr()}
		}, true, true},
		{"IPv4", func(*testing.T) [2]netip.Addr { return [2]netip.Addr{linktest.Addr(), linktest.Addr()} }, false,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := c.at(t)
			var dirty [2]*dirtySocket
			var sides [2]*stormSide
			wake := make(chan struct{}, 1)
			for i := range sides {
				var p rvt.Port
				p, dirty[i] = stormPort(t, Config{Addr: at[i], Port: port, Privileged: c.priv, MTU: ci.MTU1024},
					uint64(i+1))
				sides[i] = newStormSide(t, p, wake)
			}
			start := time.Now()
			runStorm(t, sides, wake)
			var refused [2]map[string]uint64
			for i := range sides {
				require.Eventually(t, func() bool { // the last corrupted packet may be in flight
					refused[i] = sides[i].HCA.Counters()
					m := refused[i]
					return m["udp_kernel_drops"] > 0 ||
						int64(m["drop_icrc"]+m["drop_ipv4_id"]) >= dirty[1-i].damaged.Load()
				}, testenv.Patience, time.Millisecond, "damaged packets: %d, counters %v",
					dirty[1-i].damaged.Load(), refused[i])
				m := refused[i]
				assert.LessOrEqual(t, int64(m["drop_icrc"]+m["drop_ipv4_id"]), dirty[1-i].damaged.Load(),
					"nothing good was refused")
				assert.NotZero(t, m["drop_icrc"])
				assert.NotZero(t, m["impair_dropped"]*m["impair_duplicated"]*m["impair_reordered"]*m["impair_delayed"])
				if c.strict {
					assert.Zero(t, m["drop_ipv4_id"])
				}
				t.Logf("%v: %d damaged to it, drop_icrc %d, drop_ipv4_id %d, unchecked %d, kernel drops %d, retries "+
					"%d, sequence NAKs %d", at[i], dirty[1-i].damaged.Load(),
					m["drop_icrc"], m["drop_ipv4_id"], m["udp_ipv4_id_unchecked"], m["udp_kernel_drops"], m["retries"],
					m["sequence_nak_received"])
			}
			t.Logf("%d messages in %v", *stormMessages, time.Since(start).Round(time.Millisecond))
		})
	}
}

// connect moves an end to RTS. The timeout of 0.27 s suits busy machines: after eight timeouts in a row the QP fails.
func (e *stormEnd) connect(t *testing.T) {
	const timeout = 16
	a := ci.QPAttr{State: ci.QPInit, Port: 1, Access: ci.RemoteRead | ci.RemoteWrite}
	require.NoError(t, e.qp.Modify(ci.QPFieldsInit, a))
	a = ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: e.side.AV(e.peer.side.Node), AckTimeout: timeout},
		MTU: ci.MTU1024, DestNum: e.peer.qp.Num(), RQPSN: 100,
		RespRes: 4, MinRNRTimer: 1}
	require.NoError(t, e.qp.Modify(ci.QPFieldsRTR, a))
	a = ci.QPAttr{State: ci.QPRTS, SQPSN: 100, RetryCount: 7, RNRRetry: 7, InitDepth: 4,
		Primary: ci.Path{AckTimeout: timeout}}
	require.NoError(t, e.qp.Modify(ci.QPFieldsRTS, a))
	for i := range stormDepth {
		e.recvNext(t, i)
	}
}

// runStorm runs the messages.
func runStorm(t *testing.T, sides [2]*stormSide, wake chan struct{}) {
	a, b := sides[0], sides[1]
	var ends []*stormEnd
	for i := range a.ends {
		x, y := a.ends[i], b.ends[i]
		x.peer, y.peer = y, x
		x.seed, y.seed = uint64(2*i), uint64(2*i+1)
		x.total = *stormMessages / (2 * stormQPs)
		y.total = x.total
		ends = append(ends, x, y)
	}
	for _, e := range ends {
		e.connect(t)
	}
	left := func() (n int) {
		for _, e := range ends {
			n += 2*e.total - e.seen - e.done
		}
		return n
	}
	silent := time.NewTimer(stormSilence)
	defer silent.Stop()
	for armed := false; left() > 0; {
		for _, e := range ends {
			e.post(t)
		}
		x, y := a.take(t), b.take(t)
		switch {
		case x || y:
			armed = false
		case !armed: // poll again: completions from before the arming raise no event
			require.NoError(t, a.cq.Notify(ci.NotifyNext))
			require.NoError(t, b.cq.Notify(ci.NotifyNext))
			armed = true
		default:
			silent.Reset(stormSilence)
			select {
			case <-wake:
			case <-silent.C:
				require.FailNow(t, "timeout", "%d steps left; %v, %v", left(), a.HCA.Counters(), b.HCA.Counters())
			}
			armed = false
		}
	}
}
