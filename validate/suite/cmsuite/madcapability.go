package cmsuite

import (
	"fmt"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// What a port states about its agents.

var MADCap01 = datagrams.Must("MAD-Cap-01", "IBTA 14.2.5.6", "mads, Service.Register, Agent.Close",
	"The capability mask of an InfiniBand port has the bit of a class while an agent answers requests of that class, "+
		"and no other bit changes. A bit that was set before the first agent stays set.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.capability",
	Title: "agents of each class, and the capability mask of the port",
	Needs: validate.Needs{Links: []ci.Link{ci.LinkInfiniBand}},
	Run:   madCapability,
}, MADCap01)

func madCapability(t *validate.T) {
	a, _ := sides(t)
	mask := func() ci.PortCap {
		attr, err := a.ca.CA.Query()
		kit.OK(t, err, "CA.Query")
		return attr.Ports[a.port.Num-1].Capability
	}
	first := mask()
	for _, v := range kit.Variants(t, "", []struct {
		name  string
		class mad.Class
		oui   [3]byte
		want  ci.PortCap
	}{
		{name: "communication management", class: mad.ClassCM, want: ci.PortCapCM},
		{name: "SNMP", class: mad.ClassSNMP, want: ci.PortCapSNMP},
		{name: "device management", class: mad.ClassDevice, want: ci.PortCapDeviceManagement},
		{name: "boot management", class: mad.ClassBoot, want: ci.PortCapBootManagement},
		{name: "the first of vendor range 1", class: mad.ClassVendor1First, want: ci.PortCapVendorClass},
		{name: "the last of vendor range 1", class: mad.ClassVendor1Last, want: ci.PortCapVendorClass},
		{name: "the first of vendor range 2", class: mad.ClassVendor2First, oui: [3]byte{1}, want: ci.PortCapVendorClass},
		{name: "the last of vendor range 2", class: mad.ClassVendor2Last, oui: [3]byte{1}, want: ci.PortCapVendorClass},
		{name: "device administration", class: mad.ClassDeviceAdmin},
	}) {
		set := ci.PortModify{CapMask: v.want, Capability: v.want}
		err := a.ca.Modify(a.port.Num, ci.PortFieldCapability, set)
		isSettable := err == nil && mask() == first|v.want
		set.Capability = first & v.want
		if err == nil {
			kit.OK(t, a.ca.Modify(a.port.Num, ci.PortFieldCapability, set), "CA.Modify of a capability bit")
		}
		if !isSettable { // an adapter chooses which bits can be set
			t.Logf("the driver does not set the bit for %s: %v", v.name, err)
			continue
		}
		cfg := mads.AgentConfig{Name: "certifier", Class: v.class, Version: 1, OUI: v.oui,
			Methods: []mad.Method{mad.Get}}
		where := fmt.Sprintf("capability mask with an agent of %s", v.name)
		silent := cfg
		silent.Methods = nil
		none := a.agent(silent)
		kit.Equal(t, where+" that answers nothing", mask(), first)
		one := a.agent(cfg)
		kit.Equal(t, where, mask(), first|v.want)
		cfg.Methods = []mad.Method{mad.Set}
		two := a.agent(cfg)
		kit.Equal(t, where+", and a second one", mask(), first|v.want)
		kit.OK(t, one.Close(), "mads.Agent.Close")
		kit.Equal(t, where+" after another one", mask(), first|v.want)
		kit.OK(t, two.Close(), "mads.Agent.Close")
		kit.Equal(t, where+", which was closed", mask(), first)
		kit.OK(t, none.Close(), "mads.Agent.Close")
	}
}
