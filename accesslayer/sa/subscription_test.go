package sa_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/mads/madsmock"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

// notice returns a generic notice about a GID.
func notice(trap uint16, gid byte) mad.NoticeRecord {
	n := mad.NoticeRecord{Notice: mad.Notice{Generic: true, Type: mad.NoticeInfo, Producer: mad.ProducerManager,
		Trap: trap, IssuerLID: 5}, IssuerGID: [16]byte{1}}
	d := mad.TrapGID{GID: [16]byte{15: gid}}
	d.Put(n.Notice.Details[:])
	return n
}

// report passes a report to the agent that the client registered for them.
func (s *service) report(tid uint64, from ci.LID, n *mad.NoticeRecord) {
	q := mad.SA{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetAdmin, ClassVersion: 2, Method: mad.Report,
		TID: tid, Attribute: mad.AttrNotice}}
	n.Put(q.Data[:])
	b := make([]byte, mad.Size)
	q.Put(b)
	s.receiver()(&mads.Received{From: mads.Address{AV: ci.AVAttr{DLID: from}, QPN: 1}, MAD: b})
}

// receiver returns the newest function for reports.
func (s *service) receiver() (f func(*mads.Received)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.configs {
		if c.OnReceive != nil {
			f = c.OnReceive
		}
	}
	return f
}

// managerLID returns the LID of the port's subnet manager.
func managerLID(t *testing.T, al *accesslayer.AL, port mads.Port) ci.LID {
	t.Helper()
	a, err := al.Adapter(port.CA)
	require.NoError(t, err)
	p, err := a.Port(port.Num)
	require.NoError(t, err)
	return p.SMLID
}

// Reports of the administrator are answered, and go once to each subscription that matches.
func TestSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al, ib, _ := world(t)
		a := newAdministrator()
		s := &service{answer: a.answer, timesOut: true}
		c := sa.New(al, s, sa.Config{})
		sm := managerLID(t, al, ib)
		var in, all []mad.NoticeRecord
		x, err := c.NewSubscription(t.Context(), ib, sa.SubscriptionConfig{Trap: mad.TrapGIDInService,
			OnNotice: func(n *mad.NoticeRecord) { in = append(in, *n) }})
		require.NoError(t, err)
		y, err := c.NewSubscription(t.Context(), ib, sa.SubscriptionConfig{Trap: mad.InformAllTraps,
			OnNotice: func(n *mad.NoticeRecord) { all = append(all, *n) }})
		require.NoError(t, err)
		n64, n65 := notice(64, 1), notice(65, 2)
		s.report(1, sm, &n64)
		s.report(2, sm, &n65)
		s.report(2, sm, &n65)   // again
		s.report(2, sm, &n64)   // another one with the same transaction
		s.report(3, 0x77, &n64) // from another port
		synctest.Wait()
		assert.Equal(t, []mad.NoticeRecord{n64, n64}, in)
		assert.Equal(t, []mad.NoticeRecord{n64, n65, n64}, all)
		require.Len(t, s.oneWay, 4, "repeated ones are answered, too")
		var q mad.SA
		require.NoError(t, mad.ParseSA(s.oneWay[0].MAD, &q))
		assert.Equal(t, mad.ReportResp, q.Method)
		assert.EqualValues(t, 1, q.TID)
		assert.Equal(t, sa.NoticeCounters{Delivered: 5, Repeated: 1, Unexpected: 1}, c.Notices())

		// A manager that has restarted begins its transactions again.
		c.PortEvent(ib, accesslayer.PortReregister)
		synctest.Wait()
		s.report(1, sm, &n64)
		synctest.Wait()
		assert.Len(t, in, 3)

		a.taken()
		require.NoError(t, x.Destroy())
		assert.Equal(t, []string{"-InformInfo"}, a.taken())
		s.report(9, sm, &n64)
		synctest.Wait()
		assert.Len(t, in, 3)
		assert.Len(t, all, 5)
		require.NoError(t, y.Destroy())
		for i, cfg := range s.configs {
			if cfg.OnReceive != nil {
				<-s.agents[i].closed // the agent for reports ends with the last subscription
			}
		}
		require.NoError(t, c.Close())
	})
}

// A subscription that does not take its notices loses some of them, and others do not.
func TestSlowSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al, ib, _ := world(t)
		a := newAdministrator()
		s := &service{answer: a.answer}
		c := sa.New(al, s, sa.Config{})
		sm := managerLID(t, al, ib)
		release, fast := make(chan struct{}), 0
		_, err := c.NewSubscription(t.Context(), ib, sa.SubscriptionConfig{Trap: mad.TrapGIDInService,
			OnNotice: func(*mad.NoticeRecord) { <-release }})
		require.NoError(t, err)
		_, err = c.NewSubscription(t.Context(), ib, sa.SubscriptionConfig{Trap: mad.InformAllTraps,
			OnNotice: func(*mad.NoticeRecord) { fast++ }})
		require.NoError(t, err)
		n := notice(64, 1)
		for i := range uint64(1000) {
			s.report(i+1, sm, &n)
			synctest.Wait()
		}
		assert.Equal(t, 1000, fast)
		assert.EqualValues(t, 1000-257, c.Notices().Dropped, "one runs and 256 wait")
		close(release)
		require.NoError(t, c.Close())
		synctest.Wait()
	})
}

// Which notices a subscription matches.
func TestMatches(t *testing.T) {
	all := mad.InformInfo{LIDBegin: mad.InformAllLIDs, Generic: 1, Type: mad.InformAllTypes, Trap: mad.InformAllTraps,
		Producer: mad.InformAllProducers}
	for name, tt := range map[string]struct {
		change func(*mad.InformInfo)
		want   bool
	}{
		"all":               {func(*mad.InformInfo) {}, true},
		"vendor":            {func(i *mad.InformInfo) { i.Generic = 0 }, false},
		"type":              {func(i *mad.InformInfo) { i.Type = uint16(mad.NoticeInfo) }, true},
		"another type":      {func(i *mad.InformInfo) { i.Type = uint16(mad.NoticeUrgent) }, false},
		"trap":              {func(i *mad.InformInfo) { i.Trap = 64 }, true},
		"another trap":      {func(i *mad.InformInfo) { i.Trap = 65 }, false},
		"producer":          {func(i *mad.InformInfo) { i.Producer = mad.ProducerManager }, true},
		"another producer":  {func(i *mad.InformInfo) { i.Producer = mad.ProducerSwitch }, false},
		"GID":               {func(i *mad.InformInfo) { i.GID = [16]byte{1} }, true},
		"another GID":       {func(i *mad.InformInfo) { i.GID = [16]byte{2} }, false},
		"LID":               {func(i *mad.InformInfo) { i.LIDBegin = 5 }, true},
		"LIDs":              {func(i *mad.InformInfo) { i.LIDBegin, i.LIDEnd = 4, 6 }, true},
		"LIDs before":       {func(i *mad.InformInfo) { i.LIDBegin, i.LIDEnd = 1, 4 }, false},
		"LIDs after":        {func(i *mad.InformInfo) { i.LIDBegin, i.LIDEnd = 6, 9 }, false},
		"GID, and no LID 5": {func(i *mad.InformInfo) { i.GID, i.LIDBegin = [16]byte{1}, 6 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				al, ib, _ := world(t)
				s := &service{answer: newAdministrator().answer}
				c := sa.New(al, s, sa.Config{})
				inform := all
				tt.change(&inform)
				got := 0
				_, err := c.NewSubscription(t.Context(), ib, sa.SubscriptionConfig{Inform: &inform,
					OnNotice: func(*mad.NoticeRecord) { got++ }})
				require.NoError(t, err)
				n := notice(64, 1)
				s.report(1, managerLID(t, al, ib), &n)
				synctest.Wait()
				assert.Equal(t, tt.want, got == 1)
				assert.Equal(t, !tt.want, c.Notices().Unmatched == 1)
				require.NoError(t, c.Close())
				synctest.Wait()
			})
		})
	}
}

// Subscriptions need the reports of the port, which one client can have.
func TestSubscriptionErrors(t *testing.T) {
	al, ib, ethernet := world(t)
	ctl := gomock.NewController(t)
	busy := &ci.Error{Status: ci.ResourceBusy}
	svc := madsmock.NewMockService(ctl)
	svc.EXPECT().Register(gomock.Any()).Return(nil, busy)
	c := sa.New(al, svc, sa.Config{})
	cfg := sa.SubscriptionConfig{OnNotice: func(*mad.NoticeRecord) {}}
	_, err := c.NewSubscription(t.Context(), ib, cfg)
	require.ErrorIs(t, err, ci.ResourceBusy)
	_, err = c.NewSubscription(t.Context(), ib, sa.SubscriptionConfig{})
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.ErrorIs(t, c.StartSubscription(t.Context(), ib, cfg, nil), ci.InvalidParameter)
	agent := madsmock.NewMockAgent(ctl)
	svc.EXPECT().Register(gomock.Any()).Return(agent, nil)
	agent.EXPECT().Close().Return(nil)
	_, err = c.NewSubscription(t.Context(), ethernet, cfg)
	require.ErrorIs(t, err, ci.InvalidPort)
	require.NoError(t, c.Close())
	_, err = c.NewSubscription(t.Context(), ib, cfg)
	require.ErrorIs(t, err, sa.ErrClosed)
}

// After its HCA was removed and added again, a port subscribes with a new agent.
func TestSubscriptionOfNewPort(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, s *service) {
		_, err := c.NewSubscription(t.Context(), port, sa.SubscriptionConfig{Trap: 64,
			OnNotice: func(*mad.NoticeRecord) {}})
		require.NoError(t, err)
		_, before := s.last()
		c.PortEvent(port, accesslayer.PortRemove)
		c.PortEvent(port, accesslayer.PortActive)
		synctest.Wait()
		_, after := s.last()
		assert.Equal(t, before+1, after)
		assert.True(t, a.has("InformInfo"))
	})
}

// FuzzReport passes datagrams of any bytes, from any sender, to the receiver of reports.
func FuzzReport(f *testing.F) {
	n := notice(64, 1)
	q := mad.SA{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetAdmin, ClassVersion: 2, Method: mad.Report,
		Attribute: mad.AttrNotice}}
	n.Put(q.Data[:])
	b := make([]byte, mad.Size)
	q.Put(b)
	f.Add(b, uint16(1), uint32(1))
	f.Add(b[:30], uint16(1), uint32(1))
	f.Add(b, uint16(9), uint32(7))
	f.Fuzz(func(t *testing.T, b []byte, lid uint16, qpn uint32) {
		al, ib, _ := world(t)
		s := &service{answer: newAdministrator().answer}
		c := sa.New(al, s, sa.Config{})
		got := make(chan mad.NoticeRecord, 1)
		x, err := c.NewSubscription(t.Context(), ib, sa.SubscriptionConfig{Trap: mad.InformAllTraps,
			OnNotice: func(n *mad.NoticeRecord) { got <- *n }})
		require.NoError(t, err)
		s.receiver()(&mads.Received{From: mads.Address{AV: ci.AVAttr{DLID: ci.LID(lid)}, QPN: ci.QPN(qpn)}, MAD: b})
		count := c.Notices()
		assert.EqualValues(t, 1, count.Delivered+count.Unmatched+count.Unexpected)
		if count.Delivered == 1 {
			select {
			case <-got:
			case <-time.After(testenv.Patience):
				t.Fatal("no notice")
			}
			assert.Equal(t, managerLID(t, al, ib), ci.LID(lid))
			assert.EqualValues(t, 1, qpn)
		}
		require.NoError(t, errors.Join(x.Destroy(), c.Close()))
	})
}
