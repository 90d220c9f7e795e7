package usersuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The limits of a process. (SAS 2.4.)
var quotas = area()

var _ = quotas.Case(validate.Case{
	ID:    "user.quota.objects",
	Title: "a process may have as many objects of a kind as its quota permits; a destroyed one counts no longer",
	Run:   quotaObjects,
}, req.SAS2_4_10)

func quotaObjects(t *validate.T) {
	const most = 5
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) {
		cfg.Quota = kproxy.Quota{PDs: most, AVs: most, CQs: most, SRQs: most, QPs: most, MRs: most, MWs: most}
	})
	ca := s.app().open()
	other := s.app().open()
	for what, n := range map[string]int{"MaxPDs": ca.Attr.MaxPDs, "MaxAVs": ca.Attr.MaxAVs, "MaxCQs": ca.Attr.MaxCQs,
		"MaxSRQs": ca.Attr.MaxSRQs, "MaxQPs": ca.Attr.MaxQPs, "MaxMRs": ca.Attr.MaxMRs, "MaxMWs": ca.Attr.MaxMWs} {
		kit.True(t, n <= most, what+" of an adapter as a process with a quota sees it", fmt.Sprintf("at most %d", most),
			"%d", n)
	}
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	memory := ci.Bytes(make([]byte, 4096))
	kinds := []struct {
		name   string
		has    bool
		made   int // by the case, besides
		create func(ca *kit.CA, pd ci.PD) (destroyer, error)
	}{
		{"PD", true, 1, func(ca *kit.CA, _ ci.PD) (destroyer, error) { return is(ca.AllocatePD(ci.PDNormal)) }},
		{"CQ", true, 1, func(_ *kit.CA, pd ci.PD) (destroyer, error) { return is(pd.CreateCQ(ci.CQCreate{Size: 4})) }},
		{"MR", true, 0, func(_ *kit.CA, pd ci.PD) (destroyer, error) {
			return is(pd.RegisterMR(ci.MRCreate{Memory: memory, Access: ci.LocalWrite}))
		}},
		{"QP", true, 0, func(_ *kit.CA, pd ci.PD) (destroyer, error) {
			return is(pd.CreateQP(ci.QPCreate{SendCQ: cq.CQ, RecvCQ: cq.CQ,
				QPCaps: ci.QPCaps{SendDepth: 2, RecvDepth: 2, SendSGE: 1, RecvSGE: 1}}))
		}},
		{"SRQ", t.Claims().Has(ci.CapSRQ), 0, func(_ *kit.CA, pd ci.PD) (destroyer, error) {
			return is(pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}}))
		}},
		{"MW", t.Claims().Has(ci.CapMW1), 0, func(_ *kit.CA, pd ci.PD) (destroyer, error) {
			return is(pd.CreateMW(ci.MWCreate{Type: ci.MWType1}))
		}},
	}
	for _, k := range kinds {
		if !k.has {
			continue
		}
		t.Step("objects: %s", k.name)
		var list []destroyer
		for range 3 { // what is given back can be used again, each time
			for len(list) < most-k.made {
				o, err := k.create(ca, pd)
				kit.OK(t, err, fmt.Sprintf("create of %s %d of %d", k.name, len(list)+1+k.made, most))
				list = append(list, o)
			}
			_, err := k.create(ca, pd)
			kit.WantExactly(t, err, "create of one "+k.name+" more than the quota permits", ci.InsufficientResources)
			if k.name == "PD" {
				o, err := k.create(other, nil)
				kit.OK(t, err, "create of a PD by another process")
				kit.OK(t, o.Destroy(), "Destroy")
			}
			last := list[len(list)-1]
			kit.OK(t, last.Destroy(), "Destroy")
			list = list[:len(list)-1]
		}
		for _, o := range list {
			kit.OK(t, o.Destroy(), "Destroy")
		}
	}
}

// destroyer is an object.
type destroyer interface{ Destroy() error }

// is returns the result of a create as an object.
func is[T destroyer](o T, err error) (destroyer, error) { return o, err }

var _ = quotas.Case(validate.Case{
	ID:    "user.quota.bytes",
	Title: "the bytes of queues and of registered memory count while they are held, also after a resize and a failure",
	Run:   quotaBytes,
}, req.SAS2_4_10)

func quotaBytes(t *validate.T) {
	const memoryBytes = 1 << 20
	const queueBytes = 256 << 10
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) {
		cfg.Quota = kproxy.Quota{MemoryBytes: memoryBytes, QueueBytes: queueBytes}
	})
	ca := s.app().open()
	kit.True(t, ca.Attr.MaxMRSize <= memoryBytes, "MaxMRSize of an adapter as a process with a quota sees it",
		fmt.Sprintf("at most %d", memoryBytes), "%d", ca.Attr.MaxMRSize)
	pd := ca.PD()
	half := ci.Bytes(make([]byte, memoryBytes/2))
	register := func() (ci.MR, error) { return pd.RegisterMR(ci.MRCreate{Memory: half, Access: ci.LocalWrite}) }
	for i := range 6 {
		t.Step("memory, round %d", i)
		a, err := register()
		kit.OK(t, err, "PD.RegisterMR of half of the quota")
		b, err := register()
		kit.OK(t, err, "PD.RegisterMR of the other half")
		_, err = register()
		kit.WantExactly(t, err, "PD.RegisterMR beyond the quota", ci.InsufficientResources)
		for range 3 { // failures hold nothing
			_, err = pd.RegisterMR(ci.MRCreate{Memory: half, Access: ci.RemoteWrite})
			kit.True(t, err != nil, "PD.RegisterMR of remote write without local write", "an error", "success")
		}
		kit.OK(t, a.Destroy(), "MR.Destroy")
		kit.OK(t, b.Destroy(), "MR.Destroy")
	}
	// Each of the sizes fits, and the sum of a few of them does not.
	const small, large = 16, 400
	if most := int(ca.Attr.MaxCQEs); most < large {
		t.Skip("CQs have at most %d entries", most)
	}
	cq, err := pd.CreateCQ(ci.CQCreate{Size: small})
	kit.OK(t, err, "PD.CreateCQ")
	for i := range 40 {
		t.Step("resize %d", i)
		_, err := cq.Resize(ci.CQResize{Size: large})
		if ci.StatusOf(err) == ci.Unsupported {
			break
		}
		kit.OK(t, err, "CQ.Resize to more")
		_, err = cq.Resize(ci.CQResize{})
		kit.True(t, err != nil, "CQ.Resize to 0 entries", "an error", "success")
		_, err = cq.Resize(ci.CQResize{Size: small})
		kit.OK(t, err, "CQ.Resize to less")
	}
	// A resize that the driver refuses holds nothing: more of them than would fit, if each held its bytes.
	const waiting = 2 * small
	qp, err := pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: waiting, SendSGE: 1, RecvSGE: 1}})
	kit.OK(t, err, "PD.CreateQP")
	_, err = cq.Resize(ci.CQResize{Size: large})
	if ci.StatusOf(err) != ci.Unsupported {
		kit.OK(t, err, "CQ.Resize to more")
		kit.OK(t, qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: ca.Port.Num}), "QP.Modify to Init")
		for i := range waiting {
			_, err := qp.PostRecv([]ci.RecvWR{{ID: uint64(i)}})
			kit.OK(t, err, "QP.PostRecv")
		}
		kit.OK(t, qp.Modify(ci.ToError()), "QP.Modify to Error, which flushes the receives")
		s.await("flushed receives", fmt.Sprint(waiting), func() string {
			if n, _ := cq.Peek(); n < waiting {
				return fmt.Sprint(n)
			}
			return ""
		})
		for range queueBytes / 64 / small * 2 {
			_, err = cq.Resize(ci.CQResize{Size: small})
			kit.True(t, err != nil, "CQ.Resize to fewer entries than wait", "an error", "success")
		}
	}
	kit.OK(t, qp.Destroy(), "QP.Destroy")
	kit.OK(t, cq.Destroy(), "CQ.Destroy")
	var list []ci.CQ
	for {
		cq, err := pd.CreateCQ(ci.CQCreate{Size: large})
		if err != nil {
			kit.WantExactly(t, err, "PD.CreateCQ beyond the quota", ci.InsufficientResources)
			break
		}
		if list = append(list, cq); len(list) > queueBytes/large {
			t.Failf("PD.CreateCQ", "a failure beyond the quota", "%d CQs of %d entries in %d bytes", len(list), large,
				queueBytes)
		}
	}
	kit.True(t, len(list) > 1, "CQs of a process", "several", "%d", len(list))
	n := len(list)
	for range 3 {
		for _, cq := range list {
			kit.OK(t, cq.Destroy(), "CQ.Destroy")
		}
		for i := range list {
			if list[i], err = pd.CreateCQ(ci.CQCreate{Size: large}); err != nil {
				kit.OK(t, err, fmt.Sprintf("PD.CreateCQ %d of %d, after the others were destroyed", i+1, n))
			}
		}
	}
	for _, cq := range list {
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}
}

var _ = quotas.Case(validate.Case{
	ID:    "user.quota.removed",
	Title: "objects of an adapter that is removed count no longer",
	Needs: validate.Needs{HCAs: 2},
	Run:   quotaRemoved,
}, req.SAS2_4_10)

func quotaRemoved(t *validate.T) {
	const most = 1 << 20
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) {
		cfg.Quota = kproxy.Quota{MemoryBytes: most, QueueBytes: 4 * 64}
	})
	a := s.app()
	whole := ci.Bytes(make([]byte, most))
	open := func(i int) ci.PD {
		ca, err := a.hca(i).OpenCA(s.guids[i], func(ci.Event) {}, nil)
		kit.OK(t, err, "HCA.OpenCA")
		pd, err := ca.AllocatePD(ci.PDNormal)
		kit.OK(t, err, "CA.AllocatePD")
		return pd
	}
	register := func(pd ci.PD) error {
		_, err := pd.RegisterMR(ci.MRCreate{Memory: whole, Access: ci.LocalWrite})
		return err
	}
	create := func(pd ci.PD) (ci.CQ, error) { return pd.CreateCQ(ci.CQCreate{Size: 4}) }
	first, second := open(0), open(1)
	old, err := create(first)
	kit.OK(t, err, "PD.CreateCQ of the whole quota")
	_, err = create(second)
	kit.WantExactly(t, err, "PD.CreateCQ at another adapter, beyond the quota", ci.InsufficientResources)
	kit.OK(t, register(first), "PD.RegisterMR of the whole quota")
	kit.WantExactly(t, register(second), "PD.RegisterMR at another adapter, beyond the quota", ci.InsufficientResources)
	kit.OK(t, s.al.Deregister(s.guids[0]), "Registrar.Deregister")
	s.await("PD.RegisterMR of the whole quota at another adapter, after the first was removed", "success",
		func() string {
			if err := register(second); err != nil {
				return kit.Describe(err)
			}
			return ""
		})
	_, err = create(second)
	kit.OK(t, err, "PD.CreateCQ of the whole quota at another adapter, after the first was removed")
	kit.OK(t, old.Destroy(), "CQ.Destroy of a CQ of the adapter that was removed")
	_, err = create(second)
	kit.WantExactly(t, err, "PD.CreateCQ beyond the quota, after a CQ that no longer counted", ci.InsufficientResources)
}
