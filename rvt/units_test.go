package rvt

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
)

func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab table[int]
		model := map[uint32]*int{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			num := rapid.Uint32Range(0, 60).Draw(t, "num") * 16 // few buckets, long chains
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				v := new(int)
				require.Equal(t, model[num] == nil, tab.put(num, v))
				if model[num] == nil {
					model[num] = v
				}
			case 1:
				require.False(t, tab.del(num, new(int)), "another's entry")
				require.Equal(t, model[num] != nil, tab.del(num, model[num]))
				delete(model, num)
			case 2:
				require.Same(t, model[num], tab.get(num))
			}
		}
		seen := map[*int]bool{}
		tab.all(func(v *int) { require.False(t, seen[v]); seen[v] = true })
		require.Len(t, seen, len(model))
		for num, v := range model {
			require.True(t, seen[v])
			require.Same(t, v, tab.get(num))
		}
		require.Equal(t, len(model), tab.n)
	})
}

// TestTableReaders looks entries up while others are put and removed.
func TestTableReaders(t *testing.T) {
	var tab table[uint32]
	fixed := uint32(7)
	require.True(t, tab.put(7, &fixed))
	var wg sync.WaitGroup
	for g := range uint32(2) {
		wg.Go(func() {
			for i := range uint32(3000) {
				v := 16 + i*32 + g*16
				tab.put(v, &v)
				if i%3 == 0 {
					tab.del(v, &v)
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for i := range uint32(20000) {
				if v := tab.get(7); v != &fixed {
					t.Error("an entry that no writer touches is missing")
					return
				}
				if v := tab.get(i); v != nil && *v != i {
					t.Error("wrong entry")
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestEventHandlers checks that each listener receives each event with its own context, and none after its removal.
func TestEventHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &wireLink{mtu: ci.MTU4096}
		h, err := New(Config{Info: ci.HCAInfo{GUID: 1}, Attr: ci.CAAttr{Caps: testCaps},
			Ports: []Port{l.port(), l.port()}, Rings: plainRings{}, Clock: newClock()})
		require.NoError(t, err)
		var got []ci.Event
		var mu sync.Mutex
		hear := func(e ci.Event) { mu.Lock(); got = append(got, e); mu.Unlock() }
		receiverOf(h, 0).PortEvent(ci.EventPortActive) // before there is a listener
		ca, err := h.OpenCA(1, hear, "open")
		require.NoError(t, err)
		_, err = h.OpenCA(1, hear, nil)
		require.ErrorIs(t, err, ci.ResourceBusy)
		o1, err := ca.OnEvent(hear, "one")
		require.NoError(t, err)
		o2, err := ca.OnEvent(hear, "two")
		require.NoError(t, err)
		receiverOf(h, 1).PortEvent(ci.EventLIDChange)
		synctest.Wait()
		require.ElementsMatch(t, []ci.Event{{Context: "open", Type: ci.EventLIDChange, Port: 2},
			{Context: "one", Type: ci.EventLIDChange, Port: 2},
			{Context: "two", Type: ci.EventLIDChange, Port: 2}}, got)
		require.NoError(t, o1.Destroy())
		require.ErrorIs(t, o1.Destroy(), ci.InvalidHandle)
		require.ErrorIs(t, ca.Destroy(), ci.ResourceBusy)
		require.ErrorIs(t, h.Close(), ci.ResourceBusy, "SAS-2.2-07")
		_, err = ca.Query()
		require.NoError(t, err)
		got = nil
		receiverOf(h, 0).PortEvent(ci.EventPortDown)
		synctest.Wait()
		require.Len(t, got, 2)
		require.NoError(t, o2.Destroy())
		require.NoError(t, ca.Destroy())
		require.ErrorIs(t, ca.Destroy(), ci.InvalidCAHandle)
		got = nil
		receiverOf(h, 0).PortEvent(ci.EventPortActive)
		synctest.Wait()
		require.Empty(t, got)
		ca, err = h.OpenCA(1, hear, nil)
		require.NoError(t, err)
		require.NoError(t, ca.Destroy())
		require.NoError(t, h.Close())
		require.NoError(t, h.Close())
		_, err = h.OpenCA(1, hear, nil)
		require.ErrorIs(t, err, ci.InvalidState)
	})
}

// TestQuarantine checks that a number is held back until its time, and released then.
func TestQuarantine(t *testing.T) {
	var q quarantine
	now := time.Duration(1)
	q.add(5, now, now+time.Second)
	require.True(t, q.holds(5, now))
	require.False(t, q.holds(6, now))
	now += time.Second
	require.False(t, q.holds(5, now))
	for i := range 1 << 12 { // expired entries are removed as the set grows
		q.add(ci.QPN(i+10), now, now+time.Millisecond)
		now += 10 * time.Microsecond
	}
	require.LessOrEqual(t, len(q.until), 1025+100)
}

// TestTimeWait checks that a destroyed QP's number is not reused before its time.
func TestTimeWait(t *testing.T) {
	l, c := &wireLink{mtu: ci.MTU4096}, newClock()
	a := newSide(t, l, 0xa, c, ci.RC, nil)
	next := ci.QPN(100)
	a.hca.rand = &source{r: readerFunc(func(p []byte) (int, error) {
		copy(p, []byte{0, byte(next >> 16), byte(next >> 8), byte(next)})
		next++
		return len(p), nil
	})}
	create := ci.QPCreate{SendCQ: a.cq, RecvCQ: a.cq}
	q, err := a.pd.CreateQP(create)
	require.NoError(t, err)
	require.EqualValues(t, 100, q.Num())
	q.TimeWait(time.Minute)
	require.NoError(t, q.Destroy())
	for _, want := range []ci.QPN{101, 100} {
		next = 100
		q, err := a.pd.CreateQP(create)
		require.NoError(t, err)
		require.Equal(t, want, q.Num())
		require.NoError(t, q.Destroy())
		c.Advance(time.Minute)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestSupportError(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	ether := l.port()
	ether.attr = func(a *ci.PortAttr) { a.Link = ci.LinkEthernet }
	good := Config{Info: ci.HCAInfo{GUID: 1}, Ports: []Port{l.port()}, Rings: plainRings{}}
	for _, tt := range []struct {
		want   string // "" for none
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"Config.Rings", func(c *Config) { c.Rings = nil }},
		{"1 to 254", func(c *Config) { c.Ports = nil }},
		{"1 to 254", func(c *Config) { c.Ports = slices.Repeat(c.Ports, 255) }},
		{"port 1 is nil", func(c *Config) { c.Ports = []Port{nil} }},
		{"Ops.LocalMAD", func(c *Config) { c.Attr.Caps = ci.CapLocalMAD }},
		{"Ops.VendorCall", func(c *Config) { c.Attr.Caps = ci.CapVendorCall }},
		{"Ops.SLForIP", func(c *Config) { c.Attr.Caps = ci.CapSLForIP }},
		{"no implementation", func(c *Config) { c.Attr.Caps = ci.CapRD }},
		{"need CapAV", func(c *Config) { c.Attr.Caps = ci.CapUD }},
		{"need CapAV", func(c *Config) { c.Attr.Caps = ci.CapSpecialQP }},
		{"GroupPort at Ethernet port 1", func(c *Config) { c.Ports = []Port{ether}; c.Attr.Caps = ci.CapMulticast }},
	} {
		c := good
		tt.change(&c)
		h, err := New(c)
		if tt.want == "" {
			require.NoError(t, err)
			require.NoError(t, h.Close())
			continue
		}
		var missing *SupportError
		require.ErrorAs(t, err, &missing, "%v", err)
		require.ErrorContains(t, err, tt.want)
	}
	c := good
	c.Info.GUID = 0
	_, err := New(c)
	require.ErrorIs(t, err, ci.InvalidGUID)
}

// TestLimits checks that unclaimed limits are 0, that claimed ones without a value get a default, and that given values
// stay.
func TestLimits(t *testing.T) {
	a := limits(Config{Info: ci.HCAInfo{GUID: 9, VendorID: 3}})
	require.EqualValues(t, 9, a.GUID)
	require.EqualValues(t, 3, a.VendorID)
	for _, v := range []int{a.MaxAVs, a.MaxSRQs, a.MaxSRQWRs, a.MaxSRQSGEs, a.MaxMWs, a.MaxFMRs, a.MaxMapsPerFMR,
		a.MaxFastRegPages, a.MaxMcastGroups, a.MaxMcastQPs,
		a.MaxQPsPerMcastGroup, a.MaxRDDs, a.MaxEECs, a.MaxRawIPv6QPs, a.MaxRawEtherQPs} {
		require.Zero(t, v)
	}
	for _, v := range []int{a.MaxPDs, a.MaxQPs, a.MaxWRs, a.MaxSGEs, a.MaxReadSGEs, a.MaxInline, a.MaxCQs, a.MaxCQEs,
		a.MaxMRs, a.MaxRespRes, a.MaxRespResPerQP,
		a.MaxInitDepthPerQP, a.Vectors} {
		require.Positive(t, v)
	}
	require.Contains(t, a.PageSizes, uint64(4096))
	a = limits(Config{Attr: ci.CAAttr{Caps: testCaps, MaxQPs: 5, MaxSRQs: 6, MaxRDDs: 7}})
	require.Equal(t, []int{5, 6, 0}, []int{a.MaxQPs, a.MaxSRQs, a.MaxRDDs})
	require.Positive(t, a.MaxMWs)
}

// TestObjectLimits creates objects up to a small limit: one more fails without leaving anything behind, and a destroyed
// one can be created again.
func TestObjectLimits(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	h, err := New(Config{Info: ci.HCAInfo{GUID: 1}, Ports: []Port{l.port()}, Rings: plainRings{}, Clock: newClock(),
		Attr: ci.CAAttr{Caps: testCaps, MaxPDs: 3, MaxQPs: 3, MaxCQs: 3, MaxSRQs: 3, MaxAVs: 3}})
	require.NoError(t, err)
	ca, err := h.OpenCA(1, func(ci.Event) {}, nil)
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 1})
	require.NoError(t, err)
	before := h.Live()
	for name, make := range map[string]func() (ci.Object, error){
		"PD":  func() (ci.Object, error) { return ca.AllocatePD(ci.PDNormal) },
		"CQ":  func() (ci.Object, error) { return pd.CreateCQ(ci.CQCreate{Size: 1}) },
		"QP":  func() (ci.Object, error) { return pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}) },
		"SRQ": func() (ci.Object, error) { return pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1}}) },
		"AV":  func() (ci.Object, error) { return pd.CreateAV(ci.AVAttr{Port: 1, DLID: 1}) },
	} {
		for range 3 {
			var all []ci.Object
			for {
				o, err := make()
				if err != nil {
					require.ErrorIs(t, err, ci.InsufficientResources, name)
					break
				}
				all = append(all, o)
			}
			require.Equal(t, 3, h.Live()[name])
			for _, o := range all {
				require.NoError(t, o.Destroy())
			}
			require.Equal(t, before, h.Live())
		}
	}
	require.NoError(t, cq.Destroy())
	require.NoError(t, pd.Destroy())
	require.NoError(t, ca.Destroy())
	require.NoError(t, h.Close())
}

func TestCounterNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range numCounters {
		n := c.String()
		require.NotEmpty(t, n)
		require.Equal(t, strings.ToLower(n), n)
		require.False(t, seen[n], n)
		seen[n] = true
	}
	require.Equal(t, "unknown counter", numCounters.String())
	var c counters
	c.add(DropBusy, 3)
	require.Len(t, c.snapshot(), int(numCounters))
	require.EqualValues(t, 3, c.snapshot()["drop_busy"])
	for k, n := range kindNames {
		require.NotEmpty(t, n, k)
	}
}

func TestCreateQPErrors(t *testing.T) {
	a, b := pair(t, &wireLink{}, ci.RC)
	good := ci.QPCreate{SendCQ: a.cq, RecvCQ: a.cq}
	for _, tt := range []struct {
		name   string
		change func(*ci.QPCreate)
		want   ci.Status
	}{
		{"no CQ", func(c *ci.QPCreate) { c.SendCQ = nil }, ci.InvalidCQHandle},
		{"no receive CQ", func(c *ci.QPCreate) { c.RecvCQ = nil }, ci.InvalidCQHandle},
		{"CQ of another HCA", func(c *ci.QPCreate) { c.RecvCQ = b.cq }, ci.InvalidCQHandle},
		{"RD", func(c *ci.QPCreate) { c.Type = ci.RD }, ci.Unsupported},
		{"QP1", func(c *ci.QPCreate) { c.Type = ci.QP1 }, ci.InvalidServiceType},
		{"unknown", func(c *ci.QPCreate) { c.Type = 99 }, ci.InvalidServiceType},
		{"send depth", func(c *ci.QPCreate) { c.SendDepth = 1 << 15 }, ci.InvalidMaxWRs},
		{"receive depth", func(c *ci.QPCreate) { c.RecvDepth = 1 << 15 }, ci.InvalidMaxWRs},
		{"negative depth", func(c *ci.QPCreate) { c.RecvDepth = -1 }, ci.InvalidMaxWRs},
		{"send SGEs", func(c *ci.QPCreate) { c.SendSGE = 33 }, ci.InvalidMaxSGE},
		{"receive SGEs", func(c *ci.QPCreate) { c.RecvSGE = 33 }, ci.InvalidMaxSGE},
		{"inline", func(c *ci.QPCreate) { c.MaxInline = 513 }, ci.InvalidSetting},
		{"flags", func(c *ci.QPCreate) { c.Flags = 1 << 7 }, ci.InvalidParameter},
	} {
		before := a.hca.Live()
		c := good
		tt.change(&c)
		q, err := a.pd.CreateQP(c)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.Nil(t, q)
		require.Equal(t, before, a.hca.Live())
		if tt.want == ci.InvalidSetting {
			var e *ci.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, 512, e.Most.MaxInline)
		}
	}
	require.ErrorIs(t, a.cq.Destroy(), ci.ResourceBusy)
	require.ErrorIs(t, a.ca.Destroy(), ci.ResourceBusy)
}
