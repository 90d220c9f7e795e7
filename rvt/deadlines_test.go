package rvt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// behindPort is a port in which received packets wait until CatchUp.
type behindPort struct {
	*linkPort
	catchUp func(mark uint64) (uint64, bool)
}

func (p *behindPort) CatchUp(mark uint64) (uint64, bool) { return p.catchUp(mark) }

// behindPair returns a rawPair on such a port with one SEND posted. Its acknowledgement is not delivered without
// CatchUp.
func behindPair(t *testing.T) (*side, *rawPeer, *fakeClock, *behindPort) {
	l := &wireLink{mtu: ci.MTU4096}
	r := &rawPeer{linkPort: l.port(), typ: ci.RC}
	r.linkPort.rx = r
	p := &behindPort{linkPort: l.port()}
	c := newClock()
	s := newSideOnPorts(t, []*linkPort{p.linkPort}, []Port{p}, 0xa, c, plainRings{}, ci.RC, nil)
	r.side = s
	s.toRTS(s.attrTo(rawQPN, r.lid))
	s.send(ci.SendWR{ID: 1, Flags: ci.SendSignaled, Inline: []byte("x")})
	r.take()
	return s, r, c, p
}

const interval = 4096 * time.Nanosecond << 14 // of attrTo

// TestAckBehind checks that an acknowledgement that has arrived but was not delivered when the timer fires counts like
// a delivered one.
func TestAckBehind(t *testing.T) {
	s, r, c, p := behindPair(t)
	calls := 0
	p.catchUp = func(mark uint64) (uint64, bool) {
		calls++
		require.Zero(t, mark)
		q := s.qp.(*QP)
		require.True(t, q.mu.TryLock(), "no lock is held")
		q.mu.Unlock()
		r.say(ack(0))
		return 0, true
	}
	c.Advance(interval + time.Second)
	require.Equal(t, 1, calls)
	require.Equal(t, ci.WCSuccess, s.onlyWC().Status)
	require.Zero(t, s.hca.Counters()["retries"])
	require.Empty(t, r.take())
}

// TestAckInInbox checks the same for an acknowledgement that was delivered while the QP was busy.
func TestAckInInbox(t *testing.T) {
	s, r, c := rawPair(t, &wireLink{}, ci.RC, nil)
	s.send(ci.SendWR{ID: 1, Flags: ci.SendSignaled, Inline: []byte("x")})
	r.take()
	q := s.qp.(*QP)
	p := ack(0)
	p.Service, p.DestQP, p.PKey = wire.RC, q.num, 0xffff
	p.MigReq, p.Src, p.N = true, Addr{LID: r.lid}, 1
	q.enqueue([]Packet{p})
	c.Advance(interval)
	require.Equal(t, ci.WCSuccess, s.onlyWC().Status)
	require.Zero(t, s.hca.Counters()["retries"])
}

// TestTimeoutPostponed checks that the timeout is postponed while another goroutine receives, and counted when the port
// has caught up.
func TestTimeoutPostponed(t *testing.T) {
	s, r, c, p := behindPair(t)
	var marks []uint64
	p.catchUp = func(mark uint64) (uint64, bool) {
		marks = append(marks, mark)
		return 77, len(marks) > 3
	}
	c.Advance(interval)
	require.Empty(t, r.take())
	c.Advance(3 * interval / 16)
	require.Equal(t, []uint64{0, 77, 77, 77}, marks)
	require.EqualValues(t, 3, s.hca.Counters()["retries_postponed"])
	require.EqualValues(t, 1, s.hca.Counters()["retries"])
	require.Len(t, r.take(), 1)
	marks = nil
	c.Advance(interval)
	require.Zero(t, marks[0], "the next timeout begins a series of its own")
}

// TestTimeoutUnderFlood checks that a port that never catches up, because a peer floods it, does not stop timeouts:
// each counts after at most four times the timeout (IBTA volume 1, 9.7.6.1.3), and a request without a response fails.
func TestTimeoutUnderFlood(t *testing.T) {
	s, r, c, p := behindPair(t)
	p.catchUp = func(uint64) (uint64, bool) { return 0, false }
	for i := range 7 {
		c.Advance(4*interval - time.Millisecond)
		require.Empty(t, r.take(), "retry %d", i)
		c.Advance(time.Millisecond)
		require.Len(t, r.take(), 1)
		require.EqualValues(t, i+1, s.hca.Counters()["retries"])
	}
	c.Advance(4 * interval)
	require.Equal(t, ci.WCTimeoutRetryErr, s.onlyWC().Status)
}
