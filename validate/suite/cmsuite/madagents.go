package cmsuite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// What agents receive, and what happens to datagrams that no agent receives.

// asks sends a request of the certifier's class and returns the response.
func asks(t *validate.T, from *side, agent mads.Agent, to *side, change func(b []byte)) (sent, answer []byte) {
	b := datagram(t, mad.Get, 0x1234500000000000|uint64(t.Rand().Uint32()))
	if change != nil {
		change(b)
	}
	ctx, cancel := wait(t)
	defer cancel()
	r, err := agent.Do(ctx, &mads.Message{To: from.to(to), MAD: b, Timeout: t.Remaining() / 4, Retries: 2})
	kit.OK(t, err, "mads.Agent.Do")
	return b, r.MAD
}

var MADGSI09 = datagrams.Must("MAD-GSI-09", "IBTA 13.4.7", "mads",
	"A Get or Set that no agent has registered for is answered with status 0x000c, or with 0x0004 if an agent has its "+
		"class in another version. The rest of the response repeats the request. Other methods are not answered.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.gsi.unclaimed",
	Title: "requests that no agent receives",
	Run:   madUnclaimed,
}, MADGSI09)

func madUnclaimed(t *validate.T) {
	a, b := sides(t)
	from := a.agent(mads.AgentConfig{Name: "certifier"})
	const other = vendorClass + 1
	refused := func(where string, want uint16, change func(b []byte)) {
		sent, got := asks(t, a, from, b, change)
		sent[3] |= byte(mad.ResponseMask)
		if mad.Method(sent[3]) != mad.GetResp {
			sent[3] = byte(mad.GetResp) // a Set has the same response
		}
		sent[4], sent[5] = byte(want>>8), byte(want)
		kit.SameBytes(t, "response to "+where, got, sent)
	}
	set := func(b []byte) { b[3] = byte(mad.Set) }
	refused("a Get without an agent", mad.StatusBadMethodAttribute, nil)
	refused("a Set without an agent", mad.StatusBadMethodAttribute, set)
	agent := b.agent(vendor(mad.Get))
	refused("a method that the agent has not registered", mad.StatusBadMethodAttribute, set)
	refused("another version than the agent's", mad.StatusBadVersion, func(b []byte) { b[2]++ })
	refused("another version and method than the agent's", mad.StatusBadVersion, func(b []byte) { set(b); b[2]++ })
	refused("another class than the agent's", mad.StatusBadMethodAttribute, func(b []byte) { b[1] = byte(other) })
	none(t, agent, "agent that has registered for nothing that was sent")

	for _, method := range []mad.Method{mad.Send, mad.Report, 0x33} {
		kit.OK(t, from.Send(&mads.Message{To: a.to(b), MAD: datagram(t, method, 1)}), "mads.Agent.Send")
	}
	refused("a Set after datagrams without a response", mad.StatusBadMethodAttribute, set)
	kit.OK(t, agent.Close(), "mads.Agent.Close")
	refused("a Get after the agent was closed", mad.StatusBadMethodAttribute, nil)
	refused("another version after the agent was closed", mad.StatusBadMethodAttribute, func(b []byte) { b[2]++ })
}

var MADGSI10 = datagrams.Must("MAD-GSI-10", "IBTA 13.4.6.4", "mads, Agent.Do",
	"A response completes a request only if it has its class and comes from the port that the request was sent to. "+
		"Others have no effect, and neither have copies.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.gsi.forged",
	Title: "responses of another class, from another port, and copies",
	Run:   madForged,
}, MADGSI10)

func madForged(t *validate.T) {
	a, b := sides(t)
	from, peer := a.agent(mads.AgentConfig{Name: "certifier"}), b.agent(vendor(mad.Get))
	// The certifier also sends to itself, which is another port than the peer's.
	third := a.agent(mads.AgentConfig{Name: "third"})
	self := mads.Address{AV: a.ca.AddressOf(a.ca), QPN: 1}
	echo := a.agent(mads.AgentConfig{Name: "echo", Class: vendorClass + 1, Version: vendorVersion,
		Methods: []mad.Method{mad.Send}})
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		agent  mads.Agent
		to     mads.Address
		change func(b []byte)
	}{
		{"another port", third, self, nil},
		{"another class", peer, b.to(a), func(b []byte) { b[1]++ }},
		{"another transaction of the agent", peer, b.to(a), func(b []byte) { b[15] ^= 0x40 }},
		{"another agent", peer, b.to(a), func(b []byte) { b[8] ^= 0x40 }},
	}) {
		msg := datagram(t, mad.Get, 7)
		await := result(t, "mads.Agent.Do", func(ctx context.Context) (*mads.Received, error) {
			return from.Do(ctx, &mads.Message{To: a.to(b), MAD: msg, Timeout: t.Remaining()})
		})
		q := recv(t, peer, "request at the peer").MAD
		q[3] |= byte(mad.ResponseMask)
		wrong := append([]byte(nil), q...)
		wrong[200] ^= 0xff
		if v.change != nil {
			v.change(wrong)
		}
		sender := v.agent
		if sender == peer && wrong[1] != byte(vendorClass) {
			sender = b.agent(mads.AgentConfig{Name: "another class"})
		}
		kit.OK(t, sender.Send(&mads.Message{To: v.to, MAD: wrong}), "mads.Agent.Send of a forged response")
		if v.agent == third { // the port receives what it sends to itself in order
			kit.OK(t, third.Send(&mads.Message{To: self, MAD: own(t)}), "mads.Agent.Send to the own port")
			recv(t, echo, "datagram to the own port")
		}
		for range 2 { // the second one is a copy
			kit.OK(t, peer.Send(&mads.Message{To: b.to(a), MAD: q}), "mads.Agent.Send of the response")
		}
		r, err := await()
		kit.OK(t, err, "mads.Agent.Do after a response of "+v.name)
		kit.SameBytes(t, "data of the response after one of "+v.name, r.MAD[24:], msg[24:])
		kit.Equal(t, "transaction ID of the response", r.Header().TID, 7)
	}
}

// own returns a datagram for the agent echo of madForged.
func own(t *validate.T) []byte {
	b := datagram(t, mad.Send, 3)
	b[1]++
	return b
}

var MADGSI11 = datagrams.Must("MAD-GSI-11", "IBTA 16.5.2", "mads, AgentConfig.OUI, Methods",
	"Requests of vendor range 2 reach the agent of their OUI. Eight OUIs of a class have agents, and a method has one "+
		"agent. What one agent had is free when it is closed, and the others keep theirs.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.gsi.claims",
	Title: "agents of nine OUIs, and agents that share a class",
	Run:   madClaims,
}, MADGSI11)

func madClaims(t *validate.T) {
	const maxOUIs = 8
	a, b := sides(t)
	class := mad.ClassVendor2First + 3
	from := a.agent(mads.AgentConfig{Name: "certifier"})
	config := func(oui byte) mads.AgentConfig {
		return mads.AgentConfig{Name: fmt.Sprintf("OUI %d", oui), Port: b.port, Class: class, Version: vendorVersion,
			OUI: [3]byte{0, 0x1d, oui}, Methods: []mad.Method{mad.Get, mad.Send}}
	}
	send := func(oui byte, tid uint64) {
		m := datagram(t, mad.Send, tid)
		m[1] = byte(class)
		clear(m[mad.HeaderLen:mad.RMPPEnd])
		copy(m[mad.RMPPEnd:], []byte{0, 0, 0x1d, oui})
		kit.OK(t, from.Send(&mads.Message{To: a.to(b), MAD: m}), "mads.Agent.Send")
	}
	var agents []mads.Agent
	for i := range byte(maxOUIs) {
		agents = append(agents, b.agent(config(i+1)))
	}
	_, err := b.mads.Register(config(9))
	kit.WantExactly(t, err, "mads.Service.Register with a ninth OUI", ci.ResourceBusy)
	_, err = b.mads.Register(config(3))
	kit.WantExactly(t, err, "mads.Service.Register with methods that another agent has", ci.ResourceBusy)
	one := config(3)
	one.Methods = []mad.Method{mad.Set, mad.Send}
	_, err = b.mads.Register(one)
	kit.WantExactly(t, err, "mads.Service.Register with one method that another agent has", ci.ResourceBusy)
	newer := config(9)
	newer.Version++
	_ = b.agent(newer) // OUIs are counted for each version
	for i, g := range agents {
		send(byte(i+1), uint64(i))
		kit.Equal(t, "transaction ID at the agent of the OUI", recv(t, g, "agent of the OUI").Header().TID, uint64(i))
	}
	one.Methods = []mad.Method{mad.Set}
	set := b.agent(one) // shares class and OUI with an agent for Get and Send
	kit.OK(t, agents[2].Close(), "mads.Agent.Close")
	kit.OK(t, agents[2].Close(), "second mads.Agent.Close")
	_, err = b.mads.Register(config(9))
	kit.WantExactly(t, err, "mads.Service.Register with a ninth OUI while one of the eight has another agent",
		ci.ResourceBusy)
	again := b.agent(config(3))
	send(3, 33)
	kit.Equal(t, "transaction ID at the new agent", recv(t, again, "new agent of the OUI").Header().TID, 33)
	none(t, set, "agent for Set")
	kit.OK(t, set.Close(), "mads.Agent.Close")
	kit.OK(t, again.Close(), "mads.Agent.Close")
	last := b.agent(config(9))
	send(9, 99)
	kit.Equal(t, "transaction ID at the agent of the ninth OUI", recv(t, last, "agent of OUI 9").Header().TID, 99)
	send(1, 100)
	kit.Equal(t, "transaction ID at the agent of the first OUI", recv(t, agents[0], "agent of OUI 1").Header().TID, 100)
	for _, g := range agents[1:] {
		none(t, g, "agent of another OUI")
	}
}

var MADGSI12 = datagrams.Must("MAD-GSI-12", "CI access layer", "mads, AgentConfig.Queue, Agent.Recv, Close",
	"An agent keeps as many datagrams as its queue has room for. They are received in order, also after Close, and "+
		"then Recv returns ErrClosed.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.gsi.queue",
	Title: "more datagrams than an agent has room for",
	Run:   madQueue,
}, MADGSI12)

func madQueue(t *validate.T) {
	const room = 3
	a, b := sides(t)
	from := a.agent(mads.AgentConfig{Name: "certifier"})
	cfg := vendor(mad.Send)
	cfg.Queue = room
	small := b.agent(cfg)
	answer(b, vendor(mad.Get)) // a port handles datagrams in the order in which they arrive
	for i := range uint64(2 * room) {
		kit.OK(t, from.Send(&mads.Message{To: a.to(b), MAD: datagram(t, mad.Send, i)}), "mads.Agent.Send")
	}
	asks(t, a, from, b, nil)
	answer(a, vendor(mad.Get))
	asks(t, b, small, a, nil) // an agent of another process has taken what came before the response
	for i := range uint64(room - 1) {
		kit.Equal(t, "transaction ID of the next datagram", recv(t, small, "queue of the agent").Header().TID, i)
	}
	kit.OK(t, small.Close(), "mads.Agent.Close")
	kit.Equal(t, "transaction ID of the last datagram", recv(t, small, "queue of a closed agent").Header().TID, room-1)
	_, err := small.Recv(t.Context())
	kit.True(t, err != nil && t.Context().Err() == nil, "mads.Agent.Recv of a closed agent", "ErrClosed", "%v", err)
	kit.WantExactly(t, small.Send(&mads.Message{To: b.to(a), MAD: datagram(t, mad.Send, 1)}),
		"mads.Agent.Send of a closed agent", ci.InvalidState)
}

var MADGSI13 = datagrams.Must("MAD-GSI-13", "CI access layer", "mads, Agent.Do, StartDo",
	"A request whose context ends fails with the error of the context, and its late response has no effect on others. "+
		"A response cannot be sent as a request.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.gsi.context",
	Title: "contexts that end before the response, and before the request",
	Run:   madContext,
}, MADGSI13)

func madContext(t *validate.T) {
	a, b := sides(t)
	from, peer := a.agent(vendor()), b.agent(vendor(mad.Get))
	message := func(tid uint64) *mads.Message {
		return &mads.Message{To: a.to(b), MAD: datagram(t, mad.Get, tid), Timeout: time.Hour}
	}
	ended := make(chan error, 4)
	for _, v := range kit.Variants(t, "", []struct {
		name  string
		start func(ctx context.Context, m *mads.Message)
	}{
		{"Do", func(ctx context.Context, m *mads.Message) {
			t.Go(func() { _, err := from.Do(ctx, m); ended <- err })
		}},
		{"StartDo", func(ctx context.Context, m *mads.Message) {
			kit.OK(t, from.StartDo(ctx, m, func(_ *mads.Received, err error) { ended <- err }), "mads.Agent.StartDo")
		}},
	}) {
		ctx, cancel := context.WithCancel(t.Context())
		v.start(ctx, message(1))
		late := recv(t, peer, "request at the peer").MAD
		cancel()
		select {
		case err := <-ended:
			kit.True(t, errors.Is(err, context.Canceled), "mads.Agent."+v.name+" whose context has ended",
				"context.Canceled", "%v", err)
		case <-t.Context().Done():
			t.Failf("mads.Agent."+v.name+" whose context has ended", "an end", "none by the deadline")
		}
		next := result(t, "mads.Agent.Do", func(ctx context.Context) (*mads.Received, error) {
			return from.Do(ctx, message(2))
		})
		q := recv(t, peer, "next request at the peer").MAD
		for _, m := range [][]byte{late, q} {
			m[3] |= byte(mad.ResponseMask)
			kit.OK(t, peer.Send(&mads.Message{To: b.to(a), MAD: m}), "mads.Agent.Send of a response")
		}
		r, err := next()
		kit.OK(t, err, "mads.Agent.Do after a late response to another request")
		kit.SameBytes(t, "data of the response", r.MAD[24:], q[24:])
		_, err = from.Do(ctx, message(3))
		kit.True(t, errors.Is(err, context.Canceled), "mads.Agent.Do with a context that has ended", "context.Canceled",
			"%v", err)
	}
	bad := message(4)
	bad.MAD[3] |= byte(mad.ResponseMask)
	_, err := from.Do(t.Context(), bad)
	kit.WantExactly(t, err, "mads.Agent.Do of a response", ci.InvalidParameter)
	kit.WantExactly(t, from.StartDo(t.Context(), message(5), nil), "mads.Agent.StartDo without a function",
		ci.InvalidParameter)
	none(t, peer, "requests that were not sent")
}
