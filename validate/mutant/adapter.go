package mutant

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Adapter returns mutants with faults in CA.Modify, in local MADs, and in the use of several adapters.
func Adapter() []Mutant {
	ca := func(name, breaks, does string, needs ci.Caps, f func(c ciwrap.CA) ci.CA) Mutant {
		return Of(name, breaks, does,
			tap.CAs(f)).Needing(needs)
	}
	type modifyFunc = func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error
	modify := func(name, breaks, does string, needs ci.Caps, f modifyFunc) Mutant {
		return ca(name, breaks, does, needs, func(c ciwrap.CA) ci.CA { return portModifier{c, f} })
	}
	query := func(name, breaks, does string, f func(a *ci.CAAttr)) Mutant {
		return ca(name, breaks, does, 0, func(c ciwrap.CA) ci.CA { return caQueryer{c, f} })
	}
	local := func(name, breaks, does string, f func(c madder, port uint8, in, out *ci.MAD) error) Mutant {
		return ca(name, breaks, does, ci.CapLocalMAD, func(c ciwrap.CA) ci.CA { return madder{c, f} }).On("direct")
	}
	response := func(name, breaks, does string, f func(in, out *ci.MAD)) Mutant {
		return local(name, breaks, does, func(c madder, port uint8, in, out *ci.MAD) error {
			err := c.CA.LocalMAD(port, nil, in, out)
			if err == nil && in != nil && out != nil {
				f(in, out)
			}
			return err
		})
	}
	onLink := func(link string, m Mutant) Mutant { m.Link = link; return m }
	const set, get, attrPortInfo, attrNodeInfo, attrPKeys, attrGUIDs, data = 2, 1, 0x15, 0x11, 0x16, 0x14, 64
	is := func(m *ci.MAD, method, attr byte) bool { return m[3] == method && m[17] == attr }
	return []Mutant{
		modify("ca.all-bits", "CI-ModifyCA-01", "capability bits outside of the mask are changed, too", 0,
			func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
				if set&ci.PortFieldCapability != 0 && a.CapMask != 0 {
					a.CapMask = ^ci.PortCap(0)
				}
				return c.CA.Modify(port, set, a)
			}),
		modify("ca.counter-stays", "CI-ModifyCA-02", "a violation counter is set to 0 instead of the given value",
			ci.CapQKeyCounter, func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
				a.QKeyErrors = 0
				return c.CA.Modify(port, set, a)
			}),
		query("ca.no-violations", "CI-ModifyCA-03", "the Q_Key counter is always 0", func(a *ci.CAAttr) {
			for i := range a.Ports {
				a.Ports[i].QKeyErrors = 0
			}
		}),
		modify("ca.system-guid-stays", "CI-ModifyCA-04",
			"a change of the system image GUID is ignored without an error", ci.CapSystemGUID,
			func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
				return c.CA.Modify(port, set&^ci.PortFieldSystemGUID, a)
			}),
		modify("ca.port-zero", "CI-ModifyCA-05", "port 0 is taken as port 1", 0,
			func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
				return c.CA.Modify(max(port, 1), set, a)
			}),
		modify("ca.unknown-fields", "CI-ModifyCA-06", "unknown fields are ignored", 0,
			func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
				return c.CA.Modify(port, set&(ci.PortFieldShutdown<<1-1), a)
			}),
		modify("ca.claims-counter", "CI-ModifyCA-07", "the Q_Key counter is claimed but cannot be written",
			ci.CapQKeyCounter, func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
				if set&ci.PortFieldQKeyErrors != 0 {
					return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported}
				}
				return c.CA.Modify(port, set, a)
			}),
		modify("ca.maskless", "CI-ModifyCA-08", "capability bits are changed although their field is not set", 0,
			func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
				return c.CA.Modify(port, set|ci.PortFieldCapability, a)
			}),
		query("ca.revision", "CI-QueryCA-05", "the revision in the attributes is not that of the adapter",
			func(a *ci.CAAttr) { a.Revision++ }),
		Of("ca.not-ready", "SAS-2.2-10", "no PD can be allocated before the fourth open", func(h ci.HCA) ci.HCA {
			opens := &atomic.Int32{}
			return ciwrap.Wrap(h,
				ciwrap.Layer{CA: func(c ci.CA) ci.CA { return sleepy{ciwrap.CA{CA: c}, opens.Add(1)} }})
		}),
		response("mad.new-tid", "CI-LocalMAD-01", "the response has only the lower half of the transaction id",
			func(_, out *ci.MAD) { clear(out[8:12]) }),
		response("mad.zero-guid", "CI-LocalMAD-02", "NodeInfo has no node GUID", func(in, out *ci.MAD) {
			if is(in, get, attrNodeInfo) {
				clear(out[data+12 : data+20])
			}
		}),
		response("mad.other-lid", "CI-LocalMAD-03", "the LID in PortInfo differs from that of a query",
			func(in, out *ci.MAD) {
				if is(in, get, attrPortInfo) {
					out[data+16] ^= 0x40
				}
			}),
		response("mad.other-pkey", "CI-LocalMAD-04", "the P_Key table differs from that of a query",
			func(in, out *ci.MAD) {
				if is(in, get, attrPKeys) {
					out[data] ^= 0x40
				}
			}),
		response("mad.guid-table", "CI-LocalMAD-05", "the GUID table begins with the second entry",
			func(in, out *ci.MAD) {
				if is(in, get, attrGUIDs) {
					copy(out[data:data+56], out[data+8:data+64])
				}
			}),
		local("mad.error-as-error", "CI-LocalMAD-06", "a MAD status also makes the verb fail",
			func(c madder, port uint8, in, out *ci.MAD) error {
				err := c.CA.LocalMAD(port, nil, in, out)
				if err == nil && out != nil && (out[4]&0x7f != 0 || out[5] != 0) {
					return &ci.Error{Verb: "CA.LocalMAD", Status: ci.InvalidParameter}
				}
				return err
			}),
		local("mad.port-zero", "CI-LocalMAD-07", "port 0 is taken as port 1",
			func(c madder, port uint8, in, out *ci.MAD) error {
				return c.CA.LocalMAD(max(port, 1), nil, in, out)
			}),
		local("mad.set-forgets", "CI-LocalMAD-08", "Set PortInfo returns the new values but does nothing",
			func(c madder, port uint8, in, out *ci.MAD) error {
				if in != nil && out != nil && is(in, set, attrPortInfo) {
					*out = *in
					out[3] = 0x81
					return nil
				}
				return c.CA.LocalMAD(port, nil, in, out)
			}),
		local("mad.state-forgets", "SAS-2.1-14", "a change of the port state is ignored without an error",
			func(c madder, port uint8, in, out *ci.MAD) error {
				if in != nil && is(in, set, attrPortInfo) {
					changed := *in
					changed[data+32] &^= 15
					in = &changed
				}
				return c.CA.LocalMAD(port, nil, in, out)
			}),
		local("mad.any-state", "CI-LocalMAD-09", "an unreachable port state is taken as no change",
			func(c madder, port uint8, in, out *ci.MAD) error {
				if in != nil && is(in, set, attrPortInfo) && in[data+32]&15 == byte(ci.PortInit) {
					changed := *in
					changed[data+32] &^= 15
					in = &changed
				}
				return c.CA.LocalMAD(port, nil, in, out)
			}),
		local("mad.repress-refused", "CI-LocalMAD-10", "a trap repress is an error",
			func(c madder, port uint8, in, out *ci.MAD) error {
				if in != nil && in[3] == 7 {
					return &ci.Error{Verb: "CA.LocalMAD", Status: ci.Unsupported}
				}
				return c.CA.LocalMAD(port, nil, in, out)
			}),
		local("mad.echoes", "CI-LocalMAD-13", "a datagram that is no request is returned",
			func(c madder, port uint8, in, out *ci.MAD) error {
				err := c.CA.LocalMAD(port, nil, in, out)
				if err == nil && in != nil && out != nil && in[3]&0x80 != 0 {
					*out = *in
				}
				return err
			}),
		onLink("network", response("mad.ethernet-executed", "CI-LocalMAD-12",
			"requests of subnet management succeed on an Ethernet port", func(_, out *ci.MAD) { out[5] = 0 })),
		response("mad.no-direction", "CI-LocalMAD-11", "the direction bit is clear in a directed-route response",
			func(_, out *ci.MAD) { out[4] &= 0x7f }),
		Of("mad.no-lid-event", "SAS-2.1-19", "a change of LID causes no event",
			tap.Layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
				if e.Type != ci.EventLIDChange {
					deliver(e)
				}
			}})).Needing(ci.CapLocalMAD).On("direct"),
		query("mad.no-agent", "SAS-2.1-15", "no management agent is claimed",
			func(a *ci.CAAttr) { a.Caps &^= ci.CapHardwareSMA | ci.CapLocalMAD }),
	}
}

type portModifier struct {
	ciwrap.CA
	f func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error
}

func (p portModifier) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	return p.f(p, port, set, a)
}

type caQueryer struct {
	ciwrap.CA
	f func(a *ci.CAAttr)
}

func (c caQueryer) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		c.f(a)
	}
	return a, err
}

type madder struct {
	ciwrap.CA
	f func(c madder, port uint8, in, out *ci.MAD) error
}

func (m madder) LocalMAD(port uint8, _ *ci.AVAttr, in, out *ci.MAD) error {
	return m.f(m, port, in, out)
}

// sleepy fails to allocate a PD at its second open. The first open is the certifier's, to read the claims.
type sleepy struct {
	ciwrap.CA
	nth int32
}

func (s sleepy) AllocatePD(typ ci.PDType) (ci.PD, error) {
	if s.nth <= 3 {
		return nil, &ci.Error{Verb: "CA.AllocatePD", Status: ci.InvalidState}
	}
	return s.CA.AllocatePD(typ)
}
