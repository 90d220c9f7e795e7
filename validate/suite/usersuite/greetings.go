package usersuite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The begin of a connection. (SAS 2.4.)
var greetings = area()

// hello sends a first request, and returns the reply.
func (x *speaker) hello(h schema.Hello) (native.Header, []byte, error) {
	return x.exchange(schema.CmdHello, encode(&h))
}

// ended expects that the daemon has closed the connection.
func (x *speaker) ended(where string) {
	_, _, err := x.c.Recv(x.buf)
	kit.True(x.s.t, err != nil, where, "the end of the connection", "a message")
}

var good = schema.Hello{Version: schema.Version, PointerBits: 64, Name: "certifier"}

var _ = greetings.Case(validate.Case{
	ID:    "user.hello.first",
	Title: "the first request of a connection: each other one, wrong ones, and what the daemon tells about itself",
	Run:   helloFirst,
}, req.SAS2_4_06)

func helloFirst(t *validate.T) {
	const pending = 7
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.Pending = pending })
	other := s.app().open()
	t.Step("another request than Hello")
	for c := schema.CmdHello + 1; c < schema.NumCommands; c++ {
		x := s.silent()
		_, _, err := x.exchange(c, newBody(schema.Commands[c].Request))
		kit.True(t, err != nil, fmt.Sprintf("%q as the first request", c), "the end of the connection", "a reply")
		x.c.Close()
	}
	whole := append(native.Start(nil), encode(&good)...)
	kit.OK(t, native.Finish(whole, native.Header{Command: schema.CmdHello, ID: 1}), "native.Finish")
	for what, m := range map[string][]byte{"with the bit of replies": changed(whole, 5, 0x80),
		"with a status": changed(whole, 6, 1), "with a wrong length": changed(whole, 0, 1), "without bytes": {},
		"of half a header": whole[:native.HeaderSize/2]} {
		x := s.silent()
		_, _, err := x.raw(m)
		kit.True(t, err != nil, "Hello "+what, "the end of the connection", "a reply")
		x.c.Close()
	}
	t.Step("fields of Hello")
	body := encode(&good)
	refused := func(what string, status ci.Status, body []byte) {
		x := s.silent()
		h, reply, err := x.exchange(schema.CmdHello, body)
		kit.OK(t, err, "the connection after Hello with "+what)
		kit.Equal(t, "status of Hello with "+what, h.Status, status)
		var e schema.ErrorReply
		kit.OK(t, decode(reply, &e), "the reply to Hello with "+what)
		kit.Equal(t, "verb in the reply to Hello with "+what, e.Verb, "ual.Dial")
		x.ended("the connection after Hello with " + what)
		x.c.Close()
	}
	with := func(change func(*schema.Hello)) []byte {
		h := good
		change(&h)
		return encode(&h)
	}
	for _, n := range []int{0, 8, 16, len(body) - 8, len(body) - 1} {
		refused(fmt.Sprintf("%d bytes", n), ci.InvalidParameter, body[:n])
	}
	refused("8 bytes more", ci.InvalidParameter, append(body[:len(body):len(body)], make([]byte, 8)...))
	refused("a reserved field", ci.InvalidParameter, with(func(h *schema.Hello) { h.Reserved = 1 }))
	refused("version 0", ci.InvalidParameter, with(func(h *schema.Hello) { h.Version = 0 }))
	refused("a long name", ci.InvalidParameter,
		with(func(h *schema.Hello) { h.Name = strings.Repeat("n", schema.MaxText+1) }))
	for _, n := range []uint32{0, 31, 65, 1 << 31} {
		refused(fmt.Sprintf("pointers of %d bits", n), ci.InvalidParameter,
			with(func(h *schema.Hello) { h.PointerBits = n }))
	}
	for _, n := range []uint32{schema.Version + 1, 1<<32 - 1} {
		refused(fmt.Sprintf("version %d", n), ci.Unsupported, with(func(h *schema.Hello) { h.Version = n }))
	}
	for _, n := range []uint32{33, 48, 63} {
		refused(fmt.Sprintf("pointers of %d bits", n), ci.Unsupported,
			with(func(h *schema.Hello) { h.PointerBits = n }))
	}
	s.await("clients after connections that were refused", "one", func() string {
		if n := len(s.core.Sessions()); n != 1 {
			return fmt.Sprint(n)
		}
		return ""
	})
	t.Step("a first request that is right")
	for bits, n := range map[uint32]int{32: 0, 64: schema.MaxText} {
		x := s.silent()
		r, w, err := os.Pipe()
		if err != nil {
			t.Harness("a pipe: %v", err)
		}
		h, reply, err := x.exchange(schema.CmdHello, encode(&schema.Hello{Version: schema.Version, PointerBits: bits,
			Name: strings.Repeat("n", n)}), w)
		w.Close()
		kit.OK(t, err, "the connection after Hello")
		kit.Equal(t, "status of Hello", h.Status, ci.Status(0))
		kit.Equal(t, "id of the reply", h.ID, x.next)
		var got schema.HelloReply
		kit.OK(t, decode(reply, &got), "the reply to Hello")
		kit.Equal(t, "the reply to Hello", got, schema.HelloReply{Version: schema.Version, PID: uint32(os.Getpid()),
			MaxMessage: schema.MaxMessage, MaxBatch: schema.MaxBatch, MaxPending: pending})
		_ = r.SetReadDeadline(time.Now().Add(t.Remaining()))
		_, err = r.Read(make([]byte, 1))
		r.Close()
		kit.True(t, !errors.Is(err, os.ErrDeadlineExceeded), "the descriptor of a Hello", "closed by the daemon",
			"open")
		own := x.basics()
		kit.Equal(t, "Process.PointerBits", s.probe.process().PointerBits(), int(bits))
		kit.Equal(t, "Process.PID", s.probe.process().PID(), os.Getpid())
		h, _, err = x.hello(good)
		x.want("a second Hello", own, h, err, ci.InvalidParameter)
		x.c.Close()
	}
	_, err := other.Query()
	kit.OK(t, err, "CA.Query of another process")
}

// helloLimit is the time in which a client has to send its first request.
const helloLimit = 10 * time.Second

// virtual returns the clock that the daemon's connections have from now on.
func (s *stage) virtual(change func(*kproxy.Config)) *clock.Virtual {
	v := clock.NewVirtual(time.Hour)
	s.clock = v
	s.restart(change)
	return v
}

// pending waits until a number of timers run.
func (s *stage) pending(v *clock.Virtual, n int, where string) {
	s.await(where, fmt.Sprintf("%d timers", n), func() string {
		if got := v.Pending(); got != n {
			return fmt.Sprint(got)
		}
		return ""
	})
}

var _ = greetings.Case(validate.Case{
	ID:    "user.hello.late",
	Title: "a connection without a first request ends after 10 seconds, and no other one",
	Run:   helloLate,
}, req.SAS2_4_10)

func helloLate(t *validate.T) {
	s := newStage(t)
	v := s.virtual(func(*kproxy.Config) {})
	done := s.speaker()
	s.pending(v, 0, "timers of a connection after Hello")
	early, late := s.silent(), s.silent()
	s.pending(v, 2, "timers of connections before Hello")
	v.Advance(helloLimit - 1)
	h, _, err := early.hello(good)
	kit.OK(t, err, "Hello after almost 10 seconds")
	kit.Equal(t, "status of Hello after almost 10 seconds", h.Status, ci.Status(0))
	s.pending(v, 1, "timers of connections of which one had a Hello")
	v.Advance(1)
	late.ended("a connection without Hello after 10 seconds")
	v.Advance(time.Hour)
	for _, x := range []*speaker{done, early} {
		kit.OK(t, x.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "HCA.Info an hour after Hello")
	}
}

var _ = greetings.Case(validate.Case{
	ID:    "user.hello.many",
	Title: "connections without a first request have a limit, and so have clients; closed ones do not count",
	Run:   helloMany,
}, req.SAS2_4_10)

func helloMany(t *validate.T) {
	const few, many, greeting = 3, 1000, 64
	s := newStage(t)
	for _, v := range kit.Variants(t, "", []struct {
		what               string
		clients, perUser   int
		sessions, greeting int
	}{
		{"the limit of a user", many, few, few, few + greeting/2},
		{"the limit of all", few, many, few, few + greeting},
	}) {
		s.restart(func(cfg *kproxy.Config) { cfg.MaxClients, cfg.MaxClientsPerUser = v.clients, v.perUser })
		var list []*speaker
		for range v.sessions {
			list = append(list, s.speaker())
		}
		for range 2 {
			x := s.silent()
			h, _, err := x.hello(good)
			kit.OK(t, err, "the connection after Hello beyond "+v.what)
			kit.Equal(t, "status of Hello beyond "+v.what, h.Status, ci.InsufficientResources)
			x.ended("the connection after Hello beyond " + v.what)
		}
		for len(list) < v.greeting-1 {
			list = append(list, s.silent())
		}
		// A wrong Hello is answered, if the connection is accepted.
		accepted := func() bool {
			x := s.silent()
			h, _, err := x.hello(schema.Hello{Version: schema.Version + 1, PointerBits: 64})
			x.c.Close()
			return err == nil && h.Status == ci.Unsupported
		}
		s.await("the last connection that is accepted", "an answer", func() string {
			if accepted() {
				return ""
			}
			return "none"
		})
		last := s.silent()
		s.await("a connection beyond "+v.what, "none", func() string {
			if accepted() {
				return "accepted"
			}
			return ""
		})
		for _, x := range []*speaker{last, list[len(list)-1], list[0]} {
			x.c.Close()
			s.await("a connection, after another one was closed", "an answer", func() string {
				if accepted() {
					return ""
				}
				return "none"
			})
		}
		s.await("Hello, after a client has ended", "success", func() string {
			x := s.silent()
			h, _, err := x.hello(good)
			x.c.Close()
			if err == nil && h.Status == 0 {
				return ""
			}
			return fmt.Sprint(h.Status, err)
		})
		for _, x := range list {
			x.c.Close()
		}
	}
}

var _ = greetings.Case(validate.Case{
	ID:    "user.exit.daemon",
	Title: "the daemon ends: its clients' objects are destroyed, their connections end, and there are no new ones",
	Run:   exitDaemon,
}, req.SAS2_4_15)

func exitDaemon(t *validate.T) {
	s := newStage(t)
	var list []*speaker
	for range 3 {
		x := s.speaker()
		x.basics()
		list = append(list, x)
	}
	list = append(list, s.silent())
	entered, leave := make(chan struct{}), make(chan struct{})
	s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
		reply(ub)
		if verb == "CreateCQ" {
			close(entered)
			<-leave
		}
		return nil
	})
	busy := s.speaker()
	var ca, pd schema.Created
	var q schema.Created
	kit.OK(t, busy.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &q), "CreateEventQueue")
	kit.OK(t, busy.do(schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: q.Handle}, &ca), "HCA.OpenCA")
	kit.OK(t, busy.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: ca.Handle}, &pd), "CA.AllocatePD")
	m := append(native.Start(nil), encode(&schema.CreateCQ{PD: pd.Handle, Size: 4})...)
	kit.OK(t, native.Finish(m, native.Header{Command: schema.CmdCreateCQ, ID: 1}), "native.Finish")
	kit.OK(t, busy.c.Send(m, nil), "a request that the driver executes when the daemon ends")
	select {
	case <-entered:
	case <-t.Context().Done():
		t.Failf("the driver's CreateCQ", "a call", "none")
	}
	srv := s.srv
	ended := make(chan struct{})
	go func() {
		srv.Close()
		close(ended)
	}()
	for _, x := range list {
		x.ended("a connection when the daemon ends")
	}
	select {
	case <-ended:
		t.Failf("the end of the daemon", "after the verb in progress", "before")
	default:
	}
	close(leave)
	select {
	case <-ended:
	case <-t.Context().Done():
		t.Failf("the end of the daemon", "after the verb in progress", "none")
	}
	for {
		if _, _, err := busy.c.Recv(busy.buf); err != nil {
			break
		}
	}
	live := s.probe.living()
	kit.True(t, len(live) == 0, "objects at the driver after the end of the daemon", "none", "%v", live)
	x := s.silent()
	_, _, err := x.hello(good)
	kit.True(t, err != nil, "a connection after the end of the daemon", "its end", "a reply")
	s.probe.handle(nil)
}

var _ = greetings.Case(validate.Case{
	ID:    "user.request.order",
	Title: "requests before the reply of the first: each has its reply, with its id, up to the limit and beyond",
	Run:   requestOrder,
}, req.SAS2_4_13)

func requestOrder(t *validate.T) {
	const pending, sent = 4, 40
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.Pending = pending })
	x := s.speaker()
	own := x.basics()
	want := map[uint64]schema.Command{}
	for i := range sent {
		c, body := schema.CmdQueryCQ, encode(&schema.CQ{CQ: own.cq})
		switch i % 3 {
		case 1:
			c, body = schema.CmdPoll, postBody(own.cq, 4)
		case 2:
			if t.Claims().Has(ci.CapPeek) {
				c, body = schema.CmdPeek, body[:8]
			}
		}
		id := uint64(i+1) << 40
		m := append(native.Start(nil), body...)
		kit.OK(t, native.Finish(m, native.Header{Command: c, ID: id}), "native.Finish")
		kit.OK(t, x.c.Send(m, nil), "a request")
		want[id] = c
	}
	lastPoll := uint64(0)
	for len(want) > 0 {
		n, _, err := x.c.Recv(x.buf)
		kit.OK(t, err, "the connection")
		m := x.buf[:n]
		id := binary.LittleEndian.Uint64(m[8:])
		kit.Equal(t, "length in the header of a reply", int(binary.LittleEndian.Uint32(m)), n)
		kit.Equal(t, "command and status in the header of a reply",
			[2]uint16{binary.LittleEndian.Uint16(m[4:]), binary.LittleEndian.Uint16(m[6:])},
			[2]uint16{uint16(want[id]) | 1<<15, 0})
		if want[id] == schema.CmdPoll {
			kit.True(t, id > lastPoll, "replies of the data path", "in the order of the requests", "%#x after %#x", id,
				lastPoll)
			lastPoll = id
		}
		delete(want, id)
	}
}
