package mads_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
)

// Every contradictory registration is rejected, and claims no methods.
func TestRegisterRefuses(t *testing.T) {
	single(t, func(t *testing.T, n *node) {
		get := []mad.Method{mad.Get}
		port := n.port()
		for name, c := range map[string]struct {
			cfg    mads.AgentConfig
			status ci.Status
		}{
			"methods of no class": {mads.AgentConfig{Methods: get}, ci.InvalidParameter},
			"class above range 2": {mads.AgentConfig{Class: 0x50, Methods: get}, ci.InvalidParameter},
			"class 0x82":          {mads.AgentConfig{Class: 0x82, Methods: get}, ci.InvalidParameter},
			"version 8": {mads.AgentConfig{Class: vendor, Version: 8, Methods: get},
				ci.InvalidParameter},
			"range 2 without OUI": {mads.AgentConfig{Class: long, Methods: get}, ci.InvalidParameter},
			"OUI elsewhere": {mads.AgentConfig{Class: vendor, OUI: oui, Methods: get},
				ci.InvalidParameter},
			"RMPP in CM":             {mads.AgentConfig{Class: mad.ClassCM, RMPP: true}, ci.InvalidParameter},
			"RMPP in vendor range 1": {mads.AgentConfig{Class: vendor, RMPP: true}, ci.InvalidParameter},
			"RMPP of no class":       {mads.AgentConfig{RMPP: true}, ci.InvalidParameter},
			"SM class on QP1": {mads.AgentConfig{Class: mad.ClassSubnetLID, Methods: get},
				ci.InvalidParameter},
			"directed route on QP1": {mads.AgentConfig{Class: mad.ClassSubnetDirected, Methods: get},
				ci.InvalidParameter},
			"other class on QP0": {mads.AgentConfig{Class: mad.ClassCM, SubnetManagement: true,
				Methods: get}, ci.InvalidParameter},
			"manager on QP1": {mads.AgentConfig{Class: vendor, Manager: true, Methods: get}, ci.InvalidParameter},
			"method 0": {mads.AgentConfig{Class: vendor, Methods: []mad.Method{0}},
				ci.InvalidParameter},
			"response": {mads.AgentConfig{Class: vendor, Methods: []mad.Method{mad.Get,
				mad.GetResp}}, ci.InvalidParameter},
			"TrapRepress": {mads.AgentConfig{Class: vendor, Methods: []mad.Method{mad.TrapRepress}},
				ci.InvalidParameter},
			"negative queue": {mads.AgentConfig{Class: vendor, Queue: -1, Methods: get},
				ci.InvalidParameter},
			"OnReceive for nothing": {mads.AgentConfig{OnReceive: func(*mads.Received) {}},
				ci.InvalidParameter},
			"another port": {mads.AgentConfig{Class: vendor, Methods: get,
				Port: mads.Port{CA: port.CA, Num: 2}}, ci.InvalidPort},
			"another HCA": {mads.AgentConfig{Class: vendor, Methods: get,
				Port: mads.Port{CA: port.CA + 1, Num: 1}}, ci.InvalidPort},
			"(after all, the class is free)": {mads.AgentConfig{Class: vendor, Methods: get}, ci.Success},
		} {
			if c.cfg.Port == (mads.Port{}) {
				c.cfg.Port = port
			}
			a, err := n.m.Register(c.cfg)
			if c.status == ci.Success {
				require.NoError(t, err)
				assert.Equal(t, port, a.Port())
				assert.NoError(t, a.Close())
				continue
			}
			assert.ErrorIs(t, err, c.status, name)
			assert.Nil(t, a)
		}
	})
}

// Methods are exclusive, and are released when the agent is closed.
func TestRegisterClaims(t *testing.T) {
	single(t, func(t *testing.T, n *node) {
		claim := func(c mads.AgentConfig) (mads.Agent, error) {
			c.Port = n.port()
			return n.m.Register(c)
		}
		vendor1 := func(version uint8, m ...mad.Method) mads.AgentConfig {
			return mads.AgentConfig{Name: "first", Class: vendor, Version: version, Methods: m}
		}
		first := must(claim(vendor1(1, mad.Get, mad.Set)))
		_, err := claim(vendor1(1, mad.Send, mad.Set))
		require.ErrorIs(t, err, ci.ResourceBusy)
		assert.ErrorContains(t, err, `agent "first" has method Set`)
		must(claim(vendor1(1, mad.Send))) // the rejected registration has left nothing
		must(claim(vendor1(2, mad.Set)))
		must(claim(vendor1(1)))
		must(claim(vendor1(1)))
		require.NoError(t, first.Close())
		require.NoError(t, first.Close())
		must(claim(vendor1(1, mad.Get)))

		// Directed route and LID routed count as one class.
		smp := func(class mad.Class, m mad.Method) mads.AgentConfig {
			return mads.AgentConfig{Class: class, Version: 1, SubnetManagement: true, Methods: []mad.Method{m}}
		}
		must(claim(smp(mad.ClassSubnetLID, mad.Get)))
		_, err = claim(smp(mad.ClassSubnetDirected, mad.Get))
		require.ErrorIs(t, err, ci.ResourceBusy)
		must(claim(smp(mad.ClassSubnetDirected, mad.Set)))

		// A class of range 2 has eight OUIs in each version.
		var nine []mads.Agent
		range2 := func(version, i uint8) (mads.Agent, error) {
			return claim(mads.AgentConfig{Class: long, Version: version, OUI: [3]byte{1, 2, i},
				Methods: []mad.Method{mad.Get}})
		}
		for i := range uint8(8) {
			nine = append(nine, must(range2(1, i)))
		}
		_, err = range2(1, 8)
		require.ErrorIs(t, err, ci.ResourceBusy)
		must(range2(2, 8))
		must(claim(mads.AgentConfig{Class: long, Version: 1, OUI: [3]byte{1, 2, 3}, Methods: []mad.Method{mad.Set}}))
		require.NoError(t, nine[0].Close())
		must(range2(1, 8))
	})
}

// An Ethernet port has no QP0, a closed Manager has no services, and an HCA without special QPs has no ports.
func TestRegisterWhere(t *testing.T) {
	p := wires["virtual, IPv6"]()
	n := newNode(t, nodeConfig{}, p[0])
	_, err := n.m.Register(mads.AgentConfig{Port: n.port(), SubnetManagement: true})
	assert.ErrorIs(t, err, ci.Unsupported)
	assert.Equal(t, []mads.Port{n.port()}, n.m.Ports())
	a := n.agent(mads.AgentConfig{Class: vendor, Methods: []mad.Method{mad.Get}})
	require.NoError(t, n.m.Close())
	require.NoError(t, n.m.Close())
	_, err = n.m.Register(mads.AgentConfig{Port: n.port()})
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	assert.Empty(t, n.m.Ports())
	assert.ErrorIs(t, a.Send(&mads.Message{To: n.address(), MAD: request(vendor, 1, mad.Get, 1)}),
		accesslayer.ErrClosed)
	_, err = a.Do(t.Context(), &mads.Message{To: n.address(), MAD: request(vendor, 1, mad.Get, 1)})
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	_, err = a.Recv(t.Context())
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	assert.NoError(t, a.Close())

	none := newNode(t, nodeConfig{caps: ci.CapUD | ci.CapAV},
		testenv.Must(direct.New(direct.NewLink(), direct.Config{})))
	assert.Empty(t, none.m.Ports())
}

// A message that cannot be sent is rejected with the reason.
func TestSendRefuses(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		any, sm := a.agent(mads.AgentConfig{}), a.agent(mads.AgentConfig{SubnetManagement: true})
		cm, rmpp := a.agent(mads.AgentConfig{Class: mad.ClassCM}), longAgent(a, "long", nil, nil)
		ok := request(vendor, 1, mad.Get, 1)
		to := func(f func(*mads.Address)) mads.Address { x := b.address(); f(&x); return x }
		same := func(*mads.Address) {}
		version := request(vendor, 1, mad.Get, 1)
		version[0] = 2
		for name, c := range map[string]struct {
			agent  mads.Agent
			to     mads.Address
			mad    []byte
			status ci.Status
		}{
			"empty":               {any, to(same), nil, ci.InvalidParameter},
			"short":               {any, to(same), ok[:255], ci.InvalidParameter},
			"long without RMPP":   {any, to(same), make([]byte, 257), ci.InvalidParameter},
			"shorter than header": {rmpp, to(same), message(mad.Get, 1, 0)[:39], ci.InvalidParameter},
			"longer than allowed": {rmpp, to(same), message(mad.Get, 1, 17<<20), ci.InvalidParameter},
			"base version":        {any, to(same), version, ci.InvalidParameter},
			"SM class by QP1":     {any, to(same), request(mad.ClassSubnetLID, 1, mad.Get, 1), ci.InvalidParameter},
			"GS class by QP0":     {sm, to(same), ok, ci.InvalidParameter},
			"another class":       {cm, to(same), ok, ci.InvalidParameter},
			"port":                {any, to(func(x *mads.Address) { x.AV.Port = 2 }), ok, ci.InvalidPort},
			"QPN":                 {any, to(func(x *mads.Address) { x.QPN = 1 << 24 }), ok, ci.InvalidParameter},
			"P_Key index":         {any, to(func(x *mads.Address) { x.PKeyIndex = 1 }), ok, ci.InvalidParameter},
			"P_Key index beyond":  {any, to(func(x *mads.Address) { x.PKeyIndex = 100 }), ok, ci.InvalidParameter},
			"SGID index": {any,
				to(func(x *mads.Address) { x.AV.Global, x.AV.GRH.DGID[0], x.AV.GRH.SGIDIndex = true, 1, 3 }), ok,
				ci.InvalidParameter},
			"DGID":       {any, to(func(x *mads.Address) { x.AV.Global = true }), ok, ci.InvalidParameter},
			"no address": {any, to(func(x *mads.Address) { x.AV.DLID = 0 }), ok, ci.InvalidParameter},
		} {
			m := mads.Message{To: c.to, MAD: c.mad}
			assert.ErrorIs(t, c.agent.Send(&m), c.status, name)
			_, err := c.agent.Do(t.Context(), &m)
			assert.ErrorIs(t, err, c.status, name)
		}
		_, err := any.Do(t.Context(), &mads.Message{To: b.address(), MAD: request(vendor, 1, mad.GetResp, 1)})
		assert.ErrorIs(t, err, ci.InvalidParameter, "a response gets no reply")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = any.Do(ctx, &mads.Message{To: b.address(), MAD: ok})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, a.counters().Sent)
	})
}
