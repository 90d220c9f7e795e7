package rings

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
)

// shape returns the shape of a queue for a test.
func shape(s Shape, err error) Shape {
	if err != nil {
		panic(err)
	}
	return s
}

func noFree() {}

// testNames are names that consist of one number.
type testNames uint32

func (n testNames) Vector(ci.AV) uint32 { return uint32(n) }
func (n testNames) Window(ci.MW) ci.Key { return ci.Key(n) }
func (n testNames) Region(ci.MR) ci.Key { return ci.Key(n) + 1 }

// TestSharedQueues moves requests and completions between the two sides of shared queues, each with its own view.
func TestSharedQueues(t *testing.T) {
	t.Parallel()
	t.Run("send", func(t *testing.T) {
		t.Parallel()
		s := shape(SendShape(15, 1, 16))
		b := alignedBytes(ControlSize + s.Bytes())
		av := &rvt.AV{}
		server := NewSharedSend(b, s, func(n uint32) *rvt.AV {
			if n == 7 {
				return av
			}
			return nil
		}, noFree)
		user, ok := OpenSend(b, s, testNames(7))
		require.True(t, ok)
		require.Zero(t, server.Post(make([]ci.SendWR, 1), nil))
		server.SetState(ci.QPRTS)
		require.Equal(t, ci.QPRTS, user.State())
		produceConsume(t, func(id uint64) bool {
			wr := ci.SendWR{ID: id, SGL: []ci.SGE{{Addr: id, Length: 1}}}
			switch id % 3 {
			case 1:
				wr.To.AV = new(faceAV)
			case 2:
				wr.Inline = []byte{byte(id)}
			}
			return user.Post([]ci.SendWR{wr}) == 1
		}, func(id uint64) bool {
			w := rvt.Work{SGL: make([]ci.SGE, 0, 1)}
			if !server.Next(&w) {
				return false
			}
			require.Equal(t, id, w.ID)
			if id%3 == 1 {
				require.Same(t, av, w.AV)
			}
			if id%3 == 2 {
				require.Equal(t, []byte{byte(id)}, w.Inline)
			}
			server.Retire(1)
			return true
		})
		require.Zero(t, server.Len())
		require.Equal(t, 15, user.Post(make([]ci.SendWR, 20)))
		require.Equal(t, 15, server.Len())
		server.Reset()
		user.Reset()
		require.False(t, server.Next(&rvt.Work{}))
		require.Equal(t, 15, user.Post(make([]ci.SendWR, 20)))
	})
	t.Run("recv", func(t *testing.T) {
		t.Parallel()
		s := shape(RecvShape(15, 1))
		b := alignedBytes(s.Bytes())
		server := NewSharedRecv(b, s, noFree)
		user, ok := OpenRecv(b, s)
		require.True(t, ok)
		require.Zero(t, server.Post(make([]ci.RecvWR, 1)))
		require.ErrorIs(t, server.Resize(3), ci.InsufficientResources)
		produceConsume(t, func(id uint64) bool {
			return user.Post([]ci.RecvWR{{ID: id, SGL: []ci.SGE{{Addr: id}}}}) == 1
		}, func(id uint64) bool {
			var w rvt.RecvWork
			if !server.Next(&w) {
				return false
			}
			require.Equal(t, id, w.ID)
			require.Equal(t, id, w.SGL[0].Addr)
			return true
		})
	})
	t.Run("completion", func(t *testing.T) {
		t.Parallel()
		s := shape(CompletionShape(15))
		b := alignedBytes(ControlSize + s.Bytes())
		server := NewSharedCompletion(b, s, noFree)
		user, ok := OpenCompletion(b, s)
		require.True(t, ok)
		require.Zero(t, server.Get(make([]ci.WC, 1)))
		require.ErrorIs(t, server.Resize(3), ci.InsufficientResources)
		produceConsume(t, func(id uint64) bool { return server.Put(&ci.WC{ID: id, QPN: 5}) }, func(id uint64) bool {
			var wc [1]ci.WC
			if user.Get(wc[:]) == 0 {
				return false
			}
			require.Equal(t, ci.WC{ID: id, QPN: 5}, wc[0])
			return true
		})
		for range server.Cap() {
			require.True(t, server.Put(&ci.WC{}))
		}
		require.False(t, server.Put(&ci.WC{}))
		require.Equal(t, 15, server.Len())
		require.Equal(t, 15, user.Len())
	})
}

// TestNoLostWakeUp checks that a consumer that arms, finds the queue empty and sleeps is woken for every completion,
// and that a post to an engine that sleeps rings the doorbell.
func TestNoLostWakeUp(t *testing.T) {
	t.Parallel()
	s := shape(CompletionShape(3))
	b := alignedBytes(ControlSize + s.Bytes())
	server := NewSharedCompletion(b, s, noFree)
	user, _ := OpenCompletion(b, s)
	fired := make(chan struct{}, 1)
	var wg sync.WaitGroup
	const total = 20000
	wg.Go(func() {
		for id := range uint64(total) {
			for !server.Put(&ci.WC{ID: id}) {
				runtime.Gosched()
			}
			if server.Fires(false) {
				fired <- struct{}{}
			}
		}
	})
	var wc [1]ci.WC
	for id := uint64(0); id < total; {
		if user.Get(wc[:]) == 1 {
			require.Equal(t, id, wc[0].ID)
			id++
			continue
		}
		user.Arm(ci.NotifyNext)
		if user.Len() > 0 {
			if !server.Fires(false) { // disarm, as a callback that is not needed
				<-fired
			}
			continue
		}
		<-fired
	}
	wg.Wait()

	h := OpenHeader(alignedBytes(HeaderSize))
	bell := make(chan struct{}, 1)
	wg.Go(func() {
		for i := range uint32(total) {
			if h.Mark(i % MaxUserQPs) {
				bell <- struct{}{}
			}
			if i%64 == 0 {
				runtime.Gosched()
			}
		}
	})
	last := false
	for !last {
		take := func(i uint32) { last = last || i == (total-1)%MaxUserQPs }
		if h.Take(take) {
			continue
		}
		h.Sleep()
		if !h.Take(take) {
			<-bell
		}
		h.Wake()
		select {
		case <-bell:
		default:
		}
	}
	wg.Wait()
}

// TestHeaderFair checks that one Take passes on a limited number of QPs, and that each QP has its turn although others
// are marked again and again.
func TestHeaderFair(t *testing.T) {
	t.Parallel()
	h := OpenHeader(alignedBytes(HeaderSize))
	none := func(i uint32) { require.Fail(t, "a QP that was not marked", "%d", i) }
	require.False(t, h.Take(none))
	const qps = 1000
	turns := map[uint32]int{}
	for range 10 * qps / takeLimit {
		for i := range uint32(qps) {
			require.False(t, h.Mark(i*16))
		}
		before := len(turns)
		n := 0
		require.True(t, h.Take(func(i uint32) { turns[i]++; n++ }))
		require.LessOrEqual(t, n, takeLimit)
		require.LessOrEqual(t, len(turns), before+takeLimit)
	}
	require.Len(t, turns, qps)
	for i, n := range turns {
		require.Zero(t, i%16)
		require.InDelta(t, 10, n, 5, "turns of QP %d", i)
	}
	for h.Take(func(uint32) {}) {
	}
	require.False(t, h.Take(none))
}

// TestBells checks the table of bells with handles that have the same place.
func TestBells(t *testing.T) {
	t.Parallel()
	table := alignedBytes(BellsSize)
	at := func(handle uint32) uint64 { return *bell(table, handle) }
	const first, second = 5, 5 + 3*MaxUserQPs
	SetBell(table, first, 7)
	require.EqualValues(t, first<<32|8, at(first))
	SetBell(table, second, MaxUserQPs-1)
	RemoveBell(table, first)
	require.EqualValues(t, second<<32|MaxUserQPs, at(first), "it is that of the second one")
	RemoveBell(table, second)
	require.Zero(t, at(second))
}

func TestArmConditions(t *testing.T) {
	t.Parallel()
	s := shape(CompletionShape(3))
	b := alignedBytes(ControlSize + s.Bytes())
	server := NewSharedCompletion(b, s, noFree)
	user, _ := OpenCompletion(b, s)
	require.False(t, server.Fires(true), "not armed")
	user.Arm(ci.NotifySolicited)
	require.False(t, server.Fires(false))
	require.True(t, server.Fires(true))
	require.False(t, server.Fires(true), "one callback per arming")
	user.Arm(ci.NotifySolicited)
	user.Arm(ci.NotifyNext)
	user.Arm(ci.NotifySolicited)
	require.True(t, server.Fires(false))
	ne.PutUint32(b, 77) // a word that the consumer has overwritten
	require.False(t, server.Fires(true))
}

// TestShapesThatDoNotFit checks that the application's side opens nothing outside the bytes that it has.
func TestShapesThatDoNotFit(t *testing.T) {
	t.Parallel()
	b := alignedBytes(1 << 14)
	good := shape(SendShape(15, 1, 16))
	for name, change := range map[string]func(*Shape){
		"none":             func(s *Shape) { s.Slots = 0 },
		"no power of two":  func(s *Shape) { s.Slots = 15 },
		"many slots":       func(s *Shape) { s.Slots = 1 << 10 },
		"huge":             func(s *Shape) { s.Slots = 1 << 31 },
		"shift":            func(s *Shape) { s.Shift = 40 },
		"small slots":      func(s *Shape) { s.Shift = 4 },
		"entries":          func(s *Shape) { s.SGE = 1000 },
		"entries, overrun": func(s *Shape) { s.SGE = 100 },
		"inline":           func(s *Shape) { s.Data = 1 << 20 },
	} {
		s := good
		change(&s)
		_, ok := OpenSend(b, s, nil)
		require.False(t, ok, name)
	}
	_, ok := OpenSend(b, good, nil)
	require.True(t, ok)
	for _, n := range []int{0, 10, ControlSize, ControlSize + 300} {
		_, ok = OpenSend(b[:n], good, nil)
		require.False(t, ok)
		_, ok = OpenCompletion(b[:n], shape(CompletionShape(15)))
		require.False(t, ok)
		_, ok = OpenRecv(b[:n], shape(RecvShape(15, 1)))
		require.False(t, ok)
	}
}

// FuzzHostileShared writes any bytes anywhere in the queues, as the process could, while the engine uses them.
func FuzzHostileShared(f *testing.F) {
	f.Add(uint8(3), uint8(1), []byte{0xff, 0xff, 0xff, 0xff}, uint16(128+64), []byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add(uint8(15), uint8(2), []byte{5, 0, 0, 0}, uint16(128), []byte{3, 0, 0, 0, 1, 3, 0, 2, 2, 6})
	f.Fuzz(func(t *testing.T, depth, sge uint8, dirt []byte, at uint16, steps []byte) {
		d, n, inl := 1+int(depth%31), int(sge%5), int(sge%3)*16
		ss, rs, cs := shape(SendShape(d, n, inl)), shape(RecvShape(d, n)), shape(CompletionShape(d))
		sall, sb := guarded(ControlSize + ss.Bytes())
		rall, rb := guarded(rs.Bytes())
		call, cb := guarded(ControlSize + cs.Bytes())
		vectors := []*rvt.AV{nil, {}}
		send := NewSharedSend(sb, ss, func(i uint32) *rvt.AV { return vectors[i%2] }, noFree)
		recv, comp := NewSharedRecv(rb, rs, noFree), NewSharedCompletion(cb, cs, noFree)
		user, ok := OpenSend(sb, ss, testNames(1))
		require.True(t, ok)
		poller, ok := OpenCompletion(cb, cs)
		require.True(t, ok)
		w := rvt.Work{SGL: make([]ci.SGE, 0, n)}
		rw := rvt.RecvWork{SGL: make([]ci.SGE, 0, n)}
		open := 0
		for _, step := range steps {
			switch step % 8 {
			case 0:
				if send.Next(&w) {
					open++
					require.LessOrEqual(t, open, send.Depth())
					require.LessOrEqual(t, len(w.SGL), n)
					require.LessOrEqual(t, len(w.Inline), inl)
				}
			case 1:
				k := min(int(step>>3), open)
				send.Retire(k)
				open -= k
			case 2:
				if recv.Next(&rw) {
					require.LessOrEqual(t, len(rw.SGL), n)
				}
			case 3:
				for i, x := range dirt {
					sb[(int(at)+i+int(step))%len(sb)] = x
					rb[(int(at)+i+int(step))%len(rb)] = x
					cb[(int(at)+i+int(step))%len(cb)] = x
				}
			case 4:
				comp.Put(&ci.WC{Status: ci.WCStatus(step), Op: ci.WCOp(step), Flags: 0xffff})
				comp.Fires(step&16 != 0)
			case 5:
				require.LessOrEqual(t, user.Post([]ci.SendWR{{Op: ci.OpWrite}, {Inline: make([]byte, inl)}}), 2)
			case 6:
				require.LessOrEqual(t, poller.Get(make([]ci.WC, step>>3)), int(step>>3))
			case 7:
				send.Reset()
				open = 0
			}
			require.LessOrEqual(t, send.Len(), send.Depth())
			require.LessOrEqual(t, comp.Len(), comp.Cap())
			require.LessOrEqual(t, poller.Len(), comp.Cap())
		}
		checkGuard(t, sall)
		checkGuard(t, rall)
		checkGuard(t, call)
	})
}

// TestLenWhileStaging counts the completions of a queue while the producer stages more, as Peek of a client does. Those
// that are not published do not count.
func TestLenWhileStaging(t *testing.T) {
	t.Parallel()
	s := shape(CompletionShape(15))
	b := alignedBytes(ControlSize + s.Bytes())
	server := NewSharedCompletion(b, s, noFree)
	user, ok := OpenCompletion(b, s)
	require.True(t, ok)
	require.True(t, server.Stage(&ci.WC{}))
	require.Zero(t, server.Len())
	server.Publish()
	require.Equal(t, 1, server.Len())
	require.Equal(t, 1, user.Get(make([]ci.WC, 1)))
	var end atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		for !end.Load() {
			if n := server.Len(); n < 0 || n > server.Cap() {
				t.Errorf("%d of %d", n, server.Cap())
				return
			}
		}
	})
	wc := make([]ci.WC, 1)
	produceConsume(t, func(id uint64) bool { return server.Put(&ci.WC{ID: id}) }, func(id uint64) bool {
		return user.Get(wc) == 1 && wc[0].ID == id
	})
	end.Store(true)
	wait.Wait()
}
