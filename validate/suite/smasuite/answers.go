package smasuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Responses: header, status, and which method an attribute has.
var answers = area()

// readable are the attributes that every adapter answers.
var readable = []uint16{mad.AttrNodeDescription, mad.AttrNodeInfo, mad.AttrPortInfo, mad.AttrGUIDInfo,
	mad.AttrPKeyTable}

var _ = answers.Add("sma.answer.bytes",
	"all bytes of responses outside of the attribute, by LID and by directed route", answerBytes,
	answers.Must("SMA-Answer-01", "IBTA 14.2.1", verb,
		"A response repeats all bytes of the request's header but method and status, and has zeros in reserved "+
			"fields."))

func answerBytes(t *validate.T) {
	p := open(t)
	for _, attr := range kit.Variants(t, "attribute", readable) {
		classes := []mad.Class{mad.ClassSubnetLID, mad.ClassSubnetDirected}
		if p.peer != nil {
			classes = classes[:1] // sma.link.directed has routes on the link
		}
		for _, class := range classes {
			q := p.smp(mad.Get, attr, 0)
			q.Class = class
			status := uint16(0)
			if class == mad.ClassSubnetDirected {
				q.DrSLID, q.DrDLID = mad.PermissiveLID, mad.PermissiveLID
				q.SetHops(1, 0)
				status = mad.StatusDirection
			}
			r := p.do(q, status)
			want := q.Header
			want.Method, want.Status = mad.GetResp, status
			kit.Equal(t, "header of the response to "+name(q), fmt.Sprintf("%+v", r.Header), fmt.Sprintf("%+v", want))
			kit.True(t, r.Reserved28 == [28]byte{}, "bytes 36 to 63 of the response to "+name(q), "zeros", "%x",
				r.Reserved28)
			kit.Equal(t, "DrSLID and DrDLID of the response to "+name(q), [2]uint16{r.DrSLID, r.DrDLID},
				[2]uint16{q.DrSLID, q.DrDLID})
		}
	}
}

var _ = answers.Add("sma.answer.version", "unknown versions and classes", func(t *validate.T) {
	p := open(t)
	type variant struct {
		name   string
		change func(*mad.Header)
	}
	list := []variant{
		{"base version 2", func(h *mad.Header) { h.BaseVersion = 2 }},
		{"class version 2", func(h *mad.Header) { h.ClassVersion = 2 }},
		{"class version 0", func(h *mad.Header) { h.ClassVersion = 0 }},
	}
	if p.peer == nil { // on the link, QP0 drops other classes
		list = append(list, variant{"class 0x2e", func(h *mad.Header) { h.Class = 0x2e }})
	}
	for _, v := range kit.Variants(t, "", list) {
		q := p.smp(mad.Get, mad.AttrNodeInfo, 0)
		v.change(&q.Header)
		p.do(q, mad.StatusBadVersion)
	}
}, answers.Must("SMA-Answer-02", "IBTA 13.4.7", verb,
	"A request of an unknown base version, class version or class has status 0x0004."))

var _ = answers.Add("sma.answer.method", "methods of other classes", func(t *validate.T) {
	p := open(t)
	for _, m := range kit.Variants(t, "method", []mad.Method{mad.GetTable, mad.Delete, 0x7f}) {
		p.do(p.smp(m, mad.AttrNodeInfo, 0), mad.StatusBadMethod)
	}
}, answers.Must("SMA-Answer-03", "IBTA 13.4.7", verb,
	"A method that subnet management does not have has status 0x0008."))

var smaAnswer04 = answers.Must("SMA-Answer-04", "IBTA 14.2.5", verb,
	"An attribute that adapters do not have, or not with the method, has status 0x000c.")

var _ = answers.Add("sma.answer.attribute", "attributes of switches and managers, and Sets of what is read only",
	direct(answerAttribute), smaAnswer04)

func answerAttribute(p *port) {
	t := p.t
	absent := []uint16{mad.AttrSwitchInfo, mad.AttrLinearTable, mad.AttrRandomTable, mad.AttrMulticastTable, 0x0001,
		0x7777}
	if p.peer == nil {
		absent = append(absent, mad.AttrSMInfo) // on the link, it goes to the managers
	}
	for _, attr := range kit.Variants(t, "attribute", absent) {
		p.do(p.smp(mad.Get, attr, 0), mad.StatusBadMethodAttribute)
		p.do(p.smp(mad.Set, attr, 0), mad.StatusBadMethodAttribute)
	}
	for _, attr := range kit.Variants(t, "read only", []uint16{mad.AttrNodeInfo, mad.AttrNodeDescription,
		mad.AttrVendorDiag}) {
		p.do(p.smp(mad.Set, attr, 0), mad.StatusBadMethodAttribute)
	}
	if p.peer != nil && t.Claims().Has(ci.CapLocalMAD) {
		t.Step("an attribute of managers at CA.LocalMAD, below which there are none")
		var in, out ci.MAD
		p.smp(mad.Get, mad.AttrSMInfo, 0).Put(in[:])
		kit.OK(t, p.ca.LocalMAD(p.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of Get of SMInfo")
		var r mad.SMP
		r.Parse(out[:])
		kit.Equal(t, "method and status of the response to Get of SMInfo", [2]uint16{uint16(r.Method), r.Status},
			[2]uint16{uint16(mad.GetResp), mad.StatusBadMethodAttribute})
	}
}

var smaAnswer05 = answers.Must("SMA-Answer-05", "IBTA 14.2.5", verb,
	"A modifier beyond the end of a table, or of another port, has status 0x001c.")

var _ = answers.Add("sma.answer.modifier", "blocks beyond the end of tables", direct(answerModifier), smaAnswer05)

func answerModifier(p *port) {
	t := p.t
	blocks := uint32(len(p.ca.Port.PKeys)+31) / 32
	guids := (uint32(p.info().GUIDCap) + 7) / 8
	other := uint32(len(p.ca.Attr.Ports)) + 1
	for _, v := range kit.Variants(t, "", []struct {
		attr     uint16
		modifier uint32
	}{{mad.AttrPKeyTable, blocks}, {mad.AttrPKeyTable, 0xffff}, {mad.AttrGUIDInfo, guids},
		{mad.AttrGUIDInfo, 0xffffffff}, {mad.AttrPortInfo, 0xff}, {mad.AttrPortInfo, 0xffffffff},
		{mad.AttrPortInfo, other}, {mad.AttrPortInfo, 0x100}, {mad.AttrPortInfo, 0x100 + uint32(p.ca.Port.Num)},
		{mad.AttrPKeyTable, other << 16}, {mad.AttrPKeyTable, 0xff << 16}, {mad.AttrPKeyTable, 0x100 << 16},
		{mad.AttrPKeyTable, (0x100 + uint32(p.ca.Port.Num)) << 16}}) {
		p.do(p.smp(mad.Get, v.attr, v.modifier), mad.StatusBadField)
		q := p.smp(mad.Set, v.attr, v.modifier)
		if v.attr == mad.AttrPortInfo {
			i := p.settable() // otherwise valid
			i.Put(q.Data[:])
		}
		p.do(q, mad.StatusBadField)
	}
	t.Step("the number of the port")
	byPort := p.do(p.smp(mad.Get, mad.AttrPortInfo, uint32(p.ca.Port.Num)), mad.StatusOK)
	own := p.do(p.smp(mad.Get, mad.AttrPortInfo, 0), mad.StatusOK)
	kit.SameBytes(t, "PortInfo with the port in the modifier", byPort.Data[:], own.Data[:])
	i := p.settable()
	i.SubnetTimeout ^= 5
	q := p.smp(mad.Set, mad.AttrPortInfo, uint32(p.ca.Port.Num))
	i.Put(q.Data[:])
	p.do(q, mad.StatusOK)
	kit.Equal(t, "SubnetTimeOut after a Set with the port in the modifier", p.info().SubnetTimeout, i.SubnetTimeout)
	if p.peer != nil {
		return
	}
	for k := range p.ca.Attr.Ports {
		if o := &p.ca.Attr.Ports[k]; o.Num != p.ca.Port.Num && o.Link == ci.LinkInfiniBand {
			t.Step("port %d", o.Num)
			ca := *p.ca
			ca.Port = o
			second := &port{t: t, ca: &ca, tid: p.tid}
			kit.Equal(t, "PortInfo.LocalPortNum", second.info().LocalPortNum, o.Num)
			second.do(second.smp(mad.Get, mad.AttrPortInfo, uint32(o.Num)), mad.StatusOK)
			second.do(second.smp(mad.Get, mad.AttrPortInfo, uint32(p.ca.Port.Num)), mad.StatusBadField)
			second.do(second.smp(mad.Get, mad.AttrPKeyTable, uint32(p.ca.Port.Num)<<16), mad.StatusBadField)
		}
	}
}

var _ = answers.Add("sma.answer.none", "datagrams without a response", func(t *validate.T) {
	p := open(t)
	for _, m := range kit.Variants(t, "method", []mad.Method{mad.GetResp, mad.Trap, mad.TrapRepress, mad.Send,
		mad.ReportResp}) {
		for version := range uint8(3) { // 1 is that of subnet management
			q := p.smp(m, mad.AttrNotice, 0)
			q.ClassVersion = version
			_, answered := p.try(q)
			kit.True(t, !answered, fmt.Sprintf("out of CA.LocalMAD of %v of class version %d", m, version),
				"zeros, since no response is due", "a response")
		}
		if p.peer == nil { // on the link, QP0 drops other classes
			q := p.smp(m, mad.AttrNotice, 0)
			q.Class = 0x2e
			_, answered := p.try(q)
			kit.True(t, !answered, fmt.Sprintf("out of CA.LocalMAD of %v of class 0x2e", m),
				"zeros, since no response is due", "a response")
		}
	}
}, answers.Must("SMA-Answer-06", "IBTA 13.4.5", verb,
	"A response, a trap and a trap repress have no response."))

var smaAnswer07 = answers.Must("SMA-Answer-07", "IBTA 13.4.5", verb,
	"The attribute in the response to a Get does not depend on the attribute in the request.")

var _ = answers.Add("sma.answer.data",
	"each attribute and block, read by requests with zeros and with ones as their data", direct(answerData),
	smaAnswer07)

func answerData(p *port) {
	t := p.t
	i := p.info()
	type block struct {
		attr     uint16
		modifier uint32
	}
	var list []block
	for _, attr := range readable {
		list = append(list, block{attr: attr})
	}
	for b := range uint32(len(p.ca.Port.PKeys)+31) / 32 {
		list = append(list, block{mad.AttrPKeyTable, b})
	}
	for b := range (uint32(i.GUIDCap) + 7) / 8 {
		list = append(list, block{mad.AttrGUIDInfo, b})
	}
	if i.CapabilityMask&uint32(ci.PortCapSLMapping) != 0 {
		list = append(list, block{attr: mad.AttrSLtoVL})
	}
	if i.VLCap > 1 && i.VLArbLowCap > 0 {
		list = append(list, block{mad.AttrVLArbitration, 1 << 16})
	}
	if i.CapabilityMask&uint32(ci.PortCapLEDInfo) != 0 {
		list = append(list, block{attr: mad.AttrLEDInfo})
	}
	if i.CapabilityMask&uint32(ci.PortCapNotice) != 0 {
		list = append(list, block{attr: mad.AttrNotice})
	}
	for _, b := range kit.Variants(t, "", list) {
		empty, full := p.smp(mad.Get, b.attr, b.modifier), p.smp(mad.Get, b.attr, b.modifier)
		for k := range full.Data {
			full.Data[k] = 0xff
		}
		want, got := p.do(empty, mad.StatusOK), p.do(full, mad.StatusOK)
		kit.SameBytes(t, name(full)+" with ones as data", got.Data[:], want.Data[:])
	}
}
