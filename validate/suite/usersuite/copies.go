package usersuite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Processes that copy their memory for the daemon. (SAS 2.4.)
var copies = area()

// copying is a process that answers the daemon's copies.
type copying struct {
	t    *validate.T
	f    *os.File
	wait sync.WaitGroup

	mu     sync.Mutex
	answer func(c schema.Copy, data []byte) []byte // nil result: none
	list   []schema.Copy
	err    error // of reading; nil: it reads
}

// copier requests the socket for copies, and answers them by a function.
func (x *speaker) copier(answer func(c schema.Copy, data []byte) []byte) *copying {
	kit.OK(x.s.t, x.do(schema.CmdServeCopies, &schema.ServeCopies{}, &schema.None{}), "ServeCopies")
	c := &copying{t: x.s.t, f: x.taken("ServeCopies"), answer: answer}
	c.wait.Go(c.serve)
	c.t.Cleanup(func() {
		c.f.Close()
		c.wait.Wait()
	})
	return c
}

func (c *copying) serve() {
	b := make([]byte, schema.CopySize+schema.MaxCopy)
	for {
		n, err := c.f.Read(b)
		var m schema.Copy
		var data []byte
		if err == nil {
			m, data, err = schema.ParseCopy(b[:n])
		}
		c.mu.Lock()
		if err != nil {
			c.err = err
			c.mu.Unlock()
			return
		}
		c.list = append(c.list, m)
		answer := c.answer
		c.mu.Unlock()
		if answer == nil {
			continue
		}
		if reply := answer(m, data); reply != nil {
			_, _ = c.f.Write(reply) // the daemon may have closed its end
		}
	}
}

// use sets the function that answers, and returns the copies since the last call.
func (c *copying) use(answer func(c schema.Copy, data []byte) []byte) []schema.Copy {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.answer, c.list = answer, nil
	return list
}

// ended waits until the daemon has closed its end.
func (c *copying) ended(s *stage, what string) {
	s.await("the socket of copies after "+what, "its end", func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !errors.Is(c.err, io.EOF) {
			return "open"
		}
		return ""
	})
}

// copyReply returns a reply with data.
func copyReply(id uint64, data []byte) []byte {
	r := schema.CopyReply{ID: id}
	return append(r.Append(nil), data...)
}

// memoryAt answers copies as a process does whose memory begins at an address.
func memoryAt(addr uint64, memory []byte) func(c schema.Copy, data []byte) []byte {
	return func(c schema.Copy, data []byte) []byte {
		at := c.Addr - addr
		if c.Addr < addr || at > uint64(len(memory)) || uint64(c.Length) > uint64(len(memory))-at {
			r := schema.CopyReply{ID: c.ID, Failed: true}
			return r.Append(nil)
		}
		if c.Kind == schema.CopyWrite {
			copy(memory[at:], data)
			return copyReply(c.ID, nil)
		}
		return copyReply(c.ID, memory[at:][:c.Length])
	}
}

var _ = copies.Case(validate.Case{
	ID: "user.copy.messages",
	Title: "the daemon copies memory by messages to the process that has it: their form, and replies that are wrong, " +
		"which end the copies and nothing else",
	Run: copyMessages,
}, req.SAS2_4_09)

func copyMessages(t *validate.T) {
	const addr, token, size = 0x7000_1234_5000, 0x1122334455667788, 150_000
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.ClientCopies = true })
	memory := kit.Random(t, make([]byte, size))
	type client struct {
		*speaker
		pd schema.Handle
	}
	connect := func() *client {
		x := &client{speaker: s.speaker()}
		queue, _ := x.queue()
		ca := x.made("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})
		x.pd = x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: ca})
		return x
	}
	register := func(x *client) error {
		_, err := x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: x.pd, Memory: schema.Memory{Addr: addr,
			Length: size, FileOffset: token, Access: ci.LocalWrite}})
		return err
	}
	right := memoryAt(addr, memory)
	x := connect()
	kit.WantExactly(t, register(x), "PD.RegisterMR of a process that does not copy", ci.InvalidPermission)
	c := x.copier(right)
	err := x.do(schema.CmdServeCopies, &schema.ServeCopies{}, &schema.None{})
	kit.WantExactly(t, err, "a second request of the socket for copies", ci.InvalidState)
	kit.OK(t, register(x), "PD.RegisterMR of a process that copies")
	list := c.use(right)
	kit.Equal(t, "copies of a registration", fmt.Sprint(len(list)), "1")
	kit.Equal(t, "the copy of a registration", list[0], schema.Copy{ID: list[0].ID, Token: token, Addr: addr, Length: 1,
		Kind: schema.CopyRead})

	t.Step("accesses of the driver")
	m := s.probe.lastMemory()
	b := make([]byte, 140_000)
	n, err := m.ReadAt(b, 7)
	kit.OK(t, err, "Memory.ReadAt")
	kit.Equal(t, "bytes of Memory.ReadAt", n, len(b))
	kit.SameBytes(t, "bytes of Memory.ReadAt", b, memory[7:][:len(b)])
	want := bytes.Clone(memory)
	copy(want[11:], kit.Random(t, b))
	n, err = m.WriteAt(b, 11)
	kit.OK(t, err, "Memory.WriteAt")
	kit.Equal(t, "bytes of Memory.WriteAt", n, len(b))
	kit.SameBytes(t, "bytes of the process after Memory.WriteAt", memory, want)
	ids := map[uint64]bool{list[0].ID: true}
	at, kind := uint64(addr+7), schema.CopyRead
	for _, c := range c.use(right) {
		if c.Kind != kind {
			kit.Equal(t, "the end of the copies from the process", at, addr+7+uint64(len(b)))
			at, kind = addr+11, schema.CopyWrite
		}
		kit.Equal(t, "token, address and kind of a copy", [3]uint64{c.Token, c.Addr, uint64(c.Kind)},
			[3]uint64{token, at, uint64(kind)})
		kit.True(t, !ids[c.ID], "the id of a copy", "a new one", "%d", c.ID)
		ids[c.ID] = true
		at += uint64(c.Length)
	}
	kit.Equal(t, "the end of the copies to the process", at, addr+11+uint64(len(b)))

	t.Step("copies that the process refuses")
	failed := func(c schema.Copy, _ []byte) []byte {
		r := schema.CopyReply{ID: c.ID, Failed: true}
		return r.Append(nil)
	}
	c.use(failed)
	kit.WantExactly(t, register(x), "PD.RegisterMR of memory that the process does not copy", ci.InvalidPermission)
	_, err = m.ReadAt(b[:8], 0)
	kit.True(t, err != nil, "Memory.ReadAt of memory that the process does not copy", "an error", "success")
	_, err = m.WriteAt(b[:8], 0)
	kit.True(t, err != nil, "Memory.WriteAt of memory that the process does not copy", "an error", "success")
	c.use(right)
	kit.OK(t, register(x), "PD.RegisterMR after refused copies")
	_, err = m.ReadAt(b[:8], 0)
	kit.OK(t, err, "Memory.ReadAt after refused copies")
	kit.SameBytes(t, "bytes of Memory.ReadAt", b[:8], memory[:8])

	t.Step("the end of the process")
	x.c.Close()
	c.ended(s, "the end of the process")

	for _, v := range kit.Variants(t, "", []struct {
		what   string
		answer func(c schema.Copy) []byte
		access func(m ci.Memory) error
	}{
		{"the id of another copy", func(c schema.Copy) []byte { return copyReply(c.ID+1, make([]byte, c.Length)) },
			readEight},
		{"too few bytes", func(c schema.Copy) []byte { return copyReply(c.ID, make([]byte, c.Length-1)) }, readEight},
		{"too many bytes", func(c schema.Copy) []byte { return copyReply(c.ID, make([]byte, c.Length+1)) }, readEight},
		{"more bytes than a message has", func(c schema.Copy) []byte { return copyReply(c.ID, make([]byte, 1<<16+1)) },
			readEight},
		{"no header", func(c schema.Copy) []byte { return copyReply(c.ID, nil)[:schema.CopyReplySize-1] }, readEight},
		{"an unknown status", func(c schema.Copy) []byte {
			b := copyReply(c.ID, make([]byte, c.Length))
			b[8] = 2
			return b
		}, readEight},
		{"bytes for a write", func(c schema.Copy) []byte { return copyReply(c.ID, []byte{1}) }, writeEight},
	}) {
		y := connect()
		c := y.copier(right)
		kit.OK(t, register(y), "PD.RegisterMR of a process that copies")
		m := s.probe.lastMemory()
		c.use(func(m schema.Copy, _ []byte) []byte { return v.answer(m) })
		kit.True(t, v.access(m) != nil, "an access whose reply has "+v.what, "an error", "success")
		c.ended(s, "a reply with "+v.what)
		kit.True(t, readEight(m) != nil, "an access after a reply with "+v.what, "an error", "success")
		kit.WantExactly(t, register(y), "PD.RegisterMR after a reply with "+v.what, ci.InvalidPermission)
		kit.OK(t, y.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "ListHCAs")
		y.c.Close()
	}
}

func readEight(m ci.Memory) error {
	_, err := m.ReadAt(make([]byte, 8), 0)
	return err
}

func writeEight(m ci.Memory) error {
	_, err := m.WriteAt(make([]byte, 8), 0)
	return err
}

var _ = copies.Case(validate.Case{
	ID: "user.copy.late",
	Title: "a process that does not copy in time: the copy ends, later ones fail at once, and its memory is not " +
		"reached any more",
	Run: copyLate,
}, req.SAS2_4_09)

func copyLate(t *validate.T) {
	s := newStage(t)
	const limit = 20 * time.Millisecond
	for _, limited := range []bool{false, true} {
		s.restart(func(cfg *kproxy.Config) {
			cfg.ClientCopies, cfg.CopyTimeout, cfg.LimitCopies = true, limit, limited
		})
		x := s.speaker()
		queue, _ := x.queue()
		ca := x.made("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})
		pd := x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: ca})
		w := &whole{memory: make([]byte, 100)}
		register := func(x *speaker) error {
			_, err := x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: pd, Memory: w.plain(0)})
			return err
		}
		c := x.copier(func(schema.Copy, []byte) []byte { return nil })
		kit.WantExactly(t, register(x), "PD.RegisterMR of a process that does not copy in time", ci.InvalidPermission)
		c.ended(s, "a copy that took too long")
		for range 3 {
			kit.WantExactly(t, register(x), "PD.RegisterMR after a copy that took too long", ci.InvalidPermission)
		}
		kit.OK(t, x.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "ListHCAs")
		x.c.Close()
		s.gone("the daemon after the end of a process that did not copy in time")
		// Another process of the user loses the right to copies for a time if the limit is for every process.
		y := s.speaker()
		queue, _ = y.queue()
		ca = y.made("HCA.OpenCA", schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})
		pd = y.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: ca})
		c = y.copier(memoryAt(ci.Bytes(w.memory).Addr(), w.memory))
		err := register(y)
		if limited {
			kit.WantExactly(t, err, "PD.RegisterMR of another process of a user without the right to copies",
				ci.InvalidPermission)
			kit.Equal(t, "copies of a user without the right to copies", len(c.use(nil)), 0)
		} else { // the copy is sent; a busy machine may not execute it in time
			s.await("copies of another process", "one", func() string {
				if len(c.use(nil)) == 0 {
					return "none"
				}
				return ""
			})
		}
		y.c.Close()
		s.gone("the daemon after the end of the processes")
	}
}
