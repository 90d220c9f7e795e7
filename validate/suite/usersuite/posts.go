package usersuite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The messages of the data path, by the text of package native. (SAS 2.1, SAS 2.4.)
var posts = area()

// Sizes of the parts of a post.
const (
	lenPost, lenRecv, lenSend, lenBind, lenSGE = 16, 16, 88, 48, 16
	extBind, extLSO                            = 1, 2
)

// queues are the objects of a client that posts.
type queues struct {
	handles
	qp, ud, srq schema.Handle
	avs         [2]schema.Handle // with service levels 1 and 2
	mr          schema.RegionReply
	mw          schema.WindowReply
	memory      []byte // of mr
}

// Tokens of the QPs.
const tokenRC, tokenUD = 0x1122334455667788, 0x99aabbccddeeff00

// needsUD skips the case if the adapter has no UD QPs, whose requests have the most fields.
func needsUD(t *validate.T) {
	if !t.Claims().Has(ci.CapUD) {
		t.Skip("not claimed: UD")
	}
}

// queues creates what posts need. Without the adapter's claim there is no SRQ, no MW or no AV.
func (x *speaker) queues(t *validate.T) (q queues) {
	q.handles = x.basics()
	made := func(cmd schema.Command, r any) schema.Handle {
		var created schema.Created
		kit.OK(t, x.do(cmd, r, &created), cmd.Verb())
		return created.Handle
	}
	qp := func(typ ci.QPType, token uint64) schema.Handle {
		var r schema.CreateQPReply
		kit.OK(t, x.do(schema.CmdCreateQP, &schema.CreateQP{PD: q.pd, SendCQ: q.cq, RecvCQ: q.cq, Type: typ,
			Token: token, Caps: schema.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}}, &r), "PD.CreateQP")
		return r.Handle
	}
	q.qp, q.ud = qp(ci.RC, tokenRC), qp(ci.UD, tokenUD)
	if t.Claims().Has(ci.CapSRQ) {
		q.srq = made(schema.CmdCreateSRQ, &schema.CreateSRQ{PD: q.pd, Attr: schema.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	}
	if t.Claims().Has(ci.CapMW1) {
		q.memory = make([]byte, 64)
		kit.OK(t, x.do(schema.CmdCreateMW, &schema.CreateMW{PD: q.pd, Type: uint32(ci.MWType1)}, &q.mw), "PD.CreateMW")
		kit.OK(t, x.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: q.pd, Memory: schema.Memory{
			Addr: ci.Bytes(q.memory).Addr(), Length: uint64(len(q.memory)), Access: ci.LocalWrite}}, &q.mr),
			"PD.RegisterMR")
	}
	if t.Claims().Has(ci.CapAV) {
		to := x.s.address()
		for i := range q.avs {
			to.SL = ci.SL(i + 1)
			q.avs[i] = made(schema.CmdCreateAV, &schema.CreateAV{PD: q.pd, Attr: schema.NewAVAttr(&to)})
		}
	}
	return q
}

// address returns the address of the adapter's port itself.
func (s *stage) address() ci.AVAttr {
	ca := s.app().open()
	return ca.AddressOf(ca)
}

// postBody returns the body of a post with a number of work requests.
func postBody(queue schema.Handle, n int, parts ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(queue))
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func appendSGL(b []byte, sgl []ci.SGE) []byte {
	for _, e := range sgl {
		b = binary.LittleEndian.AppendUint64(b, e.Addr)
		b = binary.LittleEndian.AppendUint32(b, e.Length)
		b = binary.LittleEndian.AppendUint32(b, uint32(e.LKey))
	}
	return b
}

// recvPart returns a receive as it is in a post.
func recvPart(w ci.RecvWR) []byte {
	b := binary.LittleEndian.AppendUint64(nil, w.ID)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.SGL)))
	return appendSGL(b, w.SGL)
}

func appendFilled(b, p []byte) []byte {
	b = append(b, p...)
	return append(b, make([]byte, padded(len(p), 8)-len(p))...)
}

// sendPart returns a send as it is in a post.
func sendPart(w ci.SendWR, h schema.SendHandles) []byte {
	b := make([]byte, lenSend)
	le := binary.LittleEndian
	le.PutUint64(b, w.ID)
	le.PutUint64(b[8:], w.Remote.Addr)
	le.PutUint64(b[16:], w.Atomic.Compare)
	le.PutUint64(b[24:], w.Atomic.Swap)
	le.PutUint64(b[32:], uint64(h.AV))
	for i, x := range []uint32{uint32(w.Remote.RKey), w.Imm, uint32(w.Inv), uint32(w.Flags), uint32(w.To.QPN),
		uint32(w.To.QKey), uint32(w.To.EECN)} {
		le.PutUint32(b[40+4*i:], x)
	}
	le.PutUint16(b[68:], w.To.PKeyIndex)
	b[70] = byte(w.Op)
	le.PutUint32(b[72:], uint32(len(w.SGL)))
	le.PutUint32(b[76:], uint32(len(w.Inline)))
	if w.Inline != nil {
		b[80] = 1
	}
	b = appendSGL(b, w.SGL)
	switch {
	case w.Ext == nil:
	case w.Op == ci.OpBindMW:
		b[71] = extBind
		for _, x := range []uint64{uint64(h.MW), uint64(h.MR), w.Ext.Bind.Addr, w.Ext.Bind.Length,
			uint64(w.Ext.Bind.Key) | uint64(w.Ext.Bind.Access)<<32, 0} {
			b = le.AppendUint64(b, x)
		}
	case w.Op == ci.OpLSO:
		b[71] = extLSO
		b = le.AppendUint32(b, uint32(w.Ext.LSO.MSS))
		b = le.AppendUint32(b, uint32(len(w.Ext.LSO.Header)))
		b = appendFilled(b, w.Ext.LSO.Header)
	}
	return appendFilled(b, w.Inline)
}

// describeRecv describes a receive.
func describeRecv(w ci.RecvWR) string {
	return fmt.Sprintf("ID %#x, %v", w.ID, append([]ci.SGE{}, w.SGL...))
}

// describeSend describes a send, but for its objects.
func describeSend(w ci.SendWR, objects string) string {
	text := fmt.Sprintf("ID %#x, op %d, flags %#x, %+v, %+v, imm %#x, inv %#x, to %#x %#x %#x %#x, %v", w.ID, w.Op,
		uint32(w.Flags), w.Remote, w.Atomic, w.Imm, w.Inv, uint32(w.To.QPN), uint32(w.To.QKey), uint32(w.To.EECN),
		w.To.PKeyIndex, append([]ci.SGE{}, w.SGL...))
	if w.Inline != nil {
		text += fmt.Sprintf(", inline %x", w.Inline)
	}
	if w.Ext != nil {
		b := w.Ext.Bind
		text += fmt.Sprintf(", MSS %d, header %x, bind %#x %d %#x %#x", w.Ext.LSO.MSS, w.Ext.LSO.Header, b.Addr,
			b.Length, uint32(b.Key), uint32(b.Access))
	}
	return text + objects
}

// objectsOf describes the objects of a send: an AV by its service level, the others by their keys.
func objectsOf(w ci.SendWR) (text string) {
	if w.To.AV != nil {
		a, _, err := w.To.AV.Query()
		text += fmt.Sprintf(", SL %d %v", a.SL, err)
	}
	if w.Ext != nil && w.Ext.Bind.MW != nil {
		text += fmt.Sprintf(", MW %#x", uint32(w.Ext.Bind.MW.Key()))
	}
	if w.Ext != nil && w.Ext.Bind.MR != nil {
		text += fmt.Sprintf(", MR %#x", uint32(w.Ext.Bind.MR.Region().LKey))
	}
	return text
}

// recorded is a data path that records the requests that it receives, and accepts the first ones of each post.
type recorded struct {
	mu   sync.Mutex
	list []string
	most int // of a post
}

// want expects that exactly these requests were received, and forgets them.
func (r *recorded) want(t *validate.T, where string, want ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kit.Equal(t, "work requests at the driver, "+where, len(r.list), len(want))
	for i := range want {
		kit.Equal(t, fmt.Sprintf("work request %d at the driver, %s", i, where), r.list[i], want[i])
	}
	r.list = nil
}

// accept changes the number of requests that are accepted of each post.
func (r *recorded) accept(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = n
}

// post records n requests.
func (r *recorded) post(n int, describe func(int) string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		if i == r.most {
			return i, &ci.Error{Verb: "QP.Post", Status: ci.InvalidMaxSGE, Detail: "a detail",
				Err: errors.New("a cause")}
		}
		r.list = append(r.list, describe(i))
	}
	return n, nil
}

// record replaces the data path of the adapter, but for polls.
func (s *stage) record() *recorded {
	r := &recorded{most: schema.MaxBatch}
	s.probe.path.Store(&path{
		send: func(wrs []ci.SendWR) (int, error) {
			return r.post(len(wrs), func(i int) string { return describeSend(wrs[i], objectsOf(wrs[i])) })
		},
		recv: func(wrs []ci.RecvWR) (int, error) {
			return r.post(len(wrs), func(i int) string { return describeRecv(wrs[i]) })
		},
	})
	s.t.Cleanup(func() { s.probe.path.Store(nil) })
	return r
}

// sample is a work request as a client writes it.
type sample struct {
	what    string
	queue   schema.Handle
	w       ci.SendWR
	h       schema.SendHandles
	objects string // as objectsOf
}

// sends returns sends that differ from each other in every field.
func (q *queues) sends() []sample {
	full := ci.SendWR{ID: 0x0102030405060708, Op: ci.OpWrite, Flags: 0x11223344, Imm: 0x55667788, Inv: 0x99aabbcc,
		Remote: ci.Remote{Addr: 0x1112131415161718, RKey: 0x21222324},
		Atomic: ci.Atomic{Compare: 0x3132333435363738, Swap: 0x4142434445464748},
		To:     ci.Dest{QPN: 0x515253, QKey: 0x61626364, EECN: 0x717273, PKeyIndex: 0x8182},
		SGL: []ci.SGE{{Addr: 0x9192939495969798, Length: 0xa1a2a3a4, LKey: 0xb1b2b3b4},
			{Addr: 1, Length: 2, LKey: 3}}}
	list := []sample{{what: "every field", queue: q.qp, w: full}, {what: "no field", queue: q.qp}}
	for n := range 18 {
		w := ci.SendWR{ID: uint64(n), Inline: make([]byte, n)}
		for i := range w.Inline {
			w.Inline[i] = byte(0xc0 + i)
		}
		list = append(list, sample{what: fmt.Sprintf("%d inline bytes", n), queue: q.qp, w: w})
	}
	both := full
	both.Inline = []byte{1, 2, 3}
	list = append(list, sample{what: "elements and inline bytes", queue: q.qp, w: both})
	for i, av := range q.avs {
		if av != 0 {
			w := ci.SendWR{ID: uint64(i), To: ci.Dest{QPN: 7, QKey: 8}}
			list = append(list, sample{"an AV", q.ud, w, schema.SendHandles{AV: av},
				fmt.Sprintf(", SL %d <nil>", i+1)})
		}
	}
	for n := range 18 {
		header := make([]byte, n)
		for i := range header {
			header[i] = byte(0xd0 + i)
		}
		w := ci.SendWR{ID: uint64(n), Op: ci.OpLSO, SGL: full.SGL[:1], Ext: &ci.SendExt{LSO: ci.LSO{MSS: 0x01020304 + n,
			Header: header}}, Inline: []byte{byte(n)}}
		list = append(list, sample{what: fmt.Sprintf("a large send with %d bytes of header", n), queue: q.ud, w: w})
	}
	bind := ci.SendWR{ID: 9, Op: ci.OpBindMW, SGL: full.SGL, Ext: &ci.SendExt{Bind: ci.MWBind{Addr: 0xe1e2e3e4e5e6e7e8,
		Length: 0xf1f2f3f4f5f6f7f8, Key: 0x01121314, Access: 0x21222324}}}
	list = append(list, sample{what: "a bind of no window", queue: q.qp, w: bind})
	if q.mw.Handle != 0 {
		mw, mr := fmt.Sprintf(", MW %#x", uint32(q.mw.Key)), fmt.Sprintf(", MR %#x", uint32(q.mr.Region.LKey))
		list = append(list, sample{"a bind", q.qp, bind, schema.SendHandles{MW: q.mw.Handle, MR: q.mr.Handle}, mw + mr},
			sample{"a bind without a region", q.qp, bind, schema.SendHandles{MW: q.mw.Handle}, mw},
			sample{"a bind without a window", q.qp, bind, schema.SendHandles{MR: q.mr.Handle}, mr})
	}
	return list
}

// recvs returns receives with different numbers of elements.
func recvs() (list []ci.RecvWR) {
	for n := range 6 {
		w := ci.RecvWR{ID: 0x0102030405060708 * uint64(n)}
		for i := range n {
			w.SGL = append(w.SGL, ci.SGE{Addr: 0x1112131415161718 * uint64(i+1), Length: 0x21222324 + uint32(i),
				LKey: 0x31323334 + ci.Key(n)})
		}
		list = append(list, w)
	}
	return list
}

// posted expects the reply to a post that was accepted as a whole.
func (x *speaker) posted(cmd schema.Command, where string, n int, body []byte) {
	t := x.s.t
	h, reply, err := x.exchange(cmd, body)
	kit.OK(t, err, "the connection after "+where)
	kit.Equal(t, "status of "+where, h.Status, ci.Status(0))
	kit.SameBytes(t, "the reply to "+where, reply, binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

var _ = posts.Case(validate.Case{
	ID:    "user.post.fields",
	Title: "every field of the work requests of a process, in the documented layout, reaches the driver",
	Run:   postFields,
}, req.SAS2_4_16)

func postFields(t *validate.T) {
	needsUD(t)
	s := newStage(t)
	x := s.speaker()
	q := x.queues(t)
	r := s.record()
	byQueue := map[schema.Handle][]sample{}
	for _, v := range kit.Variants(t, "", q.sends()) {
		x.posted(schema.CmdPostSend, "a post of "+v.what, 1, postBody(v.queue, 1, sendPart(v.w, v.h)))
		r.want(t, v.what, describeSend(v.w, v.objects))
		byQueue[v.queue] = append(byQueue[v.queue], v)
	}
	t.Step("lists")
	for queue, list := range byQueue {
		var parts [][]byte
		var want []string
		for _, v := range list {
			parts, want = append(parts, sendPart(v.w, v.h)), append(want, describeSend(v.w, v.objects))
		}
		x.posted(schema.CmdPostSend, "a list of sends", len(list), postBody(queue, len(list), parts...))
		r.want(t, "a list of sends", want...)
	}
	for cmd, queue := range map[schema.Command]schema.Handle{schema.CmdPostRecv: q.qp, schema.CmdPostSRQRecv: q.srq} {
		if queue == 0 {
			continue
		}
		x.posted(cmd, "an empty list", 0, postBody(queue, 0))
		var parts [][]byte
		var want []string
		for _, w := range recvs() {
			parts, want = append(parts, recvPart(w)), append(want, describeRecv(w))
			x.posted(cmd, "a receive", 1, postBody(queue, 1, recvPart(w)))
			r.want(t, "a receive", describeRecv(w))
		}
		x.posted(cmd, "a list of receives", len(parts), postBody(queue, len(parts), parts...))
		r.want(t, "a list of receives", want...)
	}
	x.posted(schema.CmdPostSend, "an empty list of sends", 0, postBody(q.qp, 0))
}

var _ = posts.Case(validate.Case{
	ID:    "user.post.library",
	Title: "every field of the work requests of an application reaches the driver",
	Run:   postLibrary,
}, req.SAS2_4_16)

func postLibrary(t *validate.T) {
	needsUD(t)
	s := newStage(t)
	ca := s.with().open()
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	rc, ud := ca.QP(pd, cq, cq), ca.QP(pd, cq, cq, kit.Type(ci.UD))
	q := queues{qp: 1, ud: 2} // handles of the samples, which tell which QP is meant
	if t.Claims().Has(ci.CapAV) {
		q.avs = [2]schema.Handle{3, 4}
	}
	avs := map[schema.Handle]ci.AV{}
	for i, h := range q.avs {
		if h != 0 {
			to := ca.AddressOf(ca)
			to.SL = ci.SL(i + 1)
			av, err := pd.CreateAV(to)
			kit.OK(t, err, "PD.CreateAV")
			avs[h] = kit.Own(t, av, "AV")
		}
	}
	var mw ci.MW
	buf := ca.Buf(pd, 64, ci.LocalWrite)
	if t.Claims().Has(ci.CapMW1) {
		mw = ca.MW(pd, ci.MWType1)
		q.mw, q.mr = schema.WindowReply{Handle: 5, Key: mw.Key()}, schema.RegionReply{Handle: 6,
			Region: schema.Region{LKey: buf.LKey}}
	}
	r := s.record()
	lists := map[*kit.QP][]ci.SendWR{}
	want := map[*kit.QP][]string{}
	for _, v := range kit.Variants(t, "", q.sends()) {
		qp := map[schema.Handle]*kit.QP{1: rc, 2: ud}[v.queue]
		w := v.w
		if v.h.AV != 0 {
			w.To.AV = avs[v.h.AV]
		}
		if w.Ext != nil {
			w.Ext = new(*w.Ext)
		}
		if v.h.MW != 0 {
			w.Ext.Bind.MW = mw
		}
		if v.h.MR != 0 {
			w.Ext.Bind.MR = buf.MR
		}
		n, err := qp.PostSend([]ci.SendWR{w})
		kit.WantTaken(t, "QP.PostSend of "+v.what, n, err, 1)
		r.want(t, v.what, describeSend(v.w, v.objects))
		lists[qp], want[qp] = append(lists[qp], w), append(want[qp], describeSend(v.w, v.objects))
	}
	t.Step("lists")
	for qp, list := range lists {
		n, err := qp.PostSend(list)
		kit.WantTaken(t, "QP.PostSend of a list", n, err, len(list))
		r.want(t, "a list of sends", want[qp]...)
	}
	var texts []string
	for _, w := range recvs() {
		texts = append(texts, describeRecv(w))
	}
	n, err := rc.PostRecv(recvs())
	kit.WantTaken(t, "QP.PostRecv of a list", n, err, len(texts))
	r.want(t, "a list of receives", texts...)
	if t.Claims().Has(ci.CapSRQ) {
		srq, _ := ca.SRQ(pd, 8, 1)
		n, err := srq.PostRecv(recvs())
		kit.WantTaken(t, "SRQ.PostRecv of a list", n, err, len(texts))
		r.want(t, "a list of receives", texts...)
	}
}

var _ = posts.Case(validate.Case{
	ID:    "user.post.partly",
	Title: "of a list that the driver accepts in part, the process learns how much, and the status of the next request",
	Run:   postPartly,
}, req.SAS2_1_24)

func postPartly(t *validate.T) {
	needsUD(t)
	s := newStage(t)
	x := s.speaker()
	q := x.queues(t)
	r := s.record()
	one := sendPart(ci.SendWR{}, schema.SendHandles{})
	recv := recvPart(ci.RecvWR{})
	for cmd, body := range map[schema.Command][]byte{
		schema.CmdPostSend:    postBody(q.qp, 4, one, one, one, one),
		schema.CmdPostRecv:    postBody(q.qp, 4, recv, recv, recv, recv),
		schema.CmdPostSRQRecv: postBody(q.srq, 4, recv, recv, recv, recv),
	} {
		if cmd == schema.CmdPostSRQRecv && q.srq == 0 {
			continue
		}
		for most := range 4 {
			r.accept(most)
			h, reply, err := x.exchange(cmd, body)
			where := fmt.Sprintf("%v of 4 requests, of which the driver accepts %d", cmd, most)
			x.want(where, q.handles, h, err, ci.InvalidMaxSGE)
			var e schema.ErrorReply
			if err := decode(reply, &e); err != nil {
				t.Failf("the reply to "+where, "schema.ErrorReply", "%v", err)
			}
			kit.Equal(t, "the reply to "+where, fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", schema.ErrorReply{
				Accepted: uint32(most), Verb: "QP.Post", Detail: "a detail: a cause", User: schema.UserBufferReply{
					Out: e.User.Out}}))
		}
	}
	t.Step("an AV that the process does not have, in the third request")
	r.accept(schema.MaxBatch)
	wrong := sendPart(ci.SendWR{}, schema.SendHandles{AV: schema.MakeHandle(schema.KindAV, 1, 5000)})
	h, reply, err := x.exchange(schema.CmdPostSend, postBody(q.ud, 4, one, one, wrong, one))
	x.want("a post with an AV that the process does not have", q.handles, h, err, ci.InvalidAVHandle)
	kit.Equal(t, "accepted requests", binary.LittleEndian.Uint32(reply), 2)
}

// wrongPost is the body of a post with a fault.
type wrongPost struct {
	what string
	body []byte
}

// changed returns a body with another byte.
func changed(b []byte, at int, v byte) []byte {
	b = append([]byte(nil), b...)
	b[at] = v
	return b
}

// wrongLists returns posts of two equal work requests that do not match the layout.
func wrongLists(queue schema.Handle, one []byte) (list []wrongPost) {
	whole := postBody(queue, 2, one, one)
	for n := 0; n < len(whole); n += 4 {
		list = append(list, wrongPost{fmt.Sprintf("the first %d bytes of %d", n, len(whole)), whole[:n]})
	}
	list = append(list, wrongPost{"one byte less", whole[:len(whole)-1]},
		wrongPost{"one byte more", append(whole[:len(whole):len(whole)], 0)},
		wrongPost{"8 bytes more", append(whole[:len(whole):len(whole)], make([]byte, 8)...)},
		wrongPost{"one request more than counted", postBody(queue, 1, one, one)},
		wrongPost{"one request less than counted", postBody(queue, 3, one, one)},
		wrongPost{"a count of 2^32-1", postBody(queue, 1<<32-1, one, one)},
		wrongPost{"requests beyond none", postBody(queue, 0, one)})
	for at := 12; at < lenPost; at++ {
		list = append(list, wrongPost{fmt.Sprintf("byte %d, which must be 0", at), changed(whole, at, 1)})
	}
	return list
}

// wrongRecvs returns posts of receives that do not match the layout.
func wrongRecvs(queue schema.Handle) []wrongPost {
	w := ci.RecvWR{ID: 1, SGL: make([]ci.SGE, 2)}
	list := wrongLists(queue, recvPart(w))
	whole := postBody(queue, 2, recvPart(w), recvPart(w))
	for i := range 2 {
		for at := range 4 {
			list = append(list, wrongPost{fmt.Sprintf("byte %d of request %d, which must be 0", 12+at, i),
				changed(whole, lenPost+i*len(recvPart(w))+12+at, 0x80)})
		}
	}
	one := recvPart(ci.RecvWR{})
	var batch [][]byte
	for range schema.MaxBatch + 1 {
		batch = append(batch, one)
	}
	return append(list,
		wrongPost{"more than MaxBatch requests", postBody(queue, len(batch), batch...)},
		wrongPost{"2 more than MaxSGE elements", postBody(queue, 1, recvPart(ci.RecvWR{
			SGL: make([]ci.SGE, schema.MaxSGE+2)}))},
		wrongPost{"a count of elements without them", postBody(queue, 1, changed(one, 8, 1))},
		wrongPost{"a count of 2^31 elements", postBody(queue, 1, changed(one, 11, 0x80))})
}

// wrongSends returns posts of sends that do not match the layout.
func wrongSends(q *queues) []wrongPost {
	elements := ci.SendWR{ID: 1, SGL: make([]ci.SGE, 1), Inline: []byte{1, 2, 3, 4, 5}}
	list := wrongLists(q.qp, sendPart(elements, schema.SendHandles{}))
	add := func(what string, one []byte) {
		list = append(list, wrongPost{what, postBody(q.qp, 1, one)})
		good := sendPart(ci.SendWR{}, schema.SendHandles{})
		list = append(list, wrongPost{what + ", in the second request", postBody(q.qp, 2, good, one)})
	}
	one := sendPart(ci.SendWR{}, schema.SendHandles{})
	inline := sendPart(elements, schema.SendHandles{})
	add("2 as the mark of inline data", changed(one, 80, 2))
	add("255 as the mark of inline data", changed(inline, 80, 255))
	add("inline bytes without the mark", changed(inline, 80, 0))
	for at := 81; at < lenSend; at++ {
		add(fmt.Sprintf("byte %d, which must be 0", at), changed(one, at, 1))
	}
	for at := range 3 {
		add("padding after inline bytes", changed(inline, len(inline)-1-at, 1))
	}
	add("a count of inline bytes without them", changed(changed(one, 80, 1), 76, 1))
	add("a count of 2^31 inline bytes", changed(changed(one, 80, 1), 79, 0x80))
	add("a count of elements without them", changed(one, 72, 1))
	add("a count of 2^31 elements", changed(one, 75, 0x80))
	add("2 more than MaxSGE elements", sendPart(ci.SendWR{SGL: make([]ci.SGE, schema.MaxSGE+2)}, schema.SendHandles{}))
	for _, k := range []schema.Handle{q.pd, q.cq, q.qp, schema.MakeHandle(schema.NumKinds, 1, 0), 1} {
		add("an AV of another kind", sendPart(ci.SendWR{}, schema.SendHandles{AV: k}))
	}
	add("an extension of kind 3", changed(one, 71, 3))
	bind := ci.SendWR{Op: ci.OpBindMW, Ext: new(ci.SendExt)}
	for _, k := range []schema.Handle{q.pd, q.cq, q.qp, schema.MakeHandle(schema.NumKinds, 1, 0), 1} {
		add("a window of another kind", sendPart(bind, schema.SendHandles{MW: k}))
		add("a region of another kind", sendPart(bind, schema.SendHandles{MR: k}))
	}
	part := sendPart(bind, schema.SendHandles{})
	for at := range 8 {
		add("the end of a bind, which must be 0", changed(part, lenSend+lenBind-8+at, 1))
	}
	for op := range ci.OpBindMW + 2 {
		if op != ci.OpBindMW {
			add("the extension of a bind at another operation", changed(part, 70, byte(op)))
		}
	}
	add("half of a bind", part[:lenSend+lenBind/2])
	add("a bind without its last 8 bytes", part[:len(part)-8])
	large := ci.SendWR{Op: ci.OpLSO, Ext: &ci.SendExt{LSO: ci.LSO{MSS: 1, Header: make([]byte, 5)}}}
	part = sendPart(large, schema.SendHandles{})
	for op := range ci.OpBindMW + 2 {
		if op != ci.OpLSO {
			add("the extension of a large send at another operation", changed(part, 70, byte(op)))
		}
	}
	for at := range 3 {
		add("padding after a header", changed(part, len(part)-1-at, 1))
	}
	add("a large send without its header", part[:lenSend+8])
	add("half of a large send", part[:lenSend+4])
	add("a large send without its part", part[:lenSend])
	large.Ext.LSO.Header = make([]byte, schema.MaxHeader+1)
	add("a header beyond MaxHeader", sendPart(large, schema.SendHandles{}))
	return list
}

var _ = posts.Case(validate.Case{
	ID:    "user.post.malformed",
	Title: "posts and polls that do not match the documented layout are refused as a whole",
	Run:   postMalformed,
}, req.SAS2_4_06)

func postMalformed(t *validate.T) {
	needsUD(t)
	s := newStage(t)
	x := s.speaker()
	q := x.queues(t)
	r := s.record()
	try := func(cmd schema.Command, list []wrongPost) {
		for _, v := range list {
			h, _, err := x.exchange(cmd, v.body)
			where := fmt.Sprintf("%q with %s", cmd, v.what)
			x.want(where, q.handles, h, err, ci.InvalidParameter)
			r.want(t, where)
		}
	}
	t.Step("receives")
	try(schema.CmdPostRecv, wrongRecvs(q.qp))
	if q.srq != 0 {
		try(schema.CmdPostSRQRecv, wrongRecvs(q.srq))
	}
	t.Step("sends")
	try(schema.CmdPostSend, wrongSends(&q))
	t.Step("polls")
	poll := postBody(q.cq, 1)
	list := []wrongPost{{"no body", nil}, {"8 bytes less", poll[:8]}, {"one byte less", poll[:15]},
		{"8 bytes more", postBody(q.cq, 1, make([]byte, 8))},
		{"a count beyond MaxBatch", postBody(q.cq, schema.MaxBatch+1)},
		{"a count of 2^32-1", postBody(q.cq, 1<<32-1)}}
	for at := 12; at < lenPost; at++ {
		list = append(list, wrongPost{fmt.Sprintf("byte %d, which must be 0", at), changed(poll, at, 1)})
	}
	try(schema.CmdPoll, list)
}

var _ = posts.Case(validate.Case{
	ID:    "user.post.limits",
	Title: "posts as long as the limits of the protocol permit",
	Run:   postLimits,
}, req.SAS2_1_24)

func postLimits(t *validate.T) {
	needsUD(t)
	s := newStage(t)
	x := s.speaker()
	q := x.queues(t)
	r := s.record()
	recv := func(sizes ...int) (body []byte, want []string) {
		var parts [][]byte
		for i, n := range sizes {
			w := ci.RecvWR{ID: uint64(i), SGL: make([]ci.SGE, n)}
			for k := range w.SGL {
				w.SGL[k] = ci.SGE{Addr: uint64(i), Length: uint32(k)}
			}
			parts, want = append(parts, recvPart(w)), append(want, describeRecv(w))
		}
		return postBody(q.qp, len(sizes), parts...), want
	}
	body, want := recv(make([]int, schema.MaxBatch)...)
	x.posted(schema.CmdPostRecv, "MaxBatch receives", schema.MaxBatch, body)
	r.want(t, "MaxBatch receives", want...)
	body, want = recv(schema.MaxSGE + 1) // which the driver refuses, if it is the adapter's
	x.posted(schema.CmdPostRecv, "one element more than MaxSGE", 1, body)
	r.want(t, "one element more than MaxSGE", want...)
	const all = (schema.MaxMessage - native.HeaderSize - lenPost) / lenSGE // elements, and fixed parts of receives
	body, want = recv(schema.MaxSGE, schema.MaxSGE, schema.MaxSGE, all-3*schema.MaxSGE-4)
	kit.Equal(t, "length of the longest message", len(body)+native.HeaderSize, schema.MaxMessage)
	x.posted(schema.CmdPostRecv, "as many elements as a message has room for", 4, body)
	r.want(t, "as many elements as a message has room for", want...)
	t.Step("sends")
	long := ci.SendWR{Inline: make([]byte, schema.MaxInline)}
	long.Inline[schema.MaxInline-1] = 1
	x.posted(schema.CmdPostSend, "MaxInline bytes", 1, postBody(q.qp, 1, sendPart(long, schema.SendHandles{})))
	r.want(t, "MaxInline bytes", describeSend(long, ""))
	header := ci.SendWR{Op: ci.OpLSO, Ext: &ci.SendExt{LSO: ci.LSO{MSS: 1, Header: make([]byte, schema.MaxHeader)}}}
	x.posted(schema.CmdPostSend, "a header of MaxHeader bytes", 1,
		postBody(q.ud, 1, sendPart(header, schema.SendHandles{})))
	r.want(t, "a header of MaxHeader bytes", describeSend(header, ""))
	x.posted(schema.CmdPostSend, "one element more than MaxSGE", 1,
		postBody(q.qp, 1, sendPart(ci.SendWR{SGL: make([]ci.SGE, schema.MaxSGE+1)}, schema.SendHandles{})))
	r.want(t, "one element more than MaxSGE", describeSend(ci.SendWR{SGL: make([]ci.SGE, schema.MaxSGE+1)}, ""))
	t.Step("a message that is longer than MaxMessage")
	m := append(native.Start(nil), body...)
	kit.OK(t, native.Finish(m, native.Header{Command: schema.CmdPostRecv, ID: 1}), "native.Finish")
	m = append(m, make([]byte, 8)...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	_, _, err := x.raw(m)
	kit.True(t, err != nil, "a message that is longer than MaxMessage", "the end of the connection", "a reply")
}

var _ = posts.Case(validate.Case{
	ID:    "user.poll.fields",
	Title: "every field of the completions that the driver has reaches the process in the documented layout",
	Run:   pollFields,
}, req.SAS2_4_16)

func pollFields(t *validate.T) {
	needsUD(t)
	s := newStage(t)
	x := s.speaker()
	q := x.queues(t)
	contexts := s.probe.contexts()
	var made []ci.WC
	var mu sync.Mutex
	asked := 0
	s.probe.path.Store(&path{poll: func(wc []ci.WC) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = len(wc)
		return copy(wc, made), nil
	}})
	t.Cleanup(func() { s.probe.path.Store(nil) })
	tokens := []uint64{tokenRC, tokenUD}
	for _, n := range []int{0, 1, 2, 5, schema.MaxBatch} {
		list := make([]ci.WC, n)
		want := binary.LittleEndian.AppendUint64(nil, uint64(n))
		le := binary.LittleEndian
		for i := range list {
			r := t.Rand()
			list[i] = ci.WC{ID: r.Uint64(), Context: contexts[i%2], Length: r.Uint32(), QPN: ci.QPN(r.Uint32()),
				Imm: r.Uint32(), SrcQP: ci.QPN(r.Uint32()), VendorErr: r.Uint32(), EECN: ci.EECN(r.Uint32()),
				PKeyIndex: uint16(r.Uint32()), SLID: ci.LID(r.Uint32()), EtherType: uint16(r.Uint32()),
				Flags: ci.WCFlags(r.Uint32()), Status: ci.WCStatus(r.Uint32()), Op: ci.WCOp(r.Uint32()),
				SL: ci.SL(r.Uint32()), PathBits: uint8(r.Uint32())}
			w := &list[i]
			want = le.AppendUint64(le.AppendUint64(want, w.ID), tokens[i%2])
			for _, v := range []uint32{w.Length, uint32(w.QPN), w.Imm, uint32(w.SrcQP), w.VendorErr, uint32(w.EECN)} {
				want = le.AppendUint32(want, v)
			}
			for _, v := range []uint16{w.PKeyIndex, uint16(w.SLID), w.EtherType, uint16(w.Flags)} {
				want = le.AppendUint16(want, v)
			}
			want = append(want, byte(w.Status), byte(w.Op), byte(w.SL), w.PathBits, 0, 0, 0, 0)
		}
		mu.Lock()
		made = list
		mu.Unlock()
		h, reply, err := x.exchange(schema.CmdPoll, postBody(q.cq, n))
		kit.OK(t, err, "the connection")
		kit.Equal(t, "status of a poll", h.Status, ci.Status(0))
		kit.SameBytes(t, fmt.Sprintf("the reply to a poll of %d completions", n), reply, want)
		mu.Lock()
		kit.Equal(t, "completions that the driver is asked for", asked, n)
		mu.Unlock()
	}
	t.Step("a library of a process")
	ca := s.with().open()
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	qps := []*kit.QP{ca.QP(pd, cq, cq), ca.QP(pd, cq, cq)}
	contexts = s.probe.contexts()[len(contexts):]
	kit.Equal(t, "QPs of the application at the driver", len(contexts), len(qps))
	mu.Lock()
	made = made[:10]
	want := append([]ci.WC(nil), made...)
	for i := range made {
		made[i].Context = contexts[i%2]
	}
	mu.Unlock()
	got := make([]ci.WC, 12)
	n, err := cq.CQ.Poll(got)
	kit.OK(t, err, "CQ.Poll")
	kit.Equal(t, "completions of CQ.Poll", n, len(want))
	for i := range want {
		want[i].Context, got[i].Context = nil, nil
		kit.Equal(t, fmt.Sprintf("completion %d of CQ.Poll", i), fmt.Sprintf("%+v", got[i]),
			fmt.Sprintf("%+v", want[i]))
	}
	s.probe.path.Store(nil)
}
