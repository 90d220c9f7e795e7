package accesslayer_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// diary records callbacks in one list.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.lines
	d.lines = nil
	return out
}

// listener records all callbacks in d under a name.
func (d *diary) listener(name string) accesslayer.PnPConfig {
	return accesslayer.PnPConfig{
		Add: func(a *accesslayer.Adapter) (any, error) {
			d.write("%s add %x", name, a.GUID()&0xff)
			return name,
				nil
		},
		Remove: func(a *accesslayer.Adapter, data any) { d.write("%v remove %x", data, a.GUID()&0xff) },
		Port: func(a *accesslayer.Adapter, data any, e accesslayer.PortEvent) {
			d.write("%v %d %v", data, e.Port, e.Type)
		},
		Sync: true,
	}
}

func fakeWith(guid ci.GUID, ports int) *fakeHCA {
	h := newFake(ports)
	h.setGUID(guid)
	return h
}

// Callbacks run from the first registration to the last for ports that come up, and from the last to the first for
// those that go down, with ports grouped by HCA. A late registration gets all of them.
func TestPnPOrder(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	var d diary
	a, b := must(al.Open(accesslayer.ClientConfig{})), must(al.Open(accesslayer.ClientConfig{}))
	must(a.RegisterPnP(d.listener("a")))
	require.NoError(t, al.Register(fakeWith(1, 1)))
	require.NoError(t, al.WaitPnP(t.Context()))
	assert.Equal(t, []string{"a add 1", "a 1 add", "a 1 down"}, d.take())

	late := must(b.RegisterPnP(d.listener("b")))
	assert.Equal(t, []string{"b add 1", "b 1 add", "b 1 down"}, d.take(), "what is present is replayed before "+
		"RegisterPnP returns")

	require.NoError(t, al.Register(fakeWith(2, 1)))
	require.NoError(t, al.WaitPnP(t.Context()))
	assert.Equal(t, []string{"a add 2", "b add 2", "a 1 add", "b 1 add", "b 1 down", "a 1 down"}, d.take())

	require.NoError(t, al.Deregister(1))
	assert.Equal(t, []string{"b 1 remove", "a 1 remove", "b remove 1", "a remove 1"}, d.take())

	require.NoError(t, late.Destroy())
	assert.Equal(t, []string{"b 1 remove", "b remove 2"}, d.take(), "the end of a registration removes the adapters "+
		"that it accepted")
	require.NoError(t, a.Close())
	assert.Equal(t, []string{"a 1 remove", "a remove 2"}, d.take(), "so does a client's")
	require.NoError(t, al.Deregister(2))
	assert.Empty(t, d.take(), "nothing arrives afterwards")
}

// An HCA that is removed before clients were notified of it is reported as added and removed: a client may have opened
// it without waiting for Add, and the access layer destroys what it has.
func TestPnPRemovedBeforeNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al := newAL(t)
		gate := make(chan struct{})
		first, second := must(al.Open(accesslayer.ClientConfig{})), must(al.Open(accesslayer.ClientConfig{}))
		must(first.RegisterPnP(accesslayer.PnPConfig{Add: func(*accesslayer.Adapter) (any, error) {
			<-gate
			return nil, nil
		}}))
		var d diary
		var removed []ci.GUID
		must(second.RegisterPnP(d.listener("b")))
		must(second.RegisterPnP(accesslayer.PnPConfig{Remove: func(a *accesslayer.Adapter, _ any) {
			removed = append(removed, a.GUID())
		}}))
		require.NoError(t, al.Register(fakeWith(2, 1)))
		synctest.Wait() // the first client's Add for it blocks
		require.NoError(t, al.Register(fakeWith(1, 1)))
		gone := make(chan error, 1)
		go func() { gone <- al.Deregister(1) }()
		synctest.Wait()
		assert.Empty(t, d.take())
		close(gate)
		require.NoError(t, <-gone)
		require.NoError(t, al.WaitPnP(t.Context()))
		assert.Equal(t, []string{"b add 2", "b 1 add", "b 1 down", "b add 1", "b 1 add", "b 1 down", "b 1 remove",
			"b remove 1"}, d.take())
		assert.Equal(t, []ci.GUID{1}, removed)
	})
}

// A client that rejects an HCA gets no more callbacks for it, and other clients do. A client without Add accepts every
// HCA.
func TestPnPRefusal(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	var d diary
	c := must(al.Open(accesslayer.ClientConfig{Name: "picky"}))
	picky := d.listener("picky")
	picky.Add = func(a *accesslayer.Adapter) (any, error) {
		if a.GUID() == 1 {
			return nil, errors.New("not this one")
		}
		return "picky", nil
	}
	must(c.RegisterPnP(picky))
	must(c.RegisterPnP(accesslayer.PnPConfig{Remove: func(a *accesslayer.Adapter,
		data any) {
		d.write("other remove %x %v", a.GUID(), data)
	}}))
	h := fakeWith(1, 1)
	require.NoError(t, al.Register(h))
	require.NoError(t, al.Register(fakeWith(2, 1)))
	require.NoError(t, al.WaitPnP(t.Context()))
	require.NoError(t, al.Deregister(1))
	require.NoError(t, al.Deregister(2))
	assert.Equal(t, []string{"picky 1 add", "picky 1 down", "other remove 1 <nil>", "picky 1 remove",
		"other remove 2 <nil>", "picky remove 2"}, d.take())
	_, err := c.RegisterPnP(accesslayer.PnPConfig{})
	assert.ErrorIs(t, err, ci.InvalidParameter)
}

// Callbacks may register, deregister asynchronously, open, create and destroy. The order for other clients does not
// change.
func TestPnPReentrancy(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	c := must(al.Open(accesslayer.ClientConfig{}))
	var d diary
	var self *accesslayer.PnP
	second := fakeWith(2, 1)
	ended := make(chan struct{})
	cfg := d.listener("self")
	cfg.Add = func(a *accesslayer.Adapter) (any, error) {
		d.write("add %x", a.GUID())
		ca, err := c.OpenCA(a.GUID(), nil)
		if err != nil {
			return nil, err
		}
		must(ca.NewPD(ci.PDNormal))
		if a.GUID() == 1 {
			assert.NoError(t, al.Register(second), "a callback registers another HCA")
		} else {
			must(c.RegisterPnP(accesslayer.PnPConfig{Add: func(a *accesslayer.Adapter) (any,
				error) {
				d.write("inner add %x", a.GUID())
				return nil, nil
			}}))
		}
		return ca, nil
	}
	cfg.Port = nil
	cfg.Remove = func(a *accesslayer.Adapter, data any) {
		d.write("remove %x", a.GUID())
		assert.NoError(t, data.(*accesslayer.CA).Destroy(), "a synchronous destroy of one's own objects works here")
		if a.GUID() == 1 {
			assert.NoError(t, self.DestroyAsync(func(error) { close(ended) }))
		}
	}
	cfg.Sync = false
	self = must(c.RegisterPnP(cfg))
	require.NoError(t, al.Register(fakeWith(1, 1)))
	require.NoError(t, al.WaitPnP(t.Context())) // Add of the first, which registers the second
	require.NoError(t, al.WaitPnP(t.Context())) // Add of the second, which registers the inner one
	require.NoError(t, al.WaitPnP(t.Context())) // Add of the inner one
	assert.Equal(t, []string{"add 1", "add 2", "inner add 1", "inner add 2"}, d.take())
	require.NoError(t, al.Deregister(1))
	wait(t, ended, "the end of the registration")
	assert.Equal(t, []string{"remove 1", "remove 2"}, d.take())
}

// Registrations begin and end while HCAs are registered and removed. Each Add that returned nil has one Remove, and no
// callback runs after Destroy.
func TestPnPConcurrently(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 25 {
				if al.Register(fakeWith(ci.GUID(i+1), 1)) == nil {
					assert.NoError(t, al.Deregister(ci.GUID(i+1)))
				}
			}
		})
		wg.Go(func() {
			c := must(al.Open(accesslayer.ClientConfig{}))
			for range 25 {
				present, closed := map[ci.GUID]bool{},
					false // without a lock, so that the race detector checks the order
				p := must(c.RegisterPnP(accesslayer.PnPConfig{
					Add: func(a *accesslayer.Adapter) (any, error) {
						assert.False(t, closed)
						assert.False(t, present[a.GUID()])
						present[a.GUID()] = true
						return nil, nil
					},
					Remove: func(a *accesslayer.Adapter, _ any) {
						assert.True(t, present[a.GUID()])
						delete(present, a.GUID())
					},
					Sync: i%2 == 0,
				}))
				assert.NoError(t, p.Destroy())
				assert.Empty(t, present)
				closed = true
			}
			assert.NoError(t, c.Close())
		})
	}
	wg.Wait()
}

// Each pair of states, with the events in between that clients rely on.
func TestPortStates(t *testing.T) {
	t.Parallel()
	tests := map[[2]ci.PortState][]string{
		{ci.PortDown, ci.PortInit}:          {"init"},
		{ci.PortDown, ci.PortArmed}:         {"init", "armed"},
		{ci.PortDown, ci.PortActive}:        {"init", "armed", "active"},
		{ci.PortInit, ci.PortActive}:        {"armed", "active"},
		{ci.PortArmed, ci.PortActive}:       {"active"},
		{ci.PortActive, ci.PortDown}:        {"down"},
		{ci.PortActive, ci.PortInit}:        {"down", "init"},
		{ci.PortActive, ci.PortArmed}:       {"down", "init", "armed"},
		{ci.PortArmed, ci.PortInit}:         {"down", "init"},
		{ci.PortInit, ci.PortDown}:          {"down"},
		{ci.PortActive, ci.PortActiveDefer}: nil,
		{ci.PortActiveDefer, ci.PortDown}:   {"down"},
		{ci.PortDown, 0}:                    nil,
	}
	for s, want := range tests {
		t.Run(fmt.Sprintf("%v to %v", s[0], s[1]), func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, want, portDiary(t, func(p *ci.PortAttr) { p.State = s[0] },
				func(p *ci.PortAttr) { p.State = s[1] }))
		})
	}
}

// portDiary returns the events after a change that the driver reports.
func portDiary(t *testing.T, before, after func(*ci.PortAttr)) (events []string) {
	h := newFake(1)
	h.setPort(1, before)
	al := newAL(t)
	require.NoError(t, al.Register(h))
	c := must(al.Open(accesslayer.ClientConfig{}))
	must(c.RegisterPnP(accesslayer.PnPConfig{Sync: true, Port: func(_ *accesslayer.Adapter, _ any,
		e accesslayer.PortEvent) {
		if e.Type != accesslayer.PortRemove {
			events = append(events, e.Type.String())
		}
	}}))
	events = nil
	h.setPort(1, after)
	seen := make(chan struct{})
	must(must(c.OpenCA(fakeGUID, nil)).NewEventHandler(func(ci.Event) { close(seen) }, nil))
	h.open.fire(ci.EventPortActive, 1)
	wait(t, seen, "the event")
	require.NoError(t, al.WaitPnP(t.Context()))
	return events
}

func TestPortChanges(t *testing.T) {
	t.Parallel()
	active := func(p *ci.PortAttr) { p.State = ci.PortActive }
	tests := map[string]struct {
		before, after func(*ci.PortAttr)
		want          []string
	}{
		"LID":            {active, func(p *ci.PortAttr) { p.LID = 5 }, []string{"LID change"}},
		"LMC":            {active, func(p *ci.PortAttr) { p.LMC = 2 }, []string{"LID change"}},
		"SM LID":         {active, func(p *ci.PortAttr) { p.SMLID = 5 }, []string{"SM change"}},
		"SM SL":          {active, func(p *ci.PortAttr) { p.SMSL = 5 }, []string{"SM change"}},
		"subnet timeout": {active, func(p *ci.PortAttr) { p.SubnetTimeout = 18 }, []string{"subnet timeout change"}},
		"P_Keys":         {active, func(p *ci.PortAttr) { p.PKeys = []ci.PKey{0x8001} }, []string{"P_Key change"}},
		"GIDs":           {active, func(p *ci.PortAttr) { p.GIDs = nil }, []string{"GID change"}},
		"tables in Init": {func(p *ci.PortAttr) { p.State = ci.PortInit }, func(p *ci.PortAttr) {
			p.PKeys,
				p.GIDs = nil, nil
		}, nil},
		"tables while coming up": {func(p *ci.PortAttr) { p.State = ci.PortInit }, func(p *ci.PortAttr) {
			p.PKeys,
				p.GIDs, p.State = nil, nil, ci.PortActive
		},
			[]string{"armed", "active"}},
		"down before, up after": {active, func(p *ci.PortAttr) { p.LID, p.State = 9, ci.PortArmed },
			[]string{"down", "LID change", "init", "armed"}},
		"counters": {active, func(p *ci.PortAttr) { p.PKeyErrors++ }, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, portDiary(t, tt.before, tt.after))
		})
	}
}

// A client that follows the events of a port knows its state, and never misses Down.
func TestPortEventsTellTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1})
		h := newFake(1)
		require.NoError(rt, al.Register(h))
		c := must(al.Open(accesslayer.ClientConfig{}))
		ca := must(c.OpenCA(fakeGUID, nil))
		state := accesslayer.PortEventType(0)
		var lid ci.LID
		must(c.RegisterPnP(accesslayer.PnPConfig{Sync: true, Port: func(_ *accesslayer.Adapter, _ any,
			e accesslayer.PortEvent) {
			switch e.Type {
			case accesslayer.PortInit:
				require.Equal(rt, accesslayer.PortDown, state)
			case accesslayer.PortArmed:
				require.Equal(rt, accesslayer.PortInit, state)
			case accesslayer.PortActive:
				require.Equal(rt, accesslayer.PortArmed, state)
				require.Equal(rt, e.Attr.LID, lid, "the LID event comes before Active")
			case accesslayer.PortDown, accesslayer.PortAdd, accesslayer.PortRemove:
			case accesslayer.PortLID:
				lid = e.Attr.LID
				return
			default:
				return
			}
			state = e.Type
		}}))
		at := map[accesslayer.PortEventType]ci.PortState{accesslayer.PortDown: ci.PortDown,
			accesslayer.PortInit: ci.PortInit, accesslayer.PortArmed: ci.PortArmed,
			accesslayer.PortActive: ci.PortActive}
		for range rapid.IntRange(1, 10).Draw(rt, "steps") {
			s := rapid.SampledFrom([]ci.PortState{ci.PortDown, ci.PortInit, ci.PortArmed, ci.PortActive}).Draw(rt,
				"state")
			l := ci.LID(rapid.IntRange(1, 3).Draw(rt, "LID"))
			h.setPort(1, func(p *ci.PortAttr) { p.State, p.LID = s, l })
			require.NoError(rt, ca.Modify(1, 0, ci.PortModify{})) // a local Set triggers a refresh
			settle(rt, ca)
			require.NoError(rt, al.WaitPnP(t.Context()))
			require.Equal(rt, s, at[state])
			require.Equal(rt, l, lid)
		}
		require.NoError(rt, al.Close())
	})
}

// settle waits until the adapter has handled the events that were posted before.
func settle(t require.TestingT, ca *accesslayer.CA) {
	seen := make(chan struct{})
	h := must(ca.NewEventHandler(func(ci.Event) { close(seen) }, nil))
	drv, _ := ci.As[*fakeCA](ca)
	drv.fire(ci.EventLocalFatal, 0)
	wait(t, seen, "an event")
	_ = h.Destroy()
}

// Polling finds changes that a driver does not report. The cache is updated before clients are notified.
func TestPolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newFake(1)
		al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: time.Second})
		require.NoError(t, al.Register(h))
		c := must(al.Open(accesslayer.ClientConfig{}))
		var got []ci.LID
		must(c.RegisterPnP(accesslayer.PnPConfig{Sync: true, Port: func(a *accesslayer.Adapter, _ any,
			e accesslayer.PortEvent) {
			if e.Type == accesslayer.PortLID {
				got = append(got, must(a.Port(1)).LID)
			}
		}}))
		for lid := range ci.LID(3) {
			h.setPort(1, func(p *ci.PortAttr) { p.LID = lid + 1 })
			time.Sleep(time.Second)
			synctest.Wait()
		}
		assert.Equal(t, []ci.LID{1, 2, 3}, got)
		before := h.queries
		h.plan("CA.Query", ci.Timeout)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Greater(t, h.queries, before, "polling continues after a failed query")
		require.NoError(t, al.Close())
		before = h.queries
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, before, h.queries, "no poll after the end")
		assert.Empty(t, h.violationList())
	})
}

// No client is notified of an event while the cache is being refreshed for it.
func TestCacheIsFreshBeforeEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newFake(1)
		al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1})
		require.NoError(t, al.Register(h))
		c := must(al.Open(accesslayer.ClientConfig{}))
		var notified atomic.Int32 // written by two kinds of goroutines
		must(c.OpenCA(fakeGUID, func(*accesslayer.CA, ci.Event) { notified.Add(1) }))
		must(c.RegisterPnP(accesslayer.PnPConfig{Sync: true, Port: func(_ *accesslayer.Adapter, _ any,
			e accesslayer.PortEvent) {
			if e.Type == accesslayer.PortReregister || e.Type == accesslayer.PortLID {
				notified.Add(1)
			}
		}}))
		queried, gate := 0, make(chan struct{})
		h.onQuery = func() { queried++; <-gate }
		h.setPort(1, func(p *ci.PortAttr) { p.LID = 4 })
		h.open.fire(ci.EventReregister, 1)
		synctest.Wait() // all notifications that can happen have happened
		assert.Equal(t, 1, queried)
		assert.Zero(t, notified.Load())
		close(gate)
		synctest.Wait()
		assert.EqualValues(t, 3, notified.Load(), "the event, the LID, the reregistration")
		h.onQuery = nil
		require.NoError(t, al.Close())
	})
}

// A destroy that the driver refuses is repeated after a pause that doubles each time.
func TestDestroyBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newFake(1)
		al := accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1,
			DestroyBackoff: 10 * time.Millisecond})
		require.NoError(t, al.Register(h))
		pd := must(must(must(al.Open(accesslayer.ClientConfig{})).OpenCA(fakeGUID, nil)).NewPD(ci.PDNormal))
		h.plan("destroy PD", ci.Timeout, ci.Timeout, ci.Timeout)
		start := time.Now()
		require.NoError(t, pd.Destroy())
		assert.Equal(t, 70*time.Millisecond, time.Since(start))
		require.NoError(t, al.Close())
	})
}

func TestCacheLookups(t *testing.T) {
	t.Parallel()
	h := newFake(2)
	h.setPort(2, func(p *ci.PortAttr) { p.PKeys = []ci.PKey{0, 0x7fff, 0x0001, 0x8001, 0xffff} })
	al := newAL(t)
	require.NoError(t, al.Register(h))
	a := must(al.Adapter(fakeGUID))
	for _, tt := range []struct {
		port  uint8
		pkey  ci.PKey
		index uint16
		entry ci.PKey
		err   error
	}{
		{1, 0xffff, 0, 0xffff, nil},
		{2, 0x7fff, 4, 0xffff, nil}, // the entry of the full member is preferred for any argument
		{2, 0x8001, 3, 0x8001, nil},
		{1, 0x0001, 0, 0, ci.NotFound},
		{2, 0x8000, 0, 0, ci.NotFound}, // partition 0 does not exist: it marks free entries
		{3, 0xffff, 0, 0, ci.InvalidPort},
		{0, 0xffff, 0, 0, ci.InvalidPort},
	} {
		index, entry, err := a.FindPKey(tt.port, tt.pkey)
		assert.ErrorIs(t, err, tt.err)
		assert.Equal(t, [2]any{tt.index, tt.entry}, [2]any{index, entry}, "port %d, %04x", tt.port, tt.pkey)
	}
	limited := newFake(1)
	limited.setGUID(5)
	limited.setPort(1, func(p *ci.PortAttr) { p.PKeys = []ci.PKey{0x0002, 0x0002}; p.GIDs = nil; p.GUID = 77 })
	require.NoError(t, al.Register(limited))
	index, entry, err := must(al.Adapter(5)).FindPKey(1, 0x8002)
	require.NoError(t, err)
	assert.Equal(t, [2]any{uint16(0), ci.PKey(2)}, [2]any{index, entry}, "else the first limited entry")

	got, port, err := al.AdapterByGID(ci.GID{15: 2})
	require.NoError(t, err)
	assert.Equal(t, [2]any{a, uint8(2)}, [2]any{got, port})
	_, index, err = a.FindGID(ci.GID{15: 1})
	require.NoError(t, err)
	assert.Zero(t, index)
	got, port, err = al.AdapterByPort(77)
	require.NoError(t, err)
	assert.Equal(t, [2]any{ci.GUID(5), uint8(1)}, [2]any{got.GUID(), port})
	_, _, err = al.AdapterByGID(ci.GID{9})
	assert.ErrorIs(t, err, ci.NotFound)
	_, _, err = al.AdapterByPort(1)
	assert.ErrorIs(t, err, ci.NotFound)
	_, _, err = a.FindGID(ci.GID{9})
	assert.ErrorIs(t, err, ci.NotFound)
	_, err = al.Adapter(99)
	assert.ErrorIs(t, err, ci.NotFound)
	assert.Len(t, al.Adapters(), 2)
}

// An event reaches every open and every handler of the CA, each with its own context, after the cache was updated.
func TestCAEvents(t *testing.T) {
	t.Parallel()
	h, al, _, _ := setup(t)
	c := must(al.Open(accesslayer.ClientConfig{}))
	got := make(chan string, 3)
	lid := func() ci.LID { return must(must(al.Adapter(fakeGUID)).Port(1)).LID }
	ca := must(c.OpenCA(fakeGUID, func(ca *accesslayer.CA, e ci.Event) {
		got <- fmt.Sprintln("open", e.Type, e.Port,
			lid(), e.Context)
	}))
	handler := must(ca.CI().OnEvent(func(e ci.Event) {
		got <- fmt.Sprintln("handler", e.Type, e.Port, lid(),
			e.Context)
	}, "mine"))
	asHCA := must(c.HCA(fakeGUID))
	must(asHCA.OpenCA(fakeGUID, func(e ci.Event) { got <- fmt.Sprintln("hca", e.Type, e.Port, lid(), e.Context) },
		"ctx"))
	h.setPort(1, func(p *ci.PortAttr) { p.LID = 42 })
	h.open.fire(ci.EventLIDChange, 1)
	all := []string{<-got, <-got, <-got}
	assert.ElementsMatch(t, []string{"open LID change 1 42 <nil>\n", "handler LID change 1 42 mine\n",
		"hca LID change 1 42 ctx\n"}, all)
	require.NoError(t, handler.Destroy())
	_, err := ca.CI().OnEvent(nil, nil)
	assert.ErrorIs(t, err, ci.InvalidParameter)
}

// Code that uses package ci only can drive an HCA through a client's view. The view checks GUIDs as a driver does.
func TestClientHCA(t *testing.T) {
	t.Parallel()
	h, _, c, _ := setup(t)
	hca := must(c.HCA(fakeGUID))
	assert.Equal(t, fakeGUID, hca.Info().GUID)
	_, err := hca.OpenCA(0, func(ci.Event) {}, nil)
	assert.ErrorIs(t, err, ci.InvalidParameter)
	_, err = hca.OpenCA(fakeGUID, nil, nil)
	assert.ErrorIs(t, err, ci.InvalidParameter)
	_, err = hca.OpenCA(1, func(ci.Event) {}, nil)
	assert.ErrorIs(t, err, ci.NotFound)
	_, err = c.HCA(1)
	assert.ErrorIs(t, err, ci.NotFound)
	ca := must(hca.OpenCA(fakeGUID, func(ci.Event) {}, nil))
	pd := must(ca.AllocatePD(ci.PDNormal))
	cq := must(pd.CreateCQ(ci.CQCreate{Size: 1}))
	qp := must(pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}))
	require.NoError(t, qp.Destroy())
	require.ErrorIs(t, qp.Destroy(), ci.InvalidQPHandle)
	require.NoError(t, ca.Destroy())
	assert.Empty(t, h.liveObjects())
}
