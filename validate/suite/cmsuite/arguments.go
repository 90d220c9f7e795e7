package cmsuite

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Arguments of the calls of a connection manager.
var arguments = area()

var CMArg01 = arguments.Must("CM-Arg-01", "CI access layer", "cm, Connect, Lookup, Listen; mads, Register",
	"A call with a bad argument fails with the status of the argument and sends nothing. The largest values are "+
		"accepted and arrive.")

var (
	_ = arguments.Case(validate.Case{
		ID:    "cm.arguments.path",
		Title: "bad paths of Connect and Lookup",
		Run:   argumentsPath,
	}, CMArg01)
	_ = arguments.Case(validate.Case{
		ID:    "cm.arguments.connect",
		Title: "bad arguments of Connect",
		Run:   argumentsConnect,
	}, CMArg01)
	_ = arguments.Case(validate.Case{
		ID:    "cm.arguments.listen",
		Title: "bad arguments of Listen",
		Run:   argumentsListen,
	}, CMArg01)
	_ = arguments.Case(validate.Case{
		ID:    "cm.arguments.agent",
		Title: "bad arguments of an agent",
		Run:   argumentsAgent,
	}, CMArg01)
)

// caller returns a manager on side a, and a script on side b that sees what the manager sends.
func caller(t *validate.T) (x *end, p *script, m cm.Service, good cm.ConnectConfig) {
	a, b := sides(t)
	p = newScript(t, b, a)
	x, _ = newEnds(a, b, kit.Type(ci.RC))
	return x, p, a.manager(), x.request(b, nil)
}

func argumentsPath(t *validate.T) {
	x, p, m, good := caller(t)
	isIB := x.side.ca.Port.Link == ci.LinkInfiniBand
	for _, v := range []struct {
		name   string
		change func(*cm.Path)
		skip   bool
		want   ci.Status
	}{
		{name: "a port that the CA does not have", want: ci.InvalidPort,
			change: func(w *cm.Path) { w.Port.Num = uint8(len(t.Attr().Ports)) + 1 }},
		{name: "port 0", want: ci.InvalidPort, change: func(w *cm.Path) { w.Port.Num = 0 }},
		{name: "a port of a CA that does not exist", want: ci.InvalidPort,
			change: func(w *cm.Path) { w.Port.CA ^= 1 << 40 }},
		{name: "a partition that the port does not have", want: ci.InvalidPKey,
			change: func(w *cm.Path) { w.PKey = x.side.absentPKey() }},
		{name: "a source GID outside the table", want: ci.InvalidGID,
			change: func(w *cm.Path) { w.AV.GRH.SGIDIndex = 255 }},
		{name: "a zero destination GID", want: ci.InvalidGID,
			change: func(w *cm.Path) { w.AV.Global, w.AV.GRH.DGID = true, ci.GID{} }},
		{name: "a zero destination GID, without Global", want: ci.InvalidGID, skip: isIB,
			change: func(w *cm.Path) { w.AV.Global, w.AV.GRH.DGID = false, ci.GID{} }},
		{name: "a zero destination LID", want: ci.InvalidLID, skip: !isIB, change: func(w *cm.Path) { w.AV.DLID = 0 }},
		{name: "a flow label of 21 bits", want: ci.InvalidParameter,
			change: func(w *cm.Path) { w.AV.GRH.FlowLabel = 1 << 20 }},
		{name: "a service level of 5 bits", want: ci.InvalidParameter, change: func(w *cm.Path) { w.AV.SL = 16 }},
		{name: "a packet life time of 6 bits", want: ci.InvalidParameter,
			change: func(w *cm.Path) { w.LifeTime = 32 }},
	} {
		if v.skip {
			continue
		}
		cfg := good
		v.change(&cfg.Primary)
		err := m.StartConnect(t.Context(), cfg, func(cm.Conn, error) {})
		kit.WantExactly(t, err, "cm.Service.StartConnect with "+v.name, v.want)
		err = m.StartLookup(t.Context(), cm.LookupConfig{Service: service, Path: cfg.Primary},
			func(*cm.LookupReply, error) {})
		kit.WantExactly(t, err, "cm.Service.StartLookup with "+v.name, v.want)
	}
	p.quiet("after calls with a bad path", nil)
	// The largest values of the same fields must be accepted.
	path := good.Primary
	path.AV.GRH.FlowLabel, path.LifeTime = 1<<20-1, 10
	path.AV.Global = path.AV.Global && isIB // Ethernet needs no Global, since each packet has a GRH there
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := m.StartLookup(ctx, cm.LookupConfig{Service: service, Path: path,
		Private: private('s', mad.SIDRREQPrivateLen)}, func(*cm.LookupReply, error) {})
	kit.OK(t, err, "cm.Service.StartLookup with the largest values")
	s, _ := expect[*mad.SIDRREQ](p, "SIDR_REQ")
	kit.SameBytes(t, "private data of the SIDR_REQ", s.PrivateData[:], private('s', mad.SIDRREQPrivateLen))
	err = m.StartLookup(ctx, cm.LookupConfig{Service: service, Path: path,
		Private: make([]byte, mad.SIDRREQPrivateLen+1)}, func(*cm.LookupReply, error) {})
	kit.WantExactly(t, err, "cm.Service.StartLookup with too much private data", ci.InvalidParameter)
}

func argumentsConnect(t *validate.T) {
	x, p, m, good := caller(t)
	badAlternate := ci.InvalidPKey
	if !t.Claims().Has(ci.CapAPM) {
		badAlternate = ci.Unsupported // as is any alternate path
	}
	for _, v := range []struct {
		name   string
		change func(*cm.ConnectConfig)
		want   ci.Status
	}{
		{"too much private data", func(c *cm.ConnectConfig) { c.Private = make([]byte, mad.REQPrivateLen+1) },
			ci.InvalidParameter},
		{"a QP for datagrams", func(c *cm.ConnectConfig) { c.QP.Type = ci.UD }, ci.InvalidParameter},
		{"a retry count of 4 bits", func(c *cm.ConnectConfig) { c.RetryCount = 8 }, ci.InvalidParameter},
		{"an RNR retry count of 4 bits", func(c *cm.ConnectConfig) { c.RNRRetry = 8 }, ci.InvalidParameter},
		{"16 retransmissions", func(c *cm.ConnectConfig) { c.MaxRetries = 16 }, ci.InvalidParameter},
		{"a response time of 6 bits", func(c *cm.ConnectConfig) { c.ResponseTime = 32 }, ci.InvalidParameter},
		{"a response time of the peer of 6 bits", func(c *cm.ConnectConfig) { c.RemoteResponseTime = 32 },
			ci.InvalidParameter},
		{"a bad alternate path", func(c *cm.ConnectConfig) {
			w := c.Primary
			w.PKey = x.side.absentPKey()
			c.Alternate = &w
		}, badAlternate},
	} {
		cfg := good
		v.change(&cfg)
		err := m.StartConnect(t.Context(), cfg, func(cm.Conn, error) {})
		kit.WantExactly(t, err, "cm.Service.StartConnect with "+v.name, v.want)
	}
	p.quiet("after calls with a bad argument", nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.StartConnect(ended, good, func(cm.Conn, error) {})
	kit.True(t, err != nil, "cm.Service.StartConnect with a context that has ended", "its error", "success")
	p.quiet("after a call with a context that has ended", nil)
	cfg := good
	cfg.Private, cfg.MaxRetries = private('q', mad.REQPrivateLen), 15
	await := result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) { return m.Connect(ctx, cfg) })
	q, msg := expect[*mad.REQ](p, "REQ")
	kit.Equal(t, "largest number of retransmissions", q.MaxCMRetries, 15)
	kit.SameBytes(t, "private data of the REQ", q.PrivateData[:], cfg.Private)
	kit.Equal(t, "QP number of the REQ", q.LocalQPN, uint32(x.Num()))
	p.send(msg.TID, &mad.REJ{RemoteCommID: q.LocalCommID, Reason: mad.RejConsumer})
	_, err = await()
	_ = refused(t, err, mad.RejConsumer)
}

func argumentsListen(t *validate.T) {
	_, _, m, _ := caller(t)
	for name, cfg := range map[string]cm.ListenConfig{
		"data beyond the private data of a REQ": {Service: service, Offset: mad.REQPrivateLen - 1,
			Compare: []byte("ab")},
		"a negative offset": {Service: service, Offset: -1, Compare: []byte("a")},
		"data beyond the private data of a SIDR_REQ": {Service: service, Offset: mad.SIDRREQPrivateLen,
			Compare: []byte("a"), Datagram: true},
		"a port number without a CA": {Service: service, Port: mads.Port{Num: 1}},
		"a negative backlog":         {Service: service, Backlog: -1},
	} {
		l, err := m.Listen(cfg)
		if err == nil {
			kit.OK(t, l.Close(), "cm.Listener.Close")
		}
		kit.WantExactly(t, err, "cm.Service.Listen with "+name, ci.InvalidParameter)
	}
	last := listen(t, m, cm.ListenConfig{Offset: mad.REQPrivateLen - 1, Compare: []byte("z")})
	kit.True(t, last != nil, "cm.Service.Listen that compares the last byte", "a listener", "none")
	datagram := listen(t, m, cm.ListenConfig{Datagram: true}) // the two kinds of request do not collide
	_, err := m.Listen(cm.ListenConfig{Service: service, Datagram: true})
	kit.WantExactly(t, err, "second cm.Service.Listen for the same datagram service", ci.InvalidSetting)
	kit.OK(t, datagram.Close(), "cm.Listener.Close")
	again := listen(t, m, cm.ListenConfig{Datagram: true})
	kit.OK(t, again.Close(), "cm.Listener.Close of a service that was free again")
}

func argumentsAgent(t *validate.T) {
	a, _ := sides(t)
	vendor := mads.AgentConfig{Port: a.port, Class: mad.ClassVendor2First, Version: 1, OUI: [3]byte{1, 2, 3},
		Methods: []mad.Method{mad.Get}}
	for _, v := range []struct {
		name   string
		change func(*mads.AgentConfig)
	}{
		{"a negative queue", func(c *mads.AgentConfig) { c.Queue = -1 }},
		{"methods without a class", func(c *mads.AgentConfig) { c.Class = 0 }},
		{"a class for subnet management on QP1", func(c *mads.AgentConfig) {
			c.Class, c.OUI = mad.ClassSubnetDirected, [3]byte{}
		}},
		{"a class without an OUI that needs one", func(c *mads.AgentConfig) { c.OUI = [3]byte{} }},
		{"an OUI of a class that has none", func(c *mads.AgentConfig) { c.Class = mad.ClassCM }},
		{"a class beyond vendor range 2", func(c *mads.AgentConfig) { c.Class, c.OUI = 0x50, [3]byte{} }},
		{"version 8", func(c *mads.AgentConfig) { c.Version = 8 }},
		{"RMPP without a class", func(c *mads.AgentConfig) {
			c.Class, c.OUI = 0, [3]byte{}
			c.Methods, c.RMPP = nil, true
		}},
		{"a function for datagrams and no methods", func(c *mads.AgentConfig) {
			c.Methods, c.OnReceive = nil, func(*mads.Received) {}
		}},
		{"method 0", func(c *mads.AgentConfig) { c.Methods = []mad.Method{0} }},
		{"a response as its method", func(c *mads.AgentConfig) { c.Methods = []mad.Method{mad.GetResp} }},
		{"RMPP of a class that has none", func(c *mads.AgentConfig) {
			c.Class, c.OUI, c.RMPP = mad.ClassCM, [3]byte{}, true
		}},
	} {
		cfg := vendor
		v.change(&cfg)
		agent, err := a.mads.Register(cfg)
		if err == nil {
			kit.OK(t, agent.Close(), "mads.Agent.Close")
		}
		kit.WantExactly(t, err, "mads.Service.Register with "+v.name, ci.InvalidParameter)
	}
	cfg := vendor
	cfg.Port.Num = uint8(len(t.Attr().Ports)) + 1
	_, err := a.mads.Register(cfg)
	kit.WantExactly(t, err, "mads.Service.Register on a port that the CA does not have", ci.InvalidPort)
	cfg = vendor
	cfg.Manager = true
	_, err = a.mads.Register(cfg)
	kit.WantExactly(t, err, "mads.Service.Register of a subnet manager on QP1", ci.InvalidParameter, ci.Unsupported)
	cfg = vendor
	cfg.Version, cfg.Class = 7, mad.ClassVendor2Last // the largest values
	kit.OK(t, a.agent(cfg).Close(), "mads.Agent.Close")
	first := a.agent(vendor)
	_, err = a.mads.Register(vendor)
	kit.WantExactly(t, err, "mads.Service.Register of methods that another agent has", ci.ResourceBusy)
	kit.OK(t, first.Close(), "mads.Agent.Close")
	kit.OK(t, a.agent(vendor).Close(), "mads.Agent.Close of methods that were free again")
}
