package usersuite

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Bodies with lists, by the text of package native. (SAS 2.4.)
var bodies = area()

// listed returns a body of a type with a number of elements in each list, and marks the bytes that are padding. Handles
// are those of the client, where it has them, and others have the form of handles.
func listed(typ reflect.Type, own handles, elements int) (body []byte, isPadding []bool) {
	v := reflect.New(typ)
	fillLists(v.Elem(), own, elements)
	body = encode(v.Interface())
	isPadding, err := paddingOf(typ, body)
	if err != nil {
		panic(err) // the two halves of this package do not agree
	}
	return body, isPadding
}

// paddingOf marks the bytes of a body that must be zero.
func paddingOf(typ reflect.Type, body []byte) ([]bool, error) {
	r := bodyReader{b: body, used: make([]bool, len(body))}
	if err := r.values(reflect.New(typ).Elem()); err != nil {
		return nil, err
	}
	is := make([]bool, len(body))
	for i := range body {
		is[i] = !r.used[i]
	}
	return is, nil
}

// fillLists sets each list of a value to a number of elements, and each field with a lower bound to that bound.
func fillLists(v reflect.Value, own handles, elements int) {
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag
		m := member{typ: f.Type(), tag: tag}
		switch f.Kind() {
		case reflect.Struct:
			fillLists(f, own, elements)
		case reflect.String:
			f.SetString(strings.Repeat("t", elements))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), elements, elements))
			for k := range elements {
				if e := f.Index(k); tag.Get("handle") != "" {
					e.SetUint(uint64(own.pd))
				} else if e.CanUint() {
					e.SetUint(uint64(k + 1))
				}
			}
		default:
			if least, ok := m.limit("min"); ok && f.CanUint() {
				f.SetUint(least)
			}
			if k, _, ok := handleOf(&m); ok {
				f.SetUint(uint64(own.anyOf(k)))
			}
		}
	}
}

var _ = bodies.Case(validate.Case{
	ID:    "user.request.lists",
	Title: "each request with lists that are cut off, or with padding that is not zero",
	Run:   requestLists,
}, req.SAS2_4_06)

func requestLists(t *validate.T) {
	s := newStage(t)
	s.withServices()
	x := s.speaker()
	own := x.basics()
	live := s.probe.living()
	for _, c := range declared() {
		typ := schema.Commands[c].Request
		size, _ := extent(typ)
		refused := func(what string, body []byte) {
			h, _, err := x.exchange(c, body)
			where := fmt.Sprintf("the request %q with %s", c, what)
			kit.OK(t, err, "the connection after "+where)
			kit.Equal(t, "status of "+where, h.Status, ci.InvalidParameter)
			kit.Equal(t, "the id of the reply to "+where, h.ID, x.next)
		}
		for _, n := range []int{0, 1, 3} {
			body, isPadding := listed(typ, own, n)
			if n > 0 && len(body) == padded(size, 8) {
				break // it has no lists
			}
			for at := padded(size, 8); n > 0 && at < len(body); at += 8 {
				refused(fmt.Sprintf("%d elements, and %d of %d bytes", n, at, len(body)), body[:at])
			}
			if n > 0 {
				refused("one byte less", body[:len(body)-1])
				refused("8 bytes more", append(body[:len(body):len(body)], make([]byte, 8)...))
			}
			for at, is := range isPadding {
				if is {
					refused(fmt.Sprintf("%d elements, and padding at byte %d that is not zero", n, at),
						changed(body, at, 0x80))
				}
			}
		}
	}
	kit.OK(t, x.do(schema.CmdQueryCQ, &schema.CQ{CQ: own.cq}, &schema.QueryCQReply{}), "CQ.Query")
	kit.Equal(t, "objects at the driver", fmt.Sprint(s.probe.living()), fmt.Sprint(live))
}

var _ = bodies.Case(validate.Case{
	ID:    "user.request.longest",
	Title: "lists of every length up to the limit reach the driver, and come back, and longer ones are refused",
	Run:   requestLongest,
}, req.SAS2_4_08)

func requestLongest(t *validate.T) {
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) {
		cfg.Control = func(_ kproxy.Peer, operation string, request []byte) ([]byte, error) {
			return append([]byte(operation[:1]), request...)[:len(request)], nil
		}
	})
	x := s.speaker()
	own := x.basics()
	vendor := func(objects, data, in, out int) {
		where := fmt.Sprintf("a vendor call with %d objects, %d bytes, and %d bytes of private data", objects, data, in)
		r := &schema.VendorCall{CA: own.ca, Command: reversing, Data: pattern(data), User: schema.UserBuffer{
			Present: true, Command: 6, Status: -7, OutCapacity: uint32(out), In: pattern(in)}}
		kinds := ""
		for i := range objects {
			h := []schema.Handle{own.cq, own.pd}[i%2]
			r.Objects = append(r.Objects, h)
			kinds += " " + h.Kind().String()
		}
		h, body, err := x.exchange(schema.CmdVendorCall, encode(r))
		if objects > schema.MaxObjects || data > schema.MaxVendor || in > schema.MaxPrivate || out > schema.MaxPrivate {
			x.want(where, own, h, err, ci.InvalidParameter)
			return
		}
		kit.OK(t, err, "the connection after "+where)
		kit.Equal(t, "status of "+where, h.Status, ci.Status(0))
		kit.Equal(t, "objects at the driver of "+where, s.probe.vendorObjects(), kinds)
		kit.Equal(t, "private data at the driver of "+where, s.probe.seen("VendorCall"),
			describe(&ci.UserBuffer{Command: 6, Status: -7, In: r.User.In, Out: make([]byte, 0, out)}))
		var reply schema.VendorCallReply
		if err := decode(body, &reply); err != nil {
			t.Failf("the reply to "+where, "schema.VendorCallReply", "%v", err)
		}
		kit.SameBytes(t, "data in the reply to "+where, reply.Data, reversed(r.Data))
		kit.Equal(t, "length in the reply to "+where, reply.N, uint32(data))
		text := replyTo(string(r.User.In))
		kit.SameBytes(t, "private data in the reply to "+where, reply.User.Out, []byte(text[:min(out, len(text))]))
		reply.Data, reply.User.Out = nil, nil
		kit.Equal(t, "the rest of the reply to "+where, fmt.Sprintf("%+v", reply), fmt.Sprintf("%+v",
			schema.VendorCallReply{N: uint32(data), Status: reversedStatus,
				User: schema.UserBufferReply{Copied: true}}))
	}
	for n := range 10 {
		vendor(n, 0, 0, 64)
		vendor(0, n, 0, n)
		vendor(1, n, 9-n, 64)
	}
	for _, d := range []int{-1, 0, 1} {
		vendor(schema.MaxObjects+d, 3, 5, 32)
		vendor(1, schema.MaxVendor+d, 5, 32)
		vendor(1, 3, schema.MaxPrivate+d, 32)
		vendor(1, 3, 5, schema.MaxPrivate+d)
	}
	t.Step("texts and long lists")
	for _, n := range []int{1, 7, 8, 9, schema.MaxText - 1, schema.MaxText, schema.MaxText + 1} {
		for _, size := range []int{1, schema.MaxControl - 1, schema.MaxControl, schema.MaxControl + 1} {
			r := &schema.Control{Operation: strings.Repeat("o", n), Request: bytes.Repeat([]byte{1}, size)}
			where := fmt.Sprintf("an operation of the daemon with %d and %d bytes", n, size)
			h, body, err := x.exchange(schema.CmdControl, encode(r))
			if n > schema.MaxText || size > schema.MaxControl {
				x.want(where, own, h, err, ci.InvalidParameter)
				continue
			}
			kit.OK(t, err, "the connection after "+where)
			kit.Equal(t, "status of "+where, h.Status, ci.Status(0))
			var reply schema.ControlReply
			if err := decode(body, &reply); err != nil {
				t.Failf("the reply to "+where, "schema.ControlReply", "%v", err)
			}
			kit.SameBytes(t, "the reply to "+where, reply.Text, append([]byte("o"), r.Request...)[:size])
		}
	}
	t.Step("the largest number of a field")
	s.trace.take()
	h, _, err := x.exchange(schema.CmdAllocatePD, encode(&schema.AllocatePD{CA: own.ca, Type: 255}))
	kit.OK(t, err, "the connection")
	kit.True(t, h.Status != 0, "CA.AllocatePD of type 255", "an error of the driver", "success")
	kit.Equal(t, "calls of the driver's AllocatePD with type 255", s.trace.count("driver AllocatePD"), 1)
}

// reversed returns the bytes in the opposite order.
func reversed(b []byte) []byte {
	r := make([]byte, len(b))
	for i := range b {
		r[len(b)-1-i] = b[i]
	}
	return r
}

var _ = bodies.Case(validate.Case{
	ID:    "user.reply.layout",
	Title: "attributes of an adapter with several ports, in the documented layout",
	Run:   replyLayout,
}, req.SAS2_4_13)

func replyLayout(t *validate.T) {
	s := newStage(t)
	quota := kproxy.Quota{PDs: 1001, AVs: 1002, CQs: 1003, SRQs: 1004, QPs: 1005, Mcasts: 1006, MRs: 1007, MWs: 1008,
		MemoryBytes: 1 << 40}
	s.restart(func(cfg *kproxy.Config) { cfg.Quota = quota })
	x := s.speaker()
	own := x.basics()
	app := s.with().open()
	for round := range 6 {
		a := ci.CAAttr{}
		randomize(t, reflect.ValueOf(&a).Elem(), round+1)
		a.Atomicity = ci.Atomicity(round % 3)
		if round%2 == 1 { // less than the limits
			for _, n := range []*int{&a.MaxPDs, &a.MaxAVs, &a.MaxCQs, &a.MaxSRQs, &a.MaxQPs, &a.MaxMcastQPs, &a.MaxMRs,
				&a.MaxMWs, &a.MaxSGEs, &a.MaxReadSGEs, &a.MaxSRQSGEs, &a.MaxInline} {
				*n = t.Rand().IntN(1000)
			}
			a.MaxMRSize = uint64(t.Rand().Uint32())
		}
		if round >= 4 { // what is more than a field can say
			a.MaxWRs, a.MaxCQEs, a.MaxPartitions = 1<<40, math.MaxInt32+1, math.MaxInt32
			a.MaxRespRes, a.MaxMcastGroups, a.Vectors = -1<<40, math.MinInt32-1, math.MinInt32
		}
		s.probe.setAttr(&a)
		h, body, err := x.exchange(schema.CmdQueryCA, encode(&schema.CA{CA: own.ca}))
		kit.OK(t, err, "the connection")
		kit.Equal(t, "status of CA.Query", h.Status, ci.Status(0))
		var got schema.CAAttr
		if err := decode(body, &got); err != nil {
			t.Failf("the reply to CA.Query", "schema.CAAttr", "%v", err)
		}
		kit.Equal(t, "ports in the reply", len(got.Ports), len(a.Ports))
		numbers := got
		numbers.Ports = nil
		kit.Equal(t, "the reply without the ports", fmt.Sprintf("%+v", numbers),
			fmt.Sprintf("%+v", granted(&a, &quota)))
		theirs, err := app.Query()
		kit.OK(t, err, "CA.Query of an application")
		for i := range a.Ports {
			p, q := &a.Ports[i], &got.Ports[i]
			gids := make([]ci.GIDEntry, len(q.GIDs))
			for k, g := range q.GIDs {
				gids[k] = ci.GIDEntry{GID: g.GID, Type: g.Type}
			}
			mtus := make([]byte, len(p.MTUs))
			for k, m := range p.MTUs {
				mtus[k] = byte(m)
			}
			found := fmt.Sprint(q.GUID, q.MaxMsgSize, q.LID, q.PKeyErrors, q.Num, q.MTU, q.SpeedExt,
				q.HardwareAgents == 1, gids, q.PKeys, fmt.Sprintf("%x", q.MTUs))
			kit.Equal(t, fmt.Sprintf("port %d in the reply", i), found, fmt.Sprint(p.GUID, p.MaxMsgSize, p.LID,
				p.PKeyErrors, p.Num, p.MTU, p.SpeedExt, p.HardwareAgents, p.GIDs, p.PKeys,
				fmt.Sprintf("%x", mtus)))
			kit.Equal(t, fmt.Sprintf("port %d of CA.Query of an application", i), fmt.Sprintf("%+v", theirs.Ports[i]),
				fmt.Sprintf("%+v", *p))
		}
	}
	t.Step("attributes that are longer than a message")
	a := ci.CAAttr{Ports: make([]ci.PortAttr, schema.MaxPorts)}
	for i := range a.Ports {
		a.Ports[i].GIDs = make([]ci.GIDEntry, 20)
	}
	s.probe.setAttr(&a)
	h, _, err := x.exchange(schema.CmdQueryCA, encode(&schema.CA{CA: own.ca}))
	x.want("CA.Query of an adapter with too many GIDs", own, h, err)
	s.probe.setAttr(nil)
	h, _, err = x.exchange(schema.CmdQueryCA, encode(&schema.CA{CA: own.ca}))
	kit.OK(t, err, "the connection")
	kit.Equal(t, "status of CA.Query", h.Status, ci.Status(0))
}

// granted returns the attributes of an adapter that a process is told, without the ports: those of the driver, as far
// as the process can use them.
func granted(a *ci.CAAttr, q *kproxy.Quota) (r schema.CAAttr) {
	to, from := reflect.ValueOf(&r).Elem(), reflect.ValueOf(a).Elem()
	names := map[string]string{"NumVectors": "Vectors", "MaxInitDepth": "MaxInitDepthPerQP"}
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if theirs, ok := names[name]; ok {
			name = theirs
		}
		f := from.FieldByName(name)
		switch {
		case name == "Ports" || !f.IsValid():
		case f.CanInt(): // the nearest number of 32 bits
			to.Field(i).SetInt(min(max(f.Int(), math.MinInt32), math.MaxInt32))
		default:
			to.Field(i).Set(f)
		}
	}
	r.Caps &^= kproxy.DaemonOnly
	r.Atomicity = min(r.Atomicity, ci.AtomicLocal)
	for _, n := range []*int32{&r.MaxRDDs, &r.MaxEECs, &r.MaxRawIPv6QPs, &r.MaxRawEtherQPs, &r.MaxFMRs,
		&r.MaxMapsPerFMR, &r.MaxFastRegPages} { // which processes cannot create
		*n = 0
	}
	for n, most := range map[*int32]int{&r.MaxPDs: q.PDs, &r.MaxAVs: q.AVs, &r.MaxCQs: q.CQs, &r.MaxSRQs: q.SRQs,
		&r.MaxQPs: q.QPs, &r.MaxMcastQPs: q.Mcasts, &r.MaxMRs: q.MRs, &r.MaxMWs: q.MWs, &r.MaxSGEs: schema.MaxSGE,
		&r.MaxReadSGEs: schema.MaxSGE, &r.MaxSRQSGEs: schema.MaxSGE, &r.MaxInline: schema.MaxInline} {
		*n = min(*n, int32(most))
	}
	r.MaxMRSize = min(r.MaxMRSize, uint64(q.MemoryBytes))
	return r
}

// randomize sets the fields of a value to random numbers, and gives its lists a number of elements.
func randomize(t *validate.T, v reflect.Value, elements int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			randomize(t, v.Field(i), elements)
		}
	case reflect.Array:
		for i := range v.Len() {
			randomize(t, v.Index(i), elements)
		}
	case reflect.Slice:
		n := elements
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			randomize(t, v.Index(i), elements+i)
		}
	case reflect.Bool:
		v.SetBool(t.Rand().IntN(2) == 1)
	case reflect.String: // those of attributes are not for processes
	default:
		if v.CanUint() {
			v.SetUint(t.Rand().Uint64() & (1<<v.Type().Bits() - 1))
		} else if v.CanInt() {
			v.SetInt(int64(int32(t.Rand().Uint32())))
		}
	}
}
