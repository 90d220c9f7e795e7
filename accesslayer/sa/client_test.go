package sa_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service stands for the administrator. Its agents send the responses of answer.
type service struct {
	mads.Service                                       // nil, since a client calls only Register
	timesOut     bool                                  // requests without a response end
	answer       func(*mad.SA)                         // changes the request to the response; Class 0 means no response
	err          error                                 // of Register
	long         func(*mad.SA) (*mads.Received, error) // takes the place of answer, if not nil

	mu      sync.Mutex
	agents  []*agent
	configs []mads.AgentConfig
	sent    []mads.Message
	oneWay  []mads.Message // passed to Send
}

// reply sets answer while requests are pending.
func (s *service) reply(answer func(*mad.SA)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// last returns the newest agent and the number of agents.
func (s *service) last() (*agent, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[len(s.agents)-1], len(s.agents)
}

func (s *service) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &agent{s: s, closed: make(chan struct{})}
	a.end, a.cancel = context.WithCancel(context.Background())
	s.agents, s.configs = append(s.agents, a), append(s.configs, cfg)
	return a, nil
}

type agent struct {
	mads.Agent
	s      *service
	once   sync.Once
	closed chan struct{}
	end    context.Context
	cancel context.CancelFunc
}

func (a *agent) StartDo(ctx context.Context, m *mads.Message, done func(*mads.Received, error)) error {
	closed := &ci.Error{Status: ci.InvalidState, Err: accesslayer.ErrClosed}
	select {
	case <-a.closed:
		return closed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.s.mu.Lock()
	a.s.sent = append(a.s.sent, *m)
	a.s.mu.Unlock()
	var q mad.SA
	if err := mad.ParseSA(m.MAD, &q); err != nil {
		return err
	}
	q.Method |= mad.ResponseMask
	if a.s.long != nil {
		m, err := a.s.long(&q)
		go done(m, err)
		return nil
	}
	a.s.mu.Lock()
	answer := a.s.answer
	a.s.mu.Unlock()
	answer(&q)
	if q.Class == 0 {
		var once sync.Once
		end := func(err error) { once.Do(func() { go done(nil, err) }) }
		context.AfterFunc(ctx, func() { end(ctx.Err()) })
		context.AfterFunc(a.end, func() { end(closed) })
		if a.s.timesOut {
			time.AfterFunc(m.Timeout*time.Duration(m.Retries+1), func() { end(&ci.Error{Status: ci.Timeout}) })
		}
		return nil
	}
	b := make([]byte, mad.Size)
	q.Put(b)
	go done(&mads.Received{MAD: b}, nil)
	return nil
}

func (a *agent) Send(m *mads.Message) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.oneWay = append(a.s.oneWay, *m)
	return nil
}

func (a *agent) Close() error {
	a.once.Do(func() { close(a.closed); a.cancel() })
	return nil
}

// world is an access layer with two HCAs, one with an InfiniBand port and one with an Ethernet port.
func world(t *testing.T) (al *accesslayer.AL, ib, ethernet mads.Port) {
	al = accesslayer.New(accesslayer.Config{PollInterval: time.Hour})
	add := func(p rvt.Port) mads.Port {
		hca, err := reference.New(reference.Config{Ports: []rvt.Port{p}})
		require.NoError(t, err)
		require.NoError(t, al.Register(hca))
		t.Cleanup(func() { assert.NoError(t, errors.Join(al.Close(), hca.Close())) })
		return mads.Port{CA: hca.Info().GUID, Num: 1}
	}
	ib = add(testenv.Must(direct.New(direct.NewLink(), direct.Config{LID: 5})))
	net := sim.NewNetwork(sim.NetworkConfig{})
	return al, ib, add(testenv.Must(sim.New(net, sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})))
}

func TestPath(t *testing.T) {
	al, ib, _ := world(t)
	s := &service{answer: func(q *mad.SA) {
		var p mad.PathRecord
		p.Parse(q.Data[:])
		p.DLID = 9
		p.Put(q.Data[:])
	}}
	c := sa.New(al, s, sa.Config{Timeout: 3 * time.Second, Retries: 4})
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	p, err := c.Path(t.Context(), ib, sa.PathQuery{SGID: ci.GID{1}, DGID: ci.GID{2}, PKey: 0x8001, Service: 7,
		TrafficClass: 3})
	require.NoError(t, err)
	assert.EqualValues(t, 9, p.DLID)
	_, err = c.Path(t.Context(), ib, sa.PathQuery{SGID: ci.GID{1}, DGID: ci.GID{2}})
	require.NoError(t, err)

	require.Len(t, s.agents, 1, "one agent for a port")
	assert.Equal(t, mads.AgentConfig{Name: "SA client", Port: ib, Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin, RMPP: true}, s.configs[0])
	port, err := al.Adapters()[0].Port(1)
	require.NoError(t, err)
	m := s.sent[0]
	assert.Equal(t, mads.Address{AV: ci.AVAttr{Port: 1, DLID: port.SMLID, SL: ci.SL(port.SMSL)}, QPN: 1}, m.To)
	assert.Equal(t, 3*time.Second, m.Timeout)
	assert.Equal(t, 4, m.Retries)
	var q mad.SA
	require.NoError(t, mad.ParseSA(m.MAD, &q))
	assert.Equal(t, mad.Get, q.Method)
	assert.Equal(t, mad.AttrPathRecord, q.Attribute)
	const usual = mad.PathSGID | mad.PathDGID | mad.PathReversible | mad.PathNumbPath
	assert.Equal(t, usual|mad.PathPKey|mad.PathServiceID|mad.PathTrafficClass, q.ComponentMask)
	var rec mad.PathRecord
	rec.Parse(q.Data[:])
	assert.Equal(t, mad.PathRecord{SGID: ci.GID{1}, DGID: ci.GID{2}, PKey: 0x8001, ServiceID: 7, TrafficClass: 3,
		Reversible: true, NumbPath: 1}, rec)
	require.NoError(t, mad.ParseSA(s.sent[1].MAD, &q))
	assert.Equal(t, usual, q.ComponentMask)
}

func TestMembers(t *testing.T) {
	al, ib, _ := world(t)
	var requests []mad.SA
	s := &service{answer: func(q *mad.SA) {
		requests = append(requests, *q)
		var r mad.MCMemberRecord
		r.Parse(q.Data[:])
		r.MLID = 0xc001
		r.Put(q.Data[:])
	}}
	c := sa.New(al, s, sa.Config{})
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	r, err := c.Join(t.Context(), ib, mad.MCMemberRecord{MGID: ci.GID{0xff}, JoinState: mad.FullMember}, mad.MCMGID|
		mad.MCJoinState)
	require.NoError(t, err)
	assert.EqualValues(t, 0xc001, r.MLID)
	require.NoError(t, c.Leave(t.Context(), ib, mad.MCMemberRecord{MGID: ci.GID{0xff}, JoinState: mad.FullMember}))
	assert.Equal(t, mad.Set|mad.ResponseMask, requests[0].Method)
	assert.Equal(t, mad.MCMGID|mad.MCJoinState, requests[0].ComponentMask)
	assert.Equal(t, mad.DeleteResp, requests[1].Method)
	assert.Equal(t, mad.MCMGID|mad.MCPortGID|mad.MCJoinState, requests[1].ComponentMask)
}

// Requests without a response, and with a response that is an error or does not fit.
func TestErrors(t *testing.T) {
	al, ib, ethernet := world(t)
	s := &service{}
	c := sa.New(al, s, sa.Config{})
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	path := func(p mads.Port) error {
		_, err := c.Path(t.Context(), p, sa.PathQuery{})
		return err
	}
	s.answer = func(q *mad.SA) { q.Status = mad.StatusSANoRecords }
	e, ok := errors.AsType[*sa.StatusError](path(ib))
	require.True(t, ok)
	assert.Equal(t, sa.StatusError{Attribute: mad.AttrPathRecord, Status: mad.StatusSANoRecords}, *e)
	assert.Equal(t, "sa: PathRecord: SA: no records", e.Error())
	s.answer = func(q *mad.SA) { q.Attribute = mad.AttrNodeRecord }
	require.ErrorIs(t, path(ib), ci.ErrorStatus)
	s.answer = func(q *mad.SA) { q.ClassVersion++ }
	require.ErrorIs(t, path(ib), mad.ErrVersion)
	require.ErrorIs(t, path(ethernet), ci.InvalidPort)
	require.ErrorIs(t, path(mads.Port{CA: ib.CA, Num: 2}), ci.InvalidPort)
	require.ErrorIs(t, path(mads.Port{CA: 1, Num: 1}), ci.NotFound)
	require.Equal(t, ci.InvalidPort, ci.StatusOf(path(mads.Port{CA: 1, Num: 1})))

	hca, err := reference.New(reference.Config{Ports: []rvt.Port{
		testenv.Must(direct.New(direct.NewLink(), direct.Config{State: ci.PortInit}))}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, hca.Close()) })
	require.NoError(t, al.Register(hca))
	err = path(mads.Port{CA: hca.Info().GUID, Num: 1})
	require.ErrorIs(t, err, ci.InvalidPortState)
	assert.ErrorContains(t, err, "no subnet manager")
	require.NoError(t, al.Deregister(hca.Info().GUID))

	require.NoError(t, s.agents[0].Close()) // the port was removed and added again
	s.answer = func(*mad.SA) {}
	require.NoError(t, path(ib))
	require.Len(t, s.agents, 2)

	s.answer = func(q *mad.SA) { q.Class = 0 }
	got := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, err := c.Path(ctx, ib, sa.PathQuery{}); got <- err }()
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	sent := make(chan struct{})
	s.answer = func(q *mad.SA) { q.Class = 0; close(sent) }
	go func() { got <- path(ib) }()
	<-sent
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-got, sa.ErrClosed)
	require.ErrorIs(t, path(ib), sa.ErrClosed)
	require.NoError(t, c.Close())
	s.err = ci.ResourceBusy
	require.ErrorIs(t, func() error {
		_, err := sa.New(al, s, sa.Config{}).Path(t.Context(), ib, sa.PathQuery{})
		return err
	}(), ci.ResourceBusy)
}

// A request to a busy administrator is repeated a bounded number of times, after pauses that grow.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al, ib, _ := world(t)
		var at []time.Duration
		start := time.Now()
		busy := 3
		s := &service{answer: func(q *mad.SA) {
			at = append(at, time.Since(start))
			if busy--; busy >= 0 {
				q.Status = mad.StatusBusy
			}
		}}
		c := sa.New(al, s, sa.Config{Timeout: time.Second, Retries: 3})
		_, err := c.Path(t.Context(), ib, sa.PathQuery{})
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond}, at)
		busy = 100
		_, err = c.Path(t.Context(), ib, sa.PathQuery{})
		e, ok := errors.AsType[*sa.StatusError](err)
		require.True(t, ok)
		assert.Equal(t, mad.StatusBusy, e.Status)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = c.Path(ctx, ib, sa.PathQuery{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, c.Close())
	})
}

// Requests go to the administrator in the default partition, at any index of the port's table. The entry of a full
// member is preferred.
func TestPartition(t *testing.T) {
	for _, tt := range []struct {
		keys []ci.PKey
		want uint16
		err  error
	}{
		{keys: []ci.PKey{0xffff}},
		{keys: []ci.PKey{0x8001, 0x8002, 0xffff}, want: 2},
		{keys: []ci.PKey{0x7fff, 0x8001}},
		{keys: []ci.PKey{0x7fff, 0xffff}, want: 1},
		{keys: []ci.PKey{0x8001}, err: ci.NotFound},
	} {
		al := accesslayer.New(accesslayer.Config{PollInterval: time.Hour})
		hca, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(),
			direct.Config{LID: 5, PKeys: tt.keys}))}})
		require.NoError(t, err)
		require.NoError(t, al.Register(hca))
		s := &service{answer: func(*mad.SA) {}}
		c := sa.New(al, s, sa.Config{})
		_, err = c.Path(t.Context(), mads.Port{CA: hca.Info().GUID, Num: 1}, sa.PathQuery{})
		require.ErrorIs(t, err, tt.err, "%x", tt.keys)
		if tt.err == nil {
			assert.Equal(t, tt.want, s.sent[0].To.PKeyIndex, "%x", tt.keys)
		}
		require.NoError(t, errors.Join(c.Close(), al.Close(), hca.Close()))
	}
}

// A client without an access layer returns an error.
func TestNothingToAsk(t *testing.T) {
	c := sa.New(nil, nil, sa.Config{})
	_, err := c.Do(t.Context(), mads.Port{}, &mad.SA{})
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.NoError(t, c.Close())
}
