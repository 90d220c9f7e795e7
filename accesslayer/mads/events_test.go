package mads_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
)

// An eventHCA is a driver whose events a test raises.
type eventHCA struct {
	ciwrap.HCA
	raise *func(ci.Event)
}

func (h eventHCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	*h.raise = onEvent
	return h.HCA.OpenCA(guid, onEvent, arg)
}

// A managedPair is a manager, and a port whose traps it receives.
type managedPair struct {
	t       *testing.T
	sm      mads.Agent
	a, b    *node
	notices []mad.Notice
	tids    []uint64
}

// newManagedPair makes a the subnet manager of b.
func newManagedPair(t *testing.T, a, b *node) *managedPair {
	p := &managedPair{t: t, a: a, b: b}
	p.sm = a.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true,
		Methods: []mad.Method{mad.Trap}, OnReceive: func(r *mads.Received) {
			var n mad.Notice
			n.Parse(r.MAD[64:])
			p.notices = append(p.notices, n)
			p.tids = append(p.tids, r.Header().TID)
		}})
	r := p.do(subnetRequest(mad.Get, mad.AttrPortInfo, nil))
	var i mad.PortInfo
	i.Parse(r.MAD[64:])
	i.State, i.PhysState = 0, 0
	i.MasterSMLID, i.SubnetTimeout = uint16(a.attr().LID), 18
	data := make([]byte, 64)
	i.Put(data)
	require.Zero(t, p.do(subnetRequest(mad.Set, mad.AttrPortInfo, data)).Header().Status)
	synctest.Wait()
	return p
}

func (p *managedPair) do(m []byte) *mads.Received {
	r, err := p.sm.Do(p.t.Context(), &mads.Message{To: p.b.qp0(), MAD: m, Timeout: time.Second})
	require.NoError(p.t, err)
	return r
}

// notice returns the only trap since the last call, and represses it.
func (p *managedPair) notice() mad.Notice {
	p.t.Helper()
	synctest.Wait()
	require.Len(p.t, p.notices, 1)
	n := p.notices[0]
	data := make([]byte, 64)
	n.Put(data)
	m := subnetRequest(mad.TrapRepress, mad.AttrNotice, data)
	h := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.TrapRepress, TID: p.tids[0],
		Attribute: mad.AttrNotice}
	h.Put(m)
	require.NoError(p.t, p.sm.Send(&mads.Message{To: p.b.qp0(), MAD: m}))
	time.Sleep(5 * time.Second) // several repetitions
	synctest.Wait()
	assert.Len(p.t, p.notices, 1, "repressed")
	p.notices, p.tids = nil, nil
	return n
}

// The access layer reports events of a driver without an agent to the subnet manager (IBTA volume 1, 14.2.5.1).
func TestEventsBecomeTraps(t *testing.T) {
	var raise func(ci.Event)
	layer := ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return eventHCA{ciwrap.HCA{HCA: h}, &raise} }}
	bubble(t, nodeConfig{}, nodeConfig{wrap: layer}, func(t *testing.T, a, b *node) {
		p := newManagedPair(t, a, b)
		lid := b.attr().LID
		for event, trap := range map[ci.EventType]uint16{ci.EventLinkIntegrity: mad.TrapLinkIntegrity,
			ci.EventBufferOverrun: mad.TrapBufferOverrun, ci.EventFlowControlError: mad.TrapFlowControl} {
			raise(ci.Event{Type: event, Port: 1})
			var d mad.TrapPort
			n := p.notice()
			d.Parse(n.Details[:])
			assert.Equal(t, mad.TrapPort{LID: uint16(lid), Port: 1}, d)
			n.Details = [mad.NoticeDetailsLen]byte{}
			assert.Equal(t, mad.Notice{Generic: true, Type: mad.NoticeUrgent, Producer: mad.ProducerCA, Trap: trap,
				IssuerLID: uint16(lid)}, n)
		}
		raise(ci.Event{Type: ci.EventPortTrap, Port: 1})
		var c mad.TrapCapability
		n := p.notice()
		c.Parse(n.Details[:])
		assert.Equal(t, mad.TrapCapabilityMask, n.Trap)
		assert.Equal(t, mad.TrapCapability{LID: uint16(lid), CapabilityMask: uint32(b.attr().Capability)}, c)
		raise(ci.Event{Type: ci.EventSystemGUIDTrap})
		var g mad.TrapSystemGUID
		n = p.notice()
		g.Parse(n.Details[:])
		attr, err := b.al.Adapter(b.hca.Info().GUID)
		require.NoError(t, err)
		assert.Equal(t, mad.TrapSystemGUIDChanged, n.Trap)
		assert.Equal(t, mad.TrapSystemGUID{LID: uint16(lid), GUID: uint64(attr.Attr().SystemGUID)}, g)
		for _, e := range []ci.Event{{Type: ci.EventPKeyTrap, Port: 1}, {Type: ci.EventMKeyTrap, Port: 1},
			{Type: ci.EventLinkIntegrity, Port: 2}, {Type: ci.EventLinkIntegrity}, {Type: ci.EventLIDChange, Port: 1}} {
			raise(e)
		}
		synctest.Wait()
		assert.Empty(t, p.notices, "no details, another port, no trap of the event")
	})
}

// datagramQP returns the number of a QP that has another Q_Key than QP1.
func datagramQP(t *testing.T, n *node) ci.QPN {
	client := must(n.al.Open(accesslayer.ClientConfig{}))
	pd := must(must(client.OpenCA(n.hca.Info().GUID, nil)).NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	qp := must(pd.NewQP(ci.QPCreate{Type: ci.UD, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1}}, nil))
	require.NoError(t, qp.InitDatagram(1, 5, 0))
	return must(qp.Query()).Num
}

// Packets with wrong keys are reported once, by the access layer or, where there is one, by the adapter's agent.
func TestKeyViolationsBecomeTraps(t *testing.T) {
	for name, hardware := range map[string]bool{"kit": false, "hardware": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := direct.NewLink()
				keys := []ci.PKey{0xffff, 0x8123}
				a := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, direct.Config{PKeys: keys})))
				b := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, direct.Config{HardwareAgents: hardware})))
				p := newManagedPair(t, a, b)
				gs := a.agent(mads.AgentConfig{})
				to := b.address()
				to.QPN = datagramQP(t, b)
				to.AV.Global, to.AV.GRH = true, ci.GRH{DGID: b.attr().GIDs[0].GID}
				require.NoError(t, gs.Send(&mads.Message{To: to, MAD: request(vendor, 1, mad.Get, 1)}))
				want := mad.TrapKey{LID1: uint16(a.attr().LID), LID2: uint16(b.attr().LID), Key: 0x80010000, QP1: 1,
					QP2: uint32(to.QPN), GID1: a.attr().GIDs[0].GID, GID2: b.attr().GIDs[0].GID}
				check := func(trap uint16) {
					n := p.notice()
					var d mad.TrapKey
					d.Parse(n.Details[:])
					assert.Equal(t, want, d)
					assert.Equal(t, trap, n.Trap)
					assert.Equal(t, mad.NoticeSecurity, n.Type)
				}
				check(mad.TrapBadQKey)
				to = b.address()
				to.PKeyIndex, to.AV.SL = 1, 3
				require.NoError(t, gs.Send(&mads.Message{To: to, MAD: request(vendor, 1, mad.Get, 1)}))
				want.Key, want.SL, want.QP2 = 0x8123, 3, 1
				want.GID1, want.GID2 = [16]byte{}, [16]byte{}
				check(mad.TrapBadPKey)
				var i mad.PortInfo
				i.Parse(p.do(subnetRequest(mad.Get, mad.AttrPortInfo, nil)).MAD[64:])
				assert.Equal(t, [2]uint16{1, 1}, [2]uint16{i.PKeyViolations, i.QKeyViolations})
			})
		})
	}
}

// A port that comes up without a subnet manager sends no traps to itself.
func TestNoTrapsToOneself(t *testing.T) {
	var raise func(ci.Event)
	layer := ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return eventHCA{ciwrap.HCA{HCA: h}, &raise} }}
	bubble(t, nodeConfig{}, nodeConfig{wrap: layer}, func(t *testing.T, _, b *node) {
		require.Equal(t, b.attr().LID, b.attr().SMLID)
		raise(ci.Event{Type: ci.EventLinkIntegrity, Port: 1})
		synctest.Wait()
		assert.Zero(t, b.counters().Sent)
	})
}

// A TrapRepress for a trap that the access layer has not sent reaches the driver, which may send traps of its own.
func TestTrapRepressReachesDriver(t *testing.T) {
	var seen []mad.Method
	local := func(in, out *ci.MAD) {
		seen = append(seen, mad.Method(in[3]))
		*out = ci.MAD{}
	}
	bubble(t, nodeConfig{}, nodeConfig{wrap: vendorLayer(func(*ci.CAAttr) {}, local)}, func(t *testing.T, a, b *node) {
		sm := a.agent(mads.AgentConfig{SubnetManagement: true})
		m := subnetRequest(mad.TrapRepress, mad.AttrNotice, nil)
		require.NoError(t, sm.Send(&mads.Message{To: b.qp0(), MAD: m}))
		synctest.Wait()
		assert.Equal(t, []mad.Method{mad.TrapRepress}, seen)
	})
}
