package smasuite

import (
	"fmt"
	"time"

	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The M_Key and its protection.
var keys = area()

const key, wrongKey = validate.MKey, validate.OtherMKey

// protect sets the M_Key and a protection level. Requests have the key then.
func (p *port) protect(level uint8) {
	i := p.settable()
	i.MKey, i.MKeyProtect = key, level
	i.MKeyLease, i.MKeyViolations = 0, 0
	p.set(i, mad.StatusOK)
	p.key = key
	if p.peer != nil && !p.unprotects { // the certifier restores what CA.LocalMAD reaches
		p.unprotects = true
		p.t.Cleanup(p.unprotect)
	}
}

// unprotect removes the M_Key if the agent still answers.
func (p *port) unprotect() {
	p.key = key
	r, answered := p.try(p.smp(mad.Get, mad.AttrPortInfo, 0))
	if !answered {
		return
	}
	var i mad.PortInfo
	i.Parse(r.Data[:])
	i.State, i.PhysState = 0, 0
	i.MKey, i.MKeyProtect = 0, 0
	q := p.smp(mad.Set, mad.AttrPortInfo, 0)
	i.Put(q.Data[:])
	p.try(q)
}

var smaKey01 = keys.Must("SMA-Key-01", "IBTA 14.2.4.1", verb,
	"A Set without the port's M_Key has no response and changes nothing, at every protection level.")

var _ = keys.Add("sma.key.set", "Set(PortInfo) with a wrong M_Key", direct(keySet), smaKey01)

func keySet(p *port) {
	t := p.t
	for _, level := range kit.Variants(t, "level", []uint8{0, 1, 2, 3}) {
		p.protect(level)
		before := p.info()
		q := p.smp(mad.Set, mad.AttrPortInfo, 0)
		i := p.settable()
		i.LID, i.MasterSMLID = before.LID+8, before.MasterSMLID+8
		i.Put(q.Data[:])
		q.MKey = wrongKey
		_, answered := p.try(q)
		kit.True(t, !answered, "response to "+name(q)+" with a wrong M_Key", "none", "a response")
		kit.Equal(t, "LID after it", p.info().LID, before.LID)
		i = p.settable()
		i.MKey, i.MKeyProtect = 0, 0
		p.set(i, mad.StatusOK)
	}
}

var smaKey02 = keys.Must("SMA-Key-02", "IBTA 14.2.4.1", verb,
	"A Get without the M_Key is answered at protection levels 0 and 1, and has no response at levels 2 and 3.")

var smaKey03 = keys.Must("SMA-Key-03", "IBTA 14.2.4.1", verb,
	"At protection level 1, PortInfo shows the M_Key as 0 to requests without it, and at level 0 as it is.")

var _ = keys.Add("sma.key.get", "Get with a wrong M_Key at each level", direct(keyGet), smaKey02)

func keyGet(p *port) {
	t := p.t
	for _, level := range kit.Variants(t, "level", []uint8{0, 1, 2, 3}) {
		p.protect(level)
		q := p.smp(mad.Get, mad.AttrNodeInfo, 0)
		q.MKey = wrongKey
		_, answered := p.try(q)
		kit.Equal(t, "answer to "+name(q)+" with a wrong M_Key", answered, level < 2)
		q = p.smp(mad.Set, mad.AttrNodeInfo, 0)
		q.MKey = wrongKey
		p.try(q) // a violation at each level
		for range 3 {
			now := p.info()
			kit.Equal(t, "M_KeyProtectBits after a violation, with a lease of 0", now.MKeyProtect, level)
			kit.Equal(t, "M_Key after a violation", now.MKey, key)
		}
		i := p.settable()
		i.MKey, i.MKeyProtect = 0, 0
		p.set(i, mad.StatusOK)
	}
}

var _ = keys.Add("sma.key.hidden", "M_Key in PortInfo at levels 0 and 1", direct(keyHidden), smaKey03)

func keyHidden(p *port) {
	t := p.t
	for level, shown := range []uint64{key, 0} {
		p.protect(uint8(level))
		kit.Equal(t, "M_Key shown to its owner", p.info().MKey, key)
		p.key = wrongKey
		kit.Equal(t, fmt.Sprintf("M_Key shown to others at level %d", level), p.info().MKey, shown)
		p.key = key
	}
}

var smaKey04 = keys.Must("SMA-Key-04", "IBTA 14.2.5.6", verb,
	"A failed check of the M_Key adds one to MKeyViolations, and a Set of 0 clears it.")

var _ = keys.Add("sma.key.violations", "count failed checks", direct(keyViolations), smaKey04)

func keyViolations(p *port) {
	t := p.t
	p.protect(1)
	kit.Equal(t, "MKeyViolations after a Set of 0", p.info().MKeyViolations, 0)
	q := p.smp(mad.Set, mad.AttrPKeyTable, 0)
	q.MKey = wrongKey
	for range 3 {
		p.try(q)
	}
	kit.Equal(t, "MKeyViolations after three wrong keys", p.info().MKeyViolations, 3)
	i := p.settable()
	i.MKeyViolations = 0
	kit.Equal(t, "MKeyViolations after a Set of 0", p.set(i, mad.StatusOK).MKeyViolations, 0)
}

var _ = keys.With(validate.Case{Timeout: time.Minute}).Add("sma.key.most",
	"more failed checks than the counter has numbers", func(t *validate.T) {
		const most = 0xffff
		p := open(t)
		if p.peer != nil {
			t.Skip("needs 65,537 requests, which take long from another port")
		}
		p.protect(1)
		q := p.smp(mad.Set, mad.AttrPKeyTable, 0)
		q.MKey = wrongKey
		for range most - 1 {
			p.try(q)
		}
		for range 3 {
			p.try(q)
			kit.Equal(t, "MKeyViolations after 65,535 and more wrong keys", p.info().MKeyViolations, most)
		}
	}, smaKey04)

var smaKey05 = keys.Must("SMA-Key-05", "IBTA 14.2.4", verb,
	"The lease of an M_Key begins with a failed check. When it ends, the protection level is 0.")

var _ = keys.With(validate.Case{Timeout: 30 * time.Second}).Add("sma.key.lease",
	"a lease of one second that runs out", direct(keyLease), smaKey05)

// leaseAt protects the port at a level with a lease of one second, and begins it with a Set that fails the check.
func (p *port) leaseAt(level uint8) {
	p.change(func(i *mad.PortInfo) { i.MKey, i.MKeyProtect, i.MKeyLease = key, level, 1 })
	p.key = key
	q := p.smp(mad.Set, mad.AttrPKeyTable, 0)
	q.MKey = wrongKey
	_, answered := p.try(q)
	kit.True(p.t, !answered, "response to a Set with a wrong M_Key", "none", "a response")
}

// isReadable reports whether a Get with a wrong M_Key is answered.
func (p *port) isReadable() bool {
	q := p.smp(mad.Get, mad.AttrNodeInfo, 0)
	q.MKey = wrongKey
	if p.peer != nil {
		return p.peer.asks(q)
	}
	_, answered := p.try(q)
	return answered
}

func keyLease(p *port) {
	t := p.t
	start := time.Now()
	p.leaseAt(2)
	kit.True(t, !p.isReadable(), "response to a Get with a wrong M_Key at level 2", "none", "a response")
	if !await(t, p.isReadable) {
		t.Failf("response to a Get with a wrong M_Key after the lease of one second", "a response", "none")
	}
	kit.AtLeast(t, "time until the lease of one second has ended", time.Since(start), 900*time.Millisecond)
	i := p.info()
	kit.Equal(t, "M_KeyProtectBits after the lease", i.MKeyProtect, 0)
	kit.Equal(t, "M_Key after the lease", i.MKey, key)
}

var _ = keys.With(validate.Case{Timeout: 30 * time.Second}).Add("sma.key.lease-stops",
	"leases of one second whose owner returns, before others that run out", direct(keyLeaseStops),
	keys.Must("SMA-Key-06", "IBTA 14.2.4", verb, "A lease ends without effect when a request has the M_Key."))

func keyLeaseStops(p *port) {
	t := p.t
	for _, v := range []struct {
		level uint8
		what  string
		ended func() bool
	}{
		{2, "an answer to a Get with a wrong M_Key", p.isReadable},
		{1, "the M_Key in PortInfo for others", p.isKeyShown},
	} {
		if v.level < 2 && p.peer != nil {
			break // the probe behind each request, and the subnet manager of a fabric, have the key
		}
		p.leaseAt(v.level)
		some := time.NewTimer(300 * time.Millisecond)
		<-some.C
		p.info() // the owner
		start := time.Now()
		p.leaseAt(v.level)
		if !await(t, v.ended) {
			t.Failf("after a lease of one second", v.what, "none")
		}
		kit.AtLeast(t, "time until the second lease of one second has ended", time.Since(start), 900*time.Millisecond)
	}
}

// isKeyShown reports whether PortInfo shows the M_Key to a Get with a wrong one, at level 0 or 1.
func (p *port) isKeyShown() bool {
	q := p.smp(mad.Get, mad.AttrPortInfo, 0)
	q.MKey = wrongKey
	r := p.do(q, mad.StatusOK)
	var i mad.PortInfo
	i.Parse(r.Data[:])
	return i.MKey == key
}

var smaKey07 = keys.Must("SMA-Key-07", "IBTA 14.2.4.1", verb,
	"A trap repress without the M_Key is a violation at every protection level.")

var _ = keys.Add("sma.key.repress", "a trap repress with a wrong M_Key", direct(keyRepress), smaKey07)

func keyRepress(p *port) {
	t := p.t
	for _, level := range kit.Variants(t, "level", []uint8{0, 1, 2, 3}) {
		p.protect(level)
		q := p.smp(mad.TrapRepress, mad.AttrNotice, 0)
		q.MKey = wrongKey
		p.try(q)
		kit.Equal(t, "MKeyViolations", p.info().MKeyViolations, 1)
		p.change(func(i *mad.PortInfo) { i.MKeyViolations = 0 })
		kit.Equal(t, "MKeyViolations after a Set of 0", p.info().MKeyViolations, 0)
		p.change(func(i *mad.PortInfo) { i.MKey, i.MKeyProtect = 0, 0 })
		p.key = 0
	}
}
