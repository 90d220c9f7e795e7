package cisuite

import (
	"bytes"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// proof tests one capability by using it.
type proof struct {
	name  string
	bit   ci.Caps
	with  ci.Caps // further capabilities that the test needs
	title string
	needs validate.Needs // without Caps, which the matrix sets
	// spoils reports whether the target is unfit for other cases afterwards.
	spoils bool
	run    func(*validate.T)
}

// proofs are in the order of the bits. Most of them run the function of a case of another area.
var proofs = []proof{
	{name: "uc", bit: ci.CapUC, title: "messages on UC", run: ucOrder},
	{name: "uc-write", bit: ci.CapUC, title: "writes on UC", run: ucWriteImmediate},
	{name: "ud", bit: ci.CapUD, with: ci.CapAV, title: "datagrams", run: udWC},
	{name: "av", bit: ci.CapAV, title: "address vectors, created, modified and queried", run: avModify},
	{name: "special-qp", bit: ci.CapSpecialQP, with: ci.CapAV, title: "datagrams between QP1s", run: specialWorks},
	{
		name:  "multicast",
		bit:   ci.CapMulticast,
		with:  ci.CapUD | ci.CapAV,
		title: "datagrams to a group",
		run:   mcastReceivers,
	},
	{
		name:  "srq",
		bit:   ci.CapSRQ,
		title: "three connections on one receive queue",
		run:   func(t *validate.T) { srqShare(t, ci.RC) },
	},
	{name: "mw1", bit: ci.CapMW1, title: "access through a window of type 1", run: mwBind},
	{name: "mw2", bit: ci.CapMW2, title: "access through a window of type 2", run: mw2Bind},
	{
		name:  "mw2-invalidate",
		bit:   ci.CapMW2,
		title: "no access after a window of type 2 is invalidated",
		run:   mw2LocalInv,
	},
	{name: "fmr", bit: ci.CapFMR, title: "access to a region of an FMR", run: fmrUse},
	{name: "fmr-unmap", bit: ci.CapFMR, title: "no access after an FMR is unmapped", run: fmrUnmap},
	{name: "fast-reg", bit: ci.CapFastReg, title: "access to a fast-registered region", run: fastUse},
	{
		name:  "fast-reg-invalidate",
		bit:   ci.CapFastReg,
		title: "no access after a fast-registered region is invalidated",
		run:   fastLocalInv,
	},
	{name: "physical-mr", bit: ci.CapPhysicalMR, title: "access to a region over DMA addresses", run: mrPhysicalOffset},
	{name: "shared-mr", bit: ci.CapSharedMR, title: "the same bytes through two regions", run: mrSharedBytes},
	{name: "modify-mr", bit: ci.CapModifyMR, title: "modified access rights of a region", run: mrModifyAccess},
	{name: "modify-mr-memory", bit: ci.CapModifyMR, title: "modified memory of a region", run: mrModifyMemory},
	{name: "zero-based", bit: ci.CapZeroBased, title: "access to a zero-based region", run: mrZeroBased},
	{
		name:  "send-invalidate",
		bit:   ci.CapSendInvalidate,
		title: "a key that the peer invalidates",
		run:   sendInvalidateWorks,
	},
	{
		name:  "lso",
		bit:   ci.CapLSO,
		with:  ci.CapUD | ci.CapAV,
		title: "a large send, split into datagrams",
		run:   lsoWorks,
	},
	{
		name:  "ip-checksum",
		bit:   ci.CapIPChecksum,
		with:  ci.CapUD | ci.CapAV,
		title: "checksums that the adapter computes",
		run:   checksumWorks,
	},
	{name: "resize-cq", bit: ci.CapResizeCQ, title: "growing a CQ that has entries", run: cqResizeKeeps},
	{name: "moderation", bit: ci.CapModeration, title: "callbacks of a moderated CQ", run: cqModeration},
	{name: "peek", bit: ci.CapPeek, title: "number of entries of a CQ", run: cqPeek},
	{name: "notify-after", bit: ci.CapNotifyAfter, title: "a callback after three completions", run: cqAfter},
	{name: "wr-depth", bit: ci.CapModifyWRDepth, title: "a larger send queue", run: depthWorks},
	{
		name:  "srq-depth",
		bit:   ci.CapModifySRQDepth,
		with:  ci.CapSRQ,
		title: "a larger shared receive queue",
		run:   srqModifyDepth,
	},
	{name: "apm", bit: ci.CapAPM, title: "a connection that migrates", run: apmMigrate},
	{
		name:  "primary-port",
		bit:   ci.CapChangePrimaryPort,
		title: "a drained connection that continues on another port",
		needs: validate.Needs{Ports: 2},
		run:   primaryPortWorks,
	},
	{name: "current-state", bit: ci.CapCurrentQPState, title: "the state that the consumer assumes", run: qpCurrent},
	{
		name:  "av-port-check",
		bit:   ci.CapAVPortCheck,
		with:  ci.CapAV,
		title: "address vectors for ports that do not exist",
		run:   avPortWorks,
	},
	{name: "user", bit: ci.CapUser, title: "objects of a process", run: userWorks},
	{
		name:   "event-handlers",
		bit:    ci.CapEventHandlers,
		title:  "one event for three handlers",
		spoils: true,
		run:    handlersEach,
	},
	{name: "vendor-call", bit: ci.CapVendorCall, title: "a vendor command with a known answer", run: vendorWorks},
	{
		name:  "local-mad",
		bit:   ci.CapLocalMAD,
		title: "management datagrams that the adapter executes",
		run:   localMADWorks,
	},
	{
		name:  "hardware-sma",
		bit:   ci.CapHardwareSMA,
		title: "subnet management without the consumer",
		run:   hardwareSMAWorks,
	},
	{name: "sl-for-ip", bit: ci.CapSLForIP, title: "service level for an IP port", run: serviceLevelWorks},
	{name: "shutdown-port", bit: ci.CapShutdownPort, title: "a port that is shut down", spoils: true, run: portDown},
	{
		name:  "init-type",
		bit:   ci.CapInitType,
		with:  ci.CapLocalMAD,
		title: "the init type, set and queried",
		run:   caInitType,
	},
	{
		name:   "port-active-event",
		bit:    ci.CapPortActiveEvent,
		title:  "event of a port that becomes active",
		spoils: true,
		run:    portActiveWorks,
	},
	{name: "system-guid", bit: ci.CapSystemGUID, title: "the system image GUID, set and queried", run: caSystemGUID},
	{name: "pkey-counter", bit: ci.CapPKeyCounter, title: "the P_Key counter, set and queried", run: pkeyCounter},
	{name: "qkey-counter", bit: ci.CapQKeyCounter, title: "the Q_Key counter, set and queried", run: qkeyCounter},
	{name: "atomic-write", bit: ci.CapAtomicWrite, title: "words that are stored at once", run: atomicWriteWorks},
	{name: "flush", bit: ci.CapFlush, title: "a flush after a write", run: flushWorks},
	{
		name:  "flush-persistent",
		bit:   ci.CapFlushPersistent,
		with:  ci.CapFlush,
		title: "a flush to persistent memory",
		run:   persistWorks,
	},
}

// notTested are capabilities that no case tests. There is no adapter with them on which a case could be tried.
var notTested = []validate.NotTested{
	{Caps: ci.CapRD, Why: "no case tests reliable datagrams: no adapter is known that supports them"},
	{Caps: ci.CapRawIPv6 | ci.CapRawEther, Why: "no case tests raw QPs: no adapter is available that supports them"},
	{Caps: ci.CapRawMulticast, Why: "no case tests raw multicast: no adapter is available that supports it"},
}

// worksCases use each capability, which must work.
var worksCases = &validate.Area{}

var ciClaims04 = worksCases.Must("CI-Claims-04", "CI claims", "Caps in ci; IBTA 11.2.1, HCA attributes",
	"A claimed capability works. A claim that cannot be tested withholds the certificate.")

var _ = validate.Matrix(worksCases, proofs, func(p proof) (validate.Case, []*req.Requirement) {
	p.needs.Caps = p.bit | p.with
	return validate.Case{
		ID:         "claims.works." + p.name,
		Title:      p.title,
		Feature:    validate.FeatureClaims,
		Needs:      p.needs,
		Proves:     p.bit,
		TestsSetup: true,
		Spoils:     p.spoils,
		Run:        p.run,
	}, []*req.Requirement{ciClaims04}
})

// specialWorks sends datagrams from QP1 to the peer's QP1 and back, or to itself with one adapter.
func specialWorks(t *validate.T) {
	if len(t.HCAs()) > 1 {
		a, b := specials(t, ci.QP1)
		swap(t, a, b, ci.QP1)
		return
	}
	a := special(t, kit.Open(t), ci.QP1)
	a.Init().RTR(nil).RTS()
	av, err := a.PD.CreateAV(a.QP.CA.AddressOf(a.QP.CA))
	kit.OK(t, err, "PD.CreateAV")
	a.Dest = ci.Dest{AV: kit.Own(t, av, "AV"), QPN: a.Num(), QKey: a.Config.QKey}
	want := a.Buf.Fill(t, 0, 256)
	a.Recv(a.RecvWR(1, 1024, 40+256))
	a.Send(a.SendWR(2, 0, 256))
	a.CQ.WaitOK(2)
	kit.Equal(t, "WC.Length", a.RecvCQ.WaitOK(1)[0].Length, 40+256)
	kit.SameBytes(t, "datagram from QP1 to itself", a.Buf.Bytes[1024+40:1024+40+256], want)
}

// sendInvalidateWorks has the peer invalidate a key, of a fast-registered region or of a window.
func sendInvalidateWorks(t *validate.T) {
	switch {
	case t.Claims().Has(ci.CapFastReg):
		fastSendInv(t)
	case t.Claims().Has(ci.CapMW2):
		mw2SendInv(t)
	default:
		t.Skip("neither FastReg nor MW2 is claimed, so there is no key that a peer could invalidate")
	}
}

// depthWorks fills a send queue beyond its depth at creation.
func depthWorks(t *validate.T) {
	const before, after = 2, 40
	p := kit.RC(t, kit.With(func(c *kit.Config) { c.Caps.SendDepth, c.Caps.RecvDepth = before, after }))
	cq := p.A.CA.CQ(p.A.PD, 2*after)
	a := p.A.CA.QP(p.A.PD, cq, p.A.RecvCQ, kit.With(func(c *kit.Config) { *c = p.A.Config }))
	b := p.B.CA.QP(p.B.PD, p.B.CQ, p.B.RecvCQ, kit.With(func(c *kit.Config) { *c = p.B.Config }))
	kit.Connect(a, b)
	kit.OK(t, a.Modify(ci.QPFieldState|ci.QPFieldSendDepth,
		ci.QPAttr{State: ci.QPRTS, QPCaps: ci.QPCaps{SendDepth: after}}), "QP.Modify of SendDepth")
	q, err := a.Query()
	kit.OK(t, err, "QP.Query")
	kit.AtLeast(t, "QPAttr.SendDepth after QP.Modify", q.SendDepth, after)
	b.Recv(p.B.RecvWRs(after, 8)...)
	wrs := make([]ci.SendWR, after)
	for i := range wrs {
		wrs[i] = ci.SendWR{ID: uint64(i + 1), Op: ci.OpSend, Flags: ci.SendSignaled, SGL: p.A.Buf.SGL(i, 1)}
	}
	a.Send(wrs...)
	cq.WaitOK(ids(1, after)...)
	p.B.RecvCQ.WaitOK(ids(1, after)...)
}

// avPortWorks expects InvalidPort for ports that the CA does not have, from CreateAV and Modify.
func avPortWorks(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	good := ca.AddressOf(ca)
	av := ca.AV(pd, ca)
	for _, n := range kit.Variants(t, "port", []uint8{0, uint8(len(ca.Attr.Ports) + 1), 255}) {
		bad := good
		bad.Port = n
		made, err := pd.CreateAV(bad)
		kit.WantRefused(t, made, err, "PD.CreateAV for a port that does not exist", ci.InvalidPort)
		kit.WantExactly(t, av.Modify(bad), "AV.Modify to a port that does not exist", ci.InvalidPort)
		wantAV(t, av, pd, good, "after the rejected AV.Modify")
	}
}

// userWorks creates objects of two processes, which must be separate, and closes one process. With one PD there is room
// for one process.
func userWorks(t *validate.T) {
	ca := kit.Open(t)
	n := 2
	if ca.Attr.MaxPDs > 0 {
		n = min(n, ca.Attr.MaxPDs)
	}
	pds, users := make([]ci.PD, n), make([]ci.UserCA, n)
	for i := range users {
		u, err := ca.OpenUser(process{}, &ci.UserBuffer{})
		kit.OK(t, err, "CA.OpenUser")
		users[i] = u
		t.Cleanup(func() { _ = u.Destroy() })
		pds[i], err = u.AllocatePD(ci.PDNormal, &ci.UserBuffer{})
		kit.OK(t, err, "UserCA.AllocatePD")
		kit.Own(t, pds[i], "PD of a process")
	}
	for _, x := range []struct {
		what string
		p    ci.Process
		ub   *ci.UserBuffer
	}{{"no process", nil, &ci.UserBuffer{}}, {"no UserBuffer", process{}, nil},
		{"private data of no user library", process{}, &ci.UserBuffer{Command: 0xfedcba98, In: []byte{1, 2, 3}}}} {
		u, err := ca.OpenUser(x.p, x.ub)
		kit.WantRefused(t, u, err, "CA.OpenUser with "+x.what, ci.InvalidParameter)
	}
	if n > 1 {
		userEndsAlone(t, pds, users[0])
	}
	last := pds[n-1]
	mr, err := last.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	kit.OK(t, err, "PD.RegisterMR of a process")
	kit.Own(t, mr, "MR of a process")
	userEnds(t, ca, users[n-1], last, mr)
}

// userEndsAlone closes the first of two processes.
func userEndsAlone(t *validate.T, pds []ci.PD, u ci.UserCA) {
	kit.True(t, !ci.Same(pds[0], pds[1]), "PDs of two processes", "two different objects", "one")
	mr, err := pds[0].RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096)), Access: kit.AllAccess})
	kit.OK(t, err, "PD.RegisterMR with the PD of a process")
	kit.Own(t, mr, "MR of a process")
	a, err := mr.Query()
	kit.OK(t, err, "MR.Query")
	kit.SameObject(t, "MRAttr.PD of a region of a process", a.PD, pds[0])
	kit.WantExactly(t, pds[0].Destroy(), "PD.Destroy of a process's PD with a region", ci.ResourceBusy)
	kit.Destroy(t, mr, "MR of a process")
	kit.Destroy(t, pds[0], "PD of a process")
	kit.OK(t, u.Destroy(), "UserCA.Destroy")
}

// userEnds closes a process, which must be refused while a PD of it exists, with objects and without.
func userEnds(t *validate.T, ca *kit.CA, u ci.UserCA, pd ci.PD, mr ci.MR) {
	const early = "UserCA.Destroy of a process that has "
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 16, User: &ci.UserBuffer{}})
	kit.OK(t, err, "PD.CreateCQ with the PD of a process")
	kit.Own(t, cq, "CQ of a process")
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq, User: &ci.UserBuffer{},
		QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}})
	kit.OK(t, err, "PD.CreateQP with the PD of a process")
	kit.Own(t, qp, "QP of a process")
	kit.WantExactly(t, u.Destroy(), early+"objects", ci.ResourceBusy)
	_, err = qp.Query()
	kit.OK(t, err, "QP.Query after the refused UserCA.Destroy")
	for _, o := range []ci.Object{qp, cq, mr} {
		kit.Destroy(t, o, "object of a process")
	}
	kit.WantExactly(t, u.Destroy(), early+"a PD", ci.ResourceBusy)
	kit.Destroy(t, pd, "PD of a process")
	again, err := u.AllocatePD(ci.PDNormal, &ci.UserBuffer{})
	kit.OK(t, err, "UserCA.AllocatePD after the refused UserCA.Destroy")
	kit.Destroy(t, kit.Own(t, again, "PD of a process"), "PD of a process")
	kit.WantExactly(t, ca.Destroy(), "CA.Destroy with a process", ci.ResourceBusy)
	kit.OK(t, u.Destroy(), "UserCA.Destroy")
	const ended = " of a process that has ended"
	kit.WantExactly(t, u.Destroy(), "UserCA.Destroy"+ended, ci.InvalidCAHandle)
	late, err := u.AllocatePD(ci.PDNormal, &ci.UserBuffer{})
	kit.WantRefused(t, late, err, "UserCA.AllocatePD"+ended, ci.InvalidCAHandle)
	if t.Claims().Has(ci.CapVendorCall) {
		err := u.VendorCall(&ci.VendorOp{Data: make([]byte, 64)}, &ci.UserBuffer{})
		kit.WantExactly(t, err, "UserCA.VendorCall"+ended, ci.InvalidCAHandle)
	}
}

// vendorWorks calls the vendor command of the target and expects its answer.
func vendorWorks(t *validate.T) {
	v := t.VendorCall()
	if len(v.Want) == 0 || bytes.Equal(v.Want, v.In) {
		t.Harness("Target.VendorCall: Want must be set and differ from In, since otherwise a driver without the " +
			"command passes")
	}
	ca := kit.Open(t)
	for range 2 {
		op := ci.VendorOp{Command: v.Command, Data: make([]byte, max(len(v.In), len(v.Want))), Status: -1}
		copy(op.Data, v.In)
		kit.OK(t, ca.VendorCall(&op), "CA.VendorCall")
		kit.Equal(t, "VendorOp.Status", op.Status, 0)
		kit.Equal(t, "VendorOp.N", op.N, len(v.Want))
		kit.SameBytes(t, "VendorOp.Data", op.Data[:op.N], v.Want)
	}
	kit.WantExactly(t, ca.VendorCall(nil), "CA.VendorCall without an operation", ci.InvalidParameter)
	gone := ca.PD()
	kit.Destroy(t, gone, "PD")
	objects := map[string]ci.Object{"no object": nil, "a destroyed PD": gone}
	if others := t.HCAs(); len(others) > 1 {
		objects["a PD of another CA"] = kit.OpenHCA(t, others[1]).PD()
	}
	for what, o := range objects {
		op := ci.VendorOp{Command: v.Command, Data: make([]byte, max(len(v.In), len(v.Want))), Status: -1}
		kit.Want(t, ca.VendorCall(&op, o), "CA.VendorCall with "+what+" in its list", ci.InvalidHandle)
	}
}

// serviceLevelWorks calls SLForIP for valid ports and for ports that do not exist.
func serviceLevelWorks(t *validate.T) {
	ca := kit.Open(t)
	for _, ip := range kit.Variants(t, "port", []uint16{1, 4420, 4791, 0xffff}) {
		sl, err := ca.SLForIP(ca.Port.Num, ip)
		kit.OK(t, err, "CA.SLForIP")
		kit.True(t, sl <= 15, "CA.SLForIP", "a service level, 0 to 15", "%d", sl)
		again, err := ca.SLForIP(ca.Port.Num, ip)
		kit.OK(t, err, "CA.SLForIP")
		kit.Equal(t, "second result of CA.SLForIP", again, sl)
	}
	for _, n := range kit.Variants(t, "port", []uint8{0, uint8(len(ca.Attr.Ports) + 1)}) {
		_, err := ca.SLForIP(n, 4420)
		kit.WantExactly(t, err, "CA.SLForIP of a port that does not exist", ci.InvalidPort)
	}
}
