package usersuite

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/ual"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = posts.Case(validate.Case{
	ID:    "user.reply.malformed",
	Title: "replies that no daemon sends are errors of the verb, or end the connection, and are no results",
	Run:   replyMalformed,
}, req.SAS2_4_13)

// rewriter is a relay between an application and the daemon that replaces replies to a command.
type rewriter struct {
	cmd    schema.Command
	change func(m []byte) []byte // of whole messages
}

// rewritten is with for an application whose replies the case replaces.
func (s *stage) rewritten() (*app, *atomic.Pointer[rewriter]) {
	defer s.t.Setup()()
	now := new(atomic.Pointer[rewriter])
	client, relay := s.pair()
	theirs, daemon := s.pair()
	s.serve(daemon)
	s.relay.Go(func() { Pass(relay, theirs, nil); _ = theirs.CloseSend() })
	s.relay.Go(func() {
		defer theirs.Close()
		defer relay.Close()
		buf := make([]byte, schema.MaxMessage)
		for {
			n, files, err := theirs.Recv(buf)
			if err != nil {
				return
			}
			m := append([]byte(nil), buf[:n]...)
			if r := now.Load(); r != nil && schema.Command(binary.LittleEndian.Uint16(m[4:])&^(1<<15)) == r.cmd {
				m = r.change(m)
			}
			err = relay.Send(m, files)
			CloseFiles(files)
			if err != nil {
				return
			}
		}
	})
	a := &app{s: s, conn: client}
	var err error
	a.c, err = ual.New(client, ual.Config{Name: "certifier"})
	kit.OK(s.t, err, "ual.New")
	s.t.Cleanup(a.close)
	return a, now
}

// resized returns a function that gives a message another body, with the right length in its header.
func resized(change func(body []byte) []byte) func(m []byte) []byte {
	return func(m []byte) []byte {
		m = append(m[:native.HeaderSize:native.HeaderSize], change(m[native.HeaderSize:])...)
		binary.LittleEndian.PutUint32(m, uint32(len(m)))
		return m
	}
}

func replyMalformed(t *validate.T) {
	s := newStage(t)
	a, now := s.rewritten()
	ca := a.open()
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	qp := ca.QP(pd, cq, cq)
	made := []ci.WC{{ID: 1}, {ID: 2}, {ID: 3}}
	s.probe.path.Store(&path{
		send: func(wrs []ci.SendWR) (int, error) { return len(wrs), nil },
		recv: func(wrs []ci.RecvWR) (int, error) { return len(wrs), nil },
		poll: func(wc []ci.WC) (int, error) { return copy(wc, made), nil },
	})
	t.Cleanup(func() { s.probe.path.Store(nil) })
	poll := func() (int, error) { return cq.CQ.Poll(make([]ci.WC, 4)) }
	send := func() (int, error) { return qp.PostSend(make([]ci.SendWR, 3)) }
	recv := func() (int, error) { return qp.PostRecv(make([]ci.RecvWR, 3)) }
	cut := func(n int) func([]byte) []byte { return resized(func(b []byte) []byte { return b[:max(len(b)-n, 0)] }) }
	more := func(n int) func([]byte) []byte {
		return resized(func(b []byte) []byte { return append(b[:len(b):len(b)], make([]byte, n)...) })
	}
	count := func(n uint32) func([]byte) []byte {
		return resized(func(b []byte) []byte {
			b = append([]byte(nil), b...)
			binary.LittleEndian.PutUint32(b, n)
			return b
		})
	}
	body := func(n int) func([]byte) []byte { return resized(func([]byte) []byte { return make([]byte, n) }) }
	for _, v := range []struct {
		what string
		cmd  schema.Command
		call func() (int, error)
		want int
		list map[string]func([]byte) []byte
	}{
		{"CQ.Poll", schema.CmdPoll, poll, 3, map[string]func([]byte) []byte{
			"no body": body(0), "half of a count": body(4), "a byte less than a count": body(7),
			"a completion less": cut(56), "a byte less": cut(1), "8 bytes less": cut(8), "a byte more": more(1),
			"8 bytes more": more(8), "a completion more": more(56), "a count that is less": count(2),
			"a count that is more": count(4), "a count of 2^32-1": count(1<<32 - 1), "a count of none": count(0),
			"more than it was asked for": resized(func(b []byte) []byte {
				b = append(append([]byte(nil), b...), make([]byte, 2*56)...)
				binary.LittleEndian.PutUint32(b, 5)
				return b
			})}},
		{"QP.PostSend", schema.CmdPostSend, send, 3, map[string]func([]byte) []byte{
			"no body": body(0), "half of it": cut(4), "a byte less": cut(1), "a byte more": more(1),
			"8 bytes more": more(8)}},
		{"QP.PostRecv", schema.CmdPostRecv, recv, 3, map[string]func([]byte) []byte{
			"no body": body(0), "half of it": cut(4), "a byte less": cut(1), "a byte more": more(1),
			"8 bytes more": more(8)}},
	} {
		right := func(where string) {
			n, err := v.call()
			kit.OK(t, err, where)
			kit.Equal(t, "result of "+where, n, v.want)
		}
		right(v.what)
		for what, change := range v.list {
			now.Store(&rewriter{v.cmd, change})
			n, err := v.call()
			now.Store(nil)
			where := fmt.Sprintf("%s whose reply has %s", v.what, what)
			kit.True(t, err != nil, where, "an error", "success")
			kit.Equal(t, "result of "+where, n, 0)
			right(v.what + " after a reply with " + what)
		}
	}
	t.Step("padding")
	var isOver atomic.Bool
	for n := 0; !isOver.Load(); n++ { // byte n of the padding is not zero
		now.Store(&rewriter{schema.CmdQueryCA, resized(func(b []byte) []byte {
			b = append([]byte(nil), b...)
			isPadding, err := paddingOf(reflect.TypeFor[schema.CAAttr](), b)
			left := n
			for at, is := range isPadding {
				if is && left == 0 {
					b[at] = 0x80
					return b
				} else if is {
					left--
				}
			}
			isOver.Store(true)
			if err != nil {
				return nil
			}
			return b
		})})
		_, err := ca.Query()
		if isOver.Load() {
			kit.OK(t, err, fmt.Sprintf("CA.Query whose reply has %d bytes of padding", n))
			kit.True(t, n > 0, "bytes of padding in the reply of CA.Query", "some", "%d", n)
		} else {
			kit.WantExactly(t, err, fmt.Sprintf("CA.Query whose reply has byte %d of its padding not zero", n),
				ci.UnknownError)
		}
	}
	now.Store(nil)
	t.Step("headers")
	le := binary.LittleEndian
	for what, change := range map[string]func(m []byte) []byte{
		"a length that is too small": func(m []byte) []byte { le.PutUint32(m, uint32(len(m)-8)); return m },
		"a length that is too large": func(m []byte) []byte { le.PutUint32(m, uint32(len(m)+8)); return m },
		"another id":                 func(m []byte) []byte { le.PutUint64(m[8:], le.Uint64(m[8:])+1<<32); return m },
		"the id of no request":       func(m []byte) []byte { le.PutUint64(m[8:], le.Uint64(m[8:])+1000); return m },
		"no bit of replies":          func(m []byte) []byte { m[5] &^= 0x80; return m },
		"status 256":                 func(m []byte) []byte { le.PutUint16(m[6:], 0x100); return m },
		"half of it":                 func(m []byte) []byte { return m[:native.HeaderSize/2] },
		"a byte less than it":        func(m []byte) []byte { return m[:native.HeaderSize-1] },
		"command 0":                  func(m []byte) []byte { le.PutUint16(m[4:], 1<<15); return m },
		"a command that does not exist": func(m []byte) []byte {
			le.PutUint16(m[4:], uint16(schema.NumCommands)|1<<15)
			return m
		},
	} {
		b, now := s.rewritten()
		ca := b.open()
		now.Store(&rewriter{schema.CmdQueryCA, change})
		_, err := ca.Query()
		kit.WantExactly(t, err, "CA.Query whose reply has a header with "+what, ci.InvalidState)
		_, err = ca.Query()
		kit.WantExactly(t, err, "CA.Query after a reply with a header with "+what, ci.InvalidState)
	}
	_, err := ca.Query()
	kit.OK(t, err, "CA.Query of another process")
}
