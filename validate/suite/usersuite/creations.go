package usersuite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = requests.Case(validate.Case{
	ID: "user.request.queues",
	Title: "queues of a process: types and flags of QPs that are not for processes, and moderation, as the driver " +
		"sees them",
	Run: requestQueues,
}, req.SAS2_4_16)

func requestQueues(t *validate.T) {
	s := newStage(t)
	x := s.speaker()
	own := x.basics()
	create := func(typ ci.QPType, flags ci.QPFlags) (schema.Handle, error) {
		return x.create(schema.CmdCreateQP, &schema.CreateQP{PD: own.pd, SendCQ: own.cq, RecvCQ: own.cq, Type: typ,
			Flags: flags, Caps: schema.QPCaps{SendDepth: 2, RecvDepth: 3, SendSGE: 1, RecvSGE: 1}})
	}
	isOf := map[ci.QPType]ci.Status{ci.RD: ci.Unsupported}
	for typ := range ci.QPType(32) {
		switch typ {
		case ci.RC, ci.UC, ci.UD:
			continue
		}
		want, ok := isOf[typ]
		if !ok {
			want = ci.InvalidServiceType
		}
		s.trace.take()
		_, err := create(typ, 0)
		if typ != ci.RD { // which the codec may know no more than others
			kit.True(t, ci.StatusOf(err) == want || ci.StatusOf(err) == ci.InvalidParameter,
				fmt.Sprintf("PD.CreateQP of type %d", typ), want.String(), "%s", kit.Describe(err))
		} else {
			kit.WantExactly(t, err, "PD.CreateQP of type RD", want)
		}
		kit.Equal(t, fmt.Sprintf("calls of the driver's CreateQP with type %d", typ), s.trace.count("driver CreateQP"),
			0)
	}
	promises := ci.QPClientSyncSend | ci.QPClientSyncRecv | ci.QPNoOverflow
	for _, flags := range []ci.QPFlags{0, promises, ci.QPClientSyncSend, ci.QPClientSyncRecv, ci.QPNoOverflow,
		ci.QPSignalAll, ci.QPSignalAll | promises} {
		h, err := create(ci.RC, flags)
		kit.OK(t, err, fmt.Sprintf("PD.CreateQP with flags %#x", uint32(flags)))
		kit.Equal(t, fmt.Sprintf("QPCreate.Flags at the driver of %#x", uint32(flags)), s.probe.lastQP().Flags,
			flags&^promises)
		x.destroyed(h)
	}
	if t.Claims().Has(ci.CapModeration) {
		for _, m := range []ci.Moderation{{Count: 3, Period: 7 * time.Microsecond},
			{Count: 1, Period: time.Millisecond}} {
			s.trace.take()
			kit.OK(t, x.do(schema.CmdModifyCQ, &schema.ModifyCQ{CQ: own.cq, Count: int32(m.Count),
				Period: int64(m.Period)}, &schema.None{}), "CQ.Modify")
			kit.Equal(t, "calls of the driver's Modify", s.trace.count(fmt.Sprintf("driver ModifyCQ %d %v", m.Count,
				m.Period)), 1)
		}
		s.probe.handle(func(string, *ci.UserBuffer) error { return ci.InvalidCQSize })
		kit.WantExactly(t, x.do(schema.CmdModifyCQ, &schema.ModifyCQ{CQ: own.cq, Count: 1}, &schema.None{}),
			"CQ.Modify that fails in the driver", ci.InvalidCQSize)
		s.probe.handle(nil)
	}
}

var _ = quotas.Case(validate.Case{
	ID:    "user.quota.changes",
	Title: "the bytes of an SRQ before, during and after a change of its size",
	Needs: validate.Needs{Caps: ci.CapSRQ | ci.CapModifySRQDepth},
	Run:   quotaChanges,
}, req.SAS2_4_10)

func quotaChanges(t *validate.T) {
	const cqe, wr, sge = 64, 128, 16
	s := newStage(t)
	per := int64(wr + sge*t.Attr().MaxSRQSGEs) // of a work request of an SRQ that was changed
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.QueueBytes = 10 * per })
	x := s.speaker()
	queue, _ := x.queue()
	pd := x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{
		CA: x.made("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})})
	srq := x.made("PD.CreateSRQ", schema.CmdCreateSRQ, &schema.CreateSRQ{PD: pd,
		Attr: schema.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	free := func(where string, bytes int64) {
		n := int32(bytes / cqe)
		_, err := x.create(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: n + 1})
		kit.WantExactly(t, err, "the create of a CQ beyond the quota, "+where, ci.InsufficientResources)
		if n == 0 {
			return
		}
		h, err := x.create(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Size: n})
		kit.OK(t, err, "the create of a CQ of all bytes that are free, "+where)
		x.destroyed(h)
	}
	modify := func(set ci.SRQField, a schema.SRQAttr) error {
		return x.do(schema.CmdModifySRQ, &schema.ModifySRQ{SRQ: srq, Set: uint32(set), Attr: a}, &schema.Changed{})
	}
	free("with a new SRQ", 10*per-wr-sge)
	for range 3 {
		kit.OK(t, modify(ci.SRQFieldMaxWR, schema.SRQAttr{MaxWR: 6}), "SRQ.Modify to 6 work requests")
		free("after SRQ.Modify to 6 work requests", 4*per)
		kit.WantExactly(t, modify(ci.SRQFieldMaxWR, schema.SRQAttr{MaxWR: 5}), "SRQ.Modify while both sizes exceed "+
			"the quota", ci.InsufficientResources)
		kit.OK(t, modify(ci.SRQFieldLimit, schema.SRQAttr{Limit: 1}), "SRQ.Modify of the limit")
		kit.True(t, modify(ci.SRQFieldMaxWR, schema.SRQAttr{MaxWR: -1}) != nil, "SRQ.Modify to -1 work requests",
			"an error", "success")
		free("after changes that were refused, and one that needs nothing", 4*per)
		kit.OK(t, modify(ci.SRQFieldMaxWR, schema.SRQAttr{MaxWR: 2}), "SRQ.Modify to 2 work requests")
		free("after SRQ.Modify to 2 work requests", 8*per)
	}
	x.destroyed(srq)
	free("after SRQ.Destroy", 10*per)
}

var _ = exits.Case(validate.Case{
	ID:    "user.exit.drain",
	Title: "a daemon that waits for the end of its connections returns with the last, or with the end of its patience",
	Run:   exitDrain,
}, req.SAS2_4_15)

func exitDrain(t *validate.T) {
	s := newStage(t)
	kit.OK(t, s.srv.Drain(t.Context()), "Server.Drain without connections")
	s.restart(func(*kproxy.Config) {})
	x, y := s.direct(), s.direct()
	x.basics()
	done := make(chan error, 1)
	srv := s.srv
	t.Go(func() { done <- srv.Drain(t.Context()) })
	s.waitsForLast(done, "Server.Drain", x, y, func() {
		kit.OK(t, y.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "HCA.Info while the daemon waits")
	})
	s.restart(func(*kproxy.Config) {})
	z := s.direct()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.srv.Drain(ctx)
	kit.True(t, errors.Is(err, context.Canceled), "Server.Drain with a connection and a context that has ended",
		"its error", "%v", err)
	kit.OK(t, z.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "HCA.Info after Server.Drain")
	t.Step("ends of connections")
	r, w, err := os.Pipe()
	if err != nil {
		t.Harness("a pipe: %v", err)
	}
	defer w.Close()
	_, err = native.FileConn(r)
	kit.True(t, err != nil, "native.FileConn of a pipe", "an error", "success")
	z.c.Close()
	_, _, _, err = z.c.Peer()
	kit.True(t, err != nil, "native.Conn.Peer after Close", "an error", "success")
}
