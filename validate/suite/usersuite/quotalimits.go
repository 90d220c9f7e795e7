package usersuite

import (
	"fmt"
	"os"
	"slices"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = quotas.Case(validate.Case{
	ID:    "user.quota.queues",
	Title: "queues of exactly the bytes of the quota, and of one byte more, before and after changes and failures",
	Run:   quotaQueues,
}, req.SAS2_4_10)

func quotaQueues(t *validate.T) {
	s := newStage(t)
	claims := t.Claims()
	const max32 = 1<<31 - 1
	caps := schema.QPCaps{SendDepth: 3, RecvDepth: 5, SendSGE: 2, RecvSGE: 1, MaxInline: 40}
	// What docs/limits.md states: 64 bytes for an entry of a CQ; 128 for a work request, with 16 for each element and
	// its inline data.
	const cqe, wr, sge = 64, 128, 16
	type create struct {
		what  string
		bytes int64 // -1: more than any quota
		cmd   schema.Command
		of    func(x *speaker, pd, cq schema.Handle) any
		has   bool
	}
	qp := func(what string, bytes int64, c schema.QPCaps) create {
		return create{what, bytes, schema.CmdCreateQP, func(_ *speaker, pd, cq schema.Handle) any {
			return &schema.CreateQP{PD: pd, SendCQ: cq, RecvCQ: cq, Caps: c, Type: ci.RC}
		}, true}
	}
	cq := func(what string, bytes int64, size int32) create {
		return create{what, bytes, schema.CmdCreateCQ, func(_ *speaker, pd, _ schema.Handle) any {
			return &schema.CreateCQ{PD: pd, Size: size}
		}, true}
	}
	srq := func(what string, bytes int64, a schema.SRQAttr) create {
		return create{what, bytes, schema.CmdCreateSRQ, func(_ *speaker, pd, _ schema.Handle) any {
			return &schema.CreateSRQ{PD: pd, Attr: a}
		}, claims.Has(ci.CapSRQ)}
	}
	huge := schema.QPCaps{SendDepth: max32, RecvDepth: max32, SendSGE: max32, RecvSGE: 1}
	for _, v := range kit.Variants(t, "", []create{
		cq("a CQ", 21*cqe, 21),
		cq("a CQ of the largest number of entries", -1, max32),
		qp("a QP", 3*(wr+2*sge+40)+5*(wr+sge), caps),
		qp("a QP without sends", 5*(wr+sge), schema.QPCaps{RecvDepth: 5, RecvSGE: 1}),
		qp("a QP without receives", 3*(wr+2*sge+40), schema.QPCaps{SendDepth: 3, SendSGE: 2, MaxInline: 40}),
		qp("a QP without elements", 3*wr+5*wr, schema.QPCaps{SendDepth: 3, RecvDepth: 5}),
		qp("a QP of the largest sizes", -1, huge),
		qp("a QP of the largest receive queue", -1, schema.QPCaps{RecvDepth: max32, RecvSGE: max32}),
		qp("a QP of the largest send queue", -1, schema.QPCaps{SendDepth: max32, MaxInline: max32}),
		srq("an SRQ", 4*(wr+2*sge), schema.SRQAttr{MaxWR: 4, MaxSGE: 2}),
		srq("an SRQ of the largest sizes", -1, schema.SRQAttr{MaxWR: max32, MaxSGE: max32}),
	}) {
		if !v.has {
			continue
		}
		for _, less := range []int64{0, 1} {
			const other = 4 * cqe // the CQ of the QPs
			s.restart(func(cfg *kproxy.Config) {
				cfg.Quota.QueueBytes = other + max(v.bytes, 0) - less
				if v.bytes < 0 {
					cfg.Quota.QueueBytes = 1 << 36
				}
			})
			x := s.speaker()
			queue, _ := x.queue()
			pd := x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{
				CA: x.made("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})})
			own := x.made("PD.CreateCQ", schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: 4})
			for range 3 {
				h, err := x.create(v.cmd, v.of(x, pd, own))
				if less > 0 || v.bytes < 0 {
					kit.WantExactly(t, err, "the create of "+v.what+" beyond the quota", ci.InsufficientResources)
					continue
				}
				kit.OK(t, err, "the create of "+v.what+" of exactly the quota")
				_, err = x.create(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: 1})
				kit.WantExactly(t, err, "the create of a CQ beyond the quota", ci.InsufficientResources)
				x.destroyed(h)
			}
			if less == 0 && v.bytes > 0 {
				x.changes(pd, own, v.bytes)
			}
			x.c.Close()
			s.gone("the daemon after the end of the process")
		}
	}
}

// changes makes and refuses changes of queues, after which exactly the bytes that were free are free.
func (x *speaker) changes(pd, cq schema.Handle, free int64) {
	t := x.s.t
	const cqe = 64
	n := int32(free / cqe)
	rest := func(where string) {
		h, err := x.create(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: n})
		kit.OK(t, err, "the create of a CQ of all bytes that are free, after "+where)
		_, err = x.create(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: 1})
		if free%cqe == 0 {
			kit.WantExactly(t, err, "the create of a CQ beyond the quota", ci.InsufficientResources)
		}
		x.destroyed(h)
	}
	rest("the destroy of others")
	for _, size := range []int32{-1, 0, -1 << 31} {
		_, err := x.create(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: size})
		kit.WantExactly(t, err, fmt.Sprintf("the create of a CQ of %d entries", size), ci.InvalidCQSize)
	}
	_, err := x.create(schema.CmdCreateQP, &schema.CreateQP{PD: pd, SendCQ: cq, RecvCQ: cq, Type: ci.RC,
		Caps: schema.QPCaps{SendDepth: -5, RecvDepth: -1 << 31, SendSGE: -7, RecvSGE: -1, MaxInline: -100_000}})
	kit.True(t, err != nil && ci.StatusOf(err) != ci.InsufficientResources, "the create of a QP of negative sizes",
		"an error of the driver", "%s", kit.Describe(err))
	rest("creates that fail")
	resize := func(size int32) error {
		return x.do(schema.CmdResizeCQ, &schema.ResizeCQ{CQ: cq, Size: size}, &schema.ResizeCQReply{})
	}
	if !t.Claims().Has(ci.CapResizeCQ) {
		return
	}
	for range 2 {
		kit.OK(t, resize(n), "CQ.Resize to all bytes that are free")
		kit.WantExactly(t, resize(8), "CQ.Resize while both sizes exceed the quota", ci.InsufficientResources)
		_, err = x.create(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: 5})
		kit.WantExactly(t, err, "the create of a CQ after a resize, beyond the quota", ci.InsufficientResources)
		kit.OK(t, resize(4), "CQ.Resize to less")
		kit.WantExactly(t, resize(n+1), "CQ.Resize beyond the quota", ci.InsufficientResources)
		kit.True(t, resize(0) != nil, "CQ.Resize to 0 entries", "an error", "success")
		rest("resizes")
	}
}

var _ = quotas.Case(validate.Case{
	ID: "user.quota.memory",
	Title: "memory of exactly the bytes and mappings of the quota, and of one more: registered, shared, registered " +
		"twice, changed, and removed",
	Needs: validate.Needs{HCAs: 2},
	Run:   quotaMemory,
}, req.SAS2_4_10)

func quotaMemory(t *validate.T) {
	const bytes, mappings = 3 << 12, 4
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.MemoryBytes, cfg.Quota.Mappings = bytes, mappings })
	x := s.speaker()
	queue, _ := x.queue()
	open := func(i int) (ca, pd schema.Handle) {
		ca = x.made("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[i], Async: queue})
		return ca, x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: ca})
	}
	w := &whole{memory: make([]byte, bytes+1)}
	shared := s.sharedMemory(4096)
	f, _ := shared.File()
	plain := func(pd schema.Handle, n uint64) (schema.Handle, error) {
		m := w.plain(ci.LocalWrite)
		m.Length = n
		return x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: pd, Memory: m})
	}
	share := func(pd schema.Handle, files ...*os.File) (schema.Handle, error) {
		return x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: pd, Memory: schema.Memory{Addr: shared.Addr(),
			Length: 1, IOVA: shared.Addr(), Access: ci.LocalWrite, Shared: true}}, files...)
	}
	beyond := func(err error, where string) {
		kit.WantExactly(t, err, where+" beyond the quota", ci.InsufficientResources)
	}
	_, pd := open(0)
	for round := range 2 {
		t.Step("bytes, round %d", round)
		_, err := plain(pd, bytes+1)
		beyond(err, "PD.RegisterMR of one byte")
		_, err = plain(pd, ^uint64(0))
		beyond(err, "PD.RegisterMR of the largest length")
		whole, err := plain(pd, bytes)
		kit.OK(t, err, "PD.RegisterMR of exactly the quota")
		_, err = plain(pd, 1)
		beyond(err, "PD.RegisterMR of one byte")
		_, err = share(pd, f)
		beyond(err, "PD.RegisterMR of one byte of shared memory")
		if t.Claims().Has(ci.CapSharedMR) {
			for range 2 { // the memory counts once, until the last of its regions is destroyed
				twice, err := x.create(schema.CmdRegisterSMR, &schema.RegisterSMR{PD: pd, MR: whole,
					IOVA: w.plain(0).Addr, Access: ci.LocalWrite})
				kit.OK(t, err, "PD.RegisterSMR of memory of exactly the quota")
				x.destroyed(twice)
				_, err = plain(pd, 1)
				beyond(err, "PD.RegisterMR of one byte")
			}
		}
		modify := func(n uint64) error {
			m := w.plain(ci.LocalWrite)
			m.Length = n
			return x.do(schema.CmdModifyMR, &schema.ModifyMR{MR: whole, Memory: m,
				Set: uint32(ci.MRFieldMemory | ci.MRFieldAccess)}, &schema.RegionReply{})
		}
		if t.Claims().Has(ci.CapModifyMR) {
			beyond(modify(1), "MR.Modify while both sizes count")
			x.destroyed(whole)
			whole, err = plain(pd, 1)
			kit.OK(t, err, "PD.RegisterMR")
			for range 3 {
				kit.OK(t, modify(bytes-1), "MR.Modify to the bytes that are free")
				_, err = plain(pd, 2)
				beyond(err, "PD.RegisterMR of two bytes")
				kit.OK(t, modify(1), "MR.Modify to one byte")
				beyond(modify(bytes), "MR.Modify while both sizes count")
			}
			last, err := plain(pd, bytes-1)
			kit.OK(t, err, "PD.RegisterMR of the bytes that are free")
			x.destroyed(last)
		}
		x.destroyed(whole)

		t.Step("mappings, round %d", round)
		var list []schema.Handle
		for len(list) < mappings-1 { // the open adapter counts, too
			h, err := share(pd, f)
			kit.OK(t, err, fmt.Sprintf("PD.RegisterMR of shared memory, mapping %d of %d", len(list)+2, mappings))
			list = append(list, h)
		}
		_, err = share(pd, f)
		beyond(err, "PD.RegisterMR of shared memory")
		_, err = x.create(schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})
		beyond(err, "HCA.OpenCA")
		h, err := plain(pd, 1)
		kit.OK(t, err, "PD.RegisterMR of memory that is not mapped")
		x.destroyed(h)
		for _, h := range list {
			x.destroyed(h)
			for range mappings + 1 { // failures hold nothing
				_, err = share(pd)
				kit.WantExactly(t, err, "PD.RegisterMR of shared memory without a descriptor", ci.InvalidParameter)
			}
			again, err := share(pd, f)
			kit.OK(t, err, "PD.RegisterMR of shared memory after a destroy")
			x.destroyed(again)
		}
	}

	t.Step("an adapter that is removed")
	_, second := open(1)
	fill := func(pd schema.Handle) (list []schema.Handle, err error) {
		h, err := plain(pd, bytes-2)
		for err == nil {
			if list = append(list, h); len(list) == mappings-1 {
				return list, nil
			}
			h, err = share(pd, f)
		}
		return list, err
	}
	old, err := fill(pd)
	kit.OK(t, err, "regions of all bytes and mappings")
	_, err = share(second, f)
	beyond(err, "PD.RegisterMR at the other adapter")
	kit.OK(t, s.al.Deregister(s.guids[0]), "Registrar.Deregister")
	var now []schema.Handle
	s.await("regions of all bytes and mappings at the other adapter, after the first was removed", "success",
		func() string {
			list, err := fill(second)
			if err != nil {
				for _, h := range list {
					x.destroyed(h)
				}
				return kit.Describe(err)
			}
			now = list
			return ""
		})
	_, err = plain(second, 3)
	beyond(err, "PD.RegisterMR of three bytes")
	for _, h := range old { // which count no longer
		x.destroyed(h)
	}
	_, err = plain(second, 3)
	beyond(err, "PD.RegisterMR of three bytes")
	for _, h := range slices.Backward(now) {
		x.destroyed(h)
	}
	_, err = plain(second, bytes)
	kit.OK(t, err, "PD.RegisterMR of exactly the quota")
}

var _ = quotas.Case(validate.Case{
	ID:    "user.quota.kinds",
	Title: "event queues, multicast groups, address vectors, opened adapters and processes: up to their limits",
	Run:   quotaKinds,
}, req.SAS2_4_10)

func quotaKinds(t *validate.T) {
	const most, mostCAs = 3, 256
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) {
		cfg.Quota = kproxy.Quota{EventQueues: most, AVs: most, Mcasts: most, CQs: -1} // -1: the default
	})
	x := s.speaker()
	queue, _ := x.queue()
	w := x.whole(0, queue)
	group := byte(0)
	for _, v := range kit.Variants(t, "", []struct {
		what       string
		most, made int
		has        bool
		create     func() (schema.Handle, error)
	}{
		{"event queues", most, 1, true, func() (schema.Handle, error) {
			return x.create(schema.CmdCreateEventQueue, &schema.CreateEventQueue{})
		}},
		{"address vectors", most, 1, t.Claims().Has(ci.CapAV), func() (schema.Handle, error) {
			return x.create(schema.CmdCreateAV, &schema.CreateAV{PD: w.pd, Attr: w.loop()})
		}},
		{"multicast groups", most, 0, t.Claims().Has(ci.CapMulticast) && w.ud != 0, func() (schema.Handle, error) {
			group++
			return x.create(schema.CmdAttachMcast, w.group(group))
		}},
		{"opened adapters", mostCAs, 1, true, func() (schema.Handle, error) {
			return x.create(schema.CmdOpenCA, &schema.OpenCA{GUID: w.guid, Async: queue})
		}},
	}) {
		if !v.has {
			continue
		}
		var list []schema.Handle
		for len(list) < v.most-v.made {
			h, err := v.create()
			if err != nil && v.most == mostCAs && len(list) > 100 {
				break // the descriptors of the certifier's process have a lower limit
			}
			kit.OK(t, err, fmt.Sprintf("create %d of %d %s", len(list)+1+v.made, v.most, v.what))
			list = append(list, h)
		}
		for range 2 {
			_, err := v.create()
			kit.WantExactly(t, err, "create of more "+v.what+" than the quota permits", ci.InsufficientResources)
			x.destroyed(list[0])
			h, err := v.create()
			kit.OK(t, err, "create after a destroy: "+v.what)
			list = append(list[1:], h)
		}
		for _, h := range list {
			x.destroyed(h)
		}
	}
	x.c.Close()
	s.gone("the daemon after the end of the process")

	t.Step("processes")
	for _, v := range []struct{ all, perUser, most int }{{3, 2, 2}, {2, 5, 2}, {2, -1, 2}} {
		s.restart(func(cfg *kproxy.Config) { cfg.MaxClients, cfg.MaxClientsPerUser = v.all, v.perUser })
		hello := func() (*speaker, error) {
			y := &speaker{s: s, c: s.connect(), buf: make([]byte, schema.MaxMessage)}
			request := &schema.Hello{Version: schema.Version, PointerBits: 64}
			return y, y.do(schema.CmdHello, request, &schema.HelloReply{})
		}
		var list []*speaker
		for range v.most {
			y, err := hello()
			kit.OK(t, err, fmt.Sprintf("Hello of process %d of %d", len(list)+1, v.most))
			list = append(list, y)
		}
		for range 2 {
			y, err := hello()
			kit.WantExactly(t, err, "Hello of a process beyond the limit", ci.InsufficientResources)
			y.c.Close()
		}
		kit.Equal(t, "processes of the daemon", len(s.core.Sessions()), v.most)
		list[0].c.Close()
		s.await("Hello of a process after the end of another", "success", func() string {
			y, err := hello()
			if err != nil {
				y.c.Close()
				return kit.Describe(err)
			}
			list[0] = y
			return ""
		})
		for _, y := range list {
			y.c.Close()
		}
		s.gone("the daemon after the end of the processes")
	}
}

// group returns a request that attaches a QP to a multicast group.
func (w *whole) group(n byte) *schema.AttachMcast {
	r := &schema.AttachMcast{QP: w.ud, GID: ci.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 12: 0x77, 15: n},
		LID: 0xc000 + ci.LID(n)}
	if own := w.loop().DGID; w.port.Link == ci.LinkEthernet && [12]byte(own[:12]) == [12]byte{10: 0xff, 11: 0xff} {
		r.GID = ci.GID{10: 0xff, 11: 0xff, 12: 239, 13: 7, 14: 7, 15: n}
	}
	return r
}
