package smasuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The rules of Set.
var sets = area()

var SMASet01 = sets.Must("SMA-Set-01", "IBTA 14.2.5.6", verb,
	"A Set of PortInfo with one invalid component has status 0x001c, and nothing of it is applied.")

var _ = sets.Case(validate.Case{
	ID:    "sma.set.invalid",
	Title: "one invalid component among valid changes",
	Run:   direct(setInvalid),
}, SMASet01)

func setInvalid(p *port) {
	t := p.t
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		change func(*mad.PortInfo)
	}{
		{"LID 0", func(i *mad.PortInfo) { i.LID = 0 }},
		{"multicast LID", func(i *mad.PortInfo) { i.LID = 0xc000 }},
		{"MasterSMLID 0", func(i *mad.PortInfo) { i.MasterSMLID = 0 }},
		{"multicast MasterSMLID", func(i *mad.PortInfo) { i.MasterSMLID = 0xfffe }},
		{"NeighborMTU 0", func(i *mad.PortInfo) { i.NeighborMTU = 0 }},
		{"NeighborMTU above MTUCap", func(i *mad.PortInfo) { i.NeighborMTU = i.MTUCap + 1 }},
		{"OperationalVLs above VLCap", func(i *mad.PortInfo) { i.OperationalVLs = i.VLCap + 1 }},
		{"LID 0x401 with LMC 1", func(i *mad.PortInfo) { i.LID, i.LMC = 0x401, 1 }},
		{"LID 0x47f with LMC 7", func(i *mad.PortInfo) { i.LID, i.LMC = 0x47f, 7 }},
		{"MasterSMLID 0xc000", func(i *mad.PortInfo) { i.MasterSMLID = 0xc000 }},
		{"PortPhysicalState 4", func(i *mad.PortInfo) { i.PhysState = 4 }},
		{"PortPhysicalState Disabled and PortState Active", func(i *mad.PortInfo) {
			i.PhysState, i.State = 3, uint8(ci.PortActive)
		}},
		{"a speed that the port does not support", func(i *mad.PortInfo) {
			if i.SpeedEnabled = ^i.SpeedSupported & 15 &^ 1; i.SpeedEnabled == 0 {
				i.LID = 0 // the port supports all, so that another component is invalid
			}
		}},
		{"PortPhysicalState 5", func(i *mad.PortInfo) { i.PhysState = 5 }},
		{"PortPhysicalState 15", func(i *mad.PortInfo) { i.PhysState = 15 }},
		{"PortPhysicalState Polling and PortState Armed", func(i *mad.PortInfo) {
			i.PhysState, i.State = 2, uint8(ci.PortArmed)
		}},
		{"a width that the port does not support",
			func(i *mad.PortInfo) { i.WidthEnabled = ^i.WidthSupported &^ 0x80 }},
		{"LinkDownDefaultState 3", func(i *mad.PortInfo) { i.LinkDownDefault = 3 }},
		{"PortState 15", func(i *mad.PortInfo) { i.State = 15 }},
		{"PortState Init", func(i *mad.PortInfo) { i.State = uint8(ci.PortInit) }},
	}) {
		before := p.info()
		i := p.settable()
		i.SubnetTimeout ^= 3
		i.MasterSMLID++
		v.change(&i)
		p.set(i, mad.StatusBadField)
		kit.Equal(t, "PortInfo after a Set with "+v.name, fmt.Sprintf("%+v", p.info()), fmt.Sprintf("%+v", before))
	}
}

var SMASet02 = sets.Must("SMA-Set-02", "IBTA 14.2.5.6", verb, "A Set of PortInfo ignores read-only components.")

var _ = sets.Case(validate.Case{
	ID:    "sma.set.read-only",
	Title: "other values in read-only components",
	Run:   direct(setReadOnly),
}, SMASet02)

func setReadOnly(p *port) {
	t := p.t
	before := p.set(p.settable(), mad.StatusOK)
	i := p.settable()
	i.CapabilityMask, i.MTUCap, i.VLCap = ^i.CapabilityMask, i.MTUCap^7, i.VLCap^7
	i.GUIDCap, i.LocalPortNum, i.WidthSupported = i.GUIDCap+1, 77, ^i.WidthSupported
	i.SpeedSupported, i.DiagCode = ^i.SpeedSupported&15, 0x1234
	i.WidthActive, i.SpeedActive = ^i.WidthActive, ^i.SpeedActive&15
	now := p.set(i, mad.StatusOK)
	kit.Equal(t, "PortInfo after it", fmt.Sprintf("%+v", now), fmt.Sprintf("%+v", before))
}

var SMASet03 = sets.Must("SMA-Set-03", "IBTA 7.2.7", verb,
	"A port goes from Init to Armed and from Armed to Active by Sets, and from Init to Active not at once.")

var _ = sets.Case(validate.Case{
	ID:    "sma.set.states",
	Title: "bring a port up from Init",
	Run:   setStates,
}, SMASet03)

func setStates(t *validate.T) {
	p := open(t)
	request := func(s ci.PortState, status uint16) {
		i := p.settable()
		i.State = uint8(s)
		p.set(i, status)
	}
	state := func() ci.PortState { return ci.PortState(p.info().State) }
	request(ci.PortDown, mad.StatusOK)
	p.awaitState(ci.PortInit) // the link trains, since its other end is up
	request(ci.PortActive, mad.StatusBadField)
	kit.Equal(t, "state after a Set of Active in Init", state(), ci.PortInit)
	request(ci.PortArmed, mad.StatusOK)
	kit.Equal(t, "state after a Set of Armed", state(), ci.PortArmed)
	request(ci.PortActive, mad.StatusOK)
	kit.Equal(t, "state after a Set of Active", state(), ci.PortActive)
	request(ci.PortActive, mad.StatusOK)
	kit.Equal(t, "state after another Set of Active", state(), ci.PortActive)
}

var SMASet04 = sets.Must("SMA-Set-04", "IBTA 14.2.5.6", verb,
	"ClientReregister is set in the response to the Set that has it, and clear in a later Get.")

var _ = sets.Case(validate.Case{
	ID:    "sma.set.reregister",
	Title: "ClientReregister",
	Run:   direct(setReregister),
}, SMASet04)

func setReregister(p *port) {
	t := p.t
	i := p.settable()
	i.ClientReregister = true
	kit.Equal(t, "ClientReregister of the response", p.set(i, mad.StatusOK).ClientReregister, true)
	kit.Equal(t, "ClientReregister of a later Get", p.info().ClientReregister, false)
}

var SMASet05 = sets.Must("SMA-Set-05", "IBTA 14.2.5.5", verb,
	"A Set of GUIDInfo changes the entries of the table except entry 0 of block 0.")

var _ = sets.Case(validate.Case{
	ID:    "sma.set.guids",
	Title: "write block 0 of the GUID table",
	Run:   direct(setGUIDs),
}, SMASet05)

func setGUIDs(p *port) {
	t := p.t
	capacity := int(p.info().GUIDCap)
	r := p.do(p.smp(mad.Get, mad.AttrGUIDInfo, 0), mad.StatusOK)
	var before, now mad.GUIDBlock
	before.Parse(r.Data[:])
	q := p.smp(mad.Set, mad.AttrGUIDInfo, 0)
	want := mad.GUIDBlock{0: before[0]}
	written := mad.GUIDBlock{0: 0x123}
	for i := 1; i < min(capacity, len(want)); i++ {
		want[i] = 0x0200000000000000 + uint64(i)
		written[i] = want[i]
	}
	written.Put(q.Data[:])
	p.do(q, mad.StatusOK)
	r = p.do(p.smp(mad.Get, mad.AttrGUIDInfo, 0), mad.StatusOK)
	now.Parse(r.Data[:])
	kit.Equal(t, "GUID table after a Set", now, want)
}

var SMASet06 = sets.Must("SMA-Set-06", "IBTA 14.2.5.7", verb,
	"A Set of P_KeyTable changes the table that CA.Query returns.")

var _ = sets.Case(validate.Case{
	ID:    "sma.set.pkeys",
	Title: "write block 0 of the P_Key table",
	Run:   direct(setPKeys),
}, SMASet06)

func setPKeys(p *port) {
	t := p.t
	q := p.smp(mad.Set, mad.AttrPKeyTable, 0)
	want := mad.PKeyBlock{0xffff, 0x8123}
	n := min(len(want), len(p.ca.Port.PKeys))
	want[n-1] = 0x7001
	want.Put(q.Data[:])
	p.do(q, mad.StatusOK)
	a, err := p.ca.Query()
	kit.OK(t, err, "CA.Query")
	for i, k := range a.Ports[p.ca.Port.Num-1].PKeys[:n] {
		kit.Equal(t, fmt.Sprintf("P_Key %d", i), k, ci.PKey(want[i]))
	}
}
