package mutant

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Rules returns mutants that break statements of the specification about attributes, handles and the order of verbs.
func Rules() []Mutant {
	layer := func(name, breaks, does string, needs ci.Caps, l ciwrap.Layer) Mutant {
		return Of("rules."+name, breaks, does, tap.Layer(l)).Needing(needs)
	}
	queryCA := func(name, breaks, does string, f func(a *ci.CAAttr)) Mutant {
		return layer(name, breaks, does, 0, ciwrap.Layer{
			CA: func(c ci.CA) ci.CA { return caQueryer{ciwrap.CA{CA: c}, f} }})
	}
	queryQP := func(name, breaks, does string, f func(a *ci.QPAttr)) Mutant {
		return layer(name, breaks, does, 0, ciwrap.Layer{
			QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return queryer{ciwrap.QP{QP: q}, f} }})
	}
	modify := func(name, breaks, does string, f func(q *modifier, set ci.QPField, a ci.QPAttr) error) Mutant {
		return layer(name, breaks, does, 0, onModifyLayer(f))
	}
	reached := func(set ci.QPField, a ci.QPAttr, s ci.QPState) bool { return set&ci.QPFieldState != 0 && a.State == s }
	list := []Mutant{
		Of("rules.lazy-destroy", "SAS-0-01", "MR.Destroy succeeds and does nothing", lazyRegions),
		layer("first-pd", "SAS-2.1-01", "CQs belong to the first PD of their CA", 0, ciwrap.Layer{
			CA: func(c ci.CA) ci.CA { return &firstPD{CA: ciwrap.CA{CA: c}} }}),
		layer("mr-without-pd", "SAS-2.1-02", "MR.Query returns no PD", 0, ciwrap.Layer{
			MR: func(in ci.MR, _ ciwrap.MROrigin) ci.MR {
				return mrQuery{ciwrap.MR{MR: in}, func(a *ci.MRAttr) { a.PD = nil }}
			}}),
		layer("cq-in-newest-pd", "SAS-2.1-06", "CreateCQ from a destroyed PD uses the newest PD", 0, ciwrap.Layer{
			CA: func(c ci.CA) ci.CA { return &newestPD{CA: ciwrap.CA{CA: c}} }}),
		layer("cq-owner", "SAS-2.1-08", "CreateQP rejects CQs of another PD", 0, ciwrap.Layer{
			PD: func(p ci.PD, _ ci.PDType) ci.PD { return &possessivePD{PD: ciwrap.PD{PD: p}, own: map[any]bool{}} }}),
		layer("no-early-context", "SAS-2.1-12", "the first completion callback of a CQ has no context", 0, ciwrap.Layer{
			CQCreate: func(c ci.CQCreate) ci.CQCreate {
				if fn := c.OnCompletion; fn != nil {
					var later atomic.Bool
					c.OnCompletion = func(arg any) {
						if !later.Swap(true) {
							arg = nil
						}
						fn(arg)
					}
				}
				return c
			}}),
		layer("late-context", "SAS-2.1-12",
			"events that come before OnEvent has returned have no context", ci.CapEventHandlers, ciwrap.Layer{
				CA: func(c ci.CA) ci.CA { return lateContext{ciwrap.CA{CA: c}} }}).By("callbacks.early.handler"),
		Of("rules.no-init-event", "SAS-2.1-20", "a port that reaches Init raises no event",
			tap.Layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
				if e.Type != ci.EventPortInit {
					deliver(e)
				}
			}})).Needing(ci.CapLocalMAD).On("direct"),
		Of("rules.pkeys-unsupported", "SAS-2.1-13", "the agent does not know the P_Key table",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA {
				return madder{ciwrap.CA{CA: c}, func(m madder, port uint8, in, out *ci.MAD) error {
					err := m.CA.LocalMAD(port, nil, in, out)
					if err == nil && in != nil && out != nil && in[17] == 0x16 {
						out[5] = 0x0c
					}
					return err
				}}
			}})).Needing(ci.CapLocalMAD).On("direct"),
		queryCA("hidden-agent", "SAS-2.1-16", "LocalMAD works although it is not claimed", func(a *ci.CAAttr) {
			a.Caps = a.Caps&^ci.CapLocalMAD | ci.CapHardwareSMA
			for i := range a.Ports {
				a.Ports[i].HardwareAgents = true
			}
		}),
		queryCA("other-guid", "SAS-2.1-26", "the attributes have another GUID than the adapter",
			func(a *ci.CAAttr) { a.GUID ^= 1 }),
		queryCA("other-vendor", "CI-OpenCA-02", "the attributes have another vendor than the adapter",
			func(a *ci.CAAttr) { a.VendorID ^= 1 }),
		queryCA("no-resize", "CI-Claims-02", "resize of CQs is not claimed",
			func(a *ci.CAAttr) { a.Caps &^= ci.CapResizeCQ }),
		queryCA("no-fmrs", "SAS-2.3-03", "the limit of FMRs is inverted", func(a *ci.CAAttr) {
			if a.MaxFMRs > 0 {
				a.MaxFMRs = 0
			} else {
				a.MaxFMRs = 1
			}
		}),
		queryCA("read-sges", "CI-QueryCA-01", "reads may have more segments than other requests",
			func(a *ci.CAAttr) { a.MaxReadSGEs = a.MaxSGEs + 1 }),
		queryCA("huge-message", "CI-QueryCA-02", "messages of more than 2 GB are promised", func(a *ci.CAAttr) {
			for i := range a.Ports {
				a.Ports[i].MaxMsgSize = 1 << 32
			}
		}),
		queryCA("mtu-17", "CI-QueryCA-06", "a port has MTUs for 17 service levels", func(a *ci.CAAttr) {
			for i := range a.Ports {
				a.Ports[i].MTUs = slices.Repeat([]ci.MTU{a.Ports[i].MTU}, 17)
			}
		}),
		queryCA("mtu-unchecked", "CI-QueryCA-06", "a connection may have a larger MTU than its service level",
			func(a *ci.CAAttr) {
				for i := range a.Ports {
					a.Ports[i].MTUs = []ci.MTU{a.Ports[i].MTU, ci.MTU256}
				}
			}),
		queryCA("odd-page", "CI-QueryCA-04", "a page size is not a power of two",
			func(a *ci.CAAttr) { a.PageSizes = append([]uint64{3000}, a.PageSizes...) }),
		Of("rules.query-once", "SAS-2.2-02", "the second query of an adapter fails", func(h ci.HCA) ci.HCA {
			n := &atomic.Int32{}
			return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return failsOnce{ciwrap.CA{CA: c}, n} }})
		}),
		queryQP("qp-without-pd", "SAS-2.3-06", "QP.Query returns no PD", func(a *ci.QPAttr) { a.PD = nil }),
		queryQP("qp-queues", "SAS-2.3-09", "QP.Query returns the CQs in the wrong order",
			func(a *ci.QPAttr) { a.SendCQ, a.RecvCQ = a.RecvCQ, a.SendCQ }),
		queryQP("qp-small", "SAS-2.3-10", "a QP has one receive less than requested",
			func(a *ci.QPAttr) { a.RecvDepth = 0 }),
		queryQP("qp-type", "CI-CreateQP-01", "every QP reports the type UC", func(a *ci.QPAttr) { a.Type = ci.UC }),
		queryQP("qp-stays-init", "SAS-2.3-11", "Query returns Init for a QP in RTR", func(a *ci.QPAttr) {
			if a.State == ci.QPRTR {
				a.State = ci.QPInit
			}
		}),
		layer("page-address", "SAS-2.3-13", "the address of a region is that of its page", 0, ciwrap.Layer{
			MR: func(in ci.MR, o ciwrap.MROrigin) ci.MR {
				r := in.Region()
				r.Addr &^= 4095
				if o.Kind != ciwrap.MRVirtual {
					return in
				}
				return faced{ciwrap.MR{MR: in}, r}
			}}),
		layer("shared-elsewhere", "SAS-2.3-15", "a shared region has memory of its own", ci.CapSharedMR, ciwrap.Layer{
			PD: func(p ci.PD, _ ci.PDType) ci.PD { return privateShare{ciwrap.PD{PD: p}} }}),
		layer("physical-rights", "SAS-2.3-14", "Query of a physical region returns no access rights", ci.CapPhysicalMR,
			ciwrap.Layer{MR: func(in ci.MR, o ciwrap.MROrigin) ci.MR {
				if o.Kind != ciwrap.MRPhysical {
					return in
				}
				return mrQuery{ciwrap.MR{MR: in}, func(a *ci.MRAttr) { a.Access = 0 }}
			}}),
		Of("rules.window-first", "SAS-2.3-16", "a window can be bound only to regions that were registered before it",
			windowsFirst).Needing(ci.CapMW1),
		Of("rules.first-buffer", "SAS-2.3-17", "only the first key of a list is checked",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				for i := range w.SGL {
					w.SGL[i].LKey = w.SGL[0].LKey
				}
			})),
		layer("one-queue", "SAS-2.3-18", "the CQs of sends and receives are interchanged", 0,
			ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate {
				c.SendCQ, c.RecvCQ = c.RecvCQ, c.SendCQ
				return c
			}}),
		layer("stays-armed", "SAS-2.3-20", "a CQ is armed again after its callback", 0, ciwrap.Layer{
			PD: func(p ci.PD, _ ci.PDType) ci.PD { return rearming{ciwrap.PD{PD: p}} }}),
		layer("no-poll-inside", "SAS-2.3-22", "Poll fails in a completion callback", 0, pollFailsInside()),
		layer("mr-busy", "SAS-2.3-24", "a used region rejects its first Destroy", 0, ciwrap.Layer{
			MR: func(in ci.MR, o ciwrap.MROrigin) ci.MR { return &stickyMR{MR: ciwrap.MR{MR: in}} }}),
		layer("buffer-wears-out", "SAS-2.3-25", "the hundredth send of a QP sends nothing", 0, ciwrap.Layer{
			QP: func(q ci.QP, c ci.QPCreate) ci.QP { return &tired{QP: ciwrap.QP{QP: q}} }}),
		layer("refusal-breaks-pd", "SAS-2.3-26", "a PD whose Destroy was rejected registers no more memory", 0,
			ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return &offended{PD: ciwrap.PD{PD: p}} }}),
		layer("rdd-beside", "CI-Claims-03", "AllocRDD returns an object together with Unsupported", 0, ciwrap.Layer{
			PD: func(p ci.PD, _ ci.PDType) ci.PD { return rddBeside{ciwrap.PD{PD: p}} }}),
		layer("half-cq", "CI-CreateCQ-01", "large CQs have half of the requested entries", 0, ciwrap.Layer{
			CQCreate: func(c ci.CQCreate) ci.CQCreate {
				if c.Size > 1024 {
					c.Size /= 2
				}
				return c
			}}),
		layer("verbs-fail-inside", "CI-Callback-03", "no AV can be created while an event is delivered", ci.CapAV,
			avFailsInside()),
		layer("sqd-no-sends", "CI-SQD-01", "posts to a drained QP are rejected", 0, ciwrap.Layer{
			QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return sqdRefuses{ciwrap.QP{QP: q}} }}),
		modify("optional-access", "CI-ModifyQP-01", "access rights cannot be changed in the transition to RTS",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if reached(set, a, ci.QPRTS) && set&(ci.QPFieldAccess|ci.QPFieldQKey) != 0 {
					return &ci.Error{Verb: "QP.Modify", Status: ci.InvalidParameter}
				}
				return q.inner(set, a)
			}),
		modify("largest-psn", "CI-ModifyQP-06", "the largest PSN is taken as 0",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if a.SQPSN == 1<<24-1 {
					a.SQPSN = 0
				}
				return q.inner(set, a)
			}),
		layer("port-stays-up", "CI-PortEvent-02", "a port that is shut down stays active", ci.CapShutdownPort,
			ciwrap.Layer{CA: func(c ci.CA) ci.CA {
				return portModifier{ciwrap.CA{CA: c}, ignoring(ci.PortFieldShutdown)}
			}}),
		onLink("direct", layer("init-type-stays", "CI-ModifyCA-09", "a change of the init type is ignored",
			ci.CapInitType, ciwrap.Layer{CA: func(c ci.CA) ci.CA {
				return portModifier{ciwrap.CA{CA: c}, ignoring(ci.PortFieldInitType)}
			}})),
		layer("one-guid", "SAS-2.1-11", "all adapters report the same GUID", 0, ciwrap.Layer{
			HCA: func(h ci.HCA) ci.HCA { return oneGUID{ciwrap.HCA{HCA: h}} }}),
		layer("no-destroy-meanwhile", "SAS-2.1-28", "a QP cannot be destroyed while an event is delivered", 0,
			destroyFailsInside()),
		layer("half-destroyed", "SAS-2.1-28", "Destroy of a QP in a callback fails and moves the QP to Error", 0,
			destroyHalfInside()),
	}
	return append(list, serviceRules(layer, modify)...)
}

// serviceRules returns the faults of services and optional objects.
func serviceRules(
	layer func(name, breaks, does string, needs ci.Caps, l ciwrap.Layer) Mutant,
	modify func(name, breaks, does string, f func(q *modifier, set ci.QPField, a ci.QPAttr) error) Mutant,
) []Mutant {
	wrap := func(name, breaks, does string, needs ci.Caps, link string, f func(ci.HCA) ci.HCA) Mutant {
		return Of("rules."+name, breaks, does, f).Needing(needs).On(link)
	}
	return []Mutant{
		layer("fmr-order", "CI-MapFMR-01", "the pages of an FMR are mapped in order of their addresses", ci.CapFMR,
			ciwrap.Layer{FMR: func(f ci.FMR, _ ci.FMRCreate) ci.FMR { return sortedFMR{ciwrap.FMR{FMR: f}} }}),
		wrap("lost-callbacks", "CI-Notify-06", "every tenth completion callback is lost", 0, "",
			lostCallbacks(func(n int32) bool { return n%10 == 0 })),
		wrap("few-callbacks", "CI-Notify-06", "an adapter makes twenty completion callbacks and no more", 0, "",
			lostCallbacks(func(n int32) bool { return n > 20 })),
		layer("plain-memory", "CI-RegisterMR-07", "memory without a direct view is rejected with InvalidPDHandle", 0,
			ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD {
				return pdRegister{ciwrap.PD{PD: p}, func(c ci.MRCreate) (ci.MR, error) {
					if c.Memory != nil && reflect.TypeOf(c.Memory) != reflect.TypeOf(ci.Bytes(nil)) {
						return nil, &ci.Error{Verb: "PD.RegisterMR", Status: ci.InvalidPDHandle}
					}
					return p.RegisterMR(c)
				}}
			}}),
		layer("sqd-no-receives", "CI-SQD-03", "receives cannot be posted in SQD", 0, ciwrap.Layer{
			QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return sqdDeaf{ciwrap.QP{QP: q}} }}),
		modify("no-rnr-retry", "CI-SRQ-03", "the RNR retry count is taken as 0",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				a.RNRRetry = 0
				return q.inner(set, a)
			}),
		wrap("srq-general", "CI-SRQ-04", "local protection errors complete with a general error", ci.CapSRQ, "",
			status(ci.WCLocalProtErr, ci.WCGeneralErr)),
		wrap("srq-length", "CI-SRQ-05", "local protection errors complete with a length error", ci.CapSRQ, "",
			status(ci.WCLocalProtErr, ci.WCLocalLenErr)),
		layer("type-1-windows", "CI-BindMWTwo-02", "windows of type 2 are of type 1", ci.CapMW1|ci.CapMW2, ciwrap.Layer{
			PD: func(p ci.PD, _ ci.PDType) ci.PD { return typeOne{ciwrap.PD{PD: p}} }}),
		wrap("open-window", "CI-CreateMW-01", "a new window has the key of a region", ci.CapMW1, "", openWindows),
		wrap("registers-last", "CI-FastReg-03", "a fast registration is executed after the next request", ci.CapFastReg,
			"", tap.Sends(func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
				if len(wrs) == 2 && wrs[0].Op == ci.OpFastReg {
					wrs[0], wrs[1] = wrs[1], wrs[0]
				}
				return wrs
			})),
		wrap("invalidates-0", "CI-LocalInv-02", "a local invalidate of key 0 does nothing", ci.CapFastReg, "",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpLocalInv && w.Inv == 0 {
					w.Op = ci.OpWrite
				}
			})),
		wrap("half-qkey", "CI-Mcast-09", "only half of the bits of a Q_Key count", ci.CapUD|ci.CapMulticast, "",
			tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldQKey != 0 && a.QKey>>31 == 0 {
					a.QKey &= 0x11111111
				}
			})),
		wrap("qp0-twice", "CI-SpecialQP-02", "a second QP0 is rejected with InvalidQPHandle", ci.CapSpecialQP, "direct",
			tap.Layer(ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD {
				return specialist{ciwrap.PD{PD: p}, func(p ciwrap.PD, port uint8, c ci.QPCreate) (ci.QP, error) {
					q, err := p.PD.CreateSpecialQP(port, c)
					if ci.StatusOf(err) == ci.ResourceBusy {
						return nil, &ci.Error{Verb: "PD.CreateSpecialQP", Status: ci.InvalidQPHandle}
					}
					return q, err
				}}
			}})),
		wrap("qp0-damages", "CI-SpecialQP-08", "QP0 damages received datagrams", ci.CapSpecialQP, "direct",
			tap.MADInOf(ci.QP0, func(b []byte) { b[100] ^= 1 })),
		layer("short-numbers", "CI-Teardown-09", "QP numbers have 7 bits", 0, ciwrap.Layer{
			QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return shortNum{ciwrap.QP{QP: q}} }}),
		wrap("short-reads", "IBTA-9.7-11", "a read returns one byte too few", 0, "",
			ofOp(ci.OpRead, func(w *ci.SendWR) { shorten(w.SGL) })),
		wrap("no-retry", "IBTA-9.7-13", "the retry count is taken as 0", 0, "",
			tap.Modify(func(_ ci.QPCreate, _ ci.QPField, a *ci.QPAttr) { a.RetryCount = 0 })),
		wrap("uc-damaged", "IBTA-9.8-22", "UC messages are damaged", ci.CapUC, "", damaged(ci.UC)),
	}
}

// ignoring returns a Modify that ignores fields.
func ignoring(fields ci.PortField) func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
	return func(c portModifier, port uint8, set ci.PortField, a ci.PortModify) error {
		return c.CA.Modify(port, set&^fields, a)
	}
}

type oneGUID struct{ ciwrap.HCA }

const sameGUID = ci.GUID(5)

func (h oneGUID) Info() ci.HCAInfo {
	i := h.HCA.Info()
	i.GUID = sameGUID
	return i
}

func (h oneGUID) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	if guid == sameGUID {
		guid = h.HCA.Info().GUID
	}
	return h.HCA.OpenCA(guid, fn, arg)
}

// destroyFailsInside makes QP.Destroy fail while an event is delivered.
func destroyFailsInside() ciwrap.Layer {
	var inside atomic.Int32
	return ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return destroyedOutside{ciwrap.QP{QP: q}, &inside} },
		Event: func(e ci.Event, deliver func(ci.Event)) {
			inside.Add(1)
			defer inside.Add(-1)
			deliver(e)
		}}
}

type destroyedOutside struct {
	ciwrap.QP
	inside *atomic.Int32
}

func (q destroyedOutside) Destroy() error {
	if q.inside.Load() > 0 {
		return &ci.Error{Verb: "QP.Destroy", Status: ci.InvalidState}
	}
	return q.QP.Destroy()
}

// destroyHalfInside lets Destroy fail on the goroutine of a callback and breaks the QP.
func destroyHalfInside() ciwrap.Layer {
	var inside atomic.Int32
	return ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return halfDestroyed{ciwrap.QP{QP: q}, &inside} },
		Event: func(e ci.Event, deliver func(ci.Event)) {
			inside.Add(1)
			defer inside.Add(-1)
			deliver(e)
		}}
}

type halfDestroyed struct {
	ciwrap.QP
	inside *atomic.Int32
}

func (q halfDestroyed) Destroy() error {
	if q.inside.Load() == 0 {
		return q.QP.Destroy()
	}
	_ = q.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
	return &ci.Error{Verb: "QP.Destroy", Status: ci.InvalidState}
}

type sortedFMR struct{ ciwrap.FMR }

func (f sortedFMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	return f.FMR.Map(slices.Sorted(slices.Values(pages)), iova)
}

// lostCallbacks drops the nth completion callback of an adapter if isLost(n) is true.
func lostCallbacks(isLost func(n int32) bool) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		n := &atomic.Int32{}
		return ciwrap.Wrap(h, ciwrap.Layer{Completion: func(arg any, deliver func(any)) {
			if !isLost(n.Add(1)) {
				deliver(arg)
			}
		}})
	}
}

// sqdDeaf rejects receives in SQD.
type sqdDeaf struct{ ciwrap.QP }

func (q sqdDeaf) PostRecv(wrs []ci.RecvWR) (int, error) {
	if a, err := q.Query(); err == nil && (a.State == ci.QPSQD || a.State == ci.QPSQDraining) {
		return 0, &ci.Error{Verb: "QP.PostRecv", Status: ci.InvalidQPState}
	}
	return q.QP.PostRecv(wrs)
}

type typeOne struct{ ciwrap.PD }

func (p typeOne) CreateMW(c ci.MWCreate) (ci.MW, error) {
	if c.Type == ci.MWType2 {
		c.Type = ci.MWType1
	}
	return p.PD.CreateMW(c)
}

// openWindows makes each window report the key of the region that was registered last.
func openWindows(h ci.HCA) ci.HCA {
	key := &atomic.Uint32{}
	return ciwrap.Wrap(h, ciwrap.Layer{
		MR: func(in ci.MR, _ ciwrap.MROrigin) ci.MR { key.Store(uint32(in.Region().RKey)); return in },
		MW: func(in ci.MW, _ ci.MWCreate) ci.MW { return openMW{ciwrap.MW{MW: in}, key} }})
}

type openMW struct {
	ciwrap.MW
	key *atomic.Uint32
}

func (w openMW) Key() ci.Key { return ci.Key(w.key.Load()) }

type shortNum struct{ ciwrap.QP }

func (q shortNum) Num() ci.QPN { return q.QP.Num()&0x7f | 0x100 }

// firstPD creates all CQs in the first PD that was allocated.
type firstPD struct {
	ciwrap.CA
	mu    sync.Mutex
	first ci.PD
}

func (c *firstPD) AllocatePD(typ ci.PDType) (ci.PD, error) {
	p, err := c.CA.AllocatePD(typ)
	if err != nil {
		return p, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil {
		c.first = p
	}
	return pdOfCQs{ciwrap.PD{PD: p}, c.first}, nil
}

// pdOfCQs is a PD that creates its CQs in another one.
type pdOfCQs struct {
	ciwrap.PD
	home ci.PD
}

func (p pdOfCQs) CreateCQ(c ci.CQCreate) (ci.CQ, error) { return p.home.CreateCQ(c) }

// newestPD creates CQs of destroyed PDs in the PD that was allocated last.
type newestPD struct {
	ciwrap.CA
	newest atomic.Pointer[ci.PD]
}

func (c *newestPD) AllocatePD(typ ci.PDType) (ci.PD, error) {
	p, err := c.CA.AllocatePD(typ)
	if err != nil {
		return p, err
	}
	c.newest.Store(&p)
	return replaced{ciwrap.PD{PD: p}, c}, nil
}

type replaced struct {
	ciwrap.PD
	ca *newestPD
}

func (p replaced) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	cq, err := p.PD.CreateCQ(c)
	if ci.StatusOf(err) == ci.InvalidPDHandle {
		return (*p.ca.newest.Load()).CreateCQ(c)
	}
	return cq, err
}

// possessivePD creates QPs only with its own CQs.
type possessivePD struct {
	ciwrap.PD
	mu  sync.Mutex
	own map[any]bool
}

func (p *possessivePD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	cq, err := p.PD.CreateCQ(c)
	if err == nil {
		p.mu.Lock()
		p.own[cq] = true
		p.mu.Unlock()
	}
	return cq, err
}

func (p *possessivePD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	p.mu.Lock()
	own := p.own[c.SendCQ]
	p.mu.Unlock()
	if !own {
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InvalidCQHandle}
	}
	return p.PD.CreateQP(c)
}

// failsOnce is a CA whose second query fails. The certifier makes the first one, for the claims.
type failsOnce struct {
	ciwrap.CA
	n *atomic.Int32
}

func (c failsOnce) Query() (*ci.CAAttr, error) {
	if c.n.Add(1) == 2 {
		return nil, &ci.Error{Verb: "CA.Query", Status: ci.InvalidState}
	}
	return c.CA.Query()
}

// privateShare registers other memory in place of a shared region.
type privateShare struct{ ciwrap.PD }

func (p privateShare) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	mr, err := p.PD.RegisterSMR(src, iova, access)
	if err != nil {
		return mr, err
	}
	r := mr.Region()
	if err := mr.Destroy(); err != nil {
		return nil, err
	}
	other, err := p.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, r.Length)), Access: access})
	if err != nil {
		return nil, err
	}
	at := other.Region()
	at.Addr = r.Addr
	return faced{ciwrap.MR{MR: other}, at}, nil
}

// windowsFirst rejects binds to regions that are newer than the window.
func windowsFirst(h ci.HCA) ci.HCA {
	n := &atomic.Int64{}
	return ciwrap.Wrap(h, ciwrap.Layer{
		MR: func(in ci.MR, _ ciwrap.MROrigin) ci.MR { return &numberedMR{ciwrap.MR{MR: in}, n.Add(1)} },
		MW: func(in ci.MW, _ ci.MWCreate) ci.MW { return &numberedMW{ciwrap.MW{MW: in}, n.Add(1)} },
		QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return ordered{ciwrap.QP{QP: q}} }})
}

type numberedMR struct {
	ciwrap.MR
	n int64
}

type numberedMW struct {
	ciwrap.MW
	n int64
}

type ordered struct{ ciwrap.QP }

func (q ordered) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	mr, isMR := b.MR.(*numberedMR)
	mw, isMW := b.MW.(*numberedMW)
	if isMR && isMW && mr.n > mw.n {
		return 0, &ci.Error{Verb: "QP.BindMW", Status: ci.InvalidPermission}
	}
	return q.QP.BindMW(id, flags, b)
}

// rearming is a PD whose CQs are armed again after each callback.
type rearming struct{ ciwrap.PD }

func (p rearming) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	made := &atomic.Pointer[ci.CQ]{}
	if fn := c.OnCompletion; fn != nil {
		c.OnCompletion = func(arg any) {
			fn(arg)
			if q := made.Load(); q != nil {
				_ = (*q).Notify(ci.NotifyNext)
			}
		}
	}
	q, err := p.PD.CreateCQ(c)
	if err == nil {
		made.Store(&q)
	}
	return q, err
}

// pollFailsInside makes Poll fail while a completion callback runs.
func pollFailsInside() ciwrap.Layer {
	var inside atomic.Int32
	return ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return pollsOutside{ciwrap.CQ{CQ: c}, &inside} },
		Completion: func(arg any, deliver func(any)) {
			inside.Add(1)
			defer inside.Add(-1)
			deliver(arg)
		}}
}

type pollsOutside struct {
	ciwrap.CQ
	inside *atomic.Int32
}

func (c pollsOutside) Poll(wc []ci.WC) (int, error) {
	if c.inside.Load() > 0 {
		return 0, &ci.Error{Verb: "CQ.Poll", Status: ci.InvalidState}
	}
	return c.CQ.Poll(wc)
}

// avFailsInside makes CreateAV fail while an event is delivered.
func avFailsInside() ciwrap.Layer {
	var inside atomic.Int32
	return ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return avOutside{ciwrap.PD{PD: p}, &inside} },
		Event: func(e ci.Event, deliver func(ci.Event)) {
			inside.Add(1)
			defer inside.Add(-1)
			deliver(e)
		}}
}

type avOutside struct {
	ciwrap.PD
	inside *atomic.Int32
}

func (p avOutside) CreateAV(a ci.AVAttr) (ci.AV, error) {
	if p.inside.Load() > 0 {
		return nil, &ci.Error{Verb: "PD.CreateAV", Status: ci.InvalidState}
	}
	return p.PD.CreateAV(a)
}

// stickyMR rejects the first Destroy.
type stickyMR struct {
	ciwrap.MR
	refused atomic.Bool
}

func (m *stickyMR) Destroy() error {
	if !m.refused.Swap(true) {
		return &ci.Error{Verb: "MR.Destroy", Status: ci.ResourceBusy}
	}
	return m.MR.Destroy()
}

// tired is a QP whose hundredth send has no data.
type tired struct {
	ciwrap.QP
	n atomic.Int32
}

func (q *tired) PostSend(wrs []ci.SendWR) (int, error) {
	if q.n.Add(1) == 100 {
		wrs = tap.CopySends(wrs)
		for i := range wrs {
			wrs[i].SGL = nil
		}
	}
	return q.QP.PostSend(wrs)
}

// offended is a PD that registers nothing after a rejected Destroy.
type offended struct {
	ciwrap.PD
	refused atomic.Bool
}

func (p *offended) Destroy() error {
	err := p.PD.Destroy()
	if ci.StatusOf(err) == ci.ResourceBusy {
		p.refused.Store(true)
	}
	return err
}

func (p *offended) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	if p.refused.Load() {
		return nil, &ci.Error{Verb: "PD.RegisterMR", Status: ci.InvalidPDHandle}
	}
	return p.PD.RegisterMR(c)
}

type rddBeside struct{ ciwrap.PD }

func (p rddBeside) AllocRDD() (ci.RDD, error) {
	r, err := p.PD.AllocRDD()
	if ci.StatusOf(err) == ci.Unsupported {
		return ciwrap.RDD{}, err
	}
	return r, err
}

// sqdRefuses rejects posts in SQD.
type sqdRefuses struct{ ciwrap.QP }

func (q sqdRefuses) PostSend(wrs []ci.SendWR) (int, error) {
	if a, err := q.Query(); err == nil && a.State == ci.QPSQD {
		return 0, &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidQPState}
	}
	return q.QP.PostSend(wrs)
}

// lateContext is a CA whose handlers get their contexts when OnEvent returns. It waits for an event until then, so that
// a case that causes events all the time finds the fault.
type lateContext struct{ ciwrap.CA }

func (c lateContext) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	var hasReturned atomic.Bool
	early := make(chan struct{}, 1)
	o, err := c.CA.OnEvent(func(e ci.Event) {
		if !hasReturned.Load() {
			e.Context = nil
		}
		select {
		case early <- struct{}{}:
		default:
		}
		fn(e)
	}, arg)
	select {
	case <-early:
	case <-time.After(100 * time.Millisecond): // the case causes no events
	}
	hasReturned.Store(true)
	return o, err
}
