package opensm

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/fabric/topology"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

// patience bounds the wait for what OpenSM does.
const patience = testenv.Patience

// take returns the next value of a channel.
func take[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "no "+what)
	}
	panic("unreachable")
}

// takeTrap returns the GID of the next notice with a trap's number. Other notices are passed over.
func takeTrap(t *testing.T, c <-chan *mad.NoticeRecord, trap uint16) ci.GID {
	t.Helper()
	for {
		n := take(t, "notice of trap "+mad.Status(trap).String(), c)
		if n.Notice.Trap == trap {
			var d mad.TrapGID
			d.Parse(n.Notice.Details[:])
			return d.GID
		}
	}
}

// newcomer is a node and its cable.
var newcomer = topology.Node{Kind: topology.CA, ID: "h9", NumPorts: 1, GUID: 0x9000}

// arrive connects a new adapter in place of another one.
func (r *rig) arrive() {
	r.t.Helper()
	require.NoError(r.t, r.fabric.RemoveNode("h8"))
	require.NoError(r.t, r.fabric.AddNode(newcomer, fabric.Cable{Port: 1, Peer: "s1-2", PeerPort: 4}))
}

// OpenSM reports ports and groups that come and go, and links, to those that have subscribed, also after a restart.
func TestNotices(t *testing.T) {
	r, m := managed(t)
	h := r.host("h2")
	notices, changes := make(chan *mad.NoticeRecord, 100), make(chan error, 100)
	s, err := h.sa.NewSubscription(t.Context(), h.port, sa.SubscriptionConfig{Trap: mad.InformAllTraps,
		OnNotice: func(n *mad.NoticeRecord) { notices <- n }, OnChange: func(err error) { changes <- err }})
	require.NoError(t, err)

	r.arrive()
	gid := takeTrap(t, notices, mad.TrapGIDInService)
	for gid != mad.GID(0xfe80<<48, newcomer.PortGUID(1)) {
		gid = takeTrap(t, notices, mad.TrapGIDInService)
	}
	require.NoError(t, r.fabric.RemoveNode("h9"))
	assert.EqualValues(t, mad.GID(0xfe80<<48, newcomer.PortGUID(1)), takeTrap(t, notices, mad.TrapGIDOutOfService))

	other := r.host("h7")
	group, err := other.sa.NewMembership(t.Context(), other.port, testGroup())
	require.NoError(t, err)
	assert.EqualValues(t, testGroup().Record.MGID, takeTrap(t, notices, mad.TrapGroupCreated))
	require.NoError(t, group.Destroy())
	assert.EqualValues(t, testGroup().Record.MGID, takeTrap(t, notices, mad.TrapGroupDeleted))

	m.stop()
	require.Empty(t, changes)
	again := r.manage("h1")
	again.waitUp(1)
	require.NoError(t, take(t, "subscription after the restart", changes))
	group, err = other.sa.NewMembership(t.Context(), other.port, testGroup())
	require.NoError(t, err)
	assert.EqualValues(t, testGroup().Record.MGID, takeTrap(t, notices, mad.TrapGroupCreated))
	require.NoError(t, group.Destroy())
	require.NoError(t, s.Destroy())
	require.ErrorIs(t, s.Destroy(), sa.ErrClosed)
	assert.NotZero(t, h.sa.Notices().Delivered)
	assert.Zero(t, h.sa.Notices().Unexpected)
}

func testGroup() sa.MembershipConfig {
	return sa.MembershipConfig{Record: mad.MCMemberRecord{MGID: [16]byte{0xff, 0x12, 0x12, 0x34, 15: 0x77}, QKey: 7,
		PKey: 0xffff}, Mask: mad.MCPKey | mad.MCQKey | mad.MCSL | mad.MCFlowLabel | mad.MCTrafficClass}
}

// Memberships and services exist at an OpenSM that was restarted, and leases are renewed.
func TestRegistrationsSurvive(t *testing.T) {
	r, m := managed(t)
	a, b := r.host("h2"), r.host("h7")
	joined := make(chan *mad.MCMemberRecord, 100)
	var members []*sa.Membership
	for _, h := range []*host{a, b} {
		cfg := testGroup()
		cfg.OnChange = func(g *mad.MCMemberRecord, err error) {
			if assert.NoError(t, err) {
				joined <- g
			}
		}
		g, err := h.sa.NewMembership(t.Context(), h.port, cfg)
		require.NoError(t, err)
		members = append(members, g)
	}
	registered := make(chan error, 100)
	service, err := a.sa.NewService(t.Context(), a.port, sa.ServiceConfig{Lease: 4 * time.Second,
		Record:   mad.ServiceRecord{ServiceID: 0x1234, Name: name("disk"), Data64: [2]uint64{7}},
		OnChange: func(err error) { registered <- err }})
	require.NoError(t, err)
	find := func() []mad.ServiceRecord {
		list, err := sa.ServiceRecords.Table(t.Context(), b.sa, b.port, mad.ServiceRecord{Name: name("disk")},
			mad.ServiceName)
		require.NoError(t, err)
		return list
	}
	require.Len(t, find(), 1)
	assert.EqualValues(t, a.gid, find()[0].GID)
	assert.EqualValues(t, 7, find()[0].Data64[0]) // the preload library drops the last 32 bytes that OpenSM reads
	for range 3 {                                 // 6 s, so the first lease is over
		require.NoError(t, take(t, "renewal", registered))
		require.Len(t, find(), 1)
	}

	m.stop()
	r.manage("h1").waitUp(1)
	mlid := ci.LID(take(t, "rejoin", joined).MLID)
	take(t, "rejoin of the second", joined)
	r.wait("the tables of the group", func() bool { return r.members(mlid, "h2")["h7"] })
	r.wait("the service", func() bool { return len(find()) == 1 })

	require.NoError(t, service.Destroy())
	assert.Empty(t, find())
	for _, g := range members {
		require.NoError(t, g.Destroy())
	}
	left, err := sa.MCMemberRecords.Get(t.Context(), b.sa, b.port, testGroup().Record, mad.MCMGID)
	var refused *sa.StatusError
	require.ErrorAs(t, err, &refused, "%+v", left)
}

func name(s string) (n [mad.ServiceNameLen]byte) {
	copy(n[:], s)
	return n
}

// Cached paths are dropped when a destination is gone, and when OpenSM was restarted.
func TestPathCache(t *testing.T) {
	r, m := managed(t)
	r.arrive()
	r.wait("the newcomer", func() bool {
		p, err := r.fabric.Port("h9", 1)
		return err == nil && p.State() == ci.PortActive
	})
	h := r.host("h2")
	paths, err := h.sa.NewPaths(sa.PathsConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, paths.Close()) })
	q := sa.PathQuery{SGID: h.gid, DGID: mad.GID(0xfe80<<48, newcomer.PortGUID(1))}
	for range 3 {
		path, err := paths.Path(t.Context(), h.port, q)
		require.NoError(t, err)
		assert.EqualValues(t, r.lid("h9"), path.DLID)
	}
	c := paths.Counters()
	assert.EqualValues(t, 1, c.Queries)
	assert.EqualValues(t, 2, c.Hits)
	require.NoError(t, r.fabric.RemoveNode("h9"))
	r.wait("the path is dropped", func() bool { return paths.Counters().Paths == 0 })
	_, err = paths.Path(t.Context(), h.port, q)
	var refused *sa.StatusError
	require.ErrorAs(t, err, &refused)

	to := sa.PathQuery{SGID: h.gid, DGID: r.host("h7").gid}
	_, err = paths.Path(t.Context(), h.port, to)
	require.NoError(t, err)
	m.stop()
	r.manage("h1").waitUp(1)
	r.wait("the path is dropped", func() bool { return paths.Counters().Paths == 0 })
	_, err = paths.Path(t.Context(), h.port, to)
	require.NoError(t, err)
}

// Registrations follow the subnet from manager to manager while both live: the standby takes over from a manager that
// was killed, and gives way to one of higher priority.
func TestRegistrationsFollowHandover(t *testing.T) {
	g, err := tree.Generate()
	r := newRig(t, g, err)
	fast := r.options("sminfo_polling_timeout 300", "polling_retry_number 2", "force_log_flush TRUE")
	first := r.manage("h1", append(fast, "-p", "5")...)
	first.waitUp(1)
	second := r.manage("h5", append(fast, "-p", "3")...)
	r.wait("standby", func() bool { return strings.Contains(second.text(), "Entering STANDBY state") })
	a, b := r.host("h2"), r.host("h7")
	joined, subscribed := make(chan *mad.MCMemberRecord, 100), make(chan error, 100)
	notices, registered := make(chan *mad.NoticeRecord, 100), make(chan error, 100)
	cfg := testGroup()
	cfg.OnChange = func(g *mad.MCMemberRecord, err error) {
		if err == nil { // requests to the manager that is going away may time out
			joined <- g
		}
	}
	_, err = a.sa.NewMembership(t.Context(), a.port, cfg)
	require.NoError(t, err)
	_, err = a.sa.NewSubscription(t.Context(), a.port, sa.SubscriptionConfig{Trap: mad.InformAllTraps,
		OnNotice: func(n *mad.NoticeRecord) { notices <- n }, OnChange: report(subscribed)})
	require.NoError(t, err)
	_, err = a.sa.NewService(t.Context(), a.port, sa.ServiceConfig{
		Record: mad.ServiceRecord{ServiceID: 0x1234, Name: name("disk")}, OnChange: report(registered)})
	require.NoError(t, err)
	check := func(manager string) {
		take(t, "rejoin at "+manager, joined)
		require.NoError(t, take(t, "subscription at "+manager, subscribed))
		require.NoError(t, take(t, "service at "+manager, registered))
		p, err := r.fabric.Port("h2", 1)
		require.NoError(t, err)
		r.wait("the new manager's LID", func() bool { return int(p.Info().MasterSMLID) == r.lid(manager) })
		r.wait("the records of "+manager, func() bool {
			_, err := sa.ServiceRecords.Get(t.Context(), b.sa, b.port, mad.ServiceRecord{Name: name("disk")},
				mad.ServiceName)
			if err != nil {
				return false
			}
			m, err := sa.MCMemberRecords.Get(t.Context(), b.sa, b.port, testGroup().Record, mad.MCMGID)
			return err == nil && m.MLID >= 0xc000
		})
		other := testGroup()
		other.Record.MGID[15]++
		group, err := b.sa.NewMembership(t.Context(), b.port, other)
		require.NoError(t, err)
		// The members that joined again may have created the first group, with a notice of its own.
		for takeTrap(t, notices, mad.TrapGroupCreated) != ci.GID(other.Record.MGID) {
		}
		require.NoError(t, group.Destroy())
		for len(joined)+len(subscribed)+len(registered) > 0 { // a second client reregister
			select {
			case <-joined:
			case err := <-subscribed:
				require.NoError(t, err)
			case err := <-registered:
				require.NoError(t, err)
			}
		}
	}
	first.kill()
	check("h5")
	third := r.manage("h3", append(fast, "-p", "9")...)
	check("h3")
	assert.Contains(t, third.text(), "Entering MASTER state")
	assert.Equal(t, 2, strings.Count(second.text(), "Entering STANDBY state"))
}

// report returns an OnChange that passes on successes.
func report(c chan<- error) func(error) {
	return func(err error) {
		if err == nil {
			c <- nil
		}
	}
}
