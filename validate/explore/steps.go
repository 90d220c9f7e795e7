package explore

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/internal/model"
	"ciddk/validate"
)

// A Step is one action of a trace. Its fields are plain values, and objects are numbers.
type Step interface {
	// run executes the step with the driver and the model. It does nothing if an object does not exist.
	run(*Run) *model.Violation
	// String describes the step in a story.
	String() string
}

// NewPD allocates a PD of an adapter.
type NewPD struct{ As, Side int }

func (s NewPD) String() string { return fmt.Sprintf("allocate PD %d on %s", s.As, sideName(s.Side)) }

func (s NewPD) run(r *Run) *model.Violation {
	at := r.at(s.Side)
	d, err := at.ca.AllocatePD(ci.PDNormal)
	m, v := at.m.AllocatePD(err)
	if m != nil {
		r.put(s.As, &pdObj{d, m, at})
	}
	return v
}

// NewCQ creates a CQ.
type NewCQ struct{ As, PD, Size int }

func (s NewCQ) String() string {
	return fmt.Sprintf("create CQ %d with %d entries in PD %d", s.As, s.Size, s.PD)
}

func (s NewCQ) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok {
		return nil
	}
	o := &cqObj{s: pd.s, ev: r.recorder(fmt.Sprintf("events of CQ %d", s.As))}
	c := ci.CQCreate{Size: s.Size, Context: o.ev, OnEvent: o.ev.add, OnCompletion: func(arg any) {
		defer o.ev.enter()()
		if o.calls.Add(1); arg != any(o.ev) {
			o.astray.Add(1)
		}
	}}
	d, err := pd.d.CreateCQ(c)
	granted := 0
	if err == nil {
		a, err := d.Query()
		if err != nil {
			return &model.Violation{Rule: "CI-CreateCQ-01", Where: "CQ.Query", Expected: "success", Got: err.Error()}
		}
		granted = a.Size
	}
	m, v := pd.m.CreateCQ(c, granted, err)
	if o.m = m; m != nil {
		o.d, o.ev.m = d, &m.Events
		r.put(s.As, o)
	}
	return v
}

// Resize resizes a CQ.
type Resize struct{ CQ, Size int }

func (s Resize) String() string { return fmt.Sprintf("resize CQ %d to %d entries", s.CQ, s.Size) }

func (s Resize) run(r *Run) *model.Violation {
	o, ok := get[*cqObj](r, s.CQ)
	if !ok || !o.s.attr.Caps.Has(ci.CapResizeCQ) {
		return nil
	}
	n, err := o.d.Resize(ci.CQResize{Size: s.Size})
	if v := o.m.Resize(s.Size, n, err); v != nil || o.m.Dead {
		return v
	}
	return o.m.Query(o.d.Query())
}

// Moderate sets the moderation of a CQ.
type Moderate struct{ CQ, Count, Millis int }

func (s Moderate) String() string {
	return fmt.Sprintf("delay callbacks of CQ %d for %d completions or %d ms", s.CQ, s.Count, s.Millis)
}

func (s Moderate) run(r *Run) *model.Violation {
	o, ok := get[*cqObj](r, s.CQ)
	if !ok {
		return nil
	}
	m := ci.Moderation{Count: s.Count, Period: time.Duration(s.Millis) * time.Millisecond}
	return o.m.Modify(m, o.d.Modify(m))
}

// Poll polls a CQ for up to N entries.
type Poll struct{ CQ, N int }

func (s Poll) String() string { return fmt.Sprintf("poll %d entries of CQ %d", s.N, s.CQ) }

func (s Poll) run(r *Run) *model.Violation {
	o, ok := get[*cqObj](r, s.CQ)
	if !ok {
		return nil
	}
	n, err := o.poll(s.N)
	return o.m.Poll(o.polled[:max(n, 0)], s.N, err)
}

// poll polls into entries that hold the rests of others, as a consumer does that uses its array again.
func (o *cqObj) poll(n int) (int, error) {
	o.polled = make([]ci.WC, n)
	for i := range o.polled {
		o.polled[i] = ci.WC{ID: ^uint64(0), Context: o, Length: 0xdeadbeef, QPN: 0xffffff, Imm: 0x5a5a5a5a,
			SrcQP: 0xabcdef, VendorErr: 0x77, EECN: 9, PKeyIndex: 0xeeee, SLID: 0xdddd, EtherType: 0xcccc,
			Flags: 0xffff, Status: ci.WCGeneralErr, Op: 0x7f, SL: 15, PathBits: 0x7f}
	}
	n, err := o.d.Poll(o.polled)
	o.polled = o.polled[:n]
	return n, err
}

// Arm arms a CQ. With After, it waits for that many completions.
type Arm struct {
	CQ        int
	Solicited bool
	After     int
}

func (s Arm) String() string {
	switch {
	case s.After != 0:
		return fmt.Sprintf("arm CQ %d for %d completions", s.CQ, s.After)
	case s.Solicited:
		return fmt.Sprintf("arm CQ %d for a solicited completion", s.CQ)
	}
	return fmt.Sprintf("arm CQ %d for the next completion", s.CQ)
}

func (s Arm) run(r *Run) *model.Violation {
	o, ok := get[*cqObj](r, s.CQ)
	if !ok {
		return nil
	}
	if s.After != 0 {
		return o.m.NotifyAfter(s.After, o.d.NotifyAfter(s.After))
	}
	when := ci.NotifyNext
	if s.Solicited {
		when = ci.NotifySolicited
	}
	return o.m.Notify(when, o.d.Notify(when))
}

// NewSRQ creates a shared receive queue.
type NewSRQ struct{ As, PD, Depth, SGEs int }

func (s NewSRQ) String() string {
	return fmt.Sprintf("create SRQ %d with %d entries of %d segments in PD %d", s.As, s.Depth, s.SGEs, s.PD)
}

func (s NewSRQ) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok {
		return nil
	}
	o := &srqObj{s: pd.s, ev: r.recorder(fmt.Sprintf("events of SRQ %d", s.As))}
	a := ci.SRQAttr{MaxWR: s.Depth, MaxSGE: s.SGEs}
	d, err := pd.d.CreateSRQ(ci.SRQCreate{SRQAttr: a, Context: o.ev, OnEvent: o.ev.add})
	var granted ci.SRQAttr
	if err == nil {
		if granted, err = d.Query(); err != nil {
			return &model.Violation{Rule: "CI-CreateSRQ-01", Where: "SRQ.Query", Expected: "success", Got: err.Error()}
		}
	}
	m, v := pd.m.CreateSRQ(a, granted, err)
	if o.m = m; m != nil {
		o.d, o.ev.m = d, &m.Events
		r.put(s.As, o)
	}
	return v
}

// Limit arms the limit event of an SRQ, if Set has that field, and changes its depth.
type Limit struct {
	SRQ, Limit int
	Set        ci.SRQField
	Depth      int
}

func (s Limit) String() string {
	t := fmt.Sprintf("modify SRQ %d:", s.SRQ)
	if s.Set&ci.SRQFieldLimit != 0 {
		t += fmt.Sprintf(" limit %d", s.Limit)
	}
	if s.Set&ci.SRQFieldMaxWR != 0 {
		t += fmt.Sprintf(" depth %d", s.Depth)
	}
	return t
}

func (s Limit) run(r *Run) *model.Violation {
	o, ok := get[*srqObj](r, s.SRQ)
	if !ok {
		return nil
	}
	a := ci.SRQAttr{Limit: s.Limit, MaxWR: s.Depth}
	err := o.d.Modify(s.Set, a)
	now, _ := o.d.Query()
	return o.m.Modify(s.Set, a, now.MaxWR, err)
}

// NewMR registers Len bytes of the adapter's memory from Off. With Shift, its addresses are that many pages higher.
type NewMR struct {
	As, PD, Off, Len int
	Access           ci.Access
	Shift            int
	IOVA             uint64 // if not 0, the first address
}

func (s NewMR) String() string {
	t := fmt.Sprintf("register bytes %d to %d as MR %d in PD %d with %s", s.Off, s.Off+s.Len, s.As, s.PD,
		accessNames(s.Access))
	if s.Shift != 0 {
		t += fmt.Sprintf(", %d pages higher", s.Shift)
	}
	if s.IOVA != 0 {
		t += fmt.Sprintf(", at %#x", s.IOVA)
	}
	return t
}

func (s NewMR) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok {
		return nil
	}
	mem := ci.Bytes(pd.s.bytes)
	c := ci.MRCreate{Memory: mem, Offset: uint64(s.Off), Length: uint64(s.Len), Access: s.Access}
	if s.Shift != 0 {
		c.IOVA = mem.Addr() + c.Offset + uint64(s.Shift)<<12
	}
	c.IOVA = cmp.Or(s.IOVA, c.IOVA)
	d, err := pd.d.RegisterMR(c)
	var got ci.Region
	if err == nil {
		got = d.Region()
	}
	m, v := pd.m.RegisterMR(pd.s.mem, c, got, err)
	if m != nil {
		r.put(s.As, &mrObj{d, m, pd.s, got, pd.d})
	}
	return v
}

// NewMW creates a memory window.
type NewMW struct {
	As, PD int
	Type   ci.MWType
}

func (s NewMW) String() string {
	return fmt.Sprintf("create window %d of type %d in PD %d", s.As, s.Type, s.PD)
}

func (s NewMW) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok {
		return nil
	}
	d, err := pd.d.CreateMW(ci.MWCreate{Type: s.Type})
	var key ci.Key
	if err == nil {
		key = d.Key()
	}
	m, v := pd.m.CreateMW(s.Type, key, err)
	if m != nil {
		r.put(s.As, &mwObj{d, m, pd.s, s.PD})
	}
	return v
}

// query compares the attributes of a window.
func (o *mwObj) query(r *Run) *model.Violation {
	a, err := o.d.Query()
	pd, _ := get[*pdObj](r, o.pd)
	return o.m.Query(pd != nil && ci.Same(a.PD, pd.d), a, o.d.Key(), err)
}

// target returns what a peer accesses: a region, or what a window covers.
func (r *Run) target(name int) (ci.Region, bool) {
	if o, ok := get[*mwObj](r, name); ok {
		t := ci.Region{RKey: o.m.Key}
		if b := o.m.Bound(); b != nil {
			t = b.Region
		}
		return t, true
	}
	o, ok := get[*mrObj](r, name)
	if !ok {
		return ci.Region{}, false
	}
	return o.current(), true
}

// current returns the region as it is: fast registrations change it.
func (o *mrObj) current() ci.Region {
	if o.m.IsFast() && o.m.Valid {
		o.region = o.m.Region
	}
	return o.region
}

// bind returns a bind of a window to a piece. The key is the current one for type 1, and the next one for type 2, plus
// that of the piece.
func (r *Run) bind(o *mwObj, p Piece, a ci.Access) (*mrObj, ci.MWBind, bool) {
	mr, ok := get[*mrObj](r, p.MR)
	if !ok || mr.d == nil {
		return nil, ci.MWBind{}, false
	}
	b := ci.MWBind{MW: o.d, MR: mr.d, Key: o.m.Current() + p.Key, Addr: mr.region.Addr + uint64(p.Off),
		Length: uint64(p.Len), Access: a}
	if o.m.Type == ci.MWType2 {
		if b.Key = o.m.Key&^0xff | (o.m.Key+1+p.Key)&0xff; p.Key == zeroKey {
			b.Key &^= 0xff
		}
	}
	return mr, b, true
}

// zeroKey as the key of a bind of type 2 is for low bits of 0.
const zeroKey ci.Key = 0x100

// Bind binds a window of type 1 to a piece of a region, or unbinds it.
type Bind struct {
	QP, MW int
	To     Piece
	Access ci.Access
	Flags  ci.SendFlags
}

func (s Bind) String() string {
	if s.To.Len == 0 {
		return fmt.Sprintf("unbind window %d through QP %d", s.MW, s.QP)
	}
	return fmt.Sprintf("bind window %d through QP %d to %s with %s", s.MW, s.QP, s.To, accessNames(s.Access))
}

func (s Bind) run(r *Run) *model.Violation {
	o, ok := get[*qpObj](r, s.QP)
	w, ok2 := get[*mwObj](r, s.MW)
	if !ok || !ok2 || o.s != w.s || !o.s.attr.Caps.Has(ci.CapMW1) {
		return nil
	}
	mr, b, ok := r.bind(w, s.To, s.Access)
	if !ok || mr.s != o.s {
		return nil
	}
	wr := ci.SendWR{ID: r.id(), Op: ci.OpBindMW, Flags: s.Flags}
	key, err := o.d.BindMW(wr.ID, s.Flags, b)
	return o.m.BindMW(&wr, w.m, mr.m, b, key, err)
}

// NewAV creates an address vector to an adapter.
type NewAV struct {
	As, PD, To int
	Vector
}

func (s NewAV) String() string {
	return fmt.Sprintf("create AV %d in PD %d to %s%s", s.As, s.PD, sideName(s.To), s.Vector)
}

func (s NewAV) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok || !pd.s.attr.Caps.Has(ci.CapAV) {
		return nil
	}
	a := r.addressed(pd.s, r.at(s.To), s.Vector)
	d, err := pd.d.CreateAV(a)
	m, v := pd.m.CreateAV(a, err)
	if m != nil {
		r.put(s.As, &avObj{d, m, pd.s, pd.d})
	}
	return v
}

// ModifyAV directs an address vector to an adapter, with a service level and path bits.
type ModifyAV struct {
	AV, To int
	Vector
}

func (s ModifyAV) String() string {
	return fmt.Sprintf("modify AV %d to lead to %s%s", s.AV, sideName(s.To), s.Vector)
}

func (s ModifyAV) run(r *Run) *model.Violation {
	o, ok := get[*avObj](r, s.AV)
	if !ok {
		return nil
	}
	a := r.addressed(o.s, r.at(s.To), s.Vector)
	if v := o.m.Modify(a, o.d.Modify(a)); v != nil || o.m.Dead {
		return v
	}
	return o.query()
}

// QPOptions are the sizes and flags of a QP.
type QPOptions struct {
	Type        ci.QPType
	Flags       ci.QPFlags
	Depth, SGEs int
	Inline      int
	SRQ         int // 0: none
}

// NewQP creates a QP.
type NewQP struct {
	As, PD, SendCQ, RecvCQ int
	QPOptions
}

func (s NewQP) String() string {
	t := fmt.Sprintf("create %s QP %d in PD %d, depth %d, CQs %d and %d", s.Type, s.As, s.PD, s.Depth, s.SendCQ,
		s.RecvCQ)
	if s.SRQ != 0 {
		t += fmt.Sprintf(", SRQ %d", s.SRQ)
	}
	return t
}

func (s NewQP) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	send, ok2 := get[*cqObj](r, s.SendCQ)
	recv, ok3 := get[*cqObj](r, s.RecvCQ)
	srq, ok4 := get[*srqObj](r, s.SRQ)
	if !ok || !ok2 || !ok3 || !ok4 && s.SRQ != 0 || send.s != pd.s || recv.s != pd.s || ok4 && srq.s != pd.s {
		return nil
	}
	o := &qpObj{s: pd.s, pd: s.PD, sendCQ: s.SendCQ, recv: s.RecvCQ,
		ev: r.recorder(fmt.Sprintf("events of QP %d", s.As))}
	c := ci.QPCreate{Type: s.Type, Flags: s.Flags, SendCQ: send.d, RecvCQ: recv.d, Context: o.ev, OnEvent: o.ev.add,
		QPCaps: ci.QPCaps{SendDepth: s.Depth, RecvDepth: s.Depth, SendSGE: s.SGEs, RecvSGE: s.SGEs,
			MaxInline: s.Inline}}
	var msrq *model.SRQ
	if ok4 {
		c.SRQ, msrq = srq.d, srq.m
		c.RecvDepth, c.RecvSGE = 0, 0
	}
	d, err := pd.d.CreateQP(c)
	var num ci.QPN
	var granted ci.QPCaps
	if err == nil {
		a, err := d.Query()
		if err != nil {
			return &model.Violation{Rule: "CI-CreateQP-01", Where: "QP.Query", Expected: "success", Got: err.Error()}
		}
		num, granted = d.Num(), a.QPCaps
	}
	m, v := pd.m.CreateQP(c, send.m, recv.m, msrq, num, granted, err)
	if o.m = m; m != nil {
		o.d, o.ev.m = d, &m.Events
		o.create, o.parent = c, pd.d
		r.put(s.As, o)
	}
	return v
}

// Connect takes two QPs through Reset to RTS, connected to each other.
type Connect struct {
	A, B        int
	MTU         ci.MTU
	Retry, RNR  uint8
	Ack         ci.TimeExp // 0: no timeout
	Reads       uint8      // reads and atomics at a time
	Access      ci.Access
	PSN         [2]ci.PSN // of A and B
	PKey        [2]uint16 // index, of A and B
	MinRNR      uint8     // timer code
	AnotherQKey bool      // datagrams: B has another Q_Key
	Late        bool      // B stays in RTR
	// AtRTR is true if rights and P_Keys are set with RTR. In Init, the QPs have no rights and the first P_Key.
	AtRTR bool
	// Stay are the states in which A and B stay, if not RTS.
	Stay [2]ci.QPState
	Path Vector
}

// Vector is what address vectors have beside the destination.
type Vector struct {
	SL     ci.SL
	Global bool  // with a GRH
	Class  uint8 // of a GRH that the address needs not have, whose flow label and hop limit differ with it
	Group  int   // not 0: a multicast group
}

func (v Vector) String() string {
	t := ""
	if v.SL != 0 {
		t += fmt.Sprintf(", SL %d", v.SL)
	}
	if v.Global {
		t += fmt.Sprintf(", with a GRH of traffic class %d", v.Class)
	}
	return t
}

// addressed returns the address from one side to another with what v has.
func (r *Run) addressed(from, to *side, v Vector) ci.AVAttr {
	a := r.address(from, to)
	if v.Group != 0 {
		a.SL, a.Global = v.SL, true
		a.GRH.DGID, a.DLID = r.group(from, v.Group)
		a.GRH.HopLimit = 1
		return a
	}
	if a.SL = v.SL; v.Global && !a.Global && len(to.port.GIDs) > 0 {
		a.Global = true
		a.GRH = ci.GRH{DGID: to.port.GIDs[0].GID, FlowLabel: 0xabcde ^ uint32(v.Class), HopLimit: 0x3f ^ v.Class,
			TrafficClass: v.Class}
	}
	return a
}

const theQKey ci.QKey = 0x11111111

func (s Connect) String() string {
	t := fmt.Sprintf("connect QP %d and QP %d", s.A, s.B)
	if s.MTU != 0 {
		t += fmt.Sprintf(" with MTU %d, retries %d, RNR retries %d, PSNs %#x and %#x", s.MTU.Bytes(), s.Retry, s.RNR,
			uint32(s.PSN[0]), uint32(s.PSN[1]))
	}
	if s.Access != allRemote {
		t += ", permitting " + accessNames(s.Access)
	}
	if s.PKey != [2]uint16{} {
		t += fmt.Sprintf(", P_Key indexes %d and %d", s.PKey[0], s.PKey[1])
	}
	if s.Late {
		t += ", of which the second stays in RTR"
	}
	if s.AtRTR {
		t += ", with rights and P_Keys from RTR on"
	}
	for i, stay := range s.Stay {
		if stay != 0 {
			t += fmt.Sprintf(", of which QP %d stays in %v", []int{s.A, s.B}[i], stay)
		}
	}
	return t + s.Path.String()
}

const allRemote = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic

func (s Connect) run(r *Run) *model.Violation {
	a, ok := get[*qpObj](r, s.A)
	b, ok2 := get[*qpObj](r, s.B)
	if !ok || !ok2 || a.m.Dead || b.m.Dead || a.m.Type != b.m.Type {
		return nil
	}
	type move struct {
		o     *qpObj
		field ci.QPField
		attr  ci.QPAttr
	}
	var moves []move
	add := func(o *qpObj) func(ci.QPField, ci.QPAttr) {
		return func(f ci.QPField, x ci.QPAttr) { moves = append(moves, move{o, f, x}) }
	}
	typ := a.m.Type
	qkey := [2]ci.QKey{theQKey, theQKey}
	if s.AnotherQKey {
		qkey[1]++
	}
	ends, rights := [2]*qpObj{a, b}, [2]ci.Access{}
	for i, o := range ends {
		if o.m.State != ci.QPReset {
			add(o)(ci.ToReset())
		}
		access := s.Access
		if typ == ci.UC {
			access &= ci.RemoteWrite
		}
		init := ci.ToInit{Port: o.s.port.Num, PKeyIndex: s.PKey[i], Access: access, QKey: qkey[i]}
		if rights[i] = access; s.AtRTR {
			init.PKeyIndex, init.Access = 0, 0
		}
		add(o)(init.For(typ))
	}
	for i, o := range ends {
		p := ends[1-i]
		if s.Stay[i] == ci.QPInit {
			continue
		}
		f, x := ci.ToRTR{AV: r.addressed(o.s, p.s, s.Path), MTU: s.MTU, DestNum: p.d.Num(),
			RQPSN: s.PSN[1-i], RespRes: s.Reads, MinRNRTimer: s.MinRNR}.For(typ)
		if s.AtRTR {
			x.Primary.PKeyIndex, x.Access = s.PKey[i], rights[i]
			if f |= ci.QPFieldPKeyIndex; typ != ci.UD {
				f |= ci.QPFieldAccess
			}
		}
		add(o)(f, x)
	}
	for i, o := range ends {
		if s.Stay[i] == 0 && (i == 0 || !s.Late) {
			add(o)(s.rts(i).For(typ))
		}
	}
	r.nums[a.d.Num()], r.nums[b.d.Num()] = true, true
	for _, m := range moves {
		if v := m.o.m.Modify(m.field, m.attr, m.o.d.Modify(m.field, m.attr)); v != nil {
			return v
		}
	}
	a.peer, a.half = s.B, 0
	b.peer, b.half = s.A, 1
	return nil
}

// rts returns the attributes with which an end goes to RTS.
func (s Connect) rts(end int) ci.ToRTS {
	return ci.ToRTS{SQPSN: s.PSN[end], AckTimeout: s.Ack, RetryCount: s.Retry, RNRRetry: s.RNR, InitDepth: s.Reads}
}

// Modify modifies a QP.
type Modify struct {
	QP   int
	Set  ci.QPField
	Attr ci.QPAttr
}

func (s Modify) String() string {
	if s.Set == ci.QPFieldState || s.Set == ci.QPFieldState|ci.QPFieldSQDEvent {
		return fmt.Sprintf("modify QP %d to %v", s.QP, s.Attr.State)
	}
	return fmt.Sprintf("modify QP %d with mask %#x and %s", s.QP, uint32(s.Set), literal(s.Attr))
}

func (s Modify) run(r *Run) *model.Violation {
	o, ok := get[*qpObj](r, s.QP)
	if !ok {
		return nil
	}
	return o.m.Modify(s.Set, s.Attr, o.d.Modify(s.Set, s.Attr))
}

// Piece is a segment: Len bytes at offset Off of MR, which may be beyond its end. Key is added to its key.
type Piece struct {
	MR, Off, Len int
	Key          ci.Key
}

// WR is a send request.
type WR struct {
	Op     ci.SendOp
	Flags  ci.SendFlags
	Imm    uint32
	SGL    []Piece
	Inline int   // bytes of inline data; 0: none, -1: none, but inline
	Remote Piece // of RDMA and atomics
	Atomic ci.Atomic
	AV, To int // datagrams: address vector and QP
	QKey   ci.QKey
	Fast   *Fast     // of OpFastReg
	MW     int       // whose key is invalidated, or which is bound to Bind; Bind.Key is added to its key
	Bind   Piece     // of OpBindMW
	Rights ci.Access // of OpBindMW
}

// Send posts send requests.
type Send struct {
	QP       int
	WRs      []WR
	Overflow bool // even if the CQ may overflow
}

func (s Send) String() string {
	var list []string
	for _, w := range s.WRs {
		list = append(list, w.String())
	}
	return fmt.Sprintf("post to QP %d: %s", s.QP, strings.Join(list, "; "))
}

func (w WR) String() string {
	names := map[ci.SendOp]string{ci.OpSend: "SEND", ci.OpWrite: "WRITE", ci.OpRead: "READ", ci.OpNop: "NOP",
		ci.OpCompareSwap: "compare-and-swap", ci.OpFetchAdd: "fetch-and-add", ci.OpAtomicWrite: "ATOMIC WRITE",
		ci.OpLocalInv: "local invalidate", ci.OpBindMW: "bind", ci.OpFastReg: "fast registration"}
	t, ok := names[w.Op]
	if !ok {
		t = fmt.Sprintf("operation %d", w.Op)
	}
	for _, f := range []struct {
		flag ci.SendFlags
		name string
	}{{ci.SendImmediate, " with immediate"}, {ci.SendFence, " fenced"}, {ci.SendSolicited, " solicited"},
		{ci.SendInvalidate, " with invalidate"}} {
		if w.Flags&f.flag != 0 {
			t += f.name
		}
	}
	if w.Flags&ci.SendSignaled == 0 {
		t += ", unsignaled"
	}
	if w.Inline != 0 {
		t += fmt.Sprintf(" of %d inline bytes", max(w.Inline, 0))
	}
	for _, p := range w.SGL {
		t += fmt.Sprintf(" %s", p)
	}
	if w.Remote != (Piece{}) {
		t += fmt.Sprintf(" at the peer's %s", w.Remote)
	}
	if w.MW != 0 {
		t += fmt.Sprintf(" of window %d", w.MW)
	}
	if w.Op == ci.OpBindMW {
		t += fmt.Sprintf(" to %s with %s", w.Bind, accessNames(w.Rights))
	}
	if w.AV != 0 {
		t += fmt.Sprintf(" by AV %d to QP %d", w.AV, w.To)
	}
	return t
}

// String describes the piece.
func (p Piece) String() string {
	t := fmt.Sprintf("[MR %d: %d bytes at %d", p.MR, p.Len, p.Off)
	if p.Key != 0 {
		t += fmt.Sprintf(", key + %#x", uint32(p.Key))
	}
	return t + "]"
}

// sgl returns the segments of pieces. ok is false if one is not of the side.
func (r *Run) sgl(s *side, ps []Piece) (out []ci.SGE, ok bool) {
	for _, p := range ps {
		o, ok := get[*mrObj](r, p.MR)
		if !ok || o.s != s {
			return nil, false
		}
		e := o.current().SGE(uint64(p.Off), uint32(p.Len))
		e.LKey += p.Key
		out = append(out, e)
	}
	return out, true
}

// junk sets the fields that an operation does not use. A driver ignores them.
func junk(w *ci.SendWR) {
	w.Inv = 0x5a5a5a5a
	w.Remote = ci.Remote{Addr: 0x1234567, RKey: 0xabababab}
	w.To = ci.Dest{QPN: 0xfefefe, QKey: 0x77777777, EECN: 5, PKeyIndex: 7}
}

// id returns the next id of a request. It uses all of its 64 bits.
func (r *Run) id() uint64 { r.nextID++; return model.RequestID(r.nextID) }

func (s Send) run(r *Run) *model.Violation {
	o, ok := get[*qpObj](r, s.QP)
	if !ok {
		return nil
	}
	var wrs []ci.SendWR
	var refs []model.Ref
	for _, w := range s.WRs {
		sgl, ok := r.sgl(o.s, w.SGL)
		if !ok {
			return nil
		}
		wr := ci.SendWR{ID: r.id(), Op: w.Op, Flags: w.Flags, Imm: w.Imm, SGL: sgl, Atomic: w.Atomic}
		if w.Inline != 0 {
			wr.SGL, wr.Inline = nil, make([]byte, max(w.Inline, 0))
			for i := range wr.Inline {
				wr.Inline[i] = byte(int(wr.ID)*31 + i)
			}
			wr.SGL = []ci.SGE{{Addr: 1, Length: 8, LKey: 3}} // which inline data replace
		}
		junk(&wr)
		if w.Remote != (Piece{}) {
			t, ok := r.target(w.Remote.MR)
			if !ok {
				return nil
			}
			wr.Remote = t.Remote(uint64(w.Remote.Off))
			wr.Remote.RKey += w.Remote.Key
		}
		var ref model.Ref
		if f := w.Fast; f != nil {
			if wr.Ext, ref.Fast, ok = r.fastReg(o, f); !ok {
				return nil
			}
		}
		if m, ok := get[*mrObj](r, w.MW); ok { // a region that is invalidated
			wr.Inv = m.region.LKey + w.Bind.Key
		} else if w.MW != 0 {
			mw, ok := get[*mwObj](r, w.MW)
			if !ok {
				return nil
			}
			wr.Inv = mw.m.Key + w.Bind.Key
			if w.Op == ci.OpBindMW {
				mr, b, ok := r.bind(mw, w.Bind, w.Rights)
				if !ok || mw.s != o.s || mr.s != o.s {
					return nil
				}
				ref.MW, ref.MR, wr.Ext = mw.m, mr.m, &ci.SendExt{Bind: b}
			}
		}
		if w.AV != 0 {
			av, ok := get[*avObj](r, w.AV)
			to, ok2 := get[*qpObj](r, w.To)
			if !ok || !ok2 {
				return nil
			}
			wr.To, ref.AV = ci.Dest{AV: av.d, QPN: to.d.Num(), QKey: w.QKey}, av.m
			if isGroup(av.m.Attr) {
				wr.To.QPN = 0xffffff
			}
		}
		wrs, refs = append(wrs, wr), append(refs, ref)
	}
	n, v, err := lend("QP.PostSend", wrs, cloneSend, o.d.PostSend)
	return cmp.Or(o.m.PostSend(wrs, refs, n, err), v)
}

func cloneSend(w ci.SendWR) ci.SendWR {
	if w.SGL, w.Inline = slices.Clone(w.SGL), slices.Clone(w.Inline); w.Ext != nil {
		x := *w.Ext
		x.FastReg.Pages, x.LSO.Header = slices.Clone(x.FastReg.Pages), slices.Clone(x.LSO.Header)
		w.Ext = &x
	}
	return w
}

func cloneRecv(w ci.RecvWR) ci.RecvWR { w.SGL = slices.Clone(w.SGL); return w }

// lend posts copies of requests. A driver does not change them, and does not use them when it has returned: they are
// overwritten (CI-PostSend-05).
func lend[T any](verb string, wrs []T, clone func(T) T, post func([]T) (int, error)) (n int,
	v *model.Violation, err error) {
	var lent []T
	for _, w := range wrs {
		lent = append(lent, clone(w))
	}
	if n, err = post(lent); !reflect.DeepEqual(lent, wrs) && len(wrs) > 0 {
		v = &model.Violation{Rule: "CI-PostSend-05", Where: verb,
			Expected: "that the requests of the caller stay as they are", Got: fmt.Sprintf("%+v", lent)}
	}
	for i := range lent {
		spoil(reflect.ValueOf(&lent[i]).Elem())
	}
	return n, v, err
}

// spoil overwrites numbers, and those in lists and behind pointers.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			spoil(field)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() ^ 0x5a)
	case reflect.Interface:
		v.SetZero()
	}
}

// Recv posts receives to a QP or an SRQ.
type Recv struct {
	Queue int
	WRs   [][]Piece
}

func (s Recv) String() string {
	var list []string
	for _, w := range s.WRs {
		t := ""
		for _, p := range w {
			t += p.String()
		}
		list = append(list, "["+t+"]")
	}
	return fmt.Sprintf("post %d receives to queue %d: %s", len(s.WRs), s.Queue, strings.Join(list, " "))
}

func (s Recv) run(r *Run) *model.Violation {
	var at *side
	switch o := r.objs[s.Queue].(type) {
	case *qpObj:
		at = o.s
	case *srqObj:
		at = o.s
	default:
		return nil
	}
	var wrs []ci.RecvWR
	for _, w := range s.WRs {
		sgl, ok := r.sgl(at, w)
		if !ok {
			return nil
		}
		wrs = append(wrs, ci.RecvWR{ID: r.id(), SGL: sgl})
	}
	if o, ok := r.objs[s.Queue].(*srqObj); ok {
		n, v, err := lend("SRQ.PostRecv", wrs, cloneRecv, o.d.PostRecv)
		return cmp.Or(o.m.PostRecv(wrs, n, err), v)
	}
	o := r.objs[s.Queue].(*qpObj)
	n, v, err := lend("QP.PostRecv", wrs, cloneRecv, o.d.PostRecv)
	return cmp.Or(o.m.PostRecv(wrs, n, err), v)
}

// Quarantine sets the quarantine of a QP's number to an hour.
type Quarantine struct{ QP int }

func (s Quarantine) String() string {
	return fmt.Sprintf("quarantine the number of QP %d for an hour", s.QP)
}

func (s Quarantine) run(r *Run) *model.Violation {
	if o, ok := get[*qpObj](r, s.QP); ok && !o.m.Dead {
		o.d.TimeWait(time.Hour)
		o.quarantined = true
	}
	return nil
}

// Destroy destroys an object.
type Destroy struct{ Object int }

func (s Destroy) String() string { return fmt.Sprintf("destroy object %d", s.Object) }

func (s Destroy) run(r *Run) *model.Violation {
	o := r.objs[s.Object]
	if o == nil || modelOf(o) == nil {
		return nil
	}
	err := destroyOf(o).Destroy()
	switch o := o.(type) {
	case *pdObj:
		return o.m.Destroy(err)
	case *cqObj:
		v := o.m.Destroy(err)
		if o.m.Dead {
			o.m.Callbacks = int(o.calls.Load()) // none comes from now on
		}
		return cmp.Or(v, o.ev.destroyed(err))
	case *srqObj:
		return cmp.Or(o.ev.destroyed(err), o.m.Destroy(err))
	case *qpObj:
		return cmp.Or(o.ev.destroyed(err), o.m.Destroy(o.quarantined, err))
	case *mrObj:
		return o.m.Destroy(err)
	case *fmrObj:
		return o.m.Destroy(err)
	case *mwObj:
		return o.m.Destroy(err)
	case *avObj:
		return o.m.Destroy(err)
	case *mcastObj:
		return o.m.Destroy(err)
	}
	return nil
}

// Slow lets callbacks take a time from now on.
type Slow struct{ Millis int }

func (s Slow) String() string { return fmt.Sprintf("from now on, each callback takes %d ms", s.Millis) }

func (s Slow) run(r *Run) *model.Violation {
	r.slow.Store(int64(s.Millis) * int64(time.Millisecond))
	return nil
}

// Link changes what happens to packets between the adapters: percentages of packets that are lost, duplicated and
// overtaken, or all lost. The zero value mends it.
type Link struct {
	Drop, Duplicate, Reorder int
	Seed                     uint64
	Cut                      bool
}

func (s Link) String() string {
	switch {
	case s.Cut:
		return "cut the link"
	case s == Link{}:
		return "mend the link"
	}
	return fmt.Sprintf("from now on, the link drops %d%% of the packets, duplicates %d%% and reorders %d%%", s.Drop,
		s.Duplicate, s.Reorder)
}

func (s Link) run(r *Run) *model.Violation {
	if r.impair == nil {
		return nil
	}
	if r.impair(validate.Impairment{Drop: float64(s.Drop) / 100, Duplicate: float64(s.Duplicate) / 100,
		Reorder: float64(s.Reorder) / 100, Cut: s.Cut, Seed: s.Seed}) != nil {
		r.impair = nil // not supported
		return nil
	}
	wasLossy := r.w.Lossy
	r.w.Cut, r.w.Lossy = s.Cut, s != Link{} && !s.Cut
	r.hasLost = r.hasLost || r.w.Lossy
	if wasLossy && !r.w.Lossy {
		<-time.After(heldTime)
	}
	r.w.Settle()
	return nil
}

// Fill writes to the memory of an adapter as its consumer.
type Fill struct {
	Side, Off, Len int
	Byte           byte
}

func (s Fill) String() string {
	return fmt.Sprintf("write %#x to bytes %d to %d of the memory of %s", s.Byte, s.Off, s.Off+s.Len, sideName(s.Side))
}

func (s Fill) run(r *Run) *model.Violation {
	at := r.at(s.Side)
	for i := s.Off; i < min(s.Off+s.Len, len(at.bytes)); i++ {
		at.bytes[i] = s.Byte + byte(i)
		at.mem.Bytes[i] = s.Byte + byte(i)
	}
	return nil
}

// ModifyCA sets counters of an adapter's port.
type ModifyCA struct {
	Side int
	Set  ci.PortField
	To   ci.PortModify
}

func (s ModifyCA) String() string {
	return fmt.Sprintf("modify %s with mask %#x and %s", sideName(s.Side), uint32(s.Set), literal(s.To))
}

func (s ModifyCA) run(r *Run) *model.Violation {
	at := r.at(s.Side)
	return at.m.Modify(s.Set, s.To, at.ca.Modify(at.port.Num, s.Set, s.To))
}

// Query queries an object.
type Query struct{ Object int }

func (s Query) String() string { return fmt.Sprintf("query object %d", s.Object) }

func (s Query) run(r *Run) *model.Violation {
	switch o := r.objs[s.Object].(type) {
	case *cqObj:
		return o.m.Query(o.d.Query())
	case *qpObj:
		return o.query()
	case *mrObj:
		if o.d == nil {
			return nil
		}
		return o.query()
	case *mwObj:
		return o.query(r)
	case *srqObj:
		a, err := o.d.Query()
		return o.m.Query(a, err)
	case *avObj:
		return o.query()
	}
	return nil
}

// query compares the attributes of a QP, and the objects that it was created with.
func (o *qpObj) query() *model.Violation {
	a, err := o.d.Query()
	if v := o.m.Query(a, err); v != nil || err != nil {
		return v
	}
	for _, x := range []struct {
		name      string
		want, got ci.Object
	}{{"PD", o.parent, a.PD}, {"SendCQ", o.create.SendCQ, a.SendCQ}, {"RecvCQ", o.create.RecvCQ, a.RecvCQ},
		{"SRQ", o.create.SRQ, a.SRQ}} {
		if !ci.Same(x.want, x.got) {
			return &model.Violation{Rule: "CI-CreateQP-01", Where: "QP.Query: " + x.name,
				Expected: "the one of the create", Got: fmt.Sprint(x.got)}
		}
	}
	return nil
}

// query compares the attributes of a region.
func (o *mrObj) query() *model.Violation {
	a, err := o.d.Query()
	if v := o.m.Query(a, err); v != nil || err != nil {
		return v
	}
	return wantPD("CI-QueryMR-01", "MR.Query", o.pd, a.PD)
}

// query compares the attributes of an address vector.
func (o *avObj) query() *model.Violation {
	a, pd, err := o.d.Query()
	if v := o.m.Query(a, err); v != nil || err != nil {
		return v
	}
	return wantPD("CI-QueryAV-01", "AV.Query", o.pd, pd)
}

// wantPD returns a violation if the PD that a Query returns is another one.
func wantPD(rule model.Rule, verb string, want, got ci.PD) *model.Violation {
	if ci.Same(want, got) {
		return nil
	}
	return &model.Violation{Rule: rule, Where: verb + ": PD", Expected: "the PD of the object", Got: "another"}
}

func sideName(i int) string { return "adapter " + string(rune('A'+i)) }

func accessNames(a ci.Access) string {
	var out []string
	for _, x := range []struct {
		a    ci.Access
		name string
	}{{ci.LocalWrite, "local write"}, {ci.RemoteRead, "remote read"}, {ci.RemoteWrite, "remote write"},
		{ci.RemoteAtomic, "remote atomic"}, {ci.BindWindow, "window binding"}, {ci.ZeroBased, "addresses from 0"}} {
		if a&x.a != 0 {
			out = append(out, x.name)
		}
	}
	if out == nil {
		return "no rights"
	}
	return strings.Join(out, ", ")
}
