package usersuite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Sockets of clients, by the text of package schema: copies of memory, and events. (SAS 2.4.)
var copyings = area()

// Layout of the messages of a socket of copies.
const (
	lenCopy, lenCopyReply = 32, 16
	copyRead, copyWrite   = 1, 2
	maxCopy               = 64 << 10
)

// wantCopy is a message of the daemon as it has to be, and the reply.
type wantCopy struct {
	kind, length uint32
	addr         uint64
	data         []byte // of a write
	reply        func(id uint64) []byte
}

// copied returns the reply to a copy.
func copied(id, failed uint64, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, id)
	return append(binary.LittleEndian.AppendUint64(b, failed), data...)
}

// copySocket requests the socket of copies.
func (x *speaker) copySocket() *os.File {
	t := x.s.t
	x.send(schema.CmdServeCopies, encode(&schema.ServeCopies{}))
	n, files, err := x.c.Recv(x.buf)
	kit.OK(t, err, "the connection")
	h, _, err := native.ParseHeader(x.buf[:n])
	kit.OK(t, err, "the header of the reply")
	kit.Equal(t, "status of ServeCopies", h.Status, ci.Status(0))
	kit.Equal(t, "descriptors of the reply to ServeCopies", len(files), 1)
	t.Cleanup(func() { files[0].Close() })
	return files[0]
}

// copyToken is the number that the client chose for its memory.
const copyToken = 0x8877665544332211

// serves answers messages of the daemon, which must be as wanted, on a goroutine. done returns when all have come.
func serves(t *validate.T, f *os.File, list ...wantCopy) (done func()) {
	errs := make(chan error, 1)
	_ = f.SetReadDeadline(time.Now().Add(t.Remaining()))
	go func() {
		buf := make([]byte, lenCopy+maxCopy+1)
		for i, w := range list {
			n, err := f.Read(buf)
			if err != nil {
				errs <- err
				return
			}
			le := binary.LittleEndian
			id := le.Uint64(buf)
			got := fmt.Sprintf("token %#x, address %#x, length %d, kind %d, data %x", le.Uint64(buf[8:]),
				le.Uint64(buf[16:]), le.Uint32(buf[24:]), le.Uint32(buf[28:]), buf[lenCopy:n])
			want := fmt.Sprintf("token %#x, address %#x, length %d, kind %d, data %x", uint64(copyToken), w.addr,
				w.length, w.kind, w.data)
			if n < lenCopy || got != want {
				errs <- fmt.Errorf("message %d is %.300s, want %.300s", i, got, want)
				return
			}
			if _, err := f.Write(w.reply(id)); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	}()
	return func() { kit.OK(t, <-errs, "the messages of the socket of copies") }
}

// pattern returns n bytes, of which no two neighbors are equal.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + n)
	}
	return b
}

// addrCopies is an address that this process does not have.
const addrCopies = 0x123456789000

// registered has a client register memory that only it can copy, and returns the memory at the driver.
func (x *speaker) registered(own handles, f *os.File, n uint64) ci.Memory {
	t := x.s.t
	done := serves(t, f, wantCopy{copyRead, 1, addrCopies, nil, func(id uint64) []byte { return copied(id, 0, 0) }})
	var m schema.RegionReply
	kit.OK(t, x.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: own.pd, Memory: schema.Memory{Addr: addrCopies,
		Length: n, FileOffset: copyToken, Access: ci.LocalWrite}}, &m),
		"PD.RegisterMR of memory that the client copies")
	done()
	return x.s.probe.lastMemory()
}

func clientCopies(cfg *kproxy.Config) { cfg.ClientCopies = true }

var _ = copyings.Case(validate.Case{
	ID:    "user.copy.layout",
	Title: "copies by the client: every field of the messages, of every length, and failures",
	Run:   copyLayout,
}, req.SAS2_4_16)

func copyLayout(t *validate.T) {
	s := newStage(t)
	s.restart(clientCopies)
	x := s.speaker()
	own := x.basics()
	err := x.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: own.pd, Memory: schema.Memory{Addr: addrCopies, Length: 1,
		FileOffset: copyToken, Access: ci.LocalWrite}}, &schema.RegionReply{})
	kit.WantExactly(t, err, "PD.RegisterMR of memory that nobody copies", ci.InvalidPermission)
	direct := s.direct()
	directOwn := direct.basics()
	f := direct.copySocket()
	kit.WantExactly(t, direct.do(schema.CmdServeCopies, &schema.ServeCopies{}, &schema.None{}), "a second ServeCopies",
		ci.InvalidState)
	const size = 1 << 20
	m := direct.registered(directOwn, f, size)
	kit.Equal(t, "Memory.Len at the driver", m.Len(), uint64(size))
	for _, n := range []int{1, 7, 100, maxCopy - 1, maxCopy, maxCopy + 1, 3*maxCopy - 5} {
		for _, off := range []int{0, 1, size - n} {
			data := pattern(n)
			var reads, writes []wantCopy
			for at := 0; at < n; at += maxCopy {
				part := data[at:min(n, at+maxCopy)]
				addr := uint64(addrCopies + off + at)
				reads = append(reads, wantCopy{copyRead, uint32(len(part)), addr, nil,
					func(id uint64) []byte { return copied(id, 0, part...) }})
				writes = append(writes, wantCopy{copyWrite, uint32(len(part)), addr, part,
					func(id uint64) []byte { return copied(id, 0) }})
			}
			where := fmt.Sprintf("%d bytes at offset %d", n, off)
			done := serves(t, f, reads...)
			got := make([]byte, n)
			k, err := m.ReadAt(got, int64(off))
			done()
			kit.OK(t, err, "Memory.ReadAt of "+where)
			kit.Equal(t, "length of Memory.ReadAt of "+where, k, n)
			kit.SameBytes(t, "Memory.ReadAt of "+where, got, data)
			done = serves(t, f, writes...)
			k, err = m.WriteAt(data, int64(off))
			done()
			kit.OK(t, err, "Memory.WriteAt of "+where)
			kit.Equal(t, "length of Memory.WriteAt of "+where, k, n)
		}
	}
	t.Step("copies that the client cannot make")
	for range 2 {
		done := serves(t, f, wantCopy{copyRead, 3, addrCopies, nil, func(id uint64) []byte { return copied(id, 1) }})
		_, err := m.ReadAt(make([]byte, 3), 0)
		done()
		kit.True(t, err != nil, "Memory.ReadAt that the client refuses", "an error", "success")
		done = serves(t, f, wantCopy{copyWrite, 3, addrCopies, pattern(3),
			func(id uint64) []byte { return copied(id, 1) }})
		_, err = m.WriteAt(pattern(3), 0)
		done()
		kit.True(t, err != nil, "Memory.WriteAt that the client refuses", "an error", "success")
	}
	t.Step("a copy after the failures")
	done := serves(t, f, wantCopy{copyRead, 3, addrCopies, nil,
		func(id uint64) []byte { return copied(id, 0, 1, 2, 3) }})
	got := make([]byte, 3)
	_, err = m.ReadAt(got, 0)
	done()
	kit.OK(t, err, "Memory.ReadAt")
	kit.SameBytes(t, "Memory.ReadAt", got, []byte{1, 2, 3})
}

var _ = copyings.Case(validate.Case{
	ID:    "user.copy.malformed",
	Title: "replies to copies that do not match end the copies of that process only",
	Run:   copyMalformed,
}, req.SAS2_4_06)

func copyMalformed(t *validate.T) {
	s := newStage(t)
	s.restart(clientCopies)
	stays := s.direct()
	staysFile := stays.copySocket()
	still := stays.registered(stays.basics(), staysFile, 100)
	const n = 8
	for _, v := range kit.Variants(t, "", []struct {
		what    string
		isWrite bool
		reply   func(id uint64) []byte
	}{
		{"another id", false, func(id uint64) []byte { return copied(id+1, 0, pattern(n)...) }},
		{"another id", true, func(id uint64) []byte { return copied(id-1, 0) }},
		{"half a reply", false, func(id uint64) []byte { return copied(id, 0)[:8] }},
		{"a reply without its last byte", true, func(id uint64) []byte { return copied(id, 0)[:lenCopyReply-1] }},
		{"status 2", false, func(id uint64) []byte { return copied(id, 2, pattern(n)...) }},
		{"status 2^32", true, func(id uint64) []byte { return copied(id, 1<<32) }},
		{"no data", false, func(id uint64) []byte { return copied(id, 0) }},
		{"a byte less", false, func(id uint64) []byte { return copied(id, 0, pattern(n-1)...) }},
		{"a byte more", false, func(id uint64) []byte { return copied(id, 0, pattern(n+1)...) }},
		{"many bytes more", false, func(id uint64) []byte { return copied(id, 0, pattern(maxCopy)...) }},
		{"data of a write", true, func(id uint64) []byte { return copied(id, 0, 1) }},
	}) {
		x := s.direct()
		f := x.copySocket()
		own := x.basics()
		m := x.registered(own, f, 100)
		w := wantCopy{copyRead, n, addrCopies, nil, v.reply}
		if v.isWrite {
			w.kind, w.data = copyWrite, pattern(n)
		}
		done := serves(t, f, w)
		var err error
		if v.isWrite {
			_, err = m.WriteAt(pattern(n), 0)
		} else {
			_, err = m.ReadAt(make([]byte, n), 0)
		}
		done()
		kit.True(t, err != nil, "a copy whose reply has "+v.what, "an error", "success")
		_, err = f.Read(make([]byte, lenCopy))
		kit.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the socket after a reply with "+v.what,
			"its end", "%v", err)
		_, err = m.ReadAt(make([]byte, n), 0)
		kit.True(t, err != nil, "a copy after a reply with "+v.what, "an error", "success")
		kit.OK(t, x.do(schema.CmdQueryCQ, &schema.CQ{CQ: own.cq}, &schema.QueryCQReply{}), "CQ.Query")
		x.c.Close()
		done = serves(t, staysFile, wantCopy{copyRead, n, addrCopies, nil,
			func(id uint64) []byte { return copied(id, 0, pattern(n)...) }})
		_, err = still.ReadAt(make([]byte, n), 0)
		done()
		kit.OK(t, err, "a copy of another process after a reply with "+v.what)
	}
}

var _ = copyings.Case(validate.Case{
	ID:    "user.copy.library",
	Title: "the library's half of copies: every kind and length, failures, and messages that no daemon sends",
	Run:   copyLibrary,
}, req.SAS2_4_16)

func copyLibrary(t *validate.T) {
	message := func(kind, length uint32, data ...byte) []byte {
		var b []byte
		for _, v := range []uint64{0x1112131415161718, copyToken, addrCopies, uint64(length) | uint64(kind)<<32} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return append(b, data...)
	}
	const id = 0x1112131415161718
	// start runs the library's half. refuse has its copies fail.
	start := func(refuse bool) (daemon *os.File, seen *[]string, ended chan struct{}) {
		d, c, err := socketPair()
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("connections between processes need Linux")
		}
		if err != nil {
			t.Harness("a socket pair: %v", err)
		}
		_ = d.SetReadDeadline(time.Now().Add(t.Remaining()))
		seen, ended = new([]string), make(chan struct{})
		go func() {
			defer close(ended)
			defer c.Close()
			native.ServeCopies(c, func(r *schema.Copy, data []byte) error {
				*seen = append(*seen, fmt.Sprintf("%+v of %d", *r, len(data)))
				if refuse {
					return errors.New("refused")
				}
				if r.Kind == schema.CopyRead {
					copy(data, pattern(len(data)))
				} else {
					*seen = append(*seen, fmt.Sprintf("%x", data))
				}
				return nil
			})
		}()
		t.Cleanup(func() { d.Close() })
		return d, seen, ended
	}
	for _, refuse := range []bool{false, true} {
		d, seen, ended := start(refuse)
		var want []string
		for _, n := range []int{0, 1, 8, 1000, maxCopy} {
			for kind := range 2 {
				kind := uint32(kind + 1)
				var data []byte
				reply := copied(id, 0)
				if kind == copyWrite {
					data = pattern(n)
				} else {
					reply = append(reply, pattern(n)...)
				}
				if refuse {
					reply = copied(id, 1)
				}
				_, err := d.Write(message(kind, uint32(n), data...))
				kit.OK(t, err, "a message to the library")
				buf := make([]byte, lenCopyReply+maxCopy+1)
				k, err := d.Read(buf)
				kit.OK(t, err, "the library's reply")
				where := fmt.Sprintf("the library's reply to a copy of kind %d and %d bytes", kind, n)
				kit.SameBytes(t, where, buf[:k], reply)
				want = append(want, fmt.Sprintf("%+v of %d", schema.Copy{ID: id, Token: copyToken, Addr: addrCopies,
					Length: uint32(n), Kind: schema.CopyKind(kind)}, n))
				if kind == copyWrite && !refuse {
					want = append(want, fmt.Sprintf("%x", data))
				}
			}
		}
		d.Close()
		select {
		case <-ended:
		case <-t.Context().Done():
			t.Failf("the library after the end of the socket", "its end", "none")
		}
		kit.Equal(t, "copies of the library", fmt.Sprint(*seen), fmt.Sprint(want))
	}
	t.Step("messages that no daemon sends")
	for what, m := range map[string][]byte{
		"half of it":              message(copyRead, 8)[:16],
		"a byte less":             message(copyRead, 8)[:lenCopy-1],
		"kind 0":                  message(0, 8),
		"kind 3":                  message(3, 8),
		"data of a read":          message(copyRead, 8, 1),
		"a read beyond the limit": message(copyRead, maxCopy+1),
		"a write without data":    message(copyWrite, 8),
		"a write of a byte less":  message(copyWrite, 8, pattern(7)...),
		"a write of a byte more":  message(copyWrite, 8, pattern(9)...),
		"a write beyond the limit": message(copyWrite, maxCopy+1,
			pattern(maxCopy+1)...),
		"a write of less than it says": message(copyWrite, maxCopy+1, pattern(maxCopy)...),
	} {
		d, seen, ended := start(false)
		_, err := d.Write(m)
		kit.OK(t, err, "a message to the library")
		_, err = d.Read(make([]byte, lenCopyReply))
		kit.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the reply to a message with "+what,
			"the end of the socket", "%v", err)
		select {
		case <-ended:
		case <-t.Context().Done():
			t.Failf("the library after a message with "+what, "its end", "none")
		}
		kit.Equal(t, "copies of a message with "+what, len(*seen), 0)
	}
}

// eventQueue creates an event queue, and returns it with the descriptor that its events are read from.
func (x *speaker) eventQueue() (schema.Handle, *os.File) {
	t := x.s.t
	x.send(schema.CmdCreateEventQueue, encode(&schema.CreateEventQueue{}))
	n, files, err := x.c.Recv(x.buf)
	kit.OK(t, err, "the connection")
	_, body, err := native.ParseHeader(x.buf[:n])
	kit.OK(t, err, "the header of the reply")
	var r schema.Created
	kit.OK(t, decode(body, &r), "the reply to CreateEventQueue")
	kit.Equal(t, "descriptors of the reply to CreateEventQueue", len(files), 1)
	t.Cleanup(func() { files[0].Close() })
	_ = files[0].SetReadDeadline(time.Now().Add(t.Remaining()))
	return r.Handle, files[0]
}

var _ = copyings.Case(validate.Case{
	ID:    "user.event.layout",
	Title: "every field of events, in the documented layout: completions, events of each kind of object, and lost ones",
	Run:   eventLayout,
}, req.SAS2_4_11)

func eventLayout(t *validate.T) {
	const waiting = 5
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.Events = waiting })
	x := s.direct()
	queue, f := x.eventQueue()
	async, g := x.eventQueue()
	var ca, pd schema.Created
	var cq schema.CreateCQReply
	const token = 0x2122232425262728
	kit.OK(t, x.do(schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: async}, &ca), "HCA.OpenCA")
	kit.OK(t, x.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: ca.Handle}, &pd), "CA.AllocatePD")
	kit.OK(t, x.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: pd.Handle, Size: 4, Completions: queue, Async: async,
		Token: token}, &cq), "PD.CreateCQ")
	made := s.probe.lastCQ()
	next := func(f *os.File, where string, token uint64, kind, typ uint32, vendor uint64, port uint32) {
		b := make([]byte, 64)
		n, err := f.Read(b)
		kit.OK(t, err, "the descriptor of "+where)
		le := binary.LittleEndian
		want := le.AppendUint64(nil, token)
		want = le.AppendUint32(le.AppendUint32(want, kind), typ)
		want = le.AppendUint64(want, vendor)
		want = le.AppendUint32(le.AppendUint32(want, port), 0)
		kit.SameBytes(t, where, b[:n], want)
	}
	for range 3 {
		made.OnCompletion(made.Context)
		next(f, "a completion event", token, 1, 0, 0, 0)
		made.OnEvent(ci.Event{Type: ci.EventCQError, Vendor: 0x3132333435363738, Port: 0xff})
		next(g, "an event of a CQ", token, 2, uint32(ci.EventCQError), 0x3132333435363738, 0xff)
	}
	for range 2 { // once more, when all was delivered
		unread(t, made, f)
		next(f, "a completion event after lost ones", token, 1, 0, 0, 0)
	}
}

// unread raises completion events that the process does not read, then reads them and the number of lost ones, and
// raises one more.
func unread(t *validate.T, made ci.CQCreate, f *os.File) {
	t.Step("events that the process does not read")
	const many = 20000
	for range many {
		made.OnCompletion(made.Context)
	}
	read, lost := uint64(0), uint64(0)
	for lost == 0 {
		b := make([]byte, 64)
		n, err := f.Read(b)
		kit.OK(t, err, "the descriptor of the events")
		e, err := schema.ParseEvent(b[:n])
		kit.OK(t, err, "an event")
		if e.Kind == schema.EventCompletion {
			read++
			kit.True(t, read <= many, "events that were read", fmt.Sprintf("at most %d", many), "%d", read)
			continue
		}
		kit.Equal(t, "the token of the event of lost ones", e.Token, 0)
		kit.Equal(t, "the kind of the event of lost ones", e.Kind, schema.EventOverflow)
		lost = e.Vendor
	}
	kit.Equal(t, "events that were read, and events that were lost", read+lost, many)
	made.OnCompletion(made.Context)
}
