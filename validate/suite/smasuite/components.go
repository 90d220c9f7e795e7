package smasuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The components of PortInfo that a Set changes, one by one.
var components = area()

var smaComp01 = components.Must("SMA-Comp-01", "IBTA 14.2.5.6", verb,
	"A Set of PortInfo changes each component that is not read only, in its response and in a later Get.")

var _ = components.Add("sma.component.set", "each component of PortInfo that a Set changes", direct(componentSet),
	smaComp01)

func componentSet(p *port) {
	t := p.t
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		change func(i *mad.PortInfo)
	}{
		{"LID", func(i *mad.PortInfo) { i.LID += 0x100 }},
		{"LMC", func(i *mad.PortInfo) { i.LID, i.LMC = 0x400, 3 }},
		{"the last LID", func(i *mad.PortInfo) { i.LID, i.LMC = 0xbfff, 0 }},
		{"the last LID with LMC 7", func(i *mad.PortInfo) { i.LID, i.LMC = 0xbf80, 7 }},
		{"MasterSMLID", func(i *mad.PortInfo) { i.MasterSMLID = 0xbfff }},
		{"MasterSMSL", func(i *mad.PortInfo) { i.MasterSMSL ^= 5 }},
		{"GidPrefix", func(i *mad.PortInfo) { i.GIDPrefix = 0xfec0000000000001 }},
		{"M_KeyLeasePeriod", func(i *mad.PortInfo) { i.MKeyLease = 0x1234 }},
		{"SubnetTimeOut", func(i *mad.PortInfo) { i.SubnetTimeout ^= 7 }},
		{"NeighborMTU", func(i *mad.PortInfo) { i.NeighborMTU = uint8(ci.MTU256) }},
		{"NeighborMTU of MTUCap", func(i *mad.PortInfo) { i.NeighborMTU = i.MTUCap }},
		{"OperationalVLs", func(i *mad.PortInfo) { i.OperationalVLs = 1 }},
		{"OperationalVLs of VLCap", func(i *mad.PortInfo) { i.OperationalVLs = i.VLCap }},
		{"LinkWidthEnabled", func(i *mad.PortInfo) { i.WidthEnabled = lowest(i.WidthSupported) }},
		{"LinkWidthEnabled of all that is supported", func(i *mad.PortInfo) { i.WidthEnabled = i.WidthSupported }},
		{"LinkSpeedEnabled", func(i *mad.PortInfo) { i.SpeedEnabled = lowest(i.SpeedSupported) }},
		{"LinkSpeedEnabled of all that is supported", func(i *mad.PortInfo) { i.SpeedEnabled = i.SpeedSupported }},
		{"LinkSpeedExtEnabled", func(i *mad.PortInfo) {
			if hasExtendedSpeeds(i) {
				i.SpeedExtEnabled = lowest(i.SpeedExtSupp)
			}
		}},
		{"LinkSpeedExtEnabled of all that is supported", func(i *mad.PortInfo) {
			if hasExtendedSpeeds(i) {
				i.SpeedExtEnabled = i.SpeedExtSupp
			}
		}},
		{"M_KeyProtectBits without an M_Key", func(i *mad.PortInfo) { i.MKeyProtect = 3 }},
		{"M_KeyProtectBits 0", func(i *mad.PortInfo) { i.MKeyProtect = 0 }},
		{"M_KeyLeasePeriod 0xffff", func(i *mad.PortInfo) { i.MKeyLease = 0xffff }},
		{"InitTypeReply", func(i *mad.PortInfo) { i.InitTypeReply ^= 5 }},
		{"VLHighLimit", func(i *mad.PortInfo) { i.VLHighLimit ^= 0x55 }},
		{"LocalPhyErrors", func(i *mad.PortInfo) { i.LocalPhyErrors ^= 5 }},
		{"OverrunErrors", func(i *mad.PortInfo) { i.OverrunErrors ^= 3 }},
		{"LinkDownDefaultState", func(i *mad.PortInfo) { i.LinkDownDefault = 3 - min(i.LinkDownDefault, 2) }},
	}) {
		want := p.info()
		i := p.settable()
		want.LID, want.MasterSMLID = i.LID, i.MasterSMLID
		v.change(&i)
		v.change(&want)
		kit.Equal(t, "PortInfo in the response to a Set of "+v.name, fmt.Sprintf("%+v", p.set(i, mad.StatusOK)),
			fmt.Sprintf("%+v", want))
		kit.Equal(t, "PortInfo after a Set of "+v.name, fmt.Sprintf("%+v", p.info()), fmt.Sprintf("%+v", want))
	}
}

// hasExtendedSpeeds reports whether the port claims LinkSpeedExtSupported and its like.
func hasExtendedSpeeds(i *mad.PortInfo) bool {
	return i.CapabilityMask&(1<<14) != 0 && i.SpeedExtSupp != 0
}

// lowest returns the lowest bit that is set.
func lowest(set uint8) uint8 { return set & -set }

var _ = components.Add("sma.component.no-change", "values that mean no change, and all supported",
	direct(componentNoChange),
	components.Must("SMA-Comp-02", "IBTA 14.2.5.6", verb,
		"Zero in LinkWidthEnabled, LinkSpeedEnabled, LinkSpeedExtEnabled, LinkDownDefaultState and OperationalVLs "+
			"changes nothing. All ones in the first three enables what the port supports, and 30 in the third "+
			"nothing."))

func componentNoChange(p *port) {
	t := p.t
	p.change(func(i *mad.PortInfo) {
		i.WidthEnabled, i.SpeedEnabled = lowest(i.WidthSupported), lowest(i.SpeedSupported)
	})
	p.change(func(i *mad.PortInfo) { i.WidthEnabled, i.SpeedEnabled = 0xff, 15 })
	before := p.info()
	if hasExtendedSpeeds(&before) {
		for _, v := range []struct{ set, want uint8 }{{lowest(before.SpeedExtSupp), lowest(before.SpeedExtSupp)},
			{30, 0}, {0, 0}, {31, before.SpeedExtSupp}, {0, before.SpeedExtSupp}} {
			kit.Equal(t, fmt.Sprintf("LinkSpeedExtEnabled after a Set of %d", v.set),
				p.change(func(i *mad.PortInfo) { i.SpeedExtEnabled = v.set }).SpeedExtEnabled, v.want)
		}
		before = p.info()
	}
	kit.Equal(t, "LinkWidthEnabled after a Set of 255", before.WidthEnabled, before.WidthSupported)
	kit.Equal(t, "LinkSpeedEnabled after a Set of 15", before.SpeedEnabled, before.SpeedSupported)
	now := p.change(func(i *mad.PortInfo) {
		i.WidthEnabled, i.SpeedEnabled = 0, 0
		i.LinkDownDefault, i.OperationalVLs = 0, 0
	})
	kit.Equal(t, "PortInfo after a Set of zeros", fmt.Sprintf("%+v", now), fmt.Sprintf("%+v", before))
}

var smaComp03 = components.Must("SMA-Comp-03", "IBTA 14.2.5.6", verb,
	"A Set of another value than 0 does not change a counter of violations.")

var _ = components.Add("sma.component.violations", "write other values than 0 to the counters of violations",
	direct(componentViolations), smaComp03)

func componentViolations(p *port) {
	t := p.t
	p.protect(0)
	q := p.smp(mad.Set, mad.AttrPKeyTable, 0)
	q.MKey = wrongKey
	p.try(q)
	before := p.info()
	kit.Equal(t, "MKeyViolations after one wrong key", before.MKeyViolations, 1)
	now := p.change(func(i *mad.PortInfo) { i.MKeyViolations, i.PKeyViolations, i.QKeyViolations = 7, 8, 9 })
	kit.Equal(t, "M_Key, P_Key and Q_Key violations after a Set of 7, 8 and 9",
		[3]uint16{now.MKeyViolations, now.PKeyViolations, now.QKeyViolations},
		[3]uint16{1, before.PKeyViolations, before.QKeyViolations})
}

var _ = components.Add("sma.component.disable", "disable the port, and enable it again", func(t *validate.T) {
	p := open(t)
	if p.peer != nil {
		t.Skip("the response to a Set that disables the port cannot leave it")
	}
	p.change(func(i *mad.PortInfo) { i.State, i.PhysState = uint8(ci.PortDown), disabled })
	for _, what := range []string{"after a Set of Disabled", "after a Set of Down"} {
		i := p.info()
		kit.Equal(t, "PortState and PortPhysicalState "+what, [2]uint8{i.State, i.PhysState},
			[2]uint8{uint8(ci.PortDown), disabled})
		kit.Equal(t, "state of the port in CA.Query "+what, p.attr().State, ci.PortDown)
		for _, s := range []ci.PortState{ci.PortInit, ci.PortArmed, ci.PortActive, 15} {
			up := p.settable()
			up.State = uint8(s)
			p.set(up, mad.StatusBadField)
		}
		p.change(func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) })
	}
	p.change(func(i *mad.PortInfo) { i.PhysState = polling })
	p.awaitState(ci.PortInit)
}, components.Must("SMA-Comp-04", "IBTA 14.2.5.6", verb,
	"A Set of PortPhysicalState to Disabled takes the port down. It stays down until a Set of Polling."))

// awaitState waits until the port is in a state that it reaches by itself, since the other end of the link is up.
func (p *port) awaitState(want ci.PortState) {
	var s ci.PortState
	if !await(p.t, func() bool { s = ci.PortState(p.info().State); return s == want }) {
		p.t.Failf("PortInfo.PortState", want.String(), "%v", s)
	}
}
