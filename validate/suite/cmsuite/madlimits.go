package cmsuite

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// What the services hold: datagrams that wait, address vectors, ports and watchers.

var MADLimit01 = datagrams.Must("MAD-Limit-01", "CI access layer", "mads, Config.SendDepth, QueueLimit, Agent.Send",
	"No more datagrams than SendDepth are posted at once. Further ones wait, up to QueueLimit, then they are rejected "+
		"with InsufficientResources. The services' own replies take half of the queue at most. Nothing is lost, and "+
		"the order is that of the calls.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.limit.queue",
	Title: "more datagrams than the send queue and the queue before it hold",
	Run:   limitQueue,
}, MADLimit01)

func limitQueue(t *validate.T) {
	for _, limit := range kit.Variants(t, "QueueLimit", []int{5, 4}) {
		limitQueueOf(t, limit)
	}
}

func limitQueueOf(t *validate.T, limit int) {
	const depth = 2
	b := newBench(t, benchSetting{mads: mads.Config{SendDepth: depth, QueueLimit: limit}})
	from, to := b.agent(vendor()), b.peer.agent(vendor(mad.Send))
	addr := b.side.to(b.peer)
	var outcomes atomic.Int32 // of requests that were rejected
	for _, isReply := range kit.Variants(t, "replies of the services", []bool{false, true}) {
		b.idle(from)
		b.sent()
		entered, release := make(chan struct{}), make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free()
		calls, most := 0, 0
		b.set(func() {
			b.hook = func(_ ci.QPType, q ci.QP, wrs []ci.SendWR) (int, error) {
				b.mu.Lock()
				calls++
				isFirst := calls == 1
				most = max(most, len(wrs))
				b.mu.Unlock()
				if isFirst {
					close(entered)
					<-release
				}
				return q.PostSend(wrs)
			}
		})
		var want []uint64
		send := func(tid uint64) error {
			return from.Send(&mads.Message{To: addr, MAD: datagram(t, mad.Send, tid)})
		}
		first := datagram(t, mad.Send, 100)
		t.Go(func() {
			if err := from.Send(&mads.Message{To: addr, MAD: first}); err != nil {
				t.Report(validate.Failure{Where: "mads.Agent.Send", Expected: "success", Got: kit.Describe(err)})
			}
		})
		await(t, entered, "PostSend")
		want = append(want, 100)
		waiting := limit
		if isReply { // at 2 of 5, or 1 of 4, one more reply has room, and then none
			waiting = limit - 3
		}
		for i := range uint64(waiting) {
			kit.OK(t, send(101+i), "mads.Agent.Send to a send queue without room")
			want = append(want, 101+i)
		}
		if isReply {
			for i := range uint64(3) {
				m := datagram(t, mad.Get, 200+i)
				b.deliver(1, m)
			}
			b.caughtUp(from) // may be before they have arrived, so a datagram follows them
			m := datagram(t, mad.Report, 210)
			seen := make(chan struct{}, 1)
			c := vendor(mad.Report)
			c.OnReceive = func(*mads.Received) { seen <- struct{}{} }
			last := b.agent(c)
			b.deliver(1, m)
			await(t, seen, "datagram after those that are answered")
			kit.OK(t, last.Close(), "mads.Agent.Close")
			want = append(want, 200)
			kit.OK(t, send(110), "mads.Agent.Send beside replies")
			kit.OK(t, send(111), "mads.Agent.Send beside replies")
			want = append(want, 110, 111)
		}
		kit.WantExactly(t, send(150), "mads.Agent.Send beyond QueueLimit", ci.InsufficientResources)
		_, err := from.Do(t.Context(), &mads.Message{To: addr, MAD: datagram(t, mad.Get, 151)})
		kit.WantExactly(t, err, "mads.Agent.Do beyond QueueLimit", ci.InsufficientResources)
		err = from.StartDo(t.Context(), &mads.Message{To: addr, MAD: datagram(t, mad.Get, 152)},
			func(*mads.Received, error) { outcomes.Add(1) })
		kit.WantExactly(t, err, "mads.Agent.StartDo beyond QueueLimit", ci.InsufficientResources)
		free()
		for _, tid := range want {
			if tid < 200 {
				kit.Equal(t, "transaction ID of the next datagram", arrival(t, to, "datagram that waited").Header().TID,
					tid)
			}
		}
		b.settle(1)
		var got []uint64
		for _, p := range b.sent() {
			got = append(got, p.header().TID)
		}
		kit.True(t, slices.Equal(got, want), "transaction IDs in the order of posting", fmt.Sprint(want), "%v", got)
		b.set(func() {
			kit.True(t, most <= depth, "requests in one PostSend", fmt.Sprintf("at most %d", depth), "%d", most)
			b.hook = nil
		})
		kit.OK(t, send(160), "mads.Agent.Send after the queue was full")
		kit.Equal(t, "transaction ID of the next datagram", arrival(t, to, "datagram").Header().TID, 160)
	}
	kit.OK(t, from.Close(), "mads.Agent.Close")
	kit.Equal(t, "outcomes of requests that StartDo has rejected", outcomes.Load(), int32(0))
	b.end()
}

var MADLimit02 = datagrams.Must("MAD-Limit-02", "CI access layer", "mads, Config.AVs",
	"Datagrams to the same address share an address vector. Unused vectors are kept up to the limit, those used last, "+
		"and none after a change of the port. A vector in use is destroyed after its use. What CreateAV refuses ends "+
		"the send with its status.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.limit.vectors",
	Title: "datagrams to more addresses than vectors are kept",
	Run:   limitVectors,
}, MADLimit02)

func limitVectors(t *validate.T) {
	b := newBench(t, benchSetting{mads: mads.Config{AVs: 2}, query: func(*ci.CAAttr) {}})
	manager := b.services.(*local).mads
	from := b.agent(vendor())
	isIB := b.ca.Port.Link == ci.LinkInfiniBand
	address := func(i byte) mads.Address {
		d := b.side.to(b.peer)
		if isIB {
			d.AV.DLID ^= ci.LID(i) << 4
		} else {
			d.AV.GRH.HopLimit -= i // not another GID, which another adapter may have
		}
		return d
	}
	counts := func() (made, live int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.newAVs, len(b.avs)
	}
	base, _ := counts()
	sends := manager.Counters()[b.port].Sent
	// uses sends to an address, and expects the number of vectors created so far.
	uses := func(d mads.Address, made int, where string) {
		kit.OK(t, from.Send(&mads.Message{To: d, MAD: datagram(t, mad.Send, 1)}), "mads.Agent.Send "+where)
		sends++
		b.until("completion of the datagram "+where, func() bool { return manager.Counters()[b.port].Sent >= sends })
		b.caughtUp(from)
		got, _ := counts()
		kit.Equal(t, "vectors created, "+where, got-base, made)
	}
	lives := func(n int, where string) {
		b.until(fmt.Sprintf("%d address vectors exist %s", n, where), func() bool { return len(b.avs) == n })
	}
	uses(address(0), 1, "to the first address")
	uses(address(1), 2, "to the second")
	uses(address(0), 2, "to the first again")
	uses(address(2), 3, "to the third")
	lives(2, "after three addresses")
	uses(address(0), 3, "to the first, which was used after the second")
	uses(address(2), 3, "to the third again")
	uses(address(1), 4, "to the second, which was not kept")
	lives(2, "after the second again")
	uses(address(2), 4, "to the third, which was used after the first")
	sl := address(2)
	sl.AV.SL ^= 1
	uses(sl, 5, "at another service level")
	uses(address(2), 5, "at the first service level")

	t.Step("%s", "changes of the port")
	num, lid := b.port.Num, b.ca.Port.LID
	adapter, err := b.al.Adapter(b.port.CA)
	kit.OK(t, err, "AL.Adapter")
	change := func() {
		b.set(func() {
			lid ^= 0x100
			mine := lid
			gid := gidOf([]byte{0xfd, 7, byte(lid >> 8)}, 7)
			b.query = func(a *ci.CAAttr) {
				p := &a.Ports[num-1]
				if p.LID = mine; !isIB {
					p.LID = 0
					p.GIDs = append(p.GIDs, ci.GIDEntry{GID: gid, Type: ci.GIDRoCEv2})
				}
			}
		})
		adapter.Poll()
	}
	change()
	lives(0, "after a change of the port")
	uses(address(2), 6, "after a change of the port")
	b.idle(from)
	entered, release := make(chan struct{}), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	isFirst := true
	b.set(func() {
		b.hook = func(_ ci.QPType, q ci.QP, wrs []ci.SendWR) (int, error) {
			b.mu.Lock()
			waits := isFirst
			isFirst = false
			b.mu.Unlock()
			if waits {
				close(entered)
				<-release
			}
			return q.PostSend(wrs)
		}
	})
	m := datagram(t, mad.Send, 2)
	t.Go(func() {
		if err := from.Send(&mads.Message{To: address(2), MAD: m}); err != nil {
			t.Report(validate.Failure{Where: "mads.Agent.Send", Expected: "success", Got: kit.Describe(err)})
		}
	})
	await(t, entered, "PostSend")
	kit.OK(t, from.Send(&mads.Message{To: address(0), MAD: m}), "mads.Agent.Send to a second vector in use")
	change()
	kit.OK(t, b.al.WaitPnP(t.Context()), "AL.WaitPnP")
	lives(2, "while they are in use")
	free()
	sends += 2
	lives(0, "after their use")
	uses(address(2), 8, "after a vector in use was forgotten")
	b.set(func() { b.hook = nil })

	t.Step("%s", "vectors that cannot be created")
	long := b.agent(mads.AgentConfig{Class: mad.ClassSubnetAdmin, Version: mad.ClassVersionSubnetAdmin, RMPP: true})
	b.set(func() { b.refuse = &ci.Error{Verb: "PD.CreateAV", Status: ci.InsufficientMemory} })
	kit.WantExactly(t, from.Send(&mads.Message{To: address(3), MAD: m}), "mads.Agent.Send without a vector",
		ci.InsufficientMemory)
	request := datagram(t, mad.Get, 3)
	_, err = from.Do(t.Context(), &mads.Message{To: address(3), MAD: request})
	kit.WantExactly(t, err, "mads.Agent.Do without a vector", ci.InsufficientMemory)
	err = from.StartDo(t.Context(), &mads.Message{To: address(3), MAD: request}, func(*mads.Received, error) {
		t.Report(validate.Failure{Where: "mads.Agent.StartDo without a vector", Expected: "no call of the function",
			Got: "a call"})
	})
	kit.WantExactly(t, err, "mads.Agent.StartDo without a vector", ci.InsufficientMemory)
	kit.WantExactly(t, long.Send(&mads.Message{To: address(3), MAD: longMessage(mad.Send, 4, 405)}),
		"mads.Agent.Send of a long message without a vector", ci.InsufficientMemory)
	b.set(func() { b.refuse = nil })
	kit.OK(t, long.Send(&mads.Message{To: address(3), MAD: longMessage(mad.Send, 4, 405), Timeout: time.Hour}),
		"mads.Agent.Send of the same long message later")
	sends++
	uses(address(0), 10, "after vectors could not be created")
	kit.OK(t, long.Close(), "mads.Agent.Close")
}

var MADWatch01 = datagrams.Must("MAD-Watch-01", "CI access layer", "mads, New, Service.Watch, Ports, Manager.Close",
	"A watcher is told of each port when it begins, and when an HCA comes and goes, in order and until it stops. The "+
		"agents of a port that goes are closed before. An access layer has the services once.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.watch",
	Title: "watchers and agents while the HCA comes and goes",
	Run:   watchPorts,
}, MADWatch01)

func watchPorts(t *validate.T) {
	ha, _ := t.Pair()
	if _, ok := ha.(Host); ok {
		t.Skip("the MAD services are in another process, and end with the HCA")
	}
	s := newSideWith(t, ha, setting{mads: mads.Config{Name: "owner", FirstAgent: 0xffffffff}})
	m := s.services.(*local).mads
	_, err := mads.New(nil, mads.Config{})
	kit.WantExactly(t, err, "mads.New without an access layer", ci.InvalidParameter)
	_, err = mads.New(s.al, mads.Config{})
	kit.WantExactly(t, err, "second mads.New of an access layer", ci.ResourceBusy)
	var ports []mads.Port
	for _, p := range t.Attr().Ports {
		ports = append(ports, mads.Port{CA: s.port.CA, Num: p.Num})
	}
	kit.True(t, slices.Equal(m.Ports(), ports), "Manager.Ports", fmt.Sprint(ports), "%v", m.Ports())

	type change struct {
		p     mads.Port
		there bool
	}
	watch := func(log *[]change, during func(p mads.Port, there bool)) (stop func()) {
		return m.Watch(func(p mads.Port, there bool) {
			*log = append(*log, change{p, there})
			if during != nil {
				during(p, there)
			}
		})
	}
	all := func(there bool) (list []change) {
		for _, p := range ports {
			list = append(list, change{p, there})
		}
		if !there {
			slices.Reverse(list)
		}
		return list
	}
	saw := func(where string, got *[]change, want []change) {
		kit.True(t, slices.Equal(*got, want), "calls of a watcher, "+where, fmt.Sprint(want), "%v", *got)
		*got = nil
	}
	var one, two, three []change
	agent := s.agent(vendor(mad.Get))
	var isClosed bool
	watch(&one, func(p mads.Port, there bool) {
		if p == s.port && !there {
			_, err := agent.Recv(t.Context())
			isClosed = errors.Is(err, accesslayer.ErrClosed)
			_, err = m.Register(mads.AgentConfig{Port: s.port})
			isClosed = isClosed && ci.StatusOf(err) == ci.InvalidPort
		}
	})
	stop := watch(&two, nil)
	watch(&three, nil)
	m.Watch(nil)()
	saw("when it begins", &one, all(true))
	saw("when it begins", &two, all(true))
	saw("when it begins", &three, all(true))
	stop()
	stop()
	kit.OK(t, s.al.Deregister(s.port.CA), "AL.Deregister")
	saw("when the HCA goes", &one, all(false))
	saw("that was stopped", &two, nil)
	saw("when the HCA goes", &three, all(false))
	kit.True(t, isClosed, "agents and registrations of a port when it goes", "ErrClosed and InvalidPort",
		"other results")
	kit.Equal(t, "ports after the HCA has gone", len(m.Ports()), 0)
	_, err = m.Register(mads.AgentConfig{Port: s.port})
	kit.WantExactly(t, err, "mads.Service.Register on a port that has gone", ci.InvalidPort)
	kit.True(t, len(m.Counters()) == len(ports), "ports with counters after the HCA has gone", fmt.Sprint(len(ports)),
		"%d",
		len(m.Counters()))

	kit.OK(t, s.al.Register(ha), "Registrar.Register")
	kit.OK(t, s.al.WaitPnP(t.Context()), "AL.WaitPnP")
	saw("when the HCA comes", &one, all(true))
	saw("that was stopped", &two, nil)
	kit.True(t, slices.Equal(m.Ports(), ports), "Manager.Ports", fmt.Sprint(ports), "%v", m.Ports())
	kit.Equal(t, "ports with counters", len(m.Counters()), len(ports))
	again := s.agent(vendor(mad.Get))
	kit.OK(t, m.Close(), "mads.Manager.Close")
	saw("when the services end", &one, all(false))
	_, err = again.Recv(t.Context())
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "mads.Agent.Recv after the end of the services", "ErrClosed",
		"%v",
		err)
	_, err = m.Register(mads.AgentConfig{Port: s.port})
	kit.WantExactly(t, err, "mads.Service.Register after the end of the services", ci.InvalidState)
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "mads.Service.Register after the end of the services",
		"ErrClosed", "%v", err)
	kit.Equal(t, "ports after the end of the services", len(m.Ports()), 0)
	kit.OK(t, m.Close(), "second mads.Manager.Close")
	next, err := mads.New(s.al, mads.Config{})
	kit.OK(t, err, "mads.New after the end of other services")
	kit.OK(t, next.Close(), "mads.Manager.Close")
}

var MADTime04 = datagrams.Must("MAD-Time-04", "CI access layer", "mads, Config.FirstAgent",
	"The requests of each agent have transaction IDs of its own, whose upper half counts up from FirstAgent and is "+
		"never 0. The requests of one agent have different ones.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.transaction.ids",
	Title: "transaction IDs of agents",
	Run:   transactionIDs,
}, MADTime04)

func transactionIDs(t *validate.T) {
	b := newBench(t, benchSetting{mads: mads.Config{FirstAgent: 0xfffffffd}}) // the bench has one agent
	seen := map[uint64]bool{}
	for _, want := range []uint32{0xfffffffe, 0xffffffff, 1, 2} {
		a := b.agent(mads.AgentConfig{Name: "certifier"})
		for i := range uint32(3) {
			b.settle(1)
			b.sent()
			m := datagram(t, mad.Get, 7)
			end := b.begin(t.Context(), a, &mads.Message{To: b.side.to(b.peer), MAD: m, Timeout: time.Hour})
			p := b.one(1, "of a request")[0]
			tid := p.header().TID
			kit.Equal(t, "upper half of the transaction ID", uint32(tid>>32), want)
			kit.True(t, !seen[tid], fmt.Sprintf("transaction ID of request %d", i+1), "a new one", "%#x again", tid)
			seen[tid] = true
			b.respond(p, nil)
			kit.OK(t, await(t, end, "request").err, "request")
		}
	}
}
