package smamutants

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// Faults that a subnet manager at another port of the link sees. They are in the first adapter alone: the second one is
// the manager's.

func linkMutants() []mutant.Mutant {
	return []mutant.Mutant{
		sends("sma.link-reserved", "SMA-Link-01", "responses by LID leave with a reserved byte set",
			func(b []byte) bool {
				if isResponse(b) && mad.Class(b[1]) == mad.ClassSubnetLID {
					b[40] = 1
				}
				return true
			}),
		sends("sma.no-return-path", "SMA-Link-02", "the port is not in the return path of a directed route",
			func(b []byte) bool {
				if isResponse(b) && mad.Class(b[1]) == mad.ClassSubnetDirected && b[7] == 1 {
					b[192+1] = 0
				}
				return true
			}),
		receives("sma.any-hops", "SMA-Link-03", "each directed route ends at the port", func(b []byte) {
			if mad.Class(b[1]) == mad.ClassSubnetDirected && b[4]&0x80 == 0 && b[6] != b[7] {
				b[6], b[7] = 1, 1
			}
		}),
		sends("sma.sm-info", "SMA-Link-04", "SMInfo is answered as if there was a manager", func(b []byte) bool {
			if isResponse(b) && binary.BigEndian.Uint16(b[16:]) == mad.AttrSMInfo {
				b[4], b[5] = 0, 0
			}
			return true
		}),
		first("sma.answered-twice", "SMA-Link-05", "each response is sent twice", tap.QP(
			func(q ci.QP, c ci.QPCreate) ci.QP {
				if c.Type != ci.QP0 {
					return q
				}
				return tap.SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
					again := tap.CopySends(wrs)
					for i := range again {
						again[i].Flags &^= ci.SendSignaled
					}
					return append(again, wrs...)
				})
			})),
		undeclared(),
		silent(),
		receivesState("sma.deaf", "SMA-Link-06", "after 300 datagrams, QP0 receives no others",
			func() func(b []byte) {
				n := &atomic.Int32{}
				return func(b []byte) {
					if n.Add(1) > 300 {
						b[1] = 0x7f
					}
				}
			}),
		sends("sma.trap-key", "SMA-Trap-01", "the M_Key in trap 256 is not that of the request",
			func(b []byte) bool {
				if isTrap(b) {
					b[smpData+10+14] ^= 1
				}
				return true
			}),
		sendsState("sma.trap-once", "SMA-Trap-02", "a trap is sent once", func() func(b []byte) bool {
			var seen sync.Map
			return func(b []byte) bool {
				if !isTrap(b) {
					return true
				}
				_, again := seen.LoadOrStore(binary.BigEndian.Uint64(b[8:]), true)
				return !again
			}
		}),
		receives("sma.repress-lost", "SMA-Trap-03", "a trap repress has another transaction ID", func(b []byte) {
			if mad.Method(b[3]) == mad.TrapRepress {
				b[9] ^= 0x55
			}
		}),
		sends("sma.trap-transaction", "SMA-Trap-04", "all traps have the same transaction ID",
			func(b []byte) bool {
				if isTrap(b) {
					copy(b[8:16], "\x00\x00\x00\x00\x00\x00\x00\x05")
				}
				return true
			}),
		capabilityIgnored(),
		receives("sma.repress-ignored", "SMA-Trap-06", "a trap repress does not end trap 144", func(b []byte) {
			if mad.Method(b[3]) == mad.TrapRepress && binary.BigEndian.Uint16(b[68:]) == mad.TrapCapabilityMask {
				b[15] ^= 0x55
			}
		}),
		events("sma.guid-trap-lost", "SMA-Trap-07", "a change of the system image GUID raises no event",
			func(e *ci.Event) bool { return e.Type != ci.EventSystemGUIDTrap }),
		events("sma.pkey-trap-lost", "SMA-Trap-08", "a packet with a wrong P_Key raises no event",
			func(e *ci.Event) bool { return e.Type != ci.EventPKeyTrap }),
		events("sma.qkey-trap-key", "SMA-Trap-09", "the event of a wrong Q_Key has the Q_Key that is right",
			func(e *ci.Event) bool {
				if e.Type == ci.EventQKeyTrap && e.Violation != nil {
					v := *e.Violation
					v.Key = 0x11111111
					e.Violation = &v
				}
				return true
			}),
		sendsState("sma.trap-limit", "SMA-Trap-11", "the port sends no fourth trap", func() func([]byte) bool {
			var mu sync.Mutex
			seen := map[uint64]bool{}
			return func(b []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				tid := binary.BigEndian.Uint64(b[8:])
				if isTrap(b) && len(seen) < 3 {
					seen[tid] = true
				}
				return !isTrap(b) || seen[tid]
			}
		}),
		receives("sma.notice-kept", "SMA-Trap-12", "a Set of Notice acknowledges no trap", func(b []byte) {
			if mad.Method(b[3]) == mad.Set && binary.BigEndian.Uint16(b[16:]) == mad.AttrNotice {
				b[smpData+6] ^= 0x55
			}
		}),
		sendsState("sma.trap-gives-up", "SMA-Trap-13", "a trap is sent twice", func() func(b []byte) bool {
			var mu sync.Mutex
			seen := map[uint64]int{}
			return func(b []byte) bool {
				if !isTrap(b) {
					return true
				}
				mu.Lock()
				defer mu.Unlock()
				tid := binary.BigEndian.Uint64(b[8:])
				seen[tid]++
				return seen[tid] <= 2
			}
		}),
		first("sma.always-active", "SMA-Trap-14", "CA.Query returns Active for a port in Init", tap.Layer(
			ciwrap.Layer{CA: func(c ci.CA) ci.CA {
				return querier{ciwrap.CA{CA: c}, func(a *ci.CAAttr) {
					for i := range a.Ports {
						if p := &a.Ports[i]; p.State == ci.PortInit {
							p.State = ci.PortActive
						}
					}
				}}
			}})),
		sends("sma.node-revision", "SMA-Driver-01", "NodeInfo leaves QP0 with another revision",
			func(b []byte) bool {
				if isResponse(b) && binary.BigEndian.Uint16(b[16:]) == mad.AttrNodeInfo {
					b[smpData+34] ^= 0x55
				}
				return true
			}),
		receives("sma.other-request", "SMA-Driver-02", "a Get of NodeDescription arrives as one of NodeInfo",
			func(b []byte) {
				if mad.Method(b[3]) == mad.Get && binary.BigEndian.Uint16(b[16:]) == mad.AttrNodeDescription {
					binary.BigEndian.PutUint16(b[16:], mad.AttrNodeInfo)
				}
			}),
		first("sma.other-source", "SMA-Driver-03", "datagrams arrive with another source LID", tap.Poll(
			func(w *ci.WC) {
				if w.Status == ci.WCSuccess && w.Op == ci.WCRecv {
					w.SLID ^= 0x100
				}
			})),
		receives("sma.master-key", "SMA-Driver-04", "requests arrive with the right M_Key instead of a wrong one",
			func(b []byte) {
				if binary.BigEndian.Uint64(b[24:]) == 0x8877665544332211 {
					binary.BigEndian.PutUint64(b[24:], 0x1122334455667788)
				}
			}),
		fault("sma.lease-key-lost", "SMA-Driver-06", "a Set that ends the protection of a port removes its M_Key",
			func() hook {
				return func(in, out *ci.MAD, next execute) error {
					q := *in
					if isSetOf(in, mad.AttrPortInfo) && in[smpData+34]>>6 == 0 {
						clear(q[smpData:][:8])
					}
					return next(&q, out)
				}
			}),
		sends("sma.violations-wrap", "SMA-Driver-05", "MKeyViolations is 0 instead of 65,535",
			func(b []byte) bool {
				if isResponse(b) && binary.BigEndian.Uint16(b[16:]) == mad.AttrPortInfo &&
					binary.BigEndian.Uint16(b[smpData+44:]) == 0xffff {
					b[smpData+44], b[smpData+45] = 0, 0
				}
				return true
			}),
		sends("sma.route-begun", "SMA-Manager-01", "a directed route leaves with hop pointer 0",
			func(b []byte) bool {
				if mad.Class(b[1]) == mad.ClassSubnetDirected && mad.Method(b[3]) == mad.Get {
					b[6] = 0
				}
				return true
			}),
		receives("sma.any-return", "SMA-Manager-02", "each response to a directed route ends at the port",
			func(b []byte) {
				if mad.Class(b[1]) == mad.ClassSubnetDirected && isResponse(b) {
					b[6], b[7] = 1, 1
					b[32], b[33] = 0xff, 0xff
				}
			}),
		sends("sma.answer-pointer", "SMA-Manager-03", "the response of a manager leaves with hop pointer 0",
			func(b []byte) bool {
				if isResponse(b) && binary.BigEndian.Uint16(b[16:]) == mad.AttrSMInfo {
					b[6] = 0
				}
				return true
			}),
		first("sma.no-manager", "SMA-Manager-04", "CA.Query does not return the bit IsSM", tap.Layer(
			ciwrap.Layer{CA: func(c ci.CA) ci.CA {
				return querier{ciwrap.CA{CA: c}, func(a *ci.CAAttr) {
					for i := range a.Ports {
						a.Ports[i].Capability &^= ci.PortCapSM
					}
				}}
			}})),
		stale("sma.stale-lid", "SMA-Event-01", "CA.Query returns the first LID", ci.EventLIDChange,
			func(old, now *ci.PortAttr) { now.LID = old.LID }),
		stale("sma.stale-manager", "SMA-Event-02", "CA.Query returns the first LID of the manager",
			ci.EventSMChange,
			func(old, now *ci.PortAttr) { now.SMLID = old.SMLID }),
		stale("sma.stale-pkeys", "SMA-Event-03", "CA.Query returns the first P_Keys", ci.EventPKeyChange,
			func(old, now *ci.PortAttr) { now.PKeys = old.PKeys }),
		stale("sma.stale-gids", "SMA-Event-04", "CA.Query returns the first GIDs", ci.EventGIDChange,
			func(old, now *ci.PortAttr) { now.GIDs = old.GIDs }),
		stale("sma.stale-timeout", "SMA-Event-05", "CA.Query returns the first SubnetTimeout", 0,
			func(old, now *ci.PortAttr) { now.SubnetTimeout = old.SubnetTimeout }),
		stale("sma.no-reregister", "SMA-Event-06", "ClientReregister causes no event", ci.EventReregister,
			func(_, _ *ci.PortAttr) {}),
		stale("sma.stale-state", "SMA-Event-07", "CA.Query returns Init for an armed port", 0,
			func(_, now *ci.PortAttr) {
				if now.State == ci.PortArmed {
					now.State = ci.PortInit
				}
			}),
	}
}

func isResponse(b []byte) bool { return mad.Method(b[3]) == mad.GetResp }
func isTrap(b []byte) bool     { return mad.Method(b[3]) == mad.Trap }

// first returns a mutant whose fault is in the first adapter.
func first(name, breaks, does string, wrap func(ci.HCA) ci.HCA) mutant.Mutant {
	return mutant.Of(name, breaks, does,
		nil).Needing(ci.CapSpecialQP).On("direct").Changing(func(t *validate.Target) { t.HCAs[0] = wrap(t.HCAs[0]) })
}

// sends returns a mutant that changes datagrams that leave QP0. A datagram for which f returns false is lost.
func sends(name, breaks, does string, f func(b []byte) bool) mutant.Mutant {
	return first(name, breaks, does, tap.MADOf(ci.QP0, f))
}

// sendsState is sends for a function with state. newFault is called for each adapter.
func sendsState(name, breaks, does string, newFault func() func(b []byte) bool) mutant.Mutant {
	return first(name, breaks, does, func(h ci.HCA) ci.HCA { return tap.MADOf(ci.QP0, newFault())(h) })
}

// receives returns a mutant that changes datagrams that arrive at QP0.
func receives(name, breaks, does string, f func(b []byte)) mutant.Mutant {
	return first(name, breaks, does, tap.MADInOf(ci.QP0, f))
}

// receivesState is receives for a function with state. newFault is called for each adapter.
func receivesState(name, breaks, does string, newFault func() func(b []byte)) mutant.Mutant {
	return first(name, breaks, does, func(h ci.HCA) ci.HCA { return tap.MADInOf(ci.QP0, newFault())(h) })
}

// events returns a mutant that changes events. An event for which f returns false is lost.
func events(name, breaks, does string, f func(e *ci.Event) bool) mutant.Mutant {
	return first(name, breaks, does, tap.Layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
		if f(&e) {
			deliver(e)
		}
	}}))
}

// querier is a CA whose attributes are changed.
type querier struct {
	ciwrap.CA
	change func(a *ci.CAAttr)
}

func (q querier) Query() (*ci.CAAttr, error) {
	a, err := q.CA.Query()
	if err == nil {
		b := *a
		b.Ports = slices.Clone(a.Ports)
		q.change(&b)
		a = &b
	}
	return a, err
}

// stale returns a mutant whose CA.Query takes part of a port's attributes from its first result, and which raises no
// event of a type.
func stale(name, breaks, does string, lost ci.EventType,
	keep func(old, now *ci.PortAttr)) mutant.Mutant {
	return first(name, breaks, does, tap.Layer(ciwrap.Layer{
		CA: func(c ci.CA) ci.CA {
			var mu sync.Mutex
			var old []ci.PortAttr
			return querier{ciwrap.CA{CA: c}, func(a *ci.CAAttr) {
				mu.Lock()
				defer mu.Unlock()
				if old == nil {
					old = slices.Clone(a.Ports)
				}
				for i := range a.Ports {
					keep(&old[i], &a.Ports[i])
				}
			}}
		},
		Event: func(e ci.Event, deliver func(ci.Event)) {
			if e.Type != lost {
				deliver(e)
			}
		},
	}))
}

// undeclared returns a mutant whose adapter answers SMPs, passes them up and does not say so.
func undeclared() mutant.Mutant {
	return undeclaredAgent("sma.agent-passes", "SMA-Link-05",
		"the adapter answers SMPs and passes them up, and does not claim agents", "passing")
}

// silent returns a mutant whose adapter answers SMPs and does not say so.
func silent() mutant.Mutant {
	return undeclaredAgent("sma.agent-undeclared", "SMA-Link-07",
		"the adapter answers SMPs, and does not claim agents", "hardware")
}

func undeclaredAgent(name, breaks, does, agents string) mutant.Mutant {
	m := first(name, breaks, does, tap.Layer(
		ciwrap.Layer{CA: func(c ci.CA) ci.CA {
			return querier{ciwrap.CA{CA: c}, func(a *ci.CAAttr) {
				a.Caps &^= ci.CapHardwareSMA
				for i := range a.Ports {
					a.Ports[i].HardwareAgents = false
				}
			}}
		}}))
	m.Values = map[string]string{"agents": agents}
	return m
}

// deafCA is a CA that ignores changes of the capability mask.
type deafCA struct{ ciwrap.CA }

func (c deafCA) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	return c.CA.Modify(port, set&^ci.PortFieldCapability, a)
}

func capabilityIgnored() mutant.Mutant {
	return first("sma.capability-ignored", "SMA-Trap-05", "a change of the capability mask is ignored",
		tap.CAs(func(c ciwrap.CA) ci.CA { return deafCA{c} }))
}
