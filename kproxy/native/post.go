package native

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// The data path. A post is
//
//	0   uint64  handle of the QP or SRQ
//	8   uint32  number of work requests, 0 to schema.MaxBatch
//	12  uint32  0
//	16  work requests, one after the other
//
// Each work request is a fixed part, its scatter/gather elements of 16 bytes (uint64 address, uint32 length, uint32
// L_Key), and for sends the extension and the inline bytes, padded with zeros to 8 bytes.
//
// The fixed part of a receive is 16 bytes: uint64 ID, uint32 number of elements, uint32 0. That of a send is 88:
//
//	0   uint64  ID
//	8   uint64  remote address
//	16  uint64  compare operand, or addend
//	24  uint64  swap operand
//	32  uint64  handle of the AV, or 0
//	40  uint32  R_Key
//	44  uint32  immediate data
//	48  uint32  key to invalidate
//	52  uint32  flags (ci.SendFlags)
//	56  uint32  destination QP number
//	60  uint32  Q_Key
//	64  uint32  EEC number
//	68  uint16  P_Key index
//	70  uint8   operation (ci.SendOp)
//	71  uint8   extension: 0 none, 1 bind, 2 large send, 3 flush
//	72  uint32  number of elements
//	76  uint32  number of inline bytes
//	80  uint32  1 if the request has inline data, of 0 bytes, too
//	84  uint32  0
//
// The extension for a bind is 48 bytes: uint64 handle of the MW, uint64 handle of the MR, uint64 address, uint64
// length, uint32 key, uint32 access, uint64 0. That for a large send is uint32 MSS, uint32 length of the header, and
// the header, padded with zeros to 8 bytes. That for a flush is uint32 types (ci.Access), uint32 length, and uint64 1
// for the whole region, or 0.
//
// The reply to a post has a uint32, the number of work requests that were accepted, and a uint32 0. If it is smaller
// than the number sent, the status is that of the first one that was not, and the body is schema.ErrorReply.
const (
	postHeader = 16
	recvFixed  = 16
	sendFixed  = 88
	bindFixed  = 48
	flushFixed = 16
	sgeSize    = 16
	extNone    = 0
	extBind    = 1
	extLSO     = 2
	extFlush   = 3
	// PostReplySize is the size of the body of a successful reply to a post.
	PostReplySize = 8
)

// A poll is 16 bytes: uint64 handle of the CQ, uint32 largest number of completions, 0 to schema.MaxBatch, uint32 0.
// The reply is uint32 number of completions, uint32 0, and the completions of CompletionSize bytes each:
//
//	0   uint64  ID
//	8   uint64  token of the QP
//	16  uint32  length
//	20  uint32  QP number
//	24  uint32  immediate data or invalidated key
//	28  uint32  source QP number
//	32  uint32  vendor error
//	36  uint32  EEC number
//	40  uint16  P_Key index
//	42  uint16  source LID
//	44  uint16  Ethertype
//	46  uint16  flags (ci.WCFlags)
//	48  uint8   status (ci.WCStatus)
//	49  uint8   operation (ci.WCOp)
//	50  uint8   service level
//	51  uint8   path bits
//	52  uint32  0
const (
	pollSize       = 16
	pollHeader     = 8
	CompletionSize = 56
)

var (
	errPost = errors.New("native: post does not match its layout")
	errPoll = errors.New("native: poll does not match its layout")
)

var le = binary.LittleEndian

// AppendPost appends the fixed part of a post.
func AppendPost(b []byte, queue schema.Handle, n int) []byte {
	b = le.AppendUint64(b, uint64(queue))
	b = le.AppendUint32(b, uint32(n))
	return le.AppendUint32(b, 0)
}

// SetPostCount changes the number of work requests in a post whose body begins at b.
func SetPostCount(b []byte, n int) { le.PutUint32(b[8:], uint32(n)) }

// RecvSize returns the size of an encoded work request.
func RecvSize(w *ci.RecvWR) int { return recvFixed + len(w.SGL)*sgeSize }

// AppendRecv appends a work request.
func AppendRecv(b []byte, w *ci.RecvWR) []byte {
	b = le.AppendUint64(b, w.ID)
	b = le.AppendUint32(b, uint32(len(w.SGL)))
	b = le.AppendUint32(b, 0)
	return appendSGL(b, w.SGL)
}

func appendSGL(b []byte, sgl []ci.SGE) []byte {
	for i := range sgl {
		b = le.AppendUint64(b, sgl[i].Addr)
		b = le.AppendUint32(b, sgl[i].Length)
		b = le.AppendUint32(b, uint32(sgl[i].LKey))
	}
	return b
}

// SendSize returns the size of an encoded work request.
func SendSize(w *ci.SendWR) int {
	n := sendFixed + len(w.SGL)*sgeSize + roundUp(len(w.Inline), 8)
	switch extension(w) {
	case extBind:
		n += bindFixed
	case extLSO:
		n += 8 + roundUp(len(w.Ext.LSO.Header), 8)
	case extFlush:
		n += flushFixed
	}
	return n
}

func extension(w *ci.SendWR) byte {
	switch {
	case w.Ext == nil:
		return extNone
	case w.Op == ci.OpBindMW:
		return extBind
	case w.Op == ci.OpLSO:
		return extLSO
	case w.Op == ci.OpFlush:
		return extFlush
	}
	return extNone
}

// AppendSend appends a work request.
func AppendSend(b []byte, w *ci.SendWR, h schema.SendHandles) []byte {
	ext := extension(w)
	b = le.AppendUint64(b, w.ID)
	b = le.AppendUint64(b, w.Remote.Addr)
	b = le.AppendUint64(b, w.Atomic.Compare)
	b = le.AppendUint64(b, w.Atomic.Swap)
	b = le.AppendUint64(b, uint64(h.AV))
	b = le.AppendUint32(b, uint32(w.Remote.RKey))
	b = le.AppendUint32(b, w.Imm)
	b = le.AppendUint32(b, uint32(w.Inv))
	b = le.AppendUint32(b, uint32(w.Flags))
	b = le.AppendUint32(b, uint32(w.To.QPN))
	b = le.AppendUint32(b, uint32(w.To.QKey))
	b = le.AppendUint32(b, uint32(w.To.EECN))
	b = le.AppendUint16(b, w.To.PKeyIndex)
	b = append(b, byte(w.Op), ext)
	b = le.AppendUint32(b, uint32(len(w.SGL)))
	b = le.AppendUint32(b, uint32(len(w.Inline)))
	var inline uint32
	if w.Inline != nil {
		inline = 1
	}
	b = le.AppendUint32(b, inline)
	b = le.AppendUint32(b, 0)
	b = appendSGL(b, w.SGL)
	switch ext {
	case extBind:
		x := &w.Ext.Bind
		b = le.AppendUint64(b, uint64(h.MW))
		b = le.AppendUint64(b, uint64(h.MR))
		b = le.AppendUint64(b, x.Addr)
		b = le.AppendUint64(b, x.Length)
		b = le.AppendUint32(b, uint32(x.Key))
		b = le.AppendUint32(b, uint32(x.Access))
		b = le.AppendUint64(b, 0)
	case extLSO:
		b = le.AppendUint32(b, uint32(w.Ext.LSO.MSS))
		b = le.AppendUint32(b, uint32(len(w.Ext.LSO.Header)))
		b = appendPadded(b, w.Ext.LSO.Header)
	case extFlush:
		x := &w.Ext.Flush
		b = le.AppendUint32(b, uint32(x.Types))
		b = le.AppendUint32(b, x.Length)
		if x.Region {
			b = le.AppendUint64(b, 1)
		} else {
			b = le.AppendUint64(b, 0)
		}
	}
	return appendPadded(b, w.Inline)
}

var zeros [8]byte

func appendPadded(b, p []byte) []byte {
	b = append(b, p...)
	return append(b, zeros[:roundUp(len(p), 8)-len(p)]...)
}

// reader walks over the body of a post. After an error, all its results are zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

// padded returns n bytes and checks the padding behind them.
func (r *reader) padded(n int) []byte {
	if n < 0 || n > schema.MaxMessage {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.bytes(roundUp(n, 8))
	if r.bad {
		return nil
	}
	for _, x := range p[n:] {
		r.bad = r.bad || x != 0
	}
	return p[:n:n]
}

// Posts decodes posts. Its results share storage with the message and with the Posts, and are valid until the next
// call. A Posts is reused, so that decoding does not allocate.
type Posts struct {
	Recv    []ci.RecvWR
	Send    []ci.SendWR
	Handles []schema.SendHandles // of Send
	sges    []ci.SGE
	exts    []ci.SendExt
}

func (p *Posts) begin(b []byte) (r reader, queue schema.Handle, n int, err error) {
	if len(b) < postHeader {
		return r, 0, 0, errPost
	}
	queue = schema.Handle(le.Uint64(b))
	count := le.Uint32(b[8:])
	if count > schema.MaxBatch || le.Uint32(b[12:]) != 0 {
		return r, 0, 0, errPost
	}
	p.Recv, p.Send, p.Handles = p.Recv[:0], p.Send[:0], p.Handles[:0]
	// Slices of the arrays are kept in work requests, so both have their full size before the first is taken. Neither
	// can have more elements than the message has room for.
	if need := len(b) / sgeSize; cap(p.sges) < need {
		p.sges = make([]ci.SGE, 0, need)
	}
	if need := len(b) / sendFixed; cap(p.exts) < need {
		p.exts = make([]ci.SendExt, 0, need)
	}
	p.sges, p.exts = p.sges[:0], p.exts[:0]
	return reader{b: b[postHeader:]}, queue, int(count), nil
}

func (p *Posts) sgl(r *reader, n uint32) []ci.SGE {
	if n > schema.MaxSGE+1 { // one more, which every driver rejects
		r.bad = true
		return nil
	}
	b := r.bytes(int(n) * sgeSize)
	if r.bad || n == 0 {
		return nil
	}
	from := len(p.sges)
	for ; len(b) > 0; b = b[sgeSize:] {
		p.sges = append(p.sges, ci.SGE{Addr: le.Uint64(b), Length: le.Uint32(b[8:]), LKey: ci.Key(le.Uint32(b[12:]))})
	}
	return p.sges[from:len(p.sges):len(p.sges)]
}

// ParseRecv decodes the body of a PostRecv or PostSRQRecv into p.Recv.
func (p *Posts) ParseRecv(b []byte) (queue schema.Handle, err error) {
	r, queue, n, err := p.begin(b)
	if err != nil {
		return 0, err
	}
	for range n {
		f := r.bytes(recvFixed)
		if r.bad || le.Uint32(f[12:]) != 0 {
			return 0, errPost
		}
		w := ci.RecvWR{ID: le.Uint64(f), SGL: p.sgl(&r, le.Uint32(f[8:]))}
		if r.bad {
			return 0, errPost
		}
		p.Recv = append(p.Recv, w)
	}
	if len(r.b) != 0 {
		return 0, errPost
	}
	return queue, nil
}

// ParseSend decodes the body of a PostSend into p.Send and p.Handles.
func (p *Posts) ParseSend(b []byte) (queue schema.Handle, err error) {
	r, queue, n, err := p.begin(b)
	if err != nil {
		return 0, err
	}
	for range n {
		if !p.send(&r) {
			return 0, errPost
		}
	}
	if len(r.b) != 0 {
		return 0, errPost
	}
	return queue, nil
}

func (p *Posts) send(r *reader) bool {
	f := r.bytes(sendFixed)
	if r.bad {
		return false
	}
	w := ci.SendWR{
		ID:     le.Uint64(f),
		Remote: ci.Remote{Addr: le.Uint64(f[8:]), RKey: ci.Key(le.Uint32(f[40:]))},
		Atomic: ci.Atomic{Compare: le.Uint64(f[16:]), Swap: le.Uint64(f[24:])},
		Imm:    le.Uint32(f[44:]),
		Inv:    ci.Key(le.Uint32(f[48:])),
		Flags:  ci.SendFlags(le.Uint32(f[52:])),
		To: ci.Dest{QPN: ci.QPN(le.Uint32(f[56:])), QKey: ci.QKey(le.Uint32(f[60:])), EECN: ci.EECN(le.Uint32(f[64:])),
			PKeyIndex: le.Uint16(f[68:])},
		Op: ci.SendOp(f[70]),
	}
	h := schema.SendHandles{AV: schema.Handle(le.Uint64(f[32:]))}
	inline, hasInline := le.Uint32(f[76:]), le.Uint32(f[80:])
	if hasInline > 1 || hasInline == 0 && inline != 0 || le.Uint32(f[84:]) != 0 {
		return false
	}
	if k := h.AV.Kind(); h.AV != 0 && k != schema.KindAV {
		return false
	}
	w.SGL = p.sgl(r, le.Uint32(f[72:]))
	switch f[71] {
	case extNone:
	case extBind:
		p.bind(r, &w, &h)
	case extLSO:
		p.lso(r, &w)
	case extFlush:
		p.flush(r, &w)
	default:
		return false
	}
	if data := r.padded(int(inline)); hasInline == 1 {
		w.Inline = data
	}
	if r.bad {
		return false
	}
	p.Send, p.Handles = append(p.Send, w), append(p.Handles, h)
	return true
}

func (p *Posts) bind(r *reader, w *ci.SendWR, h *schema.SendHandles) {
	x := r.bytes(bindFixed)
	if r.bad || w.Op != ci.OpBindMW || le.Uint64(x[40:]) != 0 {
		r.bad = true
		return
	}
	h.MW, h.MR = schema.Handle(le.Uint64(x)), schema.Handle(le.Uint64(x[8:]))
	if h.MW != 0 && h.MW.Kind() != schema.KindMW || h.MR != 0 && h.MR.Kind() != schema.KindMR {
		r.bad = true
		return
	}
	p.exts = append(p.exts, ci.SendExt{Bind: ci.MWBind{Addr: le.Uint64(x[16:]), Length: le.Uint64(x[24:]),
		Key: ci.Key(le.Uint32(x[32:])), Access: ci.Access(le.Uint32(x[36:]))}})
	w.Ext = &p.exts[len(p.exts)-1]
}

func (p *Posts) lso(r *reader, w *ci.SendWR) {
	x := r.bytes(8)
	if r.bad || w.Op != ci.OpLSO {
		r.bad = true
		return
	}
	n := le.Uint32(x[4:])
	if n > schema.MaxHeader {
		r.bad = true
		return
	}
	header := r.padded(int(n))
	p.exts = append(p.exts, ci.SendExt{LSO: ci.LSO{MSS: int(int32(le.Uint32(x))), Header: header}})
	w.Ext = &p.exts[len(p.exts)-1]
}

func (p *Posts) flush(r *reader, w *ci.SendWR) {
	x := r.bytes(flushFixed)
	if r.bad || w.Op != ci.OpFlush || le.Uint64(x[8:]) > 1 {
		r.bad = true
		return
	}
	p.exts = append(p.exts, ci.SendExt{Flush: ci.Flush{Types: ci.Access(le.Uint32(x)), Length: le.Uint32(x[4:]),
		Region: x[8] == 1}})
	w.Ext = &p.exts[len(p.exts)-1]
}

// AppendPoll appends the body of a poll.
func AppendPoll(b []byte, cq schema.Handle, n int) []byte {
	b = le.AppendUint64(b, uint64(cq))
	b = le.AppendUint32(b, uint32(n))
	return le.AppendUint32(b, 0)
}

// ParsePoll decodes the body of a poll.
func ParsePoll(b []byte) (cq schema.Handle, n int, err error) {
	if len(b) != pollSize || le.Uint32(b[12:]) != 0 {
		return 0, 0, errPoll
	}
	count := le.Uint32(b[8:])
	if count > schema.MaxBatch {
		return 0, 0, errPoll
	}
	return schema.Handle(le.Uint64(b)), int(count), nil
}

// AppendCompletions appends the reply of a poll. token returns the token of a completion's context.
func AppendCompletions(b []byte, wc []ci.WC, token func(any) uint64) []byte {
	b = le.AppendUint32(b, uint32(len(wc)))
	b = le.AppendUint32(b, 0)
	for i := range wc {
		w := &wc[i]
		b = le.AppendUint64(b, w.ID)
		b = le.AppendUint64(b, token(w.Context))
		b = le.AppendUint32(b, w.Length)
		b = le.AppendUint32(b, uint32(w.QPN))
		b = le.AppendUint32(b, w.Imm)
		b = le.AppendUint32(b, uint32(w.SrcQP))
		b = le.AppendUint32(b, w.VendorErr)
		b = le.AppendUint32(b, uint32(w.EECN))
		b = le.AppendUint16(b, w.PKeyIndex)
		b = le.AppendUint16(b, uint16(w.SLID))
		b = le.AppendUint16(b, w.EtherType)
		b = le.AppendUint16(b, uint16(w.Flags))
		b = append(b, byte(w.Status), byte(w.Op), byte(w.SL), w.PathBits)
		b = le.AppendUint32(b, 0)
	}
	return b
}

// ParseCompletions decodes the reply of a poll into wc, and returns the number of completions. object returns the
// context of a token.
func ParseCompletions(b []byte, wc []ci.WC, object func(uint64) any) (int, error) {
	if len(b) < pollHeader {
		return 0, errPoll
	}
	n := le.Uint32(b)
	if uint64(n) > uint64(len(wc)) || len(b) != pollHeader+int(n)*CompletionSize {
		return 0, errPoll
	}
	b = b[pollHeader:]
	for i := range wc[:n] {
		c := b[i*CompletionSize:][:CompletionSize]
		wc[i] = ci.WC{
			ID: le.Uint64(c), Context: object(le.Uint64(c[8:])), Length: le.Uint32(c[16:]),
			QPN: ci.QPN(le.Uint32(c[20:])),
			Imm: le.Uint32(c[24:]), SrcQP: ci.QPN(le.Uint32(c[28:])), VendorErr: le.Uint32(c[32:]),
			EECN:      ci.EECN(le.Uint32(c[36:])),
			PKeyIndex: le.Uint16(c[40:]), SLID: ci.LID(le.Uint16(c[42:])), EtherType: le.Uint16(c[44:]),
			Flags: ci.WCFlags(le.Uint16(c[46:])), Status: ci.WCStatus(c[48]), Op: ci.WCOp(c[49]), SL: ci.SL(c[50]),
			PathBits: c[51],
		}
	}
	return int(n), nil
}

// AppendAccepted appends the reply of a post that succeeded.
func AppendAccepted(b []byte, n int) []byte {
	b = le.AppendUint32(b, uint32(n))
	return le.AppendUint32(b, 0)
}

// ParseAccepted decodes the reply of a post that succeeded.
func ParseAccepted(b []byte) (int, error) {
	if len(b) != PostReplySize {
		return 0, fmt.Errorf("native: reply to a post of %d bytes, want %d", len(b), PostReplySize)
	}
	return int(le.Uint32(b)), nil
}
