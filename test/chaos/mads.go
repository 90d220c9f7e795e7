package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// The class of the agents is a vendor class with RMPP.
const (
	rmppClass   = mad.ClassVendor2First
	rmppHeader  = mad.HeaderLen + mad.RMPPLen + 4 // with the OUI
	longMessage = 20000
)

var vendorOUI = [3]byte{0x02, 0xdd, 0xcd}

// managementAgents adds agents that exchange long messages in both directions.
func (w *world) managementAgents(a, b *host) error {
	agent := func(h *host, methods []mad.Method, on func(mads.Agent, *mads.Received)) (mads.Agent, error) {
		var x mads.Agent
		ready := make(chan struct{})
		cfg := mads.AgentConfig{Port: mads.Port{CA: h.hca.Info().GUID, Num: 1}, Class: rmppClass,
			Version: 1, OUI: vendorOUI,
			Methods: methods, RMPP: true}
		if on != nil {
			cfg.OnReceive = func(r *mads.Received) { <-ready; on(x, r) }
		}
		var err error
		x, err = h.svc.Register(cfg)
		close(ready)
		return x, err
	}
	server, err := agent(b, []mad.Method{mad.Get, mad.Set}, w.answer)
	if err != nil {
		return err
	}
	client, err := agent(a, nil, nil)
	if err != nil {
		return err
	}
	w.repeat("management client", func(x *actor) { w.askLong(x, client, b) })
	w.start("management agents", func(x *actor) {
		for w.ctx.Err() == nil {
			x.pause(time.Second)
		}
		for _, g := range []mads.Agent{client, server} {
			if err := g.Close(); err != nil {
				w.v.failf("close of a management agent: %v", err)
			}
		}
	})
	w.repeat("counter reader", func(x *actor) { w.readCounters(x, a, b) })
	return nil
}

// message returns a long datagram with n bytes of data that are determined by a seed. The data begins with the seed and
// the length of the response.
func message(method mad.Method, seed uint64, n, answer int) []byte {
	m := make([]byte, rmppHeader+16+n)
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: rmppClass, ClassVersion: 1, Method: method}
	h.Put(m)
	p := mad.RMPP{Version: 1, Flags: mad.RMPPActive}
	p.Put(m[mad.HeaderLen:])
	copy(m[rmppHeader-3:], vendorOUI[:])
	binary.BigEndian.PutUint64(m[rmppHeader:], seed)
	binary.BigEndian.PutUint64(m[rmppHeader+8:], uint64(answer))
	fill(m[rmppHeader+16:], seed, uint64(n))
	return m
}

// content checks the data of a message.
func content(m []byte) (seed uint64, answer int, err error) {
	if len(m) < rmppHeader+16 {
		return 0, 0, fmt.Errorf("%d bytes", len(m))
	}
	seed, answer = binary.BigEndian.Uint64(m[rmppHeader:]), int(binary.BigEndian.Uint64(m[rmppHeader+8:]))
	data := m[rmppHeader+16:]
	if i := differs(data, seed, uint64(len(data))); i >= 0 {
		return seed, 0, fmt.Errorf("byte %d of %d is wrong", i, len(data))
	}
	return seed, answer, nil
}

// answer responds to requests. It ignores other requests, which the forgers send.
func (w *world) answer(x mads.Agent, r *mads.Received) {
	seed, n, err := content(r.MAD)
	if err != nil || n < 0 || n > longMessage {
		w.tally.add("requests to the management agent that are not the client's", 1)
		return
	}
	m := message(r.Header().Method|0x80, seed+1, n, 0)
	var h mad.Header
	h.Parse(m)
	h.TID = r.Header().TID
	h.Put(m)
	if err := x.Send(&mads.Message{To: r.From, MAD: m, Timeout: time.Second, Retries: 3}); err != nil && !ended(err) &&
		!errors.Is(err, ci.InsufficientResources) {
		w.v.failf("answer of the management agent: %v", err)
	}
}

// askLong sends a request and checks the response.
func (w *world) askLong(a *actor, x mads.Agent, to *host) {
	a.pause(10 * time.Millisecond)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	seed, n := a.rnd.Uint64(), a.rnd.IntN(longMessage)
	m := message(mad.Get, seed, a.rnd.IntN(longMessage), n)
	to0 := mads.Address{QPN: 1, AV: ci.AVAttr{Global: true, GRH: ci.GRH{DGID: gidOf(to.addr), HopLimit: 64}}}
	r, err := x.Do(ctx, &mads.Message{To: to0, MAD: m, Timeout: 500 * time.Millisecond, Retries: 8})
	if err != nil {
		if !ended(err) {
			w.tally.add("RMPP transactions without an answer", 1)
		}
		return
	}
	got, _, err := content(r.MAD)
	switch {
	case err != nil:
		w.v.failf("answer of %d bytes by RMPP: %v", len(r.MAD), err)
	case got != seed+1 || len(r.MAD) != rmppHeader+16+n && n > 0:
		w.v.failf("answer by RMPP: %d bytes with seed %x, want %d with %x", len(r.MAD), got, rmppHeader+16+n, seed+1)
	}
	w.tally.add("RMPP transactions", 1)
}

// readCounters reads the counters from the agents of the ports.
func (w *world) readCounters(a *actor, from, to *host) {
	a.pause(50 * time.Millisecond)
	client, err := from.svc.Register(mads.AgentConfig{Port: mads.Port{CA: from.hca.Info().GUID, Num: 1}})
	if err != nil {
		w.v.failf("register of a client: %v", err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	m := make([]byte, mad.Size)
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerformance, ClassVersion: 1, Method: mad.Get,
		Attribute: mad.AttrPortCounters}
	h.Put(m)
	m[mad.PerfHeaderLen+1] = 1
	to0 := mads.Address{QPN: 1, AV: ci.AVAttr{Global: true, GRH: ci.GRH{DGID: gidOf(to.addr), HopLimit: 64}}}
	r, err := client.Do(ctx, &mads.Message{To: to0, MAD: m, Timeout: 500 * time.Millisecond, Retries: 8})
	if err == nil {
		if st := r.Header().Status; st != 0 {
			w.v.failf("port counters: status %#x", st)
		}
		w.tally.add("port counters read", 1)
	}
}
