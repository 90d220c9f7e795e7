package mlx4_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// complete polls until n sends have succeeded.
func (o *single) complete(t testing.TB, n int) {
	var wc [8]ci.WC
	for deadline := time.Now().Add(time.Minute); n > 0; {
		k, err := o.send.Poll(wc[:])
		if err != nil || k == 0 && time.Now().After(deadline) {
			require.Fail(t, "no completion", "%v", err)
		}
		for _, c := range wc[:k] {
			if c.Status != ci.WCSuccess {
				require.Equal(t, ci.WCSuccess, c.Status)
			}
		}
		if n -= k; k == 0 {
			runtime.Gosched()
		}
	}
}

// write returns a request that writes data to the second half of the region.
func (o *single) write(data []byte) ci.SendWR {
	r := o.mr.Region()
	return ci.SendWR{Op: ci.OpWrite, Flags: ci.SendSignaled, Inline: data,
		Remote: ci.Remote{Addr: r.Addr + 2048, RKey: r.RKey}}
}

// TestBlueFlame checks which requests are written to BlueFlame, and that the data of all arrive.
func TestBlueFlame(t *testing.T) {
	o := newSingle(t, true)
	long := make([]byte, 400)
	for i, x := range []struct {
		name    string
		inline  []byte
		count   int
		isHeld  bool
		isFlame bool
	}{
		{"short", []byte("one"), 1, false, true},
		{"short again, the other buffer", []byte("two"), 1, false, true},
		{"two requests", []byte("three"), 2, false, false},
		{"another goroutine uses the register", []byte("four"), 1, true, false},
		{"longer than a buffer", append(long, "end"...), 1, false, false},
		{"after a doorbell", []byte("five"), 1, false, true},
		{"no inline data", nil, 1, false, false},
	} {
		clear(o.b)
		copy(o.b, fmt.Sprint("sge ", i))
		wr := o.write(x.inline)
		want := x.inline
		if want == nil {
			wr.SGL, want = o.sge(), o.b[:8]
		}
		wrs := []ci.SendWR{wr, wr}[:x.count]
		before := o.h.NextFlame()
		release := func() {}
		if x.isHeld {
			release = o.h.HoldFlames()
		}
		n, err := o.qp.PostSend(wrs)
		release()
		require.NoError(t, err, x.name)
		require.Equal(t, x.count, n)
		o.complete(t, n)
		assert.Equal(t, x.isFlame, o.h.NextFlame() != before, x.name)
		assert.Equal(t, string(want), string(o.b[2048:2048+len(want)]), x.name)
	}
	o.close(t)
}

// TestNoAllocation posts, polls and arms. The driver does not allocate; the model, which runs in the same process, may.
func TestNoAllocation(t *testing.T) {
	o := newSingle(t, true)
	w, err := o.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
	require.NoError(t, err)
	plain := o.write(nil)
	plain.SGL = o.sge()
	inline := o.write([]byte("12345678"))
	send := ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: plain.SGL}
	one, batch, sends := []ci.SendWR{inline}, []ci.SendWR{plain, plain, inline}, []ci.SendWR{send}
	recvs := []ci.RecvWR{{SGL: plain.SGL}}
	var wc [4]ci.WC
	run := func() {
		post(t, o, one)
		post(t, o, batch)
		if _, err := o.qp.PostRecv(recvs); err != nil {
			require.NoError(t, err)
		}
		post(t, o, sends)
		if n, err := o.recv.Poll(wc[:]); n != 1 || err != nil {
			require.Fail(t, "receive", "%d, %v", n, err)
		}
		if _, err := o.qp.BindMW(1, ci.SendSignaled, ci.MWBind{MW: w, MR: o.mr, Key: w.Key(),
			Addr: o.mr.Region().Addr, Length: 8, Access: ci.RemoteRead}); err != nil {
			require.NoError(t, err)
		}
		o.complete(t, 1)
	}
	run() // what is allocated once
	const runs = 100
	require.NotEmpty(t, allocations(t, func() {
		_, err := o.c.Query()
		require.NoError(t, err)
	}), "a verb that allocates")
	found := allocations(t, func() {
		for range runs {
			run()
		}
	})
	for place, n := range found {
		assert.Less(t, n, int64(runs/10), place)
	}
	o.close(t, w)
}

// allocations returns how often the functions of the driver have allocated while f ran. Its packages are this one and
// those for queues and registers.
func allocations(t *testing.T, f func()) map[string]int64 {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	defer func() { runtime.MemProfileRate = rate }()
	before := profile(t)
	f()
	found := map[string]int64{}
	for place, n := range profile(t) {
		if n -= before[place]; n > 0 {
			found[place] = n
		}
	}
	return found
}

// profile returns the allocations of the driver's functions so far.
func profile(t *testing.T) map[string]int64 {
	runtime.GC() // publishes what was allocated before
	runtime.GC()
	n, _ := runtime.MemProfile(nil, true)
	records := make([]runtime.MemProfileRecord, n+100)
	n, ok := runtime.MemProfile(records, true)
	require.True(t, ok)
	found := map[string]int64{}
	for _, r := range records[:n] {
		for frames := runtime.CallersFrames(r.Stack()); ; {
			x, more := frames.Next()
			if !strings.HasPrefix(x.Function, "ciddk/") {
				if more {
					continue // the runtime or a library, on behalf of its caller
				}
				break
			}
			for _, own := range []string{"ciddk/hca/mlx4.", "ciddk/internal/mlx4/queue.", "ciddk/internal/mlx4/fw."} {
				if strings.HasPrefix(x.Function, own) {
					found[x.Function] += r.AllocObjects
				}
			}
			break
		}
	}
	return found
}

func post(t *testing.T, o *single, wrs []ci.SendWR) {
	n, err := o.qp.PostSend(wrs)
	if err != nil || n != len(wrs) {
		require.NoError(t, err)
	}
	o.complete(t, n)
}
