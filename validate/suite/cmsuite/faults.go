package cmsuite

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Faults of QP1 below the MAD services: errors of the QP, of its requests and of its verbs. The services recover, and
// lose no datagram that was not sent.
var recoveries = area()

// fragile stands between the services and the QP1 of one port of the driver. A hook replaces a verb of the QP. nil
// calls the driver.
type fragile struct {
	mu     sync.Mutex
	qps    []ci.QP // QP1 of each port, in order
	port   int     // index of the port that the case uses
	send   func(q ci.QP, wrs []ci.SendWR) (int, error)
	recv   func(q ci.QP, wrs []ci.RecvWR) (int, error)
	modify func(q ci.QP, set ci.QPField, a ci.QPAttr) error
}

// fragileSides is sides with faults of the adapter under test. Services in another process have a QP1 that no case can
// reach.
func fragileSides(t *validate.T) (a, b *side, f *fragile) {
	ha, hb := t.Pair()
	if _, ok := ha.(Host); ok {
		t.Skip("the MAD services are in another process, and no case can put faults below them")
	}
	f = &fragile{port: -1}
	wrapped := ciwrap.Wrap(ha, ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
		if c.Type != ci.QP1 {
			return q
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.qps = append(f.qps, q)
		return fragileQP{ciwrap.QP{QP: q}, f, len(f.qps) - 1}
	}})
	a, b = newSide(t, wrapped), newSide(t, hb)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.port = int(a.port.Num) - 1
	if f.port >= len(f.qps) {
		t.Failf("QPs that the MAD services create", "QP1 of each port", "%d for port %d", len(f.qps), a.port.Num)
	}
	return a, b, f
}

// set replaces hooks.
func (f *fragile) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

type fragileQP struct {
	ciwrap.QP
	f     *fragile
	index int
}

func (q fragileQP) PostSend(wrs []ci.SendWR) (int, error) {
	q.f.mu.Lock()
	hook := q.f.send
	q.f.mu.Unlock()
	if hook != nil && q.index == q.f.port {
		return hook(q.QP.QP, wrs)
	}
	return q.QP.PostSend(wrs)
}

func (q fragileQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	q.f.mu.Lock()
	hook := q.f.recv
	q.f.mu.Unlock()
	if hook != nil && q.index == q.f.port {
		return hook(q.QP.QP, wrs)
	}
	return q.QP.PostRecv(wrs)
}

func (q fragileQP) Modify(set ci.QPField, a ci.QPAttr) error {
	q.f.mu.Lock()
	hook := q.f.modify
	q.f.mu.Unlock()
	if hook != nil && q.index == q.f.port {
		return hook(q.QP.QP, set, a)
	}
	return q.QP.Modify(set, a)
}

// arrival waits for a datagram that must arrive.
func arrival(t *validate.T, a mads.Agent, where string) *mads.Received {
	ctx, cancel := wait(t)
	defer cancel()
	r, err := a.Recv(ctx)
	if err != nil {
		t.Fail(validate.Failure{Where: where, Expected: "a datagram", Got: fmt.Sprintf("no datagram: %v", err),
			Doubt: validate.DoubtLoss})
	}
	return r
}

// pass sends datagrams from one agent to the other, which receives each of them once and in order.
func pass(t *validate.T, from, to mads.Agent, addr mads.Address, n int, where string) {
	var sent [][]byte
	for i := range n {
		b := datagram(t, mad.Send, uint64(i)+1)
		sent = append(sent, b)
		kit.OK(t, from.Send(&mads.Message{To: addr, MAD: b}), "mads.Agent.Send "+where)
	}
	for i, b := range sent {
		at := fmt.Sprintf("datagram %d of %d %s", i+1, n, where)
		kit.SameBytes(t, at, arrival(t, to, at).MAD, b)
	}
}

var MADFault01 = recoveries.Must("MAD-Fault-01", "IBTA 10.3.1", "mads, Agent.Send, Recv",
	"When QP1 has left RTS, the services recover it. Datagrams that were flushed or queued meanwhile are sent once "+
		"and in order, and later ones are received.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.qp",
	Title: "QP1 moves to Error and to Reset, and rejects its recovery at first",
	Run:   faultQP,
}, MADFault01)

func faultQP(t *validate.T) {
	const n = 30
	a, b, f := fragileSides(t)
	from, to := a.agent(vendor(mad.Send)), b.agent(vendor(mad.Send))
	for _, v := range kit.Variants(t, "", []struct {
		name string
		to   func() (ci.QPField, ci.QPAttr)
		left int // calls of QP.Modify that fail
	}{{"QP1 in Error", ci.ToError, 0}, {"QP1 in Error, which cannot be modified at first", ci.ToError, 3},
		{"QP1 in Reset", ci.ToReset, 0}, {"QP1 in Error again", ci.ToError, 0}}) {
		f.set(func() {
			f.modify = func(q ci.QP, set ci.QPField, attr ci.QPAttr) error {
				f.mu.Lock()
				v.left--
				isRejected := v.left >= 0
				f.mu.Unlock()
				if isRejected {
					return &ci.Error{Verb: "QP.Modify", Status: ci.InsufficientResources}
				}
				return q.Modify(set, attr)
			}
		})
		kit.OK(t, f.qps[f.port].Modify(v.to()), "QP.Modify of QP1, below the services")
		pass(t, from, to, a.to(b), n, "from a port with "+v.name)
		pass(t, to, from, b.to(a), n, "to a port that had "+v.name)
		none(t, to, "QP1 of the peer after "+v.name)
		none(t, from, "QP1 after "+v.name)
	}
}

// outcomes are the results of requests by their numbers.
type outcomes struct {
	t       *validate.T
	results chan outcome
}

type outcome struct {
	number int
	err    error
}

// start begins a request to an agent that answers with the same data.
func (o *outcomes) start(from mads.Agent, to mads.Address, number int) {
	b := datagram(o.t, mad.Get, uint64(number))
	want := bytes.Clone(b)
	want[3] |= byte(mad.ResponseMask)
	m := &mads.Message{To: to, MAD: b, Timeout: o.t.Remaining() / 4, Retries: 2}
	err := from.StartDo(o.t.Context(), m, func(r *mads.Received, err error) {
		if err == nil && !bytes.Equal(r.MAD, want) {
			err = errors.New("the response has other data")
		}
		o.results <- outcome{number, err}
	})
	if err != nil {
		o.results <- outcome{number, err}
	}
}

// wait returns the errors of n requests by their numbers.
func (o *outcomes) wait(n int, where string) map[int]error {
	failed := map[int]error{}
	timer := time.NewTimer(o.t.Remaining())
	defer timer.Stop()
	for i := range n {
		select {
		case r := <-o.results:
			if errors.Is(r.err, ci.Timeout) {
				o.t.Fail(validate.Failure{Where: where, Expected: "a response", Got: r.err.Error(),
					Doubt: validate.DoubtLoss})
			}
			if r.err != nil {
				failed[r.number] = r.err
			}
		case <-timer.C:
			o.t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("an end of each of %d requests", n),
				Got: fmt.Sprint(i), Doubt: validate.DoubtTime})
		}
	}
	return failed
}

// onlyFails expects that one request has failed, or none if number is negative.
func onlyFails(t *validate.T, failed map[int]error, number int, where string) {
	for n, err := range failed {
		kit.True(t, n == number, fmt.Sprintf("request %d, %s", n, where), "a response", "%v", err)
	}
	if number >= 0 {
		err := failed[number]
		kit.WantExactly(t, err, fmt.Sprintf("mads.Agent.StartDo of request %d, %s", number, where), ci.ErrorStatus)
	}
}

var MADFault02 = recoveries.Must("MAD-Fault-02", "IBTA 10.3.1", "mads, Agent.StartDo",
	"A datagram that QP1 cannot send ends its request with the status of the send. The datagrams behind it, which "+
		"were flushed, are sent.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.send",
	Title: "one of 20 requests cannot be sent",
	Run:   faultSend,
}, MADFault02)

func faultSend(t *validate.T) {
	const n = 20
	a, b, f := fragileSides(t)
	answer(b, vendor(mad.Get))
	from := a.agent(vendor())
	o := &outcomes{t, make(chan outcome, n)}
	for _, bad := range kit.Variants(t, "request", []int{0, 7, n - 1}) {
		posted := 0
		f.set(func() {
			f.send = func(q ci.QP, wrs []ci.SendWR) (int, error) {
				f.mu.Lock()
				wrs = slices.Clone(wrs)
				for i := range wrs {
					if posted == bad {
						wrs[i].SGL = slices.Clone(wrs[i].SGL)
						wrs[i].SGL[0].LKey ^= 1 << 30
					}
					posted++
				}
				f.mu.Unlock()
				return q.PostSend(wrs)
			}
		})
		for i := range n {
			o.start(from, a.to(b), i)
		}
		where := fmt.Sprintf("where send %d has an unknown key", bad)
		failed := o.wait(n, where)
		onlyFails(t, failed, bad, where)
		var wc ci.WCError
		kit.True(t, errors.As(failed[bad], &wc), "cause in the error of a request that was not sent", "a ci.WCError",
			"%v", failed[bad])
	}
}

var MADFault03 = recoveries.Must("MAD-Fault-03", "IBTA 11.4.1.1", "mads, Agent.StartDo",
	"Datagrams that PostSend does not accept because of the state or the room of QP1 are sent later. One that it "+
		"rejects for another reason ends its request, and those behind it are sent.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.post",
	Title: "PostSend accepts a part of its list",
	Run:   faultPost,
}, MADFault03)

func faultPost(t *validate.T) {
	const n, accepted = 20, 5
	a, b, f := fragileSides(t)
	answer(b, vendor(mad.Get))
	from := a.agent(vendor())
	o := &outcomes{t, make(chan outcome, n)}
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		status ci.Status
		bad    int // the request that fails; -1: none
	}{{"the state of QP1", ci.InvalidQPState, -1}, {"the room of QP1", ci.InsufficientResources, -1},
		{"a request", ci.InvalidParameter, 1 + accepted}}) {
		// The first call waits until all requests are queued, so that the second one has a list.
		entered, release := make(chan struct{}), make(chan struct{})
		calls, length := 0, 0
		f.set(func() {
			f.send = func(q ci.QP, wrs []ci.SendWR) (int, error) {
				f.mu.Lock()
				calls++
				call := calls
				if call == 2 {
					length = len(wrs)
				}
				f.mu.Unlock()
				switch call {
				case 1:
					close(entered)
					<-release
				case 2:
					k, err := q.PostSend(wrs[:min(accepted, len(wrs)-1)])
					if err == nil {
						err = &ci.Error{Verb: "QP.PostSend", Status: v.status}
					}
					return k, err
				}
				return q.PostSend(wrs)
			}
		})
		t.Go(func() { o.start(from, a.to(b), 0) })
		select {
		case <-entered:
		case <-t.Context().Done():
			close(release)
			t.Failf("PostSend of QP1 for the first request", "a call", "none by the deadline")
		}
		for i := range n - 1 {
			o.start(from, a.to(b), i+1)
		}
		close(release)
		where := "where PostSend accepts 5 of a list and fails with " + v.status.String()
		onlyFails(t, o.wait(n, where), v.bad, where)
		f.mu.Lock()
		kit.True(t, length > accepted, "requests in the list of PostSend", "more than 5", "%d", length)
		f.mu.Unlock()
	}
}

var MADFault04 = recoveries.Must("MAD-Fault-04", "IBTA 11.4.1.2", "mads, Agent.Recv",
	"Receives that PostRecv does not accept are posted later, so that no datagram is lost, however often that happens.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.recv",
	Title: "each third PostRecv accepts a part of its list or nothing",
	Run:   faultRecv,
}, MADFault04)

func faultRecv(t *validate.T) {
	const rounds, window = 60, 16 // more datagrams than the services have receives
	a, b, f := fragileSides(t)
	from, to := b.agent(vendor()), a.agent(vendor(mad.Send))
	calls := 0
	f.set(func() {
		f.recv = func(q ci.QP, wrs []ci.RecvWR) (int, error) {
			f.mu.Lock()
			calls++
			call := calls
			f.mu.Unlock()
			if call%3 != 0 {
				return q.PostRecv(wrs)
			}
			k, err := 0, error(nil)
			if call%2 == 0 && len(wrs) > 1 {
				k, err = q.PostRecv(wrs[:len(wrs)/2])
			}
			if err == nil {
				err = &ci.Error{Verb: "QP.PostRecv", Status: ci.InsufficientResources}
			}
			return k, err
		}
	})
	for range rounds {
		pass(t, from, to, b.to(a), window, "to a port whose PostRecv fails")
	}
	none(t, to, "QP1 after all datagrams")
	f.mu.Lock()
	defer f.mu.Unlock()
	kit.True(t, calls >= 3, "calls of PostRecv", "at least 3", "%d", calls)
}
