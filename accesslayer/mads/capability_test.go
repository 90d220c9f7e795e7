package mads_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

// PortInfo states that a port answers requests of a class while an agent of the class exists.
func TestCapabilityMask(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, b *node) {
		const all = ci.PortCapCM | ci.PortCapSNMP | ci.PortCapDeviceManagement | ci.PortCapBootManagement |
			ci.PortCapVendorClass
		ca := must(must(a.al.Open(accesslayer.ClientConfig{})).OpenCA(a.hca.Info().GUID, nil))
		capability := func() ci.PortCap { return must(ca.Query()).Ports[0].Capability & all }
		require.Zero(t, capability())
		for _, tt := range []struct {
			class mad.Class
			bit   ci.PortCap
		}{{mad.ClassCM, ci.PortCapCM}, {mad.ClassSNMP, ci.PortCapSNMP}, {mad.ClassDevice, ci.PortCapDeviceManagement},
			{mad.ClassBoot, ci.PortCapBootManagement},
			{mad.ClassVendor1First, ci.PortCapVendorClass}, {mad.ClassVendor2Last,
				ci.PortCapVendorClass}, {mad.ClassSubnetAdmin, 0}, {mad.ClassPerformance, 0}} {
			cfg := mads.AgentConfig{Class: tt.class, Methods: []mad.Method{mad.Send}}
			if tt.class.Vendor2() {
				cfg.OUI = oui
			}
			client := cfg
			client.Methods = nil
			a.agent(client)
			assert.Zero(t, capability(), "%v: an agent without methods sets no bit", tt.class)
			for range 2 {
				first := a.agent(cfg)
				cfg.Version = 2
				second := a.agent(cfg)
				assert.Equal(t, tt.bit, capability(), "%v", tt.class)
				require.NoError(t, first.Close())
				assert.Equal(t, tt.bit, capability(), "%v: another agent is left", tt.class)
				require.NoError(t, second.Close())
				assert.Zero(t, capability(), "%v", tt.class)
				cfg.Version = 0
			}
		}
	})
}

// Agents are registered and closed concurrently. The mask is right at the end.
func TestCapabilityMaskRace(t *testing.T) {
	bubble(t, nodeConfig{}, nodeConfig{}, func(t *testing.T, a, _ *node) {
		var wg sync.WaitGroup
		for v := range uint8(4) {
			wg.Go(func() {
				for range 50 {
					x := a.agent(mads.AgentConfig{Class: mad.ClassCM, Version: v, Methods: []mad.Method{mad.Send}})
					assert.NoError(t, x.Close())
				}
			})
		}
		wg.Wait()
		keep := a.agent(mads.AgentConfig{Class: mad.ClassCM, Methods: []mad.Method{mad.Send}})
		synctest.Wait()
		assert.Equal(t, ci.PortCapCM, a.attr().Capability&ci.PortCapCM)
		require.NoError(t, keep.Close())
		synctest.Wait()
		assert.Zero(t, a.attr().Capability&ci.PortCapCM)
	})
}

// A bit that was set before the first agent belongs to the driver.
func TestCapabilityMaskForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hca := must(reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(),
			direct.Config{}))}}))
		al := accesslayer.New(accesslayer.Config{PollInterval: -1})
		require.NoError(t, al.Register(hca))
		ca := must(must(al.Open(accesslayer.ClientConfig{})).OpenCA(hca.Info().GUID, nil))
		require.NoError(t, ca.Modify(1, ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapCM,
			Capability: ci.PortCapCM}))
		synctest.Wait()
		m := must(mads.New(al, mads.Config{}))
		x := must(m.Register(mads.AgentConfig{Port: mads.Port{CA: hca.Info().GUID, Num: 1}, Class: mad.ClassCM,
			Methods: []mad.Method{mad.Send}}))
		require.NoError(t, x.Close())
		assert.Equal(t, ci.PortCapCM, must(ca.Query()).Ports[0].Capability&ci.PortCapCM)
		require.NoError(t, m.Close())
		require.NoError(t, al.Close())
		require.NoError(t, hca.Close())
	})
}
