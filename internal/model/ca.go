package model

import (
	"fmt"
	"reflect"

	"ciddk/ci"
)

// A counter counts the packets that a port drops.
type counter struct {
	n      int
	isOpen bool // packets were lost or repeated, so that the number is not known
}

func (c *counter) add() { c.n = min(c.n+1, 0xffff) }

// counters are the counters of a port with their claims and the fields of CA.Modify.
var counters = [2]struct {
	name  string
	rule  Rule
	cap   ci.Caps
	field ci.PortField
	of    func(p *ci.PortAttr) *uint16
	to    func(m ci.PortModify) uint16
}{
	{"PKeyErrors", "IBTA-10.9-02", ci.CapPKeyCounter, ci.PortFieldPKeyErrors,
		func(p *ci.PortAttr) *uint16 { return &p.PKeyErrors }, func(m ci.PortModify) uint16 { return m.PKeyErrors }},
	{"QKeyErrors", "IBTA-9.8-15", ci.CapQKeyCounter, ci.PortFieldQKeyErrors,
		func(p *ci.PortAttr) *uint16 { return &p.QKeyErrors }, func(m ci.PortModify) uint16 { return m.QKeyErrors }},
}

// count begins with the counters of a port as they are.
func (c *CA) count(p ci.PortAttr) {
	for i, x := range counters {
		c.violations[i] = counter{n: int(*x.of(&p))}
	}
}

// Query observes CA.Query of an adapter at rest. Only the counters change.
func (c *CA) Query(got *ci.CAAttr, err error) *Violation {
	const verb = "CA.Query"
	if v := wantStatus(verb, err, "SAS-2.2-02", ci.Success); v != nil {
		return v
	}
	if len(got.Ports) != len(c.Attr.Ports) {
		return violation("CI-QueryCA-03", verb, fmt.Sprintf("%d ports", len(c.Attr.Ports)), "%d", len(got.Ports))
	}
	for i := range got.Ports {
		p, was := &got.Ports[i], &c.Attr.Ports[i]
		isOurs := was.Num == c.Port.Num
		for k, x := range counters {
			n, want := int(*x.of(p)), &c.violations[k]
			switch *x.of(p) = *x.of(was); {
			case !isOurs || !c.Attr.Caps.Has(x.cap):
			case want.isOpen || c.w.Lossy:
				*want = counter{n: n, isOpen: want.isOpen}
			case n != want.n:
				v := violation(x.rule, verb+": "+x.name, fmt.Sprint(want.n), "%d", n)
				v.Doubt = n < want.n
				return v
			}
		}
		p.State, p.PhysState = was.State, was.PhysState
	}
	for i, w := 0, reflect.ValueOf(*c.Attr); i < w.NumField(); i++ {
		if want, g := w.Field(i).Interface(), reflect.ValueOf(*got).Field(i).Interface(); !reflect.DeepEqual(want, g) {
			return violation("CI-QueryCA-03", verb+": "+w.Type().Field(i).Name, fmt.Sprintf("%+v, as before", want),
				"%+v", g)
		}
	}
	return nil
}

// Modify observes CA.Modify of counters.
func (c *CA) Modify(set ci.PortField, m ci.PortModify, err error) *Violation {
	want := []ci.Status{ci.Success}
	for _, x := range counters {
		if set&x.field != 0 && !c.Attr.Caps.Has(x.cap) {
			want = []ci.Status{ci.Unsupported}
		}
	}
	if v := wantStatus("CA.Modify", err, "CI-ModifyCA-02", want...); v != nil || err != nil {
		return v
	}
	for i, x := range counters {
		if set&x.field != 0 {
			c.violations[i] = counter{n: int(x.to(m)), isOpen: c.violations[i].isOpen}
		}
	}
	return nil
}
