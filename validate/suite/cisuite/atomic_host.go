package cisuite

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// An adapter that loads a word, changes it and stores it loses what the processor does to the word in between, which is a few nanoseconds. Where the
// system has a trap for stores, the processor comes in between each time (trapped). For adapters that the trap does not hold, such as those
// that reach memory by themselves, the processor is at the word all the time, until so many operations of the adapter came between two
// neighbouring ones of the processor (encounters).
const (
	traps       = 48
	encounters  = 2000
	meetingTime = 6 * time.Second
)

// trapped has the processor's side run between the adapter's load and its store, or around an operation that has no such parts. atomic posts the
// adapter's operation and sees it done; host is the processor's. It reports whether stores of the adapter were held.
func trapped(t *validate.T, p *kit.Pair, host func(word []byte), atomic func(word []byte, to ci.Remote)) bool {
	held := 0
	var trap *kit.Trap
	trap, err := kit.NewTrap(func() { held++; host(trap.Host) })
	if err != nil {
		t.Logf("no trap for stores: %v", err)
		return false
	}
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(trap.Bytes), Access: p.B.Config.BufAccess})
	t.Cleanup(func() {
		if err := trap.Close(); err != nil {
			t.Note("closing the trap for stores: %v", err)
		}
	})
	if err != nil {
		t.Logf("the trap's memory cannot be registered: %v", err)
		return false
	}
	kit.Own(t, mr, "MR of the trap")
	for range traps {
		if err := trap.Set(); err != nil {
			t.Logf("setting the trap for stores: %v", err)
			return false
		}
		atomic(trap.Host, mr.Region().Remote(0))
	}
	t.Logf("stores held: %d of %d", held, traps)
	return held > 0
}

// meeting is a word that a processor and an adapter work on at the same time.
type meeting struct {
	t     *validate.T
	pairs []*kit.Pair // their atomics are for the word
	word  []byte
	close atomic.Uint64 // encounters so far
	stop  atomic.Bool
	ended chan struct{}
	began time.Time
	held  bool   // a trap has held stores of the adapter before
	lost  string // what the processor has lost; set before ended is closed
}

// meet starts the processor's side: host is called over and over, and says what was lost, if anything.
func meet(t *validate.T, first *kit.Pair, held bool, host func(m *meeting) string) *meeting {
	m := &meeting{t: t, pairs: []*kit.Pair{first}, word: first.B.Buf.Bytes[:8], ended: make(chan struct{}), held: held, began: time.Now()}
	for len(m.pairs) < 4 {
		m.pairs = append(m.pairs, first.More(false))
	}
	t.Go(func() {
		defer close(m.ended)
		for m.lost == "" && !m.stop.Load() {
			m.lost = host(m)
		}
	})
	t.Cleanup(func() { m.stop.Store(true) })
	return m
}

// until calls round until there were encounters enough, or the processor has seen a loss, or the time is over, and ends the processor's side. If the
// two hardly met, and no trap has held the adapter, the case ends without a judgement.
func (m *meeting) until(round func()) {
	for !m.over() {
		round()
	}
	m.stop.Store(true)
	<-m.ended
	n := m.close.Load()
	m.t.Logf("encounters: %d", n)
	if m.lost != "" {
		m.t.Failf("a word that an adapter and this processor work on", "no update is lost", "%s", m.lost)
	}
	if !m.held && n < encounters/10 {
		m.t.Inconclusive("the adapter and the processor met %d times at one word, %d are needed: the machine is too busy", n, encounters/10)
	}
}

func (m *meeting) over() bool {
	select {
	case <-m.ended:
		return true
	default:
		limit := meetingTime
		if m.held {
			limit /= 12
		}
		return m.close.Load() >= encounters || time.Since(m.began) > limit || m.t.Remaining() < time.Second
	}
}

// at is an atomic of pair i for the word.
func (m *meeting) at(i int, op ci.SendOp, off int, compare, swap uint64) ci.SendWR {
	w := atomicOp(m.pairs[i], op, 1, off, 0, compare, swap)
	w.Remote = m.pairs[0].B.Buf.Remote(0)
	return w
}

// addsWithHost has the adapter add to the upper bits of a word and the processor to the lower ones. An addition of the processor that is
// lost shows in the value that its next one returns.
func addsWithHost(t *validate.T) {
	const upper = 40 // bits below are the processor's
	p := kit.RC(t, kit.Depth(16), kit.Reads(16, 16), kit.Size(4096))
	var added, done uint64
	var mu sync.Mutex
	held := trapped(t, p, func(word []byte) {
		mu.Lock()
		defer mu.Unlock()
		kit.AddWord(word, 1)
		added++
	}, func(word []byte, to ci.Remote) {
		w := atomicOp(p, ci.OpFetchAdd, 1, 64, 0, 1<<upper, 0)
		w.Remote = to
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		settle(p)
		done++
		mu.Lock()
		defer mu.Unlock()
		kit.Equal(t, "word with additions of the adapter above and, while it stored, of the processor below", fmt.Sprintf("%#x", kit.LoadWord(word)),
			fmt.Sprintf("%#x", done<<upper+added))
	})
	var host, adapter uint64
	m := meet(t, p, held, func(m *meeting) string {
		for range 64 {
			v := kit.AddWord(m.word, 1)
			host++
			if low := v & (1<<upper - 1); low != host {
				return fmt.Sprintf("addition %d of the processor left %d in its bits of the word", host, low)
			}
			if up := v >> upper; up != adapter { // an addition of the adapter came between the last two of the processor
				if up == adapter+1 {
					m.close.Add(1)
				}
				adapter = up
			}
		}
		return ""
	})
	total := uint64(0)
	m.until(func() {
		const each = 16
		for i, p := range m.pairs {
			var wrs []ci.SendWR
			for k := range each {
				wrs = append(wrs, m.at(i, ci.OpFetchAdd, 64+8*k, 1<<upper, 0))
			}
			p.A.Send(wrs...)
		}
		for _, p := range m.pairs {
			for _, wc := range p.A.CQ.Wait(each) {
				kit.Equal(t, "completion of an atomic", wc.Status, ci.WCSuccess)
			}
			total += each
		}
	})
	settle(m.pairs[0])
	v := kit.LoadWord(m.word)
	kit.Equal(t, "additions of the adapter in the word", v>>upper, total)
	kit.Equal(t, "additions of the processor in the word", v&(1<<upper-1), host)
}

// swapsWithHost has both take and release a lock. If the adapter takes it while the processor has it, the processor cannot release it.
func swapsWithHost(t *validate.T) {
	const free, hosts, adapters = 0, 1, 2
	p := kit.RC(t, kit.Depth(16), kit.Reads(16, 16), kit.Size(4096))
	var mu sync.Mutex
	came := false // the processor has taken the lock while the adapter stored
	trap := trapped(t, p, func(word []byte) {
		mu.Lock()
		defer mu.Unlock()
		came = kit.SwapWord(word, free, hosts)
	}, func(word []byte, to ci.Remote) {
		w := atomicOp(p, ci.OpCompareSwap, 1, 64, 0, free, adapters)
		w.Remote = to
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		settle(p)
		mu.Lock()
		defer mu.Unlock()
		old, now := uint64(free), uint64(adapters)
		if came {
			old, now = hosts, hosts
		}
		kit.Equal(t, "old value of a swap, during which the processor has swapped or not", wordAt(p.A.Buf, 64), old)
		kit.Equal(t, "word after it", kit.LoadWord(word), now)
		came = false
		kit.StoreWord(word, free)
	})
	var held atomic.Uint64 // times that the processor had the lock
	m := meet(t, p, trap, func(m *meeting) string {
		for range 64 {
			if !kit.SwapWord(m.word, free, hosts) {
				continue
			}
			held.Add(1)
			if !kit.SwapWord(m.word, hosts, free) {
				return fmt.Sprintf("the word was %d when the processor released a lock that it had taken, as %d, for the %dth time", kit.LoadWord(m.word), hosts, held.Load())
			}
		}
		return ""
	})
	seen := uint64(0)
	m.until(func() {
		for i, p := range m.pairs {
			p.A.Send(m.at(i, ci.OpCompareSwap, 64, free, adapters))
		}
		taken := 0
		for i, p := range m.pairs {
			p.A.CQ.WaitOK(1)
			switch old := wordAt(p.A.Buf, 64); old {
			case free:
				taken++
			case hosts: // the processor was between its two operations
				if now := held.Load(); now != seen {
					seen = now
					m.close.Add(1)
				}
			default:
				kit.Equal(t, fmt.Sprintf("old value that QP %d got", i+1), old, adapters)
			}
		}
		kit.True(t, taken <= 1, "QPs that took the lock before it was released", "one at most", "%d", taken)
		if taken == 1 {
			kit.StoreWord(m.word, free)
		}
	})
}
