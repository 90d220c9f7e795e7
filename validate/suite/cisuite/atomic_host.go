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

// An adapter that loads a word, changes it and stores it loses a store of the processor between the two, which is a
// matter of nanoseconds. Where the system supports a trap for stores, the processor stores in that interval each time
// (trapped). The trap cannot hold an adapter that accesses memory by itself. For such adapters the processor changes
// the word continuously, until enough operations of the adapter were executed between two consecutive ones of the
// processor (encounters).
const (
	traps       = 48
	encounters  = 2000
	contendTime = 6 * time.Second
)

// trapped runs the processor's operation between the load and the store of the adapter, or around an operation that is
// not split. atomic posts the operation of the adapter and waits for it, and host is the operation of the processor. It
// reports whether stores of the adapter were held.
func trapped(t *validate.T, p *kit.Pair, host func(word []byte), atomic func(word []byte, to ci.Remote)) bool {
	held := 0
	var trap *kit.Trap
	trap, err := kit.NewTrap(func() { held++; host(trap.Host) })
	if err != nil {
		t.Logf("this system has no trap for stores: %v", err)
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

// contention is a word that the processor and an adapter change at the same time.
type contention struct {
	t              *validate.T
	pairs          []*kit.Pair // pairs whose atomics change the word
	word           []byte
	encounterCount atomic.Uint64 // number of encounters
	stop           atomic.Bool
	ended          chan struct{}
	began          time.Time
	held           bool   // a trap has held stores of the adapter before
	lost           string // description of an update that the processor has lost; set before ended is closed
}

// contend starts the processor's operations. host is called repeatedly and returns a description of a lost update, if
// any.
func contend(t *validate.T, first *kit.Pair, held bool, host func(c *contention) string) *contention {
	c := &contention{
		t:     t,
		pairs: []*kit.Pair{first},
		word:  first.B.Buf.Bytes[:8],
		ended: make(chan struct{}),
		held:  held,
		began: time.Now(),
	}
	for len(c.pairs) < 4 {
		c.pairs = append(c.pairs, first.More(false))
	}
	t.Go(func() {
		defer close(c.ended)
		for c.lost == "" && !c.stop.Load() {
			c.lost = host(c)
		}
	})
	t.Cleanup(func() { c.stop.Store(true) })
	return c
}

// until calls round until there were enough encounters, the processor has found a lost update, or the time is over.
// Then it stops the processor's operations. If there were too few encounters and no trap has held the adapter, the case
// is inconclusive.
func (c *contention) until(round func()) {
	for !c.over() {
		round()
	}
	c.stop.Store(true)
	<-c.ended
	n := c.encounterCount.Load()
	c.t.Logf("encounters: %d", n)
	if c.lost != "" {
		c.t.Failf("a word that an adapter and this processor change", "no lost update", "%s", c.lost)
	}
	if !c.held && n < encounters/10 {
		c.t.Inconclusive("the adapter and the processor changed the word at the same time only %d times, at least %d "+
			"are needed: the machine is too busy", n, encounters/10)
	}
}

func (c *contention) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		limit := contendTime
		if c.held {
			limit /= 12
		}
		return c.encounterCount.Load() >= encounters || time.Since(c.began) > limit || c.t.Remaining() < time.Second
	}
}

// at returns an atomic of pair i on the word.
func (c *contention) at(i int, op ci.SendOp, off int, compare, swap uint64) ci.SendWR {
	w := atomicOp(c.pairs[i], op, 1, off, 0, compare, swap)
	w.Remote = c.pairs[0].B.Buf.Remote(0)
	return w
}

// addsWithHost lets the adapter add to the upper bits of a word and the processor to the lower bits. A lost addition of
// the processor shows in the result of its next addition.
func addsWithHost(t *validate.T) {
	const upper = 40 // the processor uses the bits below
	p := kit.RC(t, kit.Depth(16), kit.ReadsUpTo(16), kit.Size(4096))
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
		kit.Equal(t, "word after additions of the adapter, with one of the processor during each store",
			fmt.Sprintf("%#x", kit.LoadWord(word)),
			fmt.Sprintf("%#x", done<<upper+added))
	})
	var host, adapter uint64
	c := contend(t, p, held, func(c *contention) string {
		for range 64 {
			v := kit.AddWord(c.word, 1)
			host++
			if low := v & (1<<upper - 1); low != host {
				return fmt.Sprintf("addition %d of the processor returned %d in the lower bits of the word", host, low)
			}
			// the adapter has added between the last two additions of the processor
			if up := v >> upper; up != adapter {
				if up == adapter+1 {
					c.encounterCount.Add(1)
				}
				adapter = up
			}
		}
		return ""
	})
	total := uint64(0)
	c.until(func() {
		const each = 16
		for i, p := range c.pairs {
			var wrs []ci.SendWR
			for k := range each {
				wrs = append(wrs, c.at(i, ci.OpFetchAdd, 64+8*k, 1<<upper, 0))
			}
			p.A.Send(wrs...)
		}
		for _, p := range c.pairs {
			for _, wc := range p.A.CQ.Wait(each) {
				kit.Equal(t, "completion of an atomic", wc.Status, ci.WCSuccess)
			}
			total += each
		}
	})
	settle(c.pairs[0])
	v := kit.LoadWord(c.word)
	kit.Equal(t, "additions of the adapter in the word", v>>upper, total)
	kit.Equal(t, "additions of the processor in the word", v&(1<<upper-1), host)
}

// swapsWithHost lets both take and release a lock. If the adapter takes the lock while the processor holds it, the
// processor cannot release it.
func swapsWithHost(t *validate.T) {
	const free, hosts, adapters = 0, 1, 2
	p := kit.RC(t, kit.Depth(16), kit.ReadsUpTo(16), kit.Size(4096))
	var mu sync.Mutex
	hostTook := false // whether the processor has taken the lock during the adapter's store
	trap := trapped(t, p, func(word []byte) {
		mu.Lock()
		defer mu.Unlock()
		hostTook = kit.SwapWord(word, free, hosts)
	}, func(word []byte, to ci.Remote) {
		w := atomicOp(p, ci.OpCompareSwap, 1, 64, 0, free, adapters)
		w.Remote = to
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		settle(p)
		mu.Lock()
		defer mu.Unlock()
		old, now := uint64(free), uint64(adapters)
		if hostTook {
			old, now = hosts, hosts
		}
		kit.Equal(t, "original value of a swap of the adapter", wordAt(p.A.Buf, 64), old)
		kit.Equal(t, "word after the swap of the adapter", kit.LoadWord(word), now)
		hostTook = false
		kit.StoreWord(word, free)
	})
	var held atomic.Uint64 // number of times that the processor took the lock
	c := contend(t, p, trap, func(c *contention) string {
		for range 64 {
			if !kit.SwapWord(c.word, free, hosts) {
				continue
			}
			held.Add(1)
			if !kit.SwapWord(c.word, hosts, free) {
				return fmt.Sprintf("the word was %d when the processor released the lock, not %d, at release %d",
					kit.LoadWord(c.word), hosts, held.Load())
			}
		}
		return ""
	})
	seen := uint64(0)
	c.until(func() {
		for i, p := range c.pairs {
			p.A.Send(c.at(i, ci.OpCompareSwap, 64, free, adapters))
		}
		taken := 0
		for i, p := range c.pairs {
			p.A.CQ.WaitOK(1)
			switch old := wordAt(p.A.Buf, 64); old {
			case free:
				taken++
			case hosts: // the processor held the lock
				if now := held.Load(); now != seen {
					seen = now
					c.encounterCount.Add(1)
				}
			default:
				kit.Equal(t, fmt.Sprintf("original value returned to QP %d", i+1), old, adapters)
			}
		}
		kit.True(t, taken <= 1, "QPs that took the lock before it was released", "at most one", "%d", taken)
		if taken == 1 {
			kit.StoreWord(c.word, free)
		}
	})
}
