package mads_test

import (
	"encoding/binary"
	"slices"
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

// A vendorCA is a driver of which only some of the agents are in hardware.
type vendorCA struct {
	ciwrap.CA
	attr  func(*ci.CAAttr)
	local func(in, out *ci.MAD) // or nil
}

func (c *vendorCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		changed := *a
		changed.Ports = slices.Clone(a.Ports)
		c.attr(&changed)
		a = &changed
	}
	return a, err
}

func (c *vendorCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	if c.local == nil {
		return c.CA.LocalMAD(port, src, in, out)
	}
	c.local(in, out)
	return nil
}

func vendorLayer(attr func(*ci.CAAttr), local func(in, out *ci.MAD)) ciwrap.Layer {
	return ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &vendorCA{ciwrap.CA{CA: c}, attr, local} }}
}

func subnetRequest(m mad.Method, attr uint16, data []byte) []byte {
	b := request(mad.ClassSubnetLID, 1, m, 5)
	binary.BigEndian.PutUint16(b[16:], attr)
	copy(b[64:], data)
	return b
}

// A driver executes Set(PortInfo) and nothing else. The kit answers what a manager reads, protects the M_Key and turns
// changes into port events, although the driver raises none.
func TestKitCompletesDriver(t *testing.T) {
	info := mad.PortInfo{LID: 2, State: uint8(ci.PortActive), MKey: 0}
	partial := func(in, out *ci.MAD) {
		*out = *in
		out[3] = byte(mad.GetResp)
		if attr := binary.BigEndian.Uint16(in[16:]); in[3] != byte(mad.Set) || attr != mad.AttrPortInfo {
			binary.BigEndian.PutUint16(out[4:], mad.StatusBadMethodAttribute)
			return
		}
		info.Parse(in[64:])
	}
	bubble(t, nodeConfig{}, nodeConfig{wrap: vendorLayer(func(*ci.CAAttr) {}, partial),
		mads: mads.Config{NodeDescription: "kit"}},
		func(t *testing.T, a, b *node) {
			sm := a.agent(mads.AgentConfig{SubnetManagement: true})
			do := func(m []byte) (*mads.Received, error) {
				return sm.Do(t.Context(), &mads.Message{To: b.qp0(), MAD: m, Timeout: time.Second})
			}
			get := func(attr uint16) []byte {
				r, err := do(subnetRequest(mad.Get, attr, nil))
				require.NoError(t, err)
				require.Zero(t, r.Header().Status)
				return r.MAD[64:128]
			}
			var n mad.NodeInfo
			n.Parse(get(mad.AttrNodeInfo))
			assert.Equal(t, uint64(b.hca.Info().GUID), n.NodeGUID)
			assert.Equal(t, "kit", string(get(mad.AttrNodeDescription)[:3]))
			var p mad.PortInfo
			p.Parse(get(mad.AttrPortInfo))
			assert.Equal(t, b.attr().LID, ci.LID(p.LID))
			var k mad.PKeyBlock
			k.Parse(get(mad.AttrPKeyTable))
			assert.EqualValues(t, 0xffff, k[0])
			var g mad.GUIDBlock
			g.Parse(get(mad.AttrGUIDInfo))
			assert.EqualValues(t, b.attr().GUID, g[0])
			r, err := do(subnetRequest(mad.Set, mad.AttrPKeyTable, nil))
			require.NoError(t, err)
			assert.Equal(t, mad.StatusBadMethodAttribute, r.Header().Status)

			p.MKey, p.MKeyProtect = 0xabc, 2
			data := make([]byte, 64)
			p.Put(data)
			r, err = do(subnetRequest(mad.Set, mad.AttrPortInfo, data))
			require.NoError(t, err)
			require.Zero(t, r.Header().Status)
			assert.EqualValues(t, 0xabc, info.MKey, "the driver has executed it")
			_, err = do(subnetRequest(mad.Get, mad.AttrNodeInfo, nil))
			assert.ErrorIs(t, err, ci.Timeout, "the kit checks the M_Key")
			m := subnetRequest(mad.Get, mad.AttrPortInfo, nil)
			binary.BigEndian.PutUint64(m[24:], 0xabc)
			r, err = do(m)
			require.NoError(t, err)
			p.Parse(r.MAD[64:])
			assert.NotZero(t, p.MKeyViolations)
		})
}

// A driver whose hardware answers SMPs passes them up afterwards. They reach the managers that observe them, nobody
// answers them again, and a Set becomes a port event.
func TestConsumedSMPs(t *testing.T) {
	var lid ci.LID
	hardware := func(a *ci.CAAttr) {
		a.Caps = a.Caps&^ci.CapLocalMAD | ci.CapHardwareSMA
		if lid != 0 {
			a.Ports[0].LID = lid
		}
	}
	bubble(t, nodeConfig{}, nodeConfig{wrap: vendorLayer(hardware, nil)}, func(t *testing.T, a, b *node) {
		var events []accesslayer.PortEventType
		client, err := b.al.Open(accesslayer.ClientConfig{Name: "observer"})
		require.NoError(t, err)
		_, err = client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
			Port: func(_ *accesslayer.Adapter, _ any, e accesslayer.PortEvent) { events = append(events, e.Type) }})
		require.NoError(t, err)
		synctest.Wait()
		sm := a.agent(mads.AgentConfig{SubnetManagement: true})
		send := func(m mad.Method) {
			_, err := sm.Do(t.Context(), &mads.Message{To: b.qp0(), MAD: subnetRequest(m, mad.AttrPortInfo, nil),
				Timeout: time.Second})
			assert.ErrorIs(t, err, ci.Timeout)
			synctest.Wait()
		}
		events = nil
		send(mad.Get)
		assert.Equal(t, uint64(1), b.counters().Dropped[mads.DropConsumed])
		assert.Empty(t, events)
		to := b.qp0()
		lid = b.attr().LID + 7
		_, err = sm.Do(t.Context(), &mads.Message{To: to, MAD: subnetRequest(mad.Set, mad.AttrPortInfo, nil),
			Timeout: time.Second})
		assert.ErrorIs(t, err, ci.Timeout)
		synctest.Wait()
		assert.Equal(t, []accesslayer.PortEventType{accesslayer.PortLID}, events)
		var seen []mad.Method
		b.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true,
			Methods: []mad.Method{mad.Get, mad.Set}, OnReceive: func(r *mads.Received) {
				seen = append(seen, r.Header().Method)
			}})
		_, err = sm.Do(t.Context(), &mads.Message{To: to, MAD: subnetRequest(mad.Get, mad.AttrPortInfo, nil),
			Timeout: time.Second})
		assert.ErrorIs(t, err, ci.Timeout)
		synctest.Wait()
		assert.Equal(t, []mad.Method{mad.Get}, seen)
		require.NoError(t, client.Close())
	})
}

// SMInfo is for managers, so an adapter with an agent of its own passes it up unanswered. Without a manager it is
// answered as unsupported, as by the kit's agent, by LID and by directed route.
func TestSMInfoWithoutManager(t *testing.T) {
	for name, config := range map[string]direct.Config{"kit": {}, "hardware": {HardwareAgents: true},
		"hardware that passes answered requests up": {HardwareAgents: true, PassConsumed: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := direct.NewLink()
				a := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, direct.Config{})))
				b := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, config)))
				sm := a.agent(mads.AgentConfig{SubnetManagement: true})
				directed := subnetRequest(mad.Get, mad.AttrSMInfo, nil)
				directed[1] = byte(mad.ClassSubnetDirected)
				directed[7], directed[128+1] = 1, 1
				copy(directed[32:], "\xff\xff\xff\xff")
				for _, c := range []struct {
					to     mads.Address
					mad    []byte
					status uint16
				}{
					{b.qp0(), subnetRequest(mad.Get, mad.AttrSMInfo, nil), mad.StatusBadMethodAttribute},
					{b.qp0(), subnetRequest(mad.Set, mad.AttrSMInfo, nil), mad.StatusBadMethodAttribute},
					{mads.Address{AV: ci.AVAttr{DLID: 0xffff}}, directed,
						mad.StatusBadMethodAttribute | mad.StatusDirection},
				} {
					r, err := sm.Do(t.Context(), &mads.Message{To: c.to, MAD: c.mad, Timeout: time.Second})
					require.NoError(t, err)
					assert.Equal(t, c.status, r.Header().Status)
					assert.Equal(t, mad.GetResp, r.Header().Method)
				}
				var seen int
				b.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true,
					Methods: []mad.Method{mad.Get}, OnReceive: func(*mads.Received) { seen++ }})
				m := subnetRequest(mad.Get, mad.AttrSMInfo, nil)
				require.NoError(t, sm.Send(&mads.Message{To: b.qp0(), MAD: m}))
				synctest.Wait()
				assert.Equal(t, 1, seen, "a manager gets it, and nobody else answers")
			})
		})
	}
}

// A manager receives requests of SMInfo. The adapter executes the others, those of the manager itself along a directed
// route without hops and those of other nodes.
func TestManager(t *testing.T) {
	for name, config := range map[string]direct.Config{"kit": {}, "hardware": {HardwareAgents: true},
		"hardware that passes answered requests up": {HardwareAgents: true, PassConsumed: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := direct.NewLink()
				a := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, config)))
				b := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, direct.Config{})))
				var seen []uint16
				manager := a.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true,
					Manager: true, Methods: []mad.Method{mad.Get, mad.Set},
					OnReceive: func(r *mads.Received) { seen = append(seen, r.Header().Attribute) }})
				directed := subnetRequest(mad.Get, mad.AttrNodeInfo, nil)
				directed[1] = byte(mad.ClassSubnetDirected)
				copy(directed[32:], "\xff\xff\xff\xff")
				other := b.agent(mads.AgentConfig{SubnetManagement: true})
				for _, c := range []struct {
					from mads.Agent
					m    mads.Message
				}{
					{manager, mads.Message{To: mads.Address{AV: ci.AVAttr{DLID: 0xffff}}, MAD: directed}},
					{other, mads.Message{To: a.qp0(), MAD: subnetRequest(mad.Get, mad.AttrNodeInfo, nil)}},
				} {
					r, err := c.from.Do(t.Context(), &c.m)
					require.NoError(t, err)
					assert.Equal(t, mad.GetResp, r.Header().Method)
					assert.Zero(t, r.Header().Status&^mad.StatusDirection)
				}
				m := subnetRequest(mad.Set, mad.AttrSMInfo, nil)
				require.NoError(t, other.Send(&mads.Message{To: a.qp0(), MAD: m}))
				synctest.Wait()
				assert.Equal(t, []uint16{mad.AttrSMInfo}, seen)
			})
		})
	}
}

// An agent sends a TrapRepress to its own port, along a directed route without hops. The services continue.
func TestRepressWithoutHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{}, testenv.Must(direct.New(direct.NewLink(), direct.Config{})))
		sm := n.agent(mads.AgentConfig{SubnetManagement: true})
		to := mads.Address{AV: ci.AVAttr{DLID: 0xffff}}
		directed := func(m mad.Method, attribute uint16) []byte {
			b := subnetRequest(m, attribute, nil)
			b[1] = byte(mad.ClassSubnetDirected)
			copy(b[32:], "\xff\xff\xff\xff")
			return b
		}
		require.NoError(t, sm.Send(&mads.Message{To: to, MAD: directed(mad.TrapRepress, mad.AttrNotice)}))
		r, err := sm.Do(t.Context(), &mads.Message{To: to, MAD: directed(mad.Get, mad.AttrNodeInfo)})
		require.NoError(t, err)
		assert.Equal(t, mad.GetResp, r.Header().Method)
	})
}
