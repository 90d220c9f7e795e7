package cmsuite

import (
	"cmp"
	"context"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Several listeners of one manager.
var listens = area()

var CMListen01 = listens.Must("CM-Listen-01", "IBTA 12.7.3", "cm, Service.Listen",
	"A second listener that differs in its filters is accepted. One that would receive the same requests is rejected "+
		"with InvalidSetting, as long as the first one exists.")

var _ = listens.Case(validate.Case{
	ID:    "cm.listen.same",
	Title: "two listeners that are the same, or that differ in one filter",
	Run:   listenSame,
}, CMListen01)

func listenSame(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	type config = cm.ListenConfig
	const mask = ^mad.ServiceID(0xff)
	for _, v := range kit.Variants(t, "", []struct {
		name        string
		first, next config
		isSame      bool
	}{
		{"nothing", config{}, config{}, true},
		{"the mask of a single service, given and not", config{}, config{Mask: mad.ServiceIDExact}, true},
		{"the bit for full members of a P_Key", config{PKey: 0x8001}, config{PKey: 0x0001}, true},
		{"the offset of no comparison", config{}, config{Offset: 3}, true},
		{"the service outside of the mask", config{Mask: mask}, config{Service: service ^ 1, Mask: mask}, true},
		{"the service", config{}, config{Service: service ^ 1}, false},
		{"the kind of requests", config{}, config{Datagram: true}, false},
		{"the mask", config{Mask: mask}, config{Mask: ^mad.ServiceID(0x1ff)}, false},
		{"the mask of a single service", config{}, config{Mask: mask}, false},
		{"the port", config{}, config{Port: b.port}, false},
		{"the GID", config{GID: ci.GID{1}}, config{GID: ci.GID{2}}, false},
		{"the LID", config{LID: 7}, config{LID: 8}, false},
		{"the P_Key", config{PKey: 0x8001}, config{PKey: 0x8002}, false},
		{"the offset of the comparison", config{Compare: []byte{1}}, config{Offset: 1, Compare: []byte{1}}, false},
		{"the comparison", config{Compare: []byte{1}}, config{Compare: []byte{2}}, false},
		{"the length of the comparison", config{Compare: []byte{1}}, config{Compare: []byte{1, 1}}, false},
	}) {
		first, next := v.first, v.next
		for _, c := range []*config{&first, &next} {
			c.Service = cmp.Or(c.Service, service)
			c.Port.CA = b.port.CA // a manager may serve one CA only
		}
		l, err := mb.Listen(first)
		kit.OK(t, err, "cm.Service.Listen")
		where := "cm.Service.Listen of a second listener that differs in " + v.name
		second, err := mb.Listen(next)
		if v.isSame {
			kit.WantExactly(t, err, where, ci.InvalidSetting)
			kit.OK(t, l.Close(), "cm.Listener.Close")
			second, err = mb.Listen(next)
			where += ", after the first one was closed"
		} else {
			kit.OK(t, l.Close(), "cm.Listener.Close")
		}
		kit.OK(t, err, where)
		kit.OK(t, second.Close(), "cm.Listener.Close")
	}
	x, _ := newEnds(a, b, kit.Type(ci.RC))
	ctx, cancel := wait(t)
	defer cancel()
	_, err := ma.Connect(ctx, x.request(b, nil))
	_ = refused(t, err, mad.RejInvalidServiceID)
}

var CMListen02 = listens.Must("CM-Listen-02", "IBTA 12.7.3", "cm, ListenConfig",
	"A request goes to the matching listener with the longest comparison, of these to the one with the most bits of "+
		"the service ID, of these to the one with the most filters, and then to the oldest.")

var (
	_ = listens.Case(validate.Case{
		ID:    "cm.listen.order-connect",
		Title: "eleven listeners that match one connection request",
		Run:   func(t *validate.T) { listenOrder(t, false) },
	}, CMListen02)
	_ = listens.Case(validate.Case{
		ID:    "cm.listen.order-lookup",
		Title: "eleven listeners that match one lookup",
		Run:   func(t *validate.T) { listenOrder(t, true) },
	}, CMListen02)
)

// listenOrder sends a request for each listener, which is closed then, so that the next best one receives the next.
func listenOrder(t *validate.T, isDatagram bool) {
	const text = "abcd"
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	key := partition(b.ca.Port)
	byCA := mads.Port{CA: b.port.CA}
	ranks := []cm.ListenConfig{
		{Compare: []byte(text), Port: byCA},
		{Compare: []byte(text[:2]), Port: b.port, PKey: key},
		{Compare: []byte(text[:2]), Port: b.port},
		{Compare: []byte(text[:2]), Mask: mad.PortSpaceMask, Port: byCA},
		{Port: b.port, PKey: key},
		{Port: b.port},
		{Port: byCA, PKey: key}, // as many filters as the one before it, which is older
		{Port: byCA},
		{Port: byCA, Mask: ^mad.ServiceID(0xff)},
		{Port: b.port, Mask: mad.PortSpaceMask, PKey: key},
		{Port: byCA, Mask: mad.PortSpaceMask},
	}
	list := make([]cm.Listener, len(ranks))
	for _, i := range []int{10, 3, 7, 5, 0, 8, 6, 1, 9, 4, 2} {
		cfg := ranks[i]
		cfg.Datagram = isDatagram
		list[i] = listen(t, mb, cfg)
	}
	x, _ := newEnds(a, b, kit.Type(ci.RC))
	path := a.path(b)
	path.PKey = key
	connect := func() func() (cm.Conn, error) {
		return result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) {
			cfg := x.request(b, []byte(text))
			cfg.Primary = path
			return ma.Connect(ctx, cfg)
		})
	}
	resolve := func() func() (*cm.LookupReply, error) {
		return result(t, "cm.Service.Lookup", func(ctx context.Context) (*cm.LookupReply, error) {
			return ma.Lookup(ctx, cm.LookupConfig{Service: service, Path: path, Private: []byte(text)})
		})
	}
	for i, l := range list {
		where := fmt.Sprintf("request to the best listener after %d were closed", i)
		ctx, cancel := wait(t)
		if isDatagram {
			await := resolve()
			r, err := l.AcceptLookup(ctx)
			kit.OK(t, err, "cm.Listener.AcceptLookup, "+where)
			kit.OK(t, r.Reject(mad.SIDRRejected, nil, nil), "cm.LookupRequest.Reject")
			_, err = await()
			_ = unresolved(t, err, mad.SIDRRejected)
		} else {
			await := connect()
			c, err := l.Accept(ctx)
			kit.OK(t, err, "cm.Listener.Accept, "+where)
			kit.OK(t, c.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
			_, err = await()
			_ = refused(t, err, mad.RejConsumer)
		}
		cancel()
		kit.OK(t, l.Close(), "cm.Listener.Close")
	}
	if isDatagram {
		_, err := resolve()()
		_ = unresolved(t, err, mad.SIDRUnsupportedService)
		return
	}
	_, err := connect()()
	_ = refused(t, err, mad.RejInvalidServiceID)
}
