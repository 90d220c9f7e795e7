package sa_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

// administrator is a model of the subnet administrator. It holds what was registered.
type administrator struct {
	mu     sync.Mutex
	held   map[string]int // how often each record was registered
	log    []string
	status uint16 // of responses
	mute   bool   // no responses; requests are executed
}

func newAdministrator() *administrator { return &administrator{held: map[string]int{}} }

// answer changes a request to the response.
func (a *administrator) answer(q *mad.SA) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := mad.AttributeName(mad.ClassSubnetAdmin, q.Attribute)
	method := q.Method &^ mad.ResponseMask
	isEnd := method == mad.Delete
	if q.Attribute == mad.AttrInformInfo {
		var i mad.InformInfo
		i.Parse(q.Data[:])
		isEnd = i.Subscribe == 0
	}
	a.log = append(a.log, map[bool]string{true: "-", false: "+"}[isEnd]+name)
	switch {
	case a.status != 0:
		q.Status = a.status
	case isEnd:
		delete(a.held, name)
	default:
		a.held[name]++
	}
	if q.Attribute == mad.AttrMCMemberRecord {
		var r mad.MCMemberRecord
		r.Parse(q.Data[:])
		r.MLID = 0xc000 + uint16(len(a.log))
		r.Put(q.Data[:])
	}
	if a.mute {
		q.Class = 0
	}
}

// set changes how requests are answered.
func (a *administrator) set(status uint16, mute bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.mute = status, mute
}

// restart loses all registrations.
func (a *administrator) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.held)
}

// taken returns the log and empties it.
func (a *administrator) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.log
	a.log = nil
	return log
}

func (a *administrator) has(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[name] > 0
}

const second = time.Second

// inBubble runs a test in virtual time with a client of an administrator.
func inBubble(t *testing.T, f func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, s *service)) {
	synctest.Test(t, func(t *testing.T) {
		al, ib, _ := world(t)
		a := newAdministrator()
		s := &service{answer: a.answer, timesOut: true}
		c := sa.New(al, s, sa.Config{Timeout: second, Retries: 3})
		f(t, c, ib, a, s)
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		synctest.Wait()
	})
}

var group = sa.MembershipConfig{Record: mad.MCMemberRecord{MGID: [16]byte{0xff}}}

// A membership is joined again after events after which the administrator may have lost it. Failures are reported once,
// and repeated ever less often.
func TestMembershipIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
		type change struct {
			group *mad.MCMemberRecord
			err   error
		}
		var changes []change
		cfg := group
		cfg.OnChange = func(g *mad.MCMemberRecord, err error) { changes = append(changes, change{g, err}) }
		m, err := c.NewMembership(t.Context(), port, cfg)
		require.NoError(t, err)
		assert.EqualValues(t, 0xc001, m.Group().MLID)
		assert.Equal(t, port, m.Port())
		assert.NotZero(t, m.Group().PortGID, "the port's own")
		assert.Equal(t, []string{"+MCMemberRecord"}, a.taken())
		for _, e := range []accesslayer.PortEventType{accesslayer.PortReregister, accesslayer.PortSM,
			accesslayer.PortLID, accesslayer.PortGID, accesslayer.PortActive} {
			changes = nil
			a.restart()
			c.PortEvent(port, e)
			synctest.Wait()
			assert.True(t, a.has("MCMemberRecord"), "%v", e)
			require.Len(t, changes, 1)
			assert.Equal(t, m.Group(), changes[0].group)
		}
		for _, e := range []accesslayer.PortEventType{accesslayer.PortDown, accesslayer.PortInit,
			accesslayer.PortPKey, accesslayer.PortSubnetTimeout} {
			c.PortEvent(port, e)
		}
		c.PortEvent(mads.Port{CA: port.CA, Num: 2}, accesslayer.PortReregister)
		synctest.Wait()
		assert.Len(t, a.taken(), 5, "other events have no effect")

		changes = nil
		a.set(mad.StatusSANoResources, false)
		c.PortEvent(port, accesslayer.PortReregister)
		time.Sleep(16 * second) // attempts at 0, 1, 3, 7 and 15 s
		synctest.Wait()
		assert.Len(t, a.taken(), 5)
		require.Len(t, changes, 1)
		var refused *sa.StatusError
		require.ErrorAs(t, changes[0].err, &refused)
		a.set(0, false)
		time.Sleep(20 * second)
		synctest.Wait()
		require.Len(t, changes, 2)
		require.NoError(t, changes[1].err)
		a.taken()
		require.NoError(t, m.Destroy())
		assert.Equal(t, []string{"-MCMemberRecord"}, a.taken())
		require.ErrorIs(t, m.Destroy(), sa.ErrClosed)
		require.ErrorIs(t, m.DestroyAsync(nil), sa.ErrClosed)
		assert.Zero(t, c.Watchers())
		time.Sleep(time.Hour)
		assert.Empty(t, a.taken())
	})
}

// Two memberships that are one for the administrator end with the last of them.
func TestMembershipsShare(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
		x, err := c.NewMembership(t.Context(), port, group)
		require.NoError(t, err)
		y, err := c.NewMembership(t.Context(), port, group)
		require.NoError(t, err)
		a.taken()
		require.NoError(t, x.Destroy())
		assert.Empty(t, a.taken())
		ended := make(chan error, 1)
		require.NoError(t, y.DestroyAsync(func(err error) { ended <- err }))
		require.NoError(t, <-ended)
		assert.Equal(t, []string{"-MCMemberRecord"}, a.taken())
	})
}

// Equal memberships are joined by one request, also again after an event. Others with the same key send their own.
func TestMembershipsJoinOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
		var list [3]*sa.Membership
		joined := make(chan error, len(list))
		for i := range list {
			require.NoError(t, c.StartMembership(t.Context(), port, group, func(m *sa.Membership, err error) {
				list[i] = m
				joined <- err
			}))
		}
		for range list {
			require.NoError(t, <-joined)
		}
		assert.Equal(t, []string{"+MCMemberRecord"}, a.taken())
		for _, m := range list {
			assert.EqualValues(t, 0xc001, m.Group().MLID)
		}
		c.PortEvent(port, accesslayer.PortReregister)
		synctest.Wait()
		assert.Equal(t, []string{"+MCMemberRecord"}, a.taken())
		other := group
		other.Record.QKey, other.Mask = 5, mad.MCQKey
		x, err := c.NewMembership(t.Context(), port, other)
		require.NoError(t, err)
		assert.Equal(t, []string{"+MCMemberRecord"}, a.taken())
		for _, m := range list {
			require.NoError(t, m.Destroy())
		}
		assert.Empty(t, a.taken())
		require.NoError(t, x.Destroy())
		assert.Equal(t, []string{"-MCMemberRecord"}, a.taken())
	})
}

// A request that ends a membership, and is sent again since its response is lost, comes before the next join.
func TestLeaveBeforeJoin(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
		x, err := c.NewMembership(t.Context(), port, group)
		require.NoError(t, err)
		a.taken()
		a.set(0, true)
		require.NoError(t, x.DestroyAsync(nil))
		joined := make(chan error, 1)
		var y *sa.Membership
		require.NoError(t, c.StartMembership(t.Context(), port, group, func(m *sa.Membership, err error) {
			y = m
			joined <- err
		}))
		time.Sleep(second / 2)
		a.set(0, false)
		assert.Equal(t, []string{"-MCMemberRecord"}, a.taken())
		require.NoError(t, <-joined)
		assert.Equal(t, []string{"+MCMemberRecord"}, a.taken())
		assert.True(t, a.has("MCMemberRecord"))
		require.NoError(t, y.Destroy())
	})
}

// A membership that ends since another one is wanted is ended by that one if it is given up before it has joined.
func TestMembershipHandedOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
		x, err := c.NewMembership(t.Context(), port, group)
		require.NoError(t, err)
		a.set(0, true)
		c.PortEvent(port, accesslayer.PortReregister) // x has the turn
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		require.NoError(t, c.StartMembership(ctx, port, group, func(_ *sa.Membership, err error) { ended <- err }))
		synctest.Wait()
		require.NoError(t, x.DestroyAsync(nil))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		a.set(0, false)
		time.Sleep(time.Minute)
		assert.False(t, a.has("MCMemberRecord"))
		assert.Zero(t, c.Watchers())
		assert.Zero(t, c.Shares())
	})
}

// A creation that fails leaves nothing behind.
func TestCreationFails(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
		a.set(mad.StatusSANoResources, false)
		m, err := c.NewMembership(t.Context(), port, group)
		var refused *sa.StatusError
		require.ErrorAs(t, err, &refused)
		assert.Nil(t, m)
		synctest.Wait()
		assert.Equal(t, []string{"+MCMemberRecord"}, a.taken(), "there is nothing to end")
		assert.Zero(t, c.Watchers())

		// The request was executed, and the response has not arrived when the context ends.
		// Later requests are answered.
		a.set(0, true)
		time.AfterFunc(second/4, func() { a.set(0, false) })
		ctx, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		_, err = c.NewMembership(ctx, port, group)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Equal(t, []string{"+MCMemberRecord", "-MCMemberRecord"}, a.taken())
		assert.False(t, a.has("MCMemberRecord"))
		assert.Zero(t, c.Watchers())

		_, err = c.NewMembership(ctx, port, group)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, c.StartMembership(t.Context(), port, group, nil), ci.InvalidParameter)
		_, err = c.NewMembership(t.Context(), mads.Port{CA: 1, Num: 1}, group)
		require.ErrorIs(t, err, ci.InvalidPort)
		require.NoError(t, c.Close())
		_, err = c.NewMembership(t.Context(), port, group)
		require.ErrorIs(t, err, sa.ErrClosed)
	})
}

// Close ends memberships with a request whose response it does not wait for, and creations with ErrClosed.
func TestCloseEndsRegistrations(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, s *service) {
		m, err := c.NewMembership(t.Context(), port, group)
		require.NoError(t, err)
		a.set(0, true)
		created := make(chan error, 1)
		require.NoError(t, c.StartService(t.Context(), port, sa.ServiceConfig{}, func(x *sa.Service, err error) {
			assert.Nil(t, x)
			created <- err
		}))
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-created, sa.ErrClosed)
		require.ErrorIs(t, m.Destroy(), sa.ErrClosed)
		require.Len(t, s.oneWay, 2)
		var methods []mad.Method
		for _, sent := range s.oneWay {
			var q mad.SA
			require.NoError(t, mad.ParseSA(sent.MAD, &q))
			methods = append(methods, q.Method)
		}
		assert.Equal(t, []mad.Method{mad.Delete, mad.Delete}, methods)
	})
}

// Destroy from a callback deadlocks, DestroyAsync does not.
func TestDestroyAsyncInCallback(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
		ended := make(chan error, 1)
		var m *sa.Membership
		cfg := group
		cfg.OnChange = func(*mad.MCMemberRecord, error) {
			assert.NoError(t, m.DestroyAsync(func(err error) { ended <- err }))
		}
		m, err := c.NewMembership(t.Context(), port, cfg)
		require.NoError(t, err)
		c.PortEvent(port, accesslayer.PortReregister)
		require.NoError(t, <-ended)
		assert.False(t, a.has("MCMemberRecord"))
	})
}

// A lease is renewed when half of it is over.
func TestServiceLease(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, s *service) {
		x, err := c.NewService(t.Context(), port, sa.ServiceConfig{Lease: 10 * second,
			Record: mad.ServiceRecord{ServiceID: 7, Key: [16]byte{1}}})
		require.NoError(t, err)
		time.Sleep(26 * second)
		assert.Len(t, a.taken(), 6)
		require.NoError(t, x.Destroy())
		assert.Equal(t, []string{"-ServiceRecord"}, a.taken())
		var q mad.SA
		require.NoError(t, mad.ParseSA(s.sent[0].MAD, &q))
		assert.Equal(t, mad.ComponentMask(0x1fffffffff)&^(1<<3), q.ComponentMask)
		var rec mad.ServiceRecord
		rec.Parse(q.Data[:])
		assert.EqualValues(t, 10, rec.Lease)
		assert.EqualValues(t, 0xffff, rec.PKey)

		x, err = c.NewService(t.Context(), port, sa.ServiceConfig{})
		require.NoError(t, err)
		time.Sleep(1000 * time.Hour)
		assert.Len(t, a.taken(), 1, "a service without a lease is not renewed")
		require.NoError(t, x.Destroy())
		for _, lease := range []time.Duration{second, -second, 137 * 366 * 24 * time.Hour} {
			_, err = c.NewService(t.Context(), port, sa.ServiceConfig{Lease: lease})
			require.ErrorIs(t, err, ci.InvalidParameter)
		}
	})
}

// Whatever happens, the administrator has a registration when it has answered for long enough, and does not have it
// after Destroy.
func TestRegistrationProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"restart", "mute", "refuse", "answer", "wait", "event"}), 0,
			20).Draw(rt, "steps")
		waits := rapid.SliceOfN(rapid.IntRange(0, 5000), len(steps), len(steps)).Draw(rt, "waits")
		isMute := rapid.Bool().Draw(rt, "mute at the end")
		inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, _ *service) {
			m, err := c.NewMembership(t.Context(), port, group)
			require.NoError(t, err)
			for i, step := range steps {
				switch step {
				case "restart":
					a.restart()
					c.PortEvent(port, accesslayer.PortReregister)
				case "mute":
					a.set(0, true)
				case "refuse":
					a.set(mad.StatusSANoResources, false)
				case "answer":
					a.set(0, false)
				case "wait":
					time.Sleep(time.Duration(waits[i]) * time.Millisecond)
				case "event":
					c.PortEvent(port, accesslayer.PortSM)
				}
			}
			if !isMute {
				a.set(0, false)
				c.PortEvent(port, accesslayer.PortActive)
				time.Sleep(time.Hour)
				assert.True(t, a.has("MCMemberRecord"))
			}
			a.set(0, false)
			require.NoError(t, m.Destroy())
			assert.False(t, a.has("MCMemberRecord"))
			assert.Zero(t, c.Watchers())
		})
	})
}
