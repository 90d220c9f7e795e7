package usersuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = servings.Case(validate.Case{
	ID: "user.service.answers",
	Title: "requests of an agent that are answered: the one who answers has the address of the one who asks, and " +
		"each outcome has its operation and its data",
	Run: servingAnswers,
}, req.SAS2_4_11)

func servingAnswers(t *validate.T) {
	s := newStage(t)
	s.withServices()
	x, y := s.patron(), s.patron()
	ca := s.app().open()
	to := x.loopback(ca)
	asks, answers := x.agent(classFirst, 0, 0), y.agent(classFirst, mad.Set, 0)
	const many = 5
	var requests []schema.TakeMADReply
	for op := uint64(1); op <= many; op++ {
		kit.OK(t, x.do(schema.CmdSendMAD, &schema.SendMAD{Agent: asks, Op: op << 40, To: to, Timeout: 3600e9,
			MAD: datagram(classFirst, uint32(op))}, &schema.None{}), "Agent.StartDo")
	}
	for range many {
		r := y.await(answers, "a request")
		kit.Equal(t, "kind, operation and length of a request", fmt.Sprint(r.Kind, r.Op, r.Total, r.Error.Code),
			fmt.Sprint(schema.MADReceived, 0, lenDatagram, schema.ErrorNone))
		kit.Equal(t, "QP that a request is from", r.From.QPN, 1)
		isRoCE := ca.Port.Link == ci.LinkEthernet
		kit.Equal(t, "whether a request has a GRH", r.GRH, isRoCE)
		if isRoCE {
			kit.Equal(t, "the GIDs of a request", [2]ci.GID{r.SGID, r.DGID}, [2]ci.GID{to.AV.DGID, to.AV.DGID})
		}
		requests = append(requests, r)
	}
	bodies := map[uint32]bool{}
	for i := len(requests) - 1; i >= 0; i-- { // in another order
		r := requests[i]
		var h mad.Header
		h.Parse(r.Data)
		h.Method = mad.GetResp
		b := append([]byte(nil), r.Data...)
		h.Put(b)
		b[lenDatagram-1] ^= 0xff
		kit.OK(t, y.do(schema.CmdSendMAD, &schema.SendMAD{Agent: answers, To: r.From, MAD: b}, &schema.None{}),
			"Agent.Send of an answer")
	}
	for range many {
		r := x.await(asks, "an outcome")
		kit.Equal(t, "kind, length and error of an outcome", fmt.Sprint(r.Kind, r.Total, r.Error.Code),
			fmt.Sprint(schema.MADOutcome, lenDatagram, schema.ErrorNone))
		kit.Equal(t, "QP that an answer is from", r.From.QPN, 1)
		number := uint32(r.Op >> 40)
		want := datagram(classFirst, number)
		want[lenDatagram-1] ^= 0xff
		kit.SameBytes(t, fmt.Sprintf("the answer to request %d", number), r.Data[mad.HeaderLen:], want[mad.HeaderLen:])
		bodies[number] = true
	}
	kit.Equal(t, "operations with an outcome", len(bodies), many)
}

var _ = servings.Case(validate.Case{
	ID:    "user.service.bytes",
	Title: "objects of the services of exactly the bytes of the quota, and of one byte more",
	Run:   servingBytes,
}, req.SAS2_4_10)

func servingBytes(t *validate.T) {
	// By package services: bytes of an object, of a request of a listener's backlog, and of a connection; the backlog
	// of a listener that states none.
	const object, request, conn, backlog = 512, 2048, 4096, 128
	s := newStage(t)
	s.withServices()
	type create struct {
		what  string
		bytes int64 // without those of the services
		of    func(p *patron, w *whole) (schema.Handle, error)
	}
	listener := func(n uint32) func(p *patron, w *whole) (schema.Handle, error) {
		return func(p *patron, _ *whole) (schema.Handle, error) {
			return p.create(schema.CmdCMListen, &schema.CMListen{Services: p.services, ServiceID: serviceA,
				Backlog: n})
		}
	}
	for _, v := range kit.Variants(t, "", []create{
		{"services", object, func(p *patron, _ *whole) (schema.Handle, error) {
			return p.create(schema.CmdOpenServices, &schema.OpenServices{Async: p.queue})
		}},
		{"an agent", object, func(p *patron, _ *whole) (schema.Handle, error) {
			return p.create(schema.CmdRegisterAgent, &schema.RegisterAgent{Services: p.services, Port: p.port,
				Class: uint8(classFirst), Version: 1})
		}},
		{"a port", object, func(p *patron, _ *whole) (schema.Handle, error) {
			var r schema.BindPortReply
			err := p.do(schema.CmdBindPort, &schema.BindPort{Services: p.services, Space: 0x0106}, &r)
			return r.Handle, err
		}},
		{"a listener", object + backlog*request, listener(0)},
		{"a listener with a backlog of 1", object + request, listener(1)},
		{"a listener with a backlog of 7", object + 7*request, listener(7)},
		{"a connection", conn, func(p *patron, w *whole) (schema.Handle, error) {
			return p.create(schema.CmdCMConnect, &schema.CMConnect{Services: p.services, Op: 1, ServiceID: serviceB,
				Primary: schema.CMPath{Port: p.port, AV: w.loop(), PKey: 0xffff, RemoteLID: w.port.LID,
					MTU: ci.MTU1024, LifeTime: 10}, RetryCount: 7, RNRRetry: 7, ResponseTime: 20,
				RemoteResponseTime: 20, MaxRetries: 3, QP: schema.CMQP{Num: w.num, Type: ci.RC, StartPSN: 5}})
		}},
		{"a lookup", request, func(p *patron, w *whole) (schema.Handle, error) {
			return p.create(schema.CmdCMLookup, &schema.CMLookup{Services: p.services, Op: 1, ServiceID: serviceB,
				Path: schema.CMPath{Port: p.port, AV: w.loop(), PKey: 0xffff, RemoteLID: w.port.LID, MTU: ci.MTU1024,
					LifeTime: 10}, Timeout: 3600e9, Retries: 1})
		}},
	}) {
		for _, less := range []int64{0, 1} {
			s.restart(func(cfg *kproxy.Config) {
				cfg.Service, cfg.Quota.ServiceBytes = s.service, object+v.bytes-less
			})
			p := s.patron()
			w := p.whole(0, p.queue)
			for range 3 {
				h, err := v.of(p, w)
				if less > 0 {
					kit.WantExactly(t, err, "the create of "+v.what+" beyond the quota", ci.InsufficientResources)
					continue
				}
				kit.OK(t, err, "the create of "+v.what+" of exactly the quota")
				_, err = p.create(schema.CmdOpenServices, &schema.OpenServices{Async: p.queue})
				kit.WantExactly(t, err, "services.Open beyond the quota", ci.InsufficientResources)
				p.destroyed(h)
			}
			p.c.Close()
			s.await("the daemon after the end of the process", "no client", func() string {
				if n := len(s.core.Sessions()); n > 0 {
					return fmt.Sprint(n)
				}
				return ""
			})
		}
	}
}
