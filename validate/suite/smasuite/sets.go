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

var smaSet01 = sets.Must("SMA-Set-01", "IBTA 14.2.5.6", verb,
	"A Set of PortInfo with one invalid component has status 0x001c, and nothing of it is applied.")

var _ = sets.Add("sma.set.invalid", "one invalid component among valid changes", direct(setInvalid), smaSet01)

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
		{"an extended speed that the port does not support", func(i *mad.PortInfo) {
			if i.SpeedExtEnabled = ^i.SpeedExtSupp & 15; !hasExtendedSpeeds(i) || i.SpeedExtEnabled == 0 {
				i.LID = 0 // the component does not count, so that another one is invalid
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
		i.MKey, i.MKeyProtect, i.MKeyLease = wrongKey, 3, 7
		v.change(&i)
		p.set(i, mad.StatusBadField)
		kit.Equal(t, "PortInfo after a Set with "+v.name, fmt.Sprintf("%+v", p.info()), fmt.Sprintf("%+v", before))
	}
}

var smaSet02 = sets.Must("SMA-Set-02", "IBTA 14.2.5.6", verb, "A Set of PortInfo ignores read-only components.")

var _ = sets.Add("sma.set.read-only", "other values in read-only components", direct(setReadOnly), smaSet02)

func setReadOnly(p *port) {
	t := p.t
	before := p.set(p.settable(), mad.StatusOK)
	i := p.settable()
	i.CapabilityMask, i.MTUCap, i.VLCap = ^i.CapabilityMask, i.MTUCap^7, i.VLCap^7
	i.GUIDCap, i.LocalPortNum, i.WidthSupported = i.GUIDCap+1, 77, ^i.WidthSupported
	i.SpeedSupported, i.DiagCode = ^i.SpeedSupported&15, 0x1234
	i.VLArbHighCap, i.VLArbLowCap, i.RespTimeValue = ^i.VLArbHighCap, ^i.VLArbLowCap, i.RespTimeValue^31
	i.MaxCreditHint, i.RoundTripLatency, i.CapabilityMask2 = ^i.MaxCreditHint, 0x123456, ^i.CapabilityMask2
	i.SpeedExtActive, i.SpeedExtSupp = ^i.SpeedExtActive&15, ^i.SpeedExtSupp&15
	i.WidthActive, i.SpeedActive = ^i.WidthActive, ^i.SpeedActive&15
	now := p.set(i, mad.StatusOK)
	kit.Equal(t, "PortInfo after it", fmt.Sprintf("%+v", now), fmt.Sprintf("%+v", before))
}

var _ = sets.Add("sma.set.states", "bring a port up from Init", func(t *validate.T) {
	p := open(t)
	request := func(s ci.PortState, status uint16) {
		i := p.settable()
		i.State = uint8(s)
		p.set(i, status)
	}
	state := func() ci.PortState { return ci.PortState(p.info().State) }
	refuse := func(in ci.PortState, list ...ci.PortState) {
		for _, s := range append(list, 5, 6, 8, 12, 15) {
			request(s, mad.StatusBadField)
			kit.Equal(t, fmt.Sprintf("state after a Set of state %d in %v", s, in), state(), in)
		}
		request(0, mad.StatusOK)
		kit.Equal(t, "state after a Set of no change in "+in.String(), state(), in)
	}
	request(ci.PortDown, mad.StatusOK)
	p.awaitState(ci.PortInit) // the link trains, since its other end is up
	refuse(ci.PortInit, ci.PortInit, ci.PortActive)
	request(ci.PortArmed, mad.StatusOK)
	kit.Equal(t, "state after a Set of Armed", state(), ci.PortArmed)
	request(ci.PortArmed, mad.StatusOK)
	kit.Equal(t, "state after another Set of Armed", state(), ci.PortArmed)
	refuse(ci.PortArmed, ci.PortInit)
	request(ci.PortActive, mad.StatusOK)
	kit.Equal(t, "state after a Set of Active", state(), ci.PortActive)
	request(ci.PortActive, mad.StatusOK)
	kit.Equal(t, "state after another Set of Active", state(), ci.PortActive)
	refuse(ci.PortActive, ci.PortInit)
}, sets.Must("SMA-Set-03", "IBTA 7.2.7", verb,
	"A port goes from Init to Armed and from Armed to Active by Sets, and from Init to Active not at once."))

var smaSet04 = sets.Must("SMA-Set-04", "IBTA 14.2.5.6", verb,
	"ClientReregister is set in the response to the Set that has it, and clear in a later Get.")

var _ = sets.Add("sma.set.reregister", "ClientReregister", direct(setReregister), smaSet04)

func setReregister(p *port) {
	t := p.t
	i := p.settable()
	i.ClientReregister = true
	kit.Equal(t, "ClientReregister of the response", p.set(i, mad.StatusOK).ClientReregister, true)
	kit.Equal(t, "ClientReregister of a later Get", p.info().ClientReregister, false)
}

var smaSet05 = sets.Must("SMA-Set-05", "IBTA 14.2.5.5", verb,
	"A Set of GUIDInfo changes the entries of the table except entry 0 of block 0.")

var _ = sets.Add("sma.set.guids", "write each block of the GUID table, and read all", direct(setGUIDs), smaSet05)

func setGUIDs(p *port) {
	const perBlock = 8
	want := make([]uint64, (int(p.info().GUIDCap)+perBlock-1)/perBlock*perBlock)
	check := func(when string) {
		for b := range len(want) / perBlock {
			var now mad.GUIDBlock
			p.get(mad.AttrGUIDInfo, uint32(b), &now)
			kit.Equal(p.t, fmt.Sprintf("block %d of the GUID table %s", b, when), now,
				mad.GUIDBlock(want[perBlock*b:][:perBlock]))
		}
	}
	for b := range len(want) / perBlock {
		var now mad.GUIDBlock
		p.get(mad.AttrGUIDInfo, uint32(b), &now)
		copy(want[perBlock*b:], now[:])
	}
	for _, v := range []uint64{0x0200000000000000, 0x0311223344556600} {
		for b := range len(want) / perBlock {
			var written mad.GUIDBlock
			for k := range written {
				written[k] = v + uint64(perBlock*b+k)
				if i := perBlock*b + k; i > 0 && i < int(p.info().GUIDCap) { // entry 0 is read only
					want[i] = written[k]
				}
			}
			response := written
			p.put(mad.AttrGUIDInfo, uint32(b), &response, mad.StatusOK)
			kit.Equal(p.t, fmt.Sprintf("GUIDInfo in the response to a Set of block %d", b), response,
				mad.GUIDBlock(want[perBlock*b:][:perBlock]))
			check(fmt.Sprintf("after a Set of block %d", b))
		}
	}
}

var smaSet06 = sets.Must("SMA-Set-06", "IBTA 14.2.5.7", verb,
	"A Set of P_KeyTable changes the table that CA.Query returns.")

var _ = sets.Add("sma.set.pkeys", "write each block of the P_Key table", direct(setPKeys), smaSet06)

func setPKeys(p *port) {
	t := p.t
	const perBlock = 32
	want := make([]ci.PKey, len(p.ca.Port.PKeys))
	copy(want, p.attr().PKeys)
	for _, v := range []ci.PKey{0x8123, 0x0555} {
		for b := range (len(want) + perBlock - 1) / perBlock {
			var written, shown mad.PKeyBlock
			for k := range written {
				written[k] = uint16(v) + uint16(perBlock*b+k)
				if perBlock*b+k == 0 {
					written[k] = 0xffff
				}
				if i := perBlock*b + k; i < len(want) {
					want[i], shown[k] = ci.PKey(written[k]), written[k]
				}
			}
			p.put(mad.AttrPKeyTable, uint32(b), &written, mad.StatusOK)
			kit.Equal(t, fmt.Sprintf("P_KeyTable in the response to a Set of block %d", b), written, shown)
			for i, k := range p.attr().PKeys {
				kit.Equal(t, fmt.Sprintf("P_Key %d after a Set of block %d", i, b), k, want[i])
			}
			var now mad.PKeyBlock
			p.get(mad.AttrPKeyTable, uint32(b), &now)
			kit.Equal(t, fmt.Sprintf("block %d of P_KeyTable after a Set", b), now, shown)
		}
	}
}
