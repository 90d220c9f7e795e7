package usersuite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/kproxy/services"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Requests that no user access layer sends. (SAS 2.4.)
var requests = area()

// withServices adds the services of the access layer to the daemon, if the adapter can have them, and makes other
// changes of its configuration.
func (s *stage) withServices(changes ...func(*kproxy.Config)) {
	s.servedBy(func(*services.Config) {}, changes...)
}

// servedBy is withServices with changes of what the services use.
func (s *stage) servedBy(wrap func(*services.Config), changes ...func(*kproxy.Config)) {
	if !s.t.Claims().Has(ci.CapSpecialQP) {
		return
	}
	s.restart(func(cfg *kproxy.Config) {
		m, err := mads.New(s.al, mads.Config{})
		kit.OK(s.t, err, "mads.New")
		s.mads = m
		c, err := cm.New(s.al, m, cm.Config{})
		kit.OK(s.t, err, "cm.New")
		uses := services.Config{AL: s.al, MAD: m, CM: c}
		wrap(&uses)
		svc, err := services.New(uses)
		kit.OK(s.t, err, "services.New")
		s.service, cfg.Service = svc, svc
		for _, change := range changes {
			change(cfg)
		}
		s.t.Cleanup(func() {
			err := errors.Join(s.stop(), svc.Close(), c.Close(), m.Close())
			if err != nil {
				s.t.Report(validate.Failure{Where: "the end of the services", Expected: "success",
					Got: kit.Describe(err)})
			}
		})
	})
}

// want expects a reply with the status of an error, and that the connection stays usable. statuses are those that are
// right; none means any.
func (x *speaker) want(where string, own handles, h native.Header, err error, statuses ...ci.Status) {
	t := x.s.t
	if err != nil {
		t.Fail(validate.Failure{Where: where, Expected: "a reply with an error", Got: "the connection: " + err.Error()})
	}
	isRight := h.Status != 0 && len(statuses) == 0
	for _, s := range statuses {
		isRight = isRight || h.Status == s
	}
	kit.True(t, isRight, where, fmt.Sprintf("an error of %v", statuses), "status %v", h.Status)
	kit.Equal(t, "the id of the reply to "+where, h.ID, x.next)
	kit.OK(t, x.do(schema.CmdQueryCQ, &schema.CQ{CQ: own.cq}, &schema.QueryCQReply{}), "CQ.Query after "+where)
}

// declared are the commands whose request has a layout in schema.Commands, but Hello, which only begins a connection.
func declared() (list []schema.Command) {
	for c := schema.CmdHello + 1; c < schema.NumCommands; c++ {
		if n, _ := extent(schema.Commands[c].Request); n > 0 {
			list = append(list, c)
		}
	}
	return list
}

// ownOf returns a handle of the client of a kind that it has, or 0.
func (h *handles) ownOf(k schema.Kind) schema.Handle {
	for _, own := range []schema.Handle{h.queue, h.ca, h.pd, h.cq} {
		if own.Kind() == k {
			return own
		}
	}
	return 0
}

// anyOf returns a handle of a kind: that of an object of the client, or one that has the form of a handle and names no
// object. A request with such handles has no other fault.
func (h *handles) anyOf(k schema.Kind) schema.Handle {
	if own := h.ownOf(k); own != 0 {
		return own
	}
	return schema.MakeHandle(k, 1, 5000)
}

// handleOf returns the kind of handle that a field is, whether any kind is right, and whether it is a handle.
func handleOf(m *member) (k schema.Kind, isAny, ok bool) {
	tag, ok := m.tag.Lookup("handle")
	name, _, _ := strings.Cut(tag, ",")
	if !ok || m.typ.Kind() == reflect.Slice {
		return 0, false, false
	}
	if name == "any" {
		return schema.KindQP, true, true
	}
	k, ok = schema.KindNamed(name)
	return k, false, ok
}

var _ = requests.Case(validate.Case{
	ID:    "user.request.handles",
	Title: "each request with a handle that the process does not have, in each field",
	Run:   requestHandles,
}, req.SAS2_4_10)

func requestHandles(t *validate.T) {
	s := newStage(t)
	s.withServices()
	x := s.speaker()
	own := x.basics()
	live := s.probe.living()
	for _, c := range declared() {
		typ := schema.Commands[c].Request
		list := members(typ, 0)
		valid := newBody(typ)
		for i := range list {
			if k, _, ok := handleOf(&list[i]); ok {
				list[i].put(valid, uint64(own.anyOf(k)))
			}
		}
		for i := range list {
			m := &list[i]
			k, isAny, ok := handleOf(m)
			if !ok {
				continue
			}
			status := k.Invalid()
			if isAny {
				status = schema.KindNone.Invalid()
			}
			where := fmt.Sprintf("the request %q whose %s ", c, m.name)
			try := func(h schema.Handle, what string, statuses ...ci.Status) {
				body := append([]byte(nil), valid...)
				m.put(body, uint64(h))
				head, _, err := x.exchange(c, body)
				x.want(where+what, own, head, err, statuses...)
			}
			try(schema.MakeHandle(k, 1, 5000), "names no object")
			try(schema.MakeHandle(schema.NumKinds, 1, 0), "has no kind", status)
			if !isAny {
				other := own.pd
				if k == schema.KindPD {
					other = own.cq
				}
				try(other, "is of another kind", status)
			}
			if !strings.HasSuffix(m.tag.Get("handle"), ",optional") {
				try(0, "is 0", status)
			}
		}
	}
	t.Step("the data path")
	absent := func(k schema.Kind) []byte {
		b := binary.LittleEndian.AppendUint64(nil, uint64(schema.MakeHandle(k, 1, 5000)))
		return binary.LittleEndian.AppendUint64(b, 1)
	}
	for c, k := range map[schema.Command]schema.Kind{schema.CmdPostSend: schema.KindQP,
		schema.CmdPostRecv: schema.KindQP, schema.CmdPostSRQRecv: schema.KindSRQ, schema.CmdPoll: schema.KindCQ} {
		body := absent(k)
		switch c {
		case schema.CmdPostSend:
			body = append(body, make([]byte, 88)...)
		case schema.CmdPostRecv, schema.CmdPostSRQRecv:
			body = append(body, make([]byte, 16)...)
		}
		h, _, err := x.exchange(c, body)
		x.want(fmt.Sprintf("the request %q whose handle names no object", c), own, h, err, k.Invalid())
	}
	kit.Equal(t, "objects at the driver", fmt.Sprint(s.probe.living()), fmt.Sprint(live))
}

var _ = requests.Case(validate.Case{
	ID:    "user.request.fields",
	Title: "each request with a field outside its limits, too short, or too long",
	Run:   requestFields,
}, req.SAS2_4_06)

func requestFields(t *validate.T) {
	s := newStage(t)
	s.withServices()
	x := s.speaker()
	own := x.basics()
	live := s.probe.living()
	for _, c := range declared() {
		typ := schema.Commands[c].Request
		size, _ := extent(typ)
		valid := newBody(typ)
		list := members(typ, 0)
		for i := range list { // so that each request has one fault only
			if k, _, ok := handleOf(&list[i]); ok {
				list[i].put(valid, uint64(own.anyOf(k)))
			}
		}
		try := func(what string, body []byte) {
			h, _, err := x.exchange(c, body)
			x.want(fmt.Sprintf("the request %q %s", c, what), own, h, err, ci.InvalidParameter)
		}
		with := func(m *member, v uint64) []byte {
			b := append([]byte(nil), valid...)
			m.put(b, v)
			return b
		}
		try("without its last byte", valid[:len(valid)-1])
		try("without its last 8 bytes", valid[:len(valid)-8])
		try("without a body", nil)
		try("with 8 bytes more", append(append([]byte(nil), valid...), make([]byte, 8)...))
		if size < len(valid) {
			b := append([]byte(nil), valid...)
			b[len(b)-1] = 1
			try("with padding that is not zero", b)
		}
		for i := range list {
			m := &list[i]
			isList := m.typ.Kind() == reflect.Slice || m.typ.Kind() == reflect.String
			if m.isZero() {
				try(fmt.Sprintf("whose %s is not 0", m.name), with(m, 1))
			}
			if m.typ.Kind() == reflect.Bool {
				try(fmt.Sprintf("whose %s is 2", m.name), with(m, 2))
			}
			if most, ok := m.limit("max"); ok {
				try(fmt.Sprintf("whose %s is beyond its limit of %d", m.name, most), with(m, most+1))
			}
			if least, ok := m.limit("min"); ok {
				try(fmt.Sprintf("whose %s is less than %d", m.name, least), with(m, least-1))
			}
			if isList {
				try(fmt.Sprintf("whose %s has elements that it does not carry", m.name), with(m, 1))
			}
		}
	}
	kit.Equal(t, "objects at the driver", fmt.Sprint(s.probe.living()), fmt.Sprint(live))
}

var _ = requests.Case(validate.Case{
	ID:    "user.request.noise",
	Title: "requests with random bodies disturb neither the daemon nor another process",
	Run:   requestNoise,
}, req.SAS2_4_06)

func requestNoise(t *validate.T) {
	s := newStage(t)
	other := s.app().open()
	r := t.Rand()
	list := declared()
	const rounds = 600
	var x *speaker
	for i := range rounds {
		if x == nil {
			x = s.speaker()
		}
		c := list[r.IntN(len(list))]
		n, _ := extent(schema.Commands[c].Request)
		body := newBody(schema.Commands[c].Request)[:padded(n, 8)]
		for range 1 + r.IntN(8) {
			body[r.IntN(len(body))] = byte(r.Uint32())
		}
		_, _, err := x.exchange(c, body)
		if err != nil { // the daemon may close the connection of such a client
			x.c.Close()
			x = nil
		}
		if i%100 == 99 {
			_, err := other.Query()
			kit.OK(t, err, "CA.Query of another process")
		}
	}
}

var _ = requests.Case(validate.Case{
	ID:    "user.request.header",
	Title: "a message with a wrong header ends the connection of its sender, and its objects",
	Run:   requestHeader,
}, req.SAS2_4_15)

func requestHeader(t *validate.T) {
	s := newStage(t)
	other := s.app().open()
	base := s.probe.living()
	le := binary.LittleEndian
	for what, change := range map[string]func(m []byte) []byte{
		"a length that is too small": func(m []byte) []byte { le.PutUint32(m, uint32(len(m)-8)); return m },
		"a length that is too large": func(m []byte) []byte { le.PutUint32(m, uint32(len(m)+8)); return m },
		"command 0":                  func(m []byte) []byte { le.PutUint16(m[4:], 0); return m },
		"a command that does not exist": func(m []byte) []byte {
			le.PutUint16(m[4:], uint16(schema.NumCommands))
			return m
		},
		"the bit of replies": func(m []byte) []byte { m[5] |= 0x80; return m },
		"a status":           func(m []byte) []byte { m[6] = 1; return m },
		"half of it":         func(m []byte) []byte { return m[:native.HeaderSize/2] },
	} {
		x := s.speaker()
		own := x.basics()
		m := native.Append(native.Start(nil), &schema.CQ{CQ: own.cq})
		kit.OK(t, native.Finish(m, native.Header{Command: schema.CmdQueryCQ, ID: 7}), "native.Finish")
		_, _, err := x.raw(change(m))
		kit.True(t, err != nil, "a message whose header has "+what, "the end of the connection", "a reply")
		s.await("objects of a process that sent a header with "+what, "none", func() string { return s.extra(base) })
		_, err = other.Query()
		kit.OK(t, err, "CA.Query of another process")
	}
}

var _ = requests.Case(validate.Case{
	ID:    "user.request.descriptors",
	Title: "descriptors that a request may not carry are refused and closed",
	Run:   requestDescriptors,
}, req.SAS2_4_06)

func requestDescriptors(t *validate.T) {
	s := newStage(t)
	x := s.speaker()
	own := x.basics()
	for _, c := range declared() {
		spec := &schema.Commands[c]
		if spec.MaxFiles > 0 {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Harness("a pipe: %v", err)
		}
		body := newBody(spec.Request)
		h, _, err := x.exchange(c, body, w)
		w.Close()
		x.want(fmt.Sprintf("the request %q with a descriptor", c), own, h, err)
		// The read ends when nobody has the other end of the pipe.
		_ = r.SetReadDeadline(time.Now().Add(t.Remaining()))
		_, err = r.Read(make([]byte, 1))
		r.Close()
		kit.True(t, !errors.Is(err, os.ErrDeadlineExceeded),
			fmt.Sprintf("the descriptor of the request %q, after the reply", c), "closed by the daemon", "open")
	}
}

var _ = requests.Case(validate.Case{
	ID:    "user.request.layout",
	Title: "a client that has nothing but the documented layout of messages",
	Run:   requestLayout,
}, req.SAS2_4_08)

func requestLayout(t *validate.T) {
	s := newStage(t)
	x := s.speaker()
	own := x.basics()
	typ := reflect.TypeFor[schema.CreateCQ]()
	for range 8 {
		body := newBody(typ)
		const in = "private data" // of 12 bytes
		size := 1 + t.Rand().IntN(100)
		for _, m := range members(typ, 0) {
			switch m.name {
			case "PD":
				m.put(body, uint64(own.pd))
			case "Size":
				m.put(body, uint64(size))
			case "Present":
				m.put(body, 1)
			case "OutCapacity":
				m.put(body, 64)
			case "Command":
				m.put(body, 0x0102)
			case "In":
				m.put(body, uint64(len(in)))
			}
		}
		body = append(body, in...)
		body = append(body, make([]byte, padded(len(body), 8)-len(body))...)
		h, reply, err := x.exchange(schema.CmdCreateCQ, body)
		kit.OK(t, err, "the connection")
		kit.Equal(t, "status of the request of a CQ", h.Status, ci.Status(0))
		kit.Equal(t, "private data at the driver", s.probe.seen("CreateCQ"),
			describe(&ci.UserBuffer{Command: 0x0102, In: []byte(in), Out: make([]byte, 0, 64)}))
		kit.Equal(t, "size at the driver", s.probe.lastCQ().Size, size)
		// The reply: handle, size, padding, and the private data: status, flags, their length.
		kit.True(t, len(reply) >= 16, "the body of the reply", "16 bytes and more", "%d", len(reply))
		kit.Equal(t, "kind of the handle in the reply", schema.Handle(binary.LittleEndian.Uint64(reply)).Kind(),
			schema.KindCQ)
		kit.True(t, strings.Contains(string(reply), replyTo(in)), "private data in the reply", replyTo(in), "%q", reply)
	}
}
