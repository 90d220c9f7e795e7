package cmsuite

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The filters of listeners.
var filters = area()

var CMFilter01 = filters.Must("CM-Filter-01", "CI access layer", "cm, ListenConfig.Port, GID, LID, PKey, Compare",
	"A listener receives the requests that pass all its filters. A request that fails one of them is rejected as one "+
		"for a service without a listener.")

var (
	_ = filters.Case(validate.Case{
		ID:    "cm.filter.connect",
		Title: "connection requests that pass, and that fail, each filter of a listener",
		Run:   filterConnect,
	}, CMFilter01)
	_ = filters.Case(validate.Case{
		ID:    "cm.filter.lookup",
		Title: "lookups that pass, and that fail, each filter of a listener",
		Run:   filterLookup,
	}, CMFilter01)
)

// filter is a filter of a listener. pass and fail set it so that the requests of a to b pass, and fail.
type filter struct {
	name       string
	skip       bool
	pass, fail func(c *cm.ListenConfig)
}

const filtered = "filtered"

func filtersOf(a, b *side) []filter {
	lid, gid := b.ca.Port.LID, b.gid(a)
	if path := a.path(b); path.AV.Global {
		gid = path.AV.GRH.DGID
	}
	key := partition(b.ca.Port) &^ memberBit
	return []filter{
		{name: "CA", pass: func(c *cm.ListenConfig) { c.Port.CA = b.port.CA },
			fail: func(c *cm.ListenConfig) { c.Port.CA = b.port.CA ^ 1<<40 }},
		{name: "port", pass: func(c *cm.ListenConfig) { c.Port = b.port },
			fail: func(c *cm.ListenConfig) { c.Port = b.port; c.Port.Num++ }},
		{name: "GID", pass: func(c *cm.ListenConfig) { c.GID = gid },
			fail: func(c *cm.ListenConfig) { c.GID = gid; c.GID[15] ^= 0x40 }},
		{name: "LID", skip: lid == 0, pass: func(c *cm.ListenConfig) { c.LID = lid },
			fail: func(c *cm.ListenConfig) { c.LID = lid ^ 0x1000 }},
		{name: "P_Key", pass: func(c *cm.ListenConfig) { c.PKey = key },
			fail: func(c *cm.ListenConfig) { c.PKey = b.absentPKey() }},
		{name: "comparison at the start", pass: func(c *cm.ListenConfig) { c.Compare = []byte(filtered) },
			fail: func(c *cm.ListenConfig) { c.Compare = []byte("Filtered") }},
		{name: "comparison at an offset",
			pass: func(c *cm.ListenConfig) { c.Offset, c.Compare = 3, []byte(filtered[3:]) },
			fail: func(c *cm.ListenConfig) { c.Offset, c.Compare = 2, []byte(filtered[3:]) }},
		{name: "service ID", pass: func(c *cm.ListenConfig) { c.Mask = mad.ServiceIDExact },
			fail: func(c *cm.ListenConfig) { c.Service++ }},
		{name: "service ID and mask", pass: func(c *cm.ListenConfig) { c.Mask = ^mad.ServiceID(1); c.Service ^= 1 },
			fail: func(c *cm.ListenConfig) { c.Mask = ^mad.ServiceID(1); c.Service ^= 2 }},
	}
}

// eachFilter calls one for a listener with a filter that the requests pass, and none for a listener with a filter that
// they fail.
func eachFilter(t *validate.T, isDatagram bool, one func(a, b *side, ma cm.Service, l cm.Listener),
	none func(a, b *side, ma cm.Service)) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	list := filtersOf(a, b)
	for _, f := range kit.Variants(t, "", list) {
		if f.skip {
			continue
		}
		for _, isPass := range kit.Variants(t, "passes", []bool{true, false}) {
			cfg := cm.ListenConfig{Service: service, Datagram: isDatagram}
			if isPass {
				f.pass(&cfg)
			} else {
				f.fail(&cfg)
			}
			l, err := mb.Listen(cfg)
			if !isPass && ci.StatusOf(err) == ci.InvalidPort {
				none(a, b, ma) // a manager may reject a filter that no request passes
				continue
			}
			kit.OK(t, err, "cm.Service.Listen with the filter "+f.name)
			clear(cfg.Compare) // the listener has a copy
			if isPass {
				one(a, b, ma, l)
			} else {
				none(a, b, ma)
			}
			kit.OK(t, l.Close(), "cm.Listener.Close")
		}
	}
}

func filterConnect(t *validate.T) {
	var x *end
	connect := func(a, b *side, ma cm.Service) func() (cm.Conn, error) {
		if x == nil {
			x, _ = newEnds(a, b, kit.Type(ci.RC))
		}
		return result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) {
			c := x.request(b, []byte(filtered))
			c.Primary.PKey = partition(b.ca.Port)
			return ma.Connect(ctx, c)
		})
	}
	eachFilter(t, false, func(a, b *side, ma cm.Service, l cm.Listener) {
		await := connect(a, b, ma)
		c := accepted(t, l)
		kit.OK(t, c.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
		_, err := await()
		_ = refused(t, err, mad.RejConsumer)
	}, func(a, b *side, ma cm.Service) {
		_, err := connect(a, b, ma)()
		_ = refused(t, err, mad.RejInvalidServiceID)
	})
}

func filterLookup(t *validate.T) {
	resolve := func(a, b *side, ma cm.Service) func() (*cm.LookupReply, error) {
		return result(t, "cm.Service.Lookup", func(ctx context.Context) (*cm.LookupReply, error) {
			path := a.path(b)
			path.PKey = partition(b.ca.Port)
			return ma.Lookup(ctx, cm.LookupConfig{Service: service, Path: path, Private: []byte(filtered)})
		})
	}
	eachFilter(t, true, func(a, b *side, ma cm.Service, l cm.Listener) {
		await := resolve(a, b, ma)
		ctx, cancel := wait(t)
		defer cancel()
		r, err := l.AcceptLookup(ctx)
		kit.OK(t, err, "cm.Listener.AcceptLookup")
		kit.OK(t, r.Reject(mad.SIDRRejected, nil, nil), "cm.LookupRequest.Reject")
		_, err = await()
		_ = unresolved(t, err, mad.SIDRRejected)
	}, func(a, b *side, ma cm.Service) {
		_, err := resolve(a, b, ma)()
		_ = unresolved(t, err, mad.SIDRUnsupportedService)
	})
}
