package usersuite

import (
	"os"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/ual"
	"ciddk/validate/kit"
)

// whole is an open adapter of a client with objects of each kind that the adapter has. Their tokens are the kinds.
type whole struct {
	*speaker
	guid      ci.GUID
	queue, ca schema.Handle
	pd, cq    schema.Handle
	qp, ud    schema.Handle // ud: of a QP for datagrams, 0 if there are none
	num       ci.QPN        // of qp
	mr        schema.Handle
	region    schema.Region // of mr
	port      schema.PortAttr
	list      []schema.Handle // all, those that others are made from first
	memory    []byte
}

// whole opens an adapter and creates objects of each kind. Their events go to a queue.
func (x *speaker) whole(adapter int, queue schema.Handle) *whole {
	t := x.s.t
	defer t.Setup()()
	w := &whole{speaker: x, guid: x.s.guids[adapter], queue: queue, memory: make([]byte, 4096)}
	w.ca = w.add("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: w.guid, Token: uint64(schema.KindCA),
		Async: queue})
	var attr schema.CAAttr
	kit.OK(t, x.do(schema.CmdQueryCA, &schema.CA{CA: w.ca}, &attr), "CA.Query")
	kit.True(t, len(attr.Ports) > 0, "CA.Query", "ports", "none")
	w.port = attr.Ports[0]
	w.pd = w.add("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: w.ca})
	w.cq = w.add("PD.CreateCQ", schema.CmdCreateCQ, &schema.CreateCQ{PD: w.pd, Size: 16,
		Token: uint64(schema.KindCQ), Completions: queue, Async: queue})
	caps := schema.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}
	create := &schema.CreateQP{PD: w.pd, Token: uint64(schema.KindQP), SendCQ: w.cq, RecvCQ: w.cq, Async: queue,
		Caps: caps, Type: ci.RC}
	w.qp = w.add("PD.CreateQP", schema.CmdCreateQP, create)
	var qp schema.QPAttr
	kit.OK(t, x.do(schema.CmdQueryQP, &schema.QP{QP: w.qp}, &qp), "QP.Query")
	w.num = qp.Num
	var region schema.RegionReply
	kit.OK(t, x.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: w.pd, Memory: w.plain(ci.LocalWrite)}, &region),
		"PD.RegisterMR")
	w.mr, w.region = region.Handle, region.Region
	w.list = append(w.list, w.mr)
	if attr.Caps.Has(ci.CapAV) {
		w.add("PD.CreateAV", schema.CmdCreateAV, &schema.CreateAV{PD: w.pd, Attr: w.loop()})
	}
	if attr.Caps.Has(ci.CapSRQ) {
		w.add("PD.CreateSRQ", schema.CmdCreateSRQ, &schema.CreateSRQ{PD: w.pd, Token: uint64(schema.KindSRQ),
			Async: queue, Attr: schema.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	}
	if attr.Caps.Has(ci.CapMW1) {
		w.add("PD.CreateMW", schema.CmdCreateMW, &schema.CreateMW{PD: w.pd, Type: uint32(ci.MWType1)})
	}
	if attr.Caps.Has(ci.CapUD) {
		create.Type, create.Token = ci.UD, 0
		w.ud = w.add("PD.CreateQP", schema.CmdCreateQP, create)
	}
	return w
}

// add creates an object.
func (w *whole) add(verb string, cmd schema.Command, request any, files ...*os.File) schema.Handle {
	h := w.made(verb, cmd, request, files...)
	w.list = append(w.list, h)
	return h
}

// plain describes memory that is not shared.
func (w *whole) plain(a ci.Access) schema.Memory {
	addr := ci.Bytes(w.memory).Addr()
	return schema.Memory{Addr: addr, Length: uint64(len(w.memory)), IOVA: addr, Access: a}
}

// loop returns the address of the first port itself.
func (w *whole) loop() schema.AVAttr {
	av := schema.AVAttr{Port: w.port.Num, DLID: w.port.LID}
	if w.port.Link == ci.LinkEthernet {
		av.DLID, av.Global, av.HopLimit = 0, true, 64
		for i, g := range w.port.GIDs {
			if g.GID != (ci.GID{}) {
				av.DGID, av.SGIDIndex = g.GID, uint16(i)
			}
			if g.Type == ci.GIDRoCEv2 && g.GID != (ci.GID{}) {
				break // the last one may be of a type or a family without groups
			}
		}
	}
	return av
}

// of returns the first object of a kind, or 0.
func (w *whole) of(k schema.Kind) schema.Handle {
	if k == schema.KindEventQueue {
		return w.queue
	}
	for _, h := range w.list {
		if h.Kind() == k {
			return h
		}
	}
	return 0
}

// body returns the body of a request whose handles of adapters and of their objects are those of w. ok is false if it
// has none, or if w has no object of a kind.
func (w *whole) body(c schema.Command) (body []byte, ok bool) {
	typ := schema.Commands[c].Request
	list := members(typ, 0)
	body = newBody(typ)
	for i := range list {
		k, isAny, isHandle := handleOf(&list[i])
		if !isHandle {
			continue
		}
		if isAny || k != schema.KindEventQueue && (k < schema.KindCA || k > schema.KindMW) || w.of(k) == 0 {
			return nil, false
		}
		list[i].put(body, uint64(w.of(k)))
		ok = ok || k != schema.KindEventQueue
	}
	return body, ok
}

// posts are requests of the data path without a declared layout.
func (w *whole) posts() map[schema.Command][]byte {
	recv := native.AppendRecv(native.AppendPost(nil, w.qp, 1), &ci.RecvWR{})
	list := map[schema.Command][]byte{
		schema.CmdPostSend: native.AppendSend(native.AppendPost(nil, w.qp, 1), &ci.SendWR{}, schema.SendHandles{}),
		schema.CmdPostRecv: recv,
		schema.CmdPoll:     native.AppendPoll(nil, w.cq, 1),
	}
	if srq := w.of(schema.KindSRQ); srq != 0 {
		list[schema.CmdPostSRQRecv] = native.AppendRecv(native.AppendPost(nil, srq, 1), &ci.RecvWR{})
	}
	return list
}

// sharedMemory returns a sealed memfd and its mapping.
func (s *stage) sharedMemory(n int) *ual.Memory {
	m, err := ual.NewMemory(n)
	if err != nil {
		s.t.Harness("shared memory: %v", err)
	}
	s.t.Cleanup(func() { _ = m.Close() }) // it may be closed
	return m
}
