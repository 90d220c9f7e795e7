package smasuite

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = components.Add("sma.component.down", "physical states of a port while the cable is out", componentDown,
	components.Must("SMA-Comp-06", "IBTA 14.2.5.6", verb,
		"A port whose link goes down is in the physical state that LinkDownDefaultState selects, and a Set of "+
			"PortPhysicalState selects another one. A port that is down goes to no other logical state by a Set."))

// Physical states of a port.
const sleep, polling, disabled = 1, 2, 3

func componentDown(t *validate.T) {
	p := open(t)
	if p.peer != nil {
		t.Skip("no request reaches the agent while the cable is out")
	}
	p.change(func(i *mad.PortInfo) { i.LinkDownDefault = sleep })
	t.SetLink(false)
	is := func(want uint8, after string) {
		i := p.info()
		kit.Equal(t, "PortState and PortPhysicalState after "+after, [2]uint8{i.State, i.PhysState},
			[2]uint8{uint8(ci.PortDown), want})
		kit.Equal(t, "PortAttr.State after "+after, p.attr().State, ci.PortDown)
		for _, s := range []ci.PortState{ci.PortInit, ci.PortArmed, ci.PortActive, 5, 15} {
			up := p.settable()
			up.State = uint8(s)
			p.set(up, mad.StatusBadField)
		}
	}
	is(sleep, "the cable was pulled out, with a LinkDownDefaultState of Sleep")
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		change func(i *mad.PortInfo)
		want   uint8
	}{
		{"Polling", func(i *mad.PortInfo) { i.PhysState = polling }, polling},
		{"no change", func(i *mad.PortInfo) {}, polling},
		{"Down", func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) }, sleep},
		{"a LinkDownDefaultState of Polling", func(i *mad.PortInfo) { i.LinkDownDefault = polling }, sleep},
		{"Down again", func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) }, polling},
		{"Sleep", func(i *mad.PortInfo) { i.PhysState = sleep }, sleep},
		{"Polling and Down", func(i *mad.PortInfo) { i.PhysState, i.State = polling, uint8(ci.PortDown) }, polling},
		{"Disabled", func(i *mad.PortInfo) { i.PhysState = disabled }, disabled},
		{"Down after Disabled", func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) }, disabled},
		{"Polling after Disabled", func(i *mad.PortInfo) { i.PhysState = polling }, polling},
	}) {
		p.change(v.change)
		is(v.want, "a Set of "+v.name)
	}
	before := p.ca.Events.Count(ci.EventPortActive)
	t.SetLink(true)
	if !await(t, func() bool { return p.attr().State >= ci.PortInit }) {
		t.Failf("state of the port after the cable was plugged in", "Init or a later one", "%v", p.attr().State)
	}
	if p.attr().State == ci.PortActive && t.Claims().Has(ci.CapPortActiveEvent) && !await(t, func() bool {
		return p.ca.Events.Count(ci.EventPortActive) > before
	}) {
		t.Failf("events after the cable was plugged in, and the port became active", "port active", "none")
	}
}
