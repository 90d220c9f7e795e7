package usersuite

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Objects of a service of the daemon that is the case's. (SAS 2.4.)
var items = area()

// servant is an object of such a service.
type servant struct {
	name string
	log  *trace
	err  error // of Destroy
}

func (s *servant) Destroy() error {
	s.log.add("destroy %s", s.name)
	return s.err
}
func (s *servant) Abandon()       { s.log.add("abandon %s", s.name) }
func (s *servant) Status() string { return "" }

// noticed is the events of an event queue of a session.
type noticed struct {
	t *validate.T
	f *os.File
}

// queued is an event queue of a session, whose events can be read.
func (x *session) queued() (schema.Handle, *noticed) {
	r, err := x.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{})
	kit.OK(x.s.t, err, "CreateEventQueue")
	n := &noticed{x.s.t, r.Files[0]}
	x.s.t.Cleanup(func() { n.f.Close() })
	_ = n.f.SetReadDeadline(time.Now().Add(x.s.t.Remaining()))
	return r.Body.(*schema.Created).Handle, n
}

// next reads an event.
func (n *noticed) next(where string) schema.Event {
	b := make([]byte, 2*schema.EventSize)
	k, err := n.f.Read(b)
	kit.OK(n.t, err, "the event of "+where)
	e, err := schema.ParseEvent(b[:k])
	kit.OK(n.t, err, "the form of the event of "+where)
	return e
}

var _ = items.Case(validate.Case{
	ID: "user.service.items",
	Title: "objects of a service of the daemon: handles, parents, notices, quotas, and their end by the process, by " +
		"the service, and with the process",
	Run: serviceItems,
}, req.SAS2_4_10)

func serviceItems(t *validate.T) {
	const room = 1000
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.ServiceBytes = room })
	log := new(trace)
	x, other := s.session(peer(os.Getuid())).domain(), s.session(peer(os.Getuid()))
	queue, events := x.queued()
	const verb = "certifier"
	reserve := func(what string, cfg kproxy.ItemConfig) *kproxy.Item {
		i, err := x.c.Reserve(verb, cfg)
		kit.OK(t, err, "Session.Reserve of "+what)
		return i
	}
	made := func(name string, cfg kproxy.ItemConfig) (*kproxy.Item, *servant) {
		i, o := reserve(name, cfg), &servant{name: name, log: log}
		kit.OK(t, i.Commit(verb, o), "Item.Commit of "+name)
		return i, o
	}
	find := func(c *session, i *kproxy.Item) error {
		_, _, err := c.c.Servant(verb, i.Handle().Kind(), i.Handle())
		return err
	}
	destroy := func(h schema.Handle) (schema.DestroyReply, error) {
		r, err := x.do(schema.CmdDestroy, &schema.Object{Handle: h})
		if r == nil {
			return schema.DestroyReply{}, err
		}
		return *r.Body.(*schema.DestroyReply), err
	}

	t.Step("handles")
	for what, h := range map[string]schema.Handle{"no queue": 0, "a PD as the queue": x.pd,
		"a queue that the process does not have": schema.MakeHandle(schema.KindEventQueue, 9, 900)} {
		_, err := x.c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindServices, Queue: h})
		kit.WantExactly(t, err, "Session.Reserve with "+what, schema.KindEventQueue.Invalid())
	}
	parent := reserve("services", kproxy.ItemConfig{Kind: schema.KindServices, Queue: queue, Token: 77})
	kit.WantExactly(t, find(x, parent), "Session.Servant before Item.Commit", schema.KindServices.Invalid())
	_, err := destroy(parent.Handle())
	kit.WantExactly(t, err, "the destroy of an object before Item.Commit", schema.KindServices.Invalid())
	_, err = x.c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindAgent, Parent: parent})
	kit.WantExactly(t, err, "Session.Reserve with a parent before its Item.Commit", schema.KindServices.Invalid())
	own := &servant{name: "services", log: log}
	kit.OK(t, parent.Commit(verb, own), "Item.Commit")
	got, item, err := x.c.Servant(verb, schema.KindServices, parent.Handle())
	kit.OK(t, err, "Session.Servant")
	kit.True(t, got == kproxy.Servant(own) && item == parent, "Session.Servant", "the object", "another one")
	kit.True(t, parent.Session() == x.c, "Item.Session", "the session", "another one")
	kit.WantExactly(t, find(other, parent), "Session.Servant of another process", schema.KindServices.Invalid())
	_, _, err = x.c.Servant(verb, schema.KindPD, x.pd)
	kit.WantExactly(t, err, "Session.Servant of a PD", schema.KindPD.Invalid())
	_, err = destroy(queue)
	kit.WantExactly(t, err, "the destroy of the queue of an object", ci.ResourceBusy)

	t.Step("notices")
	child, childOwn := made("agent", kproxy.ItemConfig{Kind: schema.KindAgent, Token: 78, Parent: parent})
	_, err = destroy(parent.Handle())
	kit.WantExactly(t, err, "the destroy of a parent", ci.ResourceBusy)
	log.want(t, "calls of a parent that was not destroyed")
	for i, v := range []struct {
		*kproxy.Item
		token uint64
	}{{parent, 77}, {child, 78}, {parent, 77}} {
		where := fmt.Sprintf("notice %d", i)
		v.Signal()
		v.Signal() // before the process takes the notices
		kit.Equal(t, where, events.next(where), schema.Event{Token: v.token, Kind: schema.EventNotice})
		v.Rearm()
		v.Signal()
		kit.Equal(t, where+" after Item.Rearm", events.next(where), schema.Event{Token: v.token,
			Kind: schema.EventNotice})
		v.Rearm()
	}

	t.Step("the end by the process")
	childOwn.err = ci.ResourceBusy
	_, err = destroy(child.Handle())
	kit.WantExactly(t, err, "the destroy of an object that is busy", ci.ResourceBusy)
	kit.OK(t, find(x, child), "Session.Servant of an object that was busy")
	childOwn.err = nil
	r, err := destroy(child.Handle())
	kit.OK(t, err, "the destroy of an object")
	kit.Equal(t, "events that the destroy reports", r.Async, 2)
	log.want(t, "calls of an object that was destroyed", "destroy agent", "destroy agent")
	kit.WantExactly(t, find(x, child), "Session.Servant of a destroyed object", schema.KindAgent.Invalid())
	child.Remove() // once more
	failing, failingOwn := made("listener", kproxy.ItemConfig{Kind: schema.KindListener, Parent: parent})
	failingOwn.err = ci.InvalidSetting
	_, err = destroy(failing.Handle())
	kit.WantExactly(t, err, "the destroy of an object that fails", ci.InvalidSetting)
	kit.WantExactly(t, find(x, failing), "Session.Servant of an object whose destroy failed",
		schema.KindListener.Invalid())
	log.want(t, "calls of an object whose destroy failed", "destroy listener")

	t.Step("the end by the service")
	for range 3 {
		i, _ := made("port", kproxy.ItemConfig{Kind: schema.KindPort, Parent: parent})
		i.Remove()
		i.Remove()
		kit.WantExactly(t, find(x, i), "Session.Servant of a removed object", schema.KindPort.Invalid())
		_, err = destroy(i.Handle())
		kit.WantExactly(t, err, "the destroy of a removed object", schema.KindPort.Invalid())
		reserve("an object that is not committed", kproxy.ItemConfig{Kind: schema.KindConn, Parent: parent}).Remove()
	}
	log.want(t, "calls of removed objects")

	t.Step("quotas")
	beyond := func(err error, where string) {
		kit.WantExactly(t, err, where+" beyond the quota", ci.InsufficientResources)
	}
	for range 3 {
		kit.OK(t, x.c.Charge(verb, room-10), "Session.Charge")
		beyond(x.c.Charge(verb, 11), "Session.Charge")
		_, err = x.c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindConn, Parent: parent, Bytes: 11})
		beyond(err, "Session.Reserve")
		kit.OK(t, other.c.Charge(verb, room), "Session.Charge of another process")
		other.c.Discharge(room)
		i, _ := made("connection", kproxy.ItemConfig{Kind: schema.KindConn, Parent: parent, Bytes: 10})
		beyond(x.c.Charge(verb, 1), "Session.Charge")
		_, err = destroy(i.Handle())
		kit.OK(t, err, "the destroy of an object")
		kit.OK(t, x.c.Charge(verb, 10), "Session.Charge after a destroy")
		x.c.Discharge(room)
	}
	log.take()

	t.Step("a first object with the place of another one")
	i, _ := made("lookup", kproxy.ItemConfig{Kind: schema.KindLookup, Parent: parent})
	i.Remove()
	again, _ := made("lookup", kproxy.ItemConfig{Kind: schema.KindLookup, Parent: parent})
	kit.True(t, again.Handle() != i.Handle(), "the handle of another object", "another one", "the same")
	i.Remove()
	kit.OK(t, find(x, again), "Session.Servant of an object after a second Item.Remove of the one before")
	again.Remove()
	log.take()

	t.Step("the end of the process")
	order := []schema.Kind{schema.KindListener, schema.KindAgent, schema.KindLookup, schema.KindLookupRequest,
		schema.KindConn, schema.KindPort}
	var want []string
	for _, k := range slices.Backward(order) {
		made(k.String(), kproxy.ItemConfig{Kind: k, Parent: parent})
	}
	for _, k := range order {
		want = append(want, "abandon "+k.String())
	}
	late := reserve("an object that is not committed", kproxy.ItemConfig{Kind: schema.KindConn, Parent: parent})
	kit.OK(t, x.c.Close(), "kproxy.Session.Close")
	log.want(t, "calls of the objects of a process that has ended", append(want, "abandon services")...)
	kit.WantExactly(t, late.Commit(verb, &servant{name: "late", log: log}), "Item.Commit after the end of the process",
		ci.InvalidState)
	log.want(t, "calls of an object that comes late", "abandon late")
	_, err = x.c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindConn, Parent: parent})
	kit.WantExactly(t, err, "Session.Reserve after the end of the process", ci.InvalidState)
	parent.Signal()
	parent.Remove()
	_, err = x.do(schema.CmdQueryCQ, &schema.CQ{})
	kit.WantExactly(t, err, "a verb after the end of the process", ci.InvalidState)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() { kit.OK(t, x.c.Close(), "a second kproxy.Session.Close") })
	}
	wait.Wait()

	t.Step("requests that no front end sends")
	_, err = other.do(schema.CmdDestroy, &schema.Object{Handle: schema.MakeHandle(schema.NumKinds, 1, 0)})
	kit.WantExactly(t, err, "the destroy of a handle without a kind", ci.InvalidHandle)
	_, err = other.do(schema.CmdDestroy, &schema.Object{})
	kit.WantExactly(t, err, "the destroy of no handle", ci.InvalidHandle)
	_, err = other.do(schema.CmdOpenServices, &schema.OpenServices{})
	kit.WantExactly(t, err, "a command of the services of a daemon without any", ci.Unsupported)
}
