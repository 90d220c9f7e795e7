package explore

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/internal/model"
	"ciddk/validate"
)

// arenaSize is the size of the memory of each adapter.
const arenaSize = 32 << 10

// pageSize is the smallest page size of every adapter.
const pageSize = 4096

// dropTime is how long a message that will be dropped may take to arrive. Nothing shows that it has. A machine that is
// busy may need more, so that a finding is repeated with slowDrop.
const (
	dropTime = 2 * time.Millisecond
	slowDrop = 20 * time.Millisecond
)

// heldTime is how long the link may hold packets that others overtake. The certifier's own link holds them for up to
// 20 ms.
const heldTime = 25 * time.Millisecond

// side is one of the two ends: an adapter with its memory.
type side struct {
	index int
	hca   ci.HCA
	ca    ci.CA
	m     *model.CA
	attr  *ci.CAAttr
	port  *ci.PortAttr
	// hasPartitions is true if the port has P_Keys of addPartitions.
	hasPartitions bool
	events        *recorder
	dma           ci.DMA // of bytes, if it was needed
	bytes         []byte // page-aligned
	seen          []byte // the last copy of bytes
	mem           *model.Memory
}

// recorder collects the events of one object.
type recorder struct {
	slow *atomic.Int64 // nanoseconds that each callback of the trace takes
	runs atomic.Int32  // callbacks that run

	mu   sync.Mutex
	list []ci.Event
	m    *model.Events
	name string
}

func (r *recorder) add(e ci.Event) {
	defer r.enter()()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, e)
}

func (r *Run) recorder(name string) *recorder { return &recorder{slow: &r.slow, name: name} }

// enter begins a callback. The function that it returns ends it.
func (r *recorder) enter() (leave func()) {
	r.runs.Add(1)
	return func() {
		if d := time.Duration(r.slow.Load()); d > 0 {
			<-time.After(d)
		}
		r.runs.Add(-1)
	}
}

// destroyed observes the Destroy of the object: no callback runs after it, and events before it are not looked at.
func (r *recorder) destroyed(err error) *model.Violation {
	if err != nil {
		return nil
	}
	if r.take(); r.runs.Load() == 0 {
		return nil
	}
	return &model.Violation{Rule: "SAS-2.1-30", Where: r.name, Expected: "none that runs when Destroy has returned",
		Got: "a callback that has not ended"}
}

// take returns the new events.
func (r *recorder) take() []ci.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// observe passes new events to the model. An object that is destroyed has none.
func (r *recorder) observe(isDead bool) *model.Violation {
	for _, e := range r.take() {
		if isDead {
			return &model.Violation{Rule: "SAS-2.1-30", Where: r.name, Expected: "none after Destroy has returned",
				Got: e.Type.String()}
		}
		if e.Context != any(r) {
			return &model.Violation{Rule: "SAS-2.1-10", Where: r.name,
				Expected: "events with the context of the object",
				Got:      fmt.Sprintf("%v with another", e.Type)}
		}
		if v := r.m.Raised(r.name, e.Type); v != nil {
			return v
		}
	}
	return nil
}

// The objects of a trace: the driver's and the model's.
type (
	pdObj struct {
		d ci.PD
		m *model.PD
		s *side
	}
	cqObj struct {
		d      ci.CQ
		m      *model.CQ
		s      *side
		ev     *recorder
		calls  atomic.Int64
		astray atomic.Int64 // callbacks with the argument of another
		// polled are the entries that were polled last.
		polled []ci.WC
	}
	srqObj struct {
		d  ci.SRQ
		m  *model.SRQ
		s  *side
		ev *recorder
	}
	qpObj struct {
		d            ci.QP
		m            *model.QP
		s            *side
		pd           int
		sendCQ, recv int
		create       ci.QPCreate
		parent       ci.PD
		ev           *recorder
		peer         int
		quarantined  bool
		half         int // of the memory, if its peer is on the same side
	}
	mrObj struct {
		d      ci.MR // nil: a mapping of an FMR, or what a region was before it was modified
		m      *model.Region
		s      *side
		region ci.Region // kept after Destroy, for stale keys
		pd     ci.PD
	}
	fmrObj struct {
		d       ci.FMR
		m       *model.FMR
		s       *side
		pd, now int // the region that it is mapped to
	}
	mwObj struct {
		d  ci.MW
		m  *model.MW
		s  *side
		pd int
	}
	mcastObj struct {
		d ci.Mcast
		m *model.Attachment
	}
	avObj struct {
		d  ci.AV
		m  *model.AV
		s  *side
		pd ci.PD
	}
)

// Run is the execution of one trace.
type Run struct {
	w      *model.World
	sides  []*side
	objs   map[int]any
	order  []int // names in the order of creation
	nextID uint64
	isPeek bool
	limit  time.Duration // how long a prediction may take
	drop   time.Duration // how long a message that will be dropped may take
	begin  time.Time
	from   time.Time                       // when the step began
	impair func(validate.Impairment) error // nil: the link cannot be impaired
	// hasLost is true if the link was lossy in this trace, so that old packets may still be on their way. Then a number
	// of nums, of QPs that were connected, is not connected again.
	hasLost bool
	nums    map[ci.QPN]bool
	step    atomic.Int64
	slow    atomic.Int64 // of recorders
	rows    []bool       // of a session: those that the model has judged
	// isParallel is true while verbs are called at the same time.
	isParallel atomic.Bool
}

// open opens the adapters of a target.
func open(ctx context.Context, t *validate.Target, limit time.Duration) (_ *Run, err error) {
	var cas []ci.CA
	defer func() {
		for _, ca := range cas {
			if err != nil {
				_ = ca.Destroy() // err is reported
			}
		}
	}()
	r := &Run{w: model.NewWorld(), objs: map[int]any{}, limit: limit, drop: dropTime, begin: time.Now(),
		impair: t.Impair, isPeek: true, nums: map[ci.QPN]bool{}}
	if len(t.HCAs) < 2 {
		r.impair = nil
	}
	for i := range 2 {
		s := &side{index: i, events: r.recorder(fmt.Sprintf("events of adapter %c", 'A'+i))}
		s.events.m = &model.Events{}
		if i < len(t.HCAs) {
			s.hca = t.HCAs[i]
			if s.ca, err = s.hca.OpenCA(s.hca.Info().GUID, s.events.add, s.events); err != nil {
				return nil, fmt.Errorf("explore: opening adapter %d: %w", i, err)
			}
			cas = append(cas, s.ca)
			if err = s.waitActive(ctx); err != nil {
				return nil, err
			}
			s.addPartitions(r)
			s.m = r.w.AddCA(s.attr, s.port)
		} else { // one adapter in loopback has two ends with memory of their own
			a := r.sides[0]
			s.hca, s.ca, s.m = a.hca, a.ca, a.m
			s.attr, s.port = a.attr, a.port
		}
		r.sides = append(r.sides, s)
		s.bytes = pages(arenaSize)
		for k := range s.bytes {
			s.bytes[k] = byte(k*7 + k>>8 + i*101)
		}
		s.mem, s.seen = model.NewMemory(ci.Bytes(s.bytes).Addr(), s.bytes), make([]byte, len(s.bytes))
		r.isPeek = r.isPeek && s.attr.Caps.Has(ci.CapPeek)
	}
	return r, nil
}

// waitActive queries the adapter until a port is active.
func (s *side) waitActive(ctx context.Context) error {
	for {
		a, err := s.ca.Query()
		if err != nil {
			return fmt.Errorf("explore: CA.Query: %w", err)
		}
		for i := range a.Ports {
			if a.Ports[i].State == ci.PortActive {
				s.attr, s.port = a, &a.Ports[i]
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("explore: no port becomes active: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// observe compares the events of the adapter: those of other objects have no place there.
func (s *side) observe() *model.Violation {
	for _, e := range s.events.take() {
		if e.Context != any(s.events) {
			return &model.Violation{Rule: "SAS-2.1-10", Where: s.events.name,
				Expected: "events with the context of the CA", Got: fmt.Sprintf("%v with another", e.Type)}
		}
		if model.IsOfQueue(e.Type) {
			return &model.Violation{Rule: "SAS-2.1-10", Where: s.events.name,
				Expected: "events of the CA and its ports only", Got: e.Type.String()}
		}
	}
	return nil
}

// look returns a copy of the memory. The adapter may write at the same time.
func (s *side) look() []byte {
	copy(s.seen, s.bytes)
	return s.seen
}

// at returns a side. A target with one adapter has one.
func (r *Run) at(i int) *side { return r.sides[i%len(r.sides)] }

// address returns the address from one side to another.
func (r *Run) address(from, to *side) ci.AVAttr {
	av := ci.AVAttr{Port: from.port.Num}
	if from.port.Link != ci.LinkEthernet {
		av.DLID = to.port.LID
		return av
	}
	for _, typ := range []ci.GIDType{ci.GIDRoCEv2, ci.GIDRoCEv1} {
		for i, a := range from.port.GIDs {
			for _, b := range to.port.GIDs {
				if a.Type == typ && b.Type == typ && isV4(a.GID) == isV4(b.GID) && a.GID != (ci.GID{}) &&
					b.GID != (ci.GID{}) {
					av.Global, av.GRH = true, ci.GRH{DGID: b.GID, SGIDIndex: uint16(i), HopLimit: 64}
					return av
				}
			}
		}
	}
	return av
}

func isV4(g ci.GID) bool {
	return slices.Equal(g[:12], []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
}

// get returns an object of the trace by its name.
func get[T any](r *Run, name int) (o T, ok bool) {
	o, ok = r.objs[name].(T)
	return o, ok
}

// put enters an object.
func (r *Run) put(name int, o any) {
	r.objs[name] = o
	r.order = append(r.order, name)
}

// names returns the names of all objects of a type that a condition holds for, in the order of creation.
func names[T any](r *Run, ok func(T) bool) (out []int) {
	for _, n := range r.order {
		if o, is := r.objs[n].(T); is && ok(o) {
			out = append(out, n)
		}
	}
	return out
}

// rest waits until the driver shows what the model predicts, and returns the first violation.
func (r *Run) rest() *model.Violation {
	deadline := time.Now().Add(r.limit)
	pause := 20 * time.Microsecond
	for spin := 0; ; spin++ {
		missing, wrong := r.compare()
		isOver := time.Now().After(deadline)
		switch {
		case (wrong != nil || missing != nil && isOver) && r.isExhausted():
			r.w.Lost = true
			return nil
		case wrong != nil:
			return wrong
		case missing == nil && !r.w.Lost && time.Since(r.from) < r.w.AtLeast:
			return &model.Violation{Rule: r.w.AtLeastRule, Where: "a request that fails",
				Expected: fmt.Sprintf("that its retries take at least %v", r.w.AtLeast),
				Got:      time.Since(r.from).String()}
		case missing == nil:
			if r.w.Dropped {
				<-time.After(r.drop)
			}
			r.w.Rest()
			return nil
		case isOver:
			return r.cause(missing)
		case spin < 20:
			runtime.Gosched()
		default:
			<-time.After(pause)
			pause = min(2*pause, 2*time.Millisecond)
		}
	}
}

// cause returns the violation behind something that is missing: a QP that is not in an error state, for flushed
// requests, or a completion that is wrong, which a busy machine does not explain.
func (r *Run) cause(v *model.Violation) *model.Violation {
	for _, n := range r.order {
		o, ok := r.objs[n].(*cqObj)
		if !ok || o.m.Dead || !v.Doubt {
			continue
		}
		space := o.m.Pending() + 1
		k, err := o.poll(space)
		if w := o.m.Poll(o.polled, k, err); w != nil && !w.Doubt {
			return w
		}
	}
	for _, n := range r.order {
		if o, ok := r.objs[n].(*qpObj); ok && v.Rule == "CI-Flush-01" && !o.m.Dead && o.m.State == ci.QPError {
			if w := o.query(); w != nil {
				return w
			}
		}
	}
	return v
}

// isExhausted reports whether so many packets were lost, or the run took so long, that a connection has no retries
// left.
func (r *Run) isExhausted() bool {
	if !r.w.Lossy && time.Since(r.begin) < model.LongWait {
		return false
	}
	for _, n := range r.order {
		o, ok := r.objs[n].(*qpObj)
		if !ok || o.m.Dead || o.m.Type != ci.RC {
			continue
		}
		if a, err := o.d.Query(); err != nil || a.State != ci.QPError {
			continue
		}
		cq, _ := get[*cqObj](r, o.sendCQ)
		wcs := make([]ci.WC, cq.m.Size)
		k, err := cq.d.Poll(wcs)
		if err == nil {
			cq.polled = append(cq.polled, wcs[:k]...) // also those of other QPs, which come later in this loop
		}
		if slices.ContainsFunc(cq.polled, func(w ci.WC) bool {
			return w.QPN == o.m.Num && w.Status == ci.WCTimeoutRetryErr
		}) {
			return true
		}
	}
	return false
}

// compare returns what is missing and may still come, and what is wrong.
func (r *Run) compare() (missing, wrong *model.Violation) {
	late := func(v *model.Violation) {
		if v != nil && missing == nil {
			missing = v
		}
	}
	for _, s := range r.sides {
		if wrong = s.observe(); wrong != nil {
			return nil, wrong
		}
	}
	if r.w.Lost {
		for _, n := range r.order {
			if o, ok := r.objs[n].(*cqObj); ok && o.m.Overrun {
				_ = o.ev.observe(false)
				late(o.m.Events.Missing(o.ev.name))
			}
		}
		return missing, nil
	}
	for _, n := range r.order {
		switch o := r.objs[n].(type) {
		case *cqObj:
			if wrong = cmp.Or(o.ev.observe(o.m.Dead), o.m.Called(int(o.calls.Load()))); wrong != nil {
				return nil, wrong
			}
			if o.astray.Load() > 0 {
				return nil, &model.Violation{Rule: "SAS-2.1-12", Where: fmt.Sprintf("callback of CQ %d", n),
					Expected: "the context of the CQ as its argument", Got: "another"}
			}
			if o.m.Dead {
				continue
			}
			late(o.m.Events.Missing(o.ev.name))
			m, w := r.entries(o)
			if w != nil {
				return nil, w
			}
			late(m)
			if got, want := int(o.calls.Load()), o.m.Callbacks; got < want {
				late(&model.Violation{Rule: o.m.CallbackRule, Where: fmt.Sprintf("CQ %d", n), Doubt: true,
					Expected: fmt.Sprintf("%d callbacks", want), Got: fmt.Sprint(got)})
			}
		case *srqObj:
			if wrong = o.ev.observe(o.m.Dead); wrong != nil {
				return nil, wrong
			}
			late(o.m.Events.Missing(o.ev.name))
		case *qpObj:
			if wrong = o.ev.observe(o.m.Dead); wrong != nil {
				return nil, wrong
			}
			late(o.m.Events.Missing(o.ev.name))
		}
	}
	if missing != nil {
		return missing, nil
	}
	for i, s := range r.sides {
		if i == 0 || s.ca != r.sides[0].ca {
			a, err := s.ca.Query()
			if v := s.m.Query(a, err); v != nil && !v.Doubt {
				return nil, v
			} else if v != nil {
				late(v)
			}
		}
		late(s.mem.Compare(fmt.Sprintf("memory of adapter %c", 'A'+s.index), s.look(), "SAS-2.3-17"))
	}
	if missing != nil {
		return missing, nil
	}
	for _, n := range r.order {
		if o, ok := r.objs[n].(*mwObj); ok && !o.m.Dead {
			if v := o.query(r); v != nil {
				v.Where = fmt.Sprintf("window %d: %s", n, v.Where)
				late(v)
			}
		}
		if o, ok := r.objs[n].(*qpObj); ok && !o.m.Dead {
			if v := o.query(); v != nil {
				v.Where = fmt.Sprintf("QP %d: %s", n, v.Where)
				if !v.Doubt {
					return nil, v
				}
				late(v)
			}
		}
	}
	return missing, nil
}

// entries compares the number of entries of a CQ. Without CapPeek it polls them.
func (r *Run) entries(o *cqObj) (missing, wrong *model.Violation) {
	if r.isPeek {
		n, err := o.d.Peek()
		v := o.m.Peek(n, err)
		if v == nil || v.Doubt {
			return v, nil
		}
		// Name the entry that nobody expects.
		space := n
		if _, err = o.poll(space); err == nil {
			if w := o.m.Poll(o.polled, space, err); w != nil {
				return nil, w
			}
		}
		return nil, v
	}
	want := o.m.Pending()
	n, err := o.poll(want + 1)
	if v := o.m.Poll(o.polled, n, err); v != nil {
		return nil, v
	}
	if n < want && !o.m.Vague() {
		return o.m.Peek(0, nil), nil
	}
	return nil, nil
}

// finish mends the link, tries to destroy what others need, destroys all objects, newest first, and closes the
// adapters. The model observes each Destroy.
func (r *Run) finish(judge bool) (v *model.Violation) {
	if r.w.Cut || r.w.Lossy {
		v = (Link{}).run(r)
	}
	for _, n := range names(r, func(o any) bool {
		switch o.(type) {
		case *pdObj, *cqObj, *srqObj:
			return judge && !isDead(o) && modelOf(o).Users() > 0
		}
		return false
	}) {
		if v == nil {
			v = (Destroy{n}).run(r)
		}
	}
	for _, n := range names(r, func(o *fmrObj) bool { return o.m.Now != nil }) {
		if w := (Unmap{[]int{n}}).run(r); w != nil && v == nil && judge {
			v = w
		}
	}
	for _, typ := range []func(any) bool{
		func(o any) bool { _, ok := o.(*mwObj); return ok }, // a QP or a region may be needed by windows
		func(o any) bool { _, ok := o.(*mcastObj); return ok },
		func(o any) bool { _, ok := o.(*qpObj); return ok },
		func(o any) bool { _, ok := o.(*srqObj); return ok },
		func(o any) bool { _, ok := o.(*pdObj); return !ok },
		func(any) bool { return true },
	} {
		for _, n := range slices.Backward(r.order) {

			if o := r.objs[n]; typ(o) && !isDead(o) {
				r.step.Add(1)
				if w := (Destroy{n}).run(r); w != nil && v == nil && judge {
					v = w
				}
				if !isDead(r.objs[n]) {
					_ = destroyOf(r.objs[n]).Destroy() // the violation is reported already
				}
				delete(r.objs, n)
			}
		}
	}
	for _, s := range r.sides {
		if s.dma == nil {
			continue
		}
		if err := s.dma.Destroy(); err != nil && v == nil && judge {
			v = &model.Violation{Rule: "CI-MapDMA-01", Where: "DMA.Destroy after every object was destroyed",
				Expected: "success", Got: err.Error()}
		}
	}
	for i, s := range r.sides {
		if i > 0 && s.ca == r.sides[0].ca {
			continue
		}
		s.removePartitions(r)
		if err := s.ca.Destroy(); err != nil && v == nil && judge {
			v = &model.Violation{Rule: "CI-Teardown-07", Where: "CA.Destroy after every object was destroyed",
				Expected: "success", Got: err.Error()}
		}
	}
	return v
}

// isDead reports whether an object was destroyed.
func isDead(o any) bool { m := modelOf(o); return m == nil || m.Dead }

// modelOf returns what the model's object has in common with others.
func modelOf(o any) *model.Object {
	switch o := o.(type) {
	case *pdObj:
		return &o.m.Object
	case *cqObj:
		return &o.m.Object
	case *srqObj:
		return &o.m.Object
	case *qpObj:
		return &o.m.Object
	case *mrObj:
		if o.d == nil {
			return nil
		}
		return &o.m.Object
	case *fmrObj:
		return &o.m.Object
	case *mwObj:
		return &o.m.Object
	case *avObj:
		return &o.m.Object
	case *mcastObj:
		return &o.m.Object
	}
	return nil
}

// destroyOf returns the driver's object.
func destroyOf(o any) ci.Object {
	switch o := o.(type) {
	case *pdObj:
		return o.d
	case *cqObj:
		return o.d
	case *srqObj:
		return o.d
	case *qpObj:
		return o.d
	case *mrObj:
		return o.d
	case *fmrObj:
		return o.d
	case *mwObj:
		return o.d
	case *avObj:
		return o.d
	case *mcastObj:
		return o.d
	}
	return nil
}

// unclear reports whether the result of a step follows from races or from times that a run does not wait for, so that
// the model cannot predict it. Such steps are skipped.
func (r *Run) unclear(s Step) bool {
	switch s := s.(type) {
	case Send:
		o, ok := get[*qpObj](r, s.QP)
		if !ok || o.m.Dead || o.m.State != ci.QPRTS && o.m.State != ci.QPSQD {
			return false
		}
		if o.m.SendCQ.Free() < len(s.WRs) && !s.Overflow {
			return true
		}
		if r.isOvertaking(s) || r.isLossy(o, s) {
			return true
		}
		p, ok := get[*qpObj](r, o.peer)
		if !ok || o.m.Type != ci.RC {
			return false
		}
		return p.m.SRQ != nil && !r.isAlone(o, p) || s.Overflow && !o.m.Answers()
	case Recv:
		if o, ok := get[*qpObj](r, s.Queue); ok {
			return !o.m.Dead && o.m.RecvCQ.Free() < len(s.WRs)
		}
		if q, ok := get[*srqObj](r, s.Queue); ok {
			return len(names(r, func(o *qpObj) bool {
				return !o.m.Dead && o.m.SRQ == q.m && o.m.RecvCQ.Free() < len(s.WRs)
			})) > 0
		}
	case Connect:
		a, ok := get[*qpObj](r, s.A)
		b, ok2 := get[*qpObj](r, s.B)
		return ok && (a.quarantined || r.isOld(a)) || ok2 && (b.quarantined || r.isOld(b)) || r.isAwaited(s.A) ||
			r.isAwaited(s.B)
	case Modify:
		o, ok := get[*qpObj](r, s.QP)
		if !ok || o.m.Dead {
			return false
		}
		n, _ := o.m.Waiting()
		// Which of several requests have begun when the queue is to drain is open.
		isDraining := s.Attr.State == ci.QPSQD && (n > 1 || n > 0 && !r.w.Cut)
		return o.quarantined || r.isAwaited(s.QP) || r.isOld(o) && o.m.State < ci.QPRTS || isDraining
	case Fill: // an unfinished message may overwrite it, or not
		return r.at(s.Side).mem.IsHazy(s.Off, s.Len)
	case Bind:
		w, ok := get[*mwObj](r, s.MW)
		return ok && w.m.Pending() || r.isBusy() || r.w.Lossy
	case MapFMR, Unmap, ModifyMR:
		return r.isBusy() || r.w.Lossy
	case Destroy:
		switch o := r.objs[s.Object].(type) {
		case *mrObj:
			return r.isBusy() || o.m.HasVague() || r.w.Lossy
		case *mwObj:
			return r.isBusy() || r.w.Lossy
		case *qpObj: // whether it can be destroyed is open (IBTA volume 1, o10-37.2.38)
			if o.m.HasWindows() && !o.m.Dead {
				return true
			}
		}
		return r.isAwaited(s.Object)
	}
	return false
}

// isOld reports whether packets of an earlier connection with the number of a QP may still arrive.
func (r *Run) isOld(o *qpObj) bool { return r.hasLost && !o.m.Dead && r.nums[o.m.Num] }

// isLossy reports whether a send may fail because the link loses packets, or whether nothing shows when it is done.
func (r *Run) isLossy(o *qpObj, s Send) bool {
	if !r.w.Cut && !r.w.Lossy {
		return false
	}
	p, ok := get[*qpObj](r, o.peer)
	if !ok || p.s.hca == o.s.hca { // inside an adapter nothing is lost
		return true
	}
	a := o.m.Attr
	if o.m.Type == ci.RC && (a.Primary.AckTimeout == 0 || a.Primary.AckTimeout > 14) {
		return true
	}
	if r.w.Cut { // several at a time would be executed in any order
		return o.m.Type == ci.RC && len(names(r, func(x *qpObj) bool {
			n, _ := x.m.Waiting()
			return x != o && !x.m.Dead && n > 0
		})) > 0
	}
	for _, w := range s.WRs {
		if w.Op == ci.OpBindMW || w.Op == ci.OpLocalInv || w.Flags&ci.SendInvalidate != 0 ||
			w.Flags&ci.SendSignaled == 0 && o.m.Flags&ci.QPSignalAll == 0 {
			return true
		}
	}
	return o.m.Type != ci.RC || a.RetryCount != 7
}

// isOvertaking reports whether a bind or an invalidation may be executed while other requests use the window: requests
// are not ordered against READs and atomics before them (IBTA volume 1, table 76).
func (r *Run) isOvertaking(s Send) bool {
	for i, w := range s.WRs {
		if w.Op != ci.OpBindMW && w.Op != ci.OpLocalInv && w.Flags&ci.SendInvalidate == 0 {
			continue
		}
		if o, ok := get[*mwObj](r, w.MW); ok && o.m.Vague || r.isBusy() || i > 0 && s.WRs[i-1].Op != ci.OpBindMW &&
			s.WRs[i-1].Op != ci.OpLocalInv {
			return true
		}
	}
	return false
}

// isAlone reports whether no other QP waits for a receive of the same SRQ: which of them gets the next one is open.
func (r *Run) isAlone(o, peer *qpObj) bool {
	return len(names(r, func(x *qpObj) bool {
		p, ok := get[*qpObj](r, x.peer)
		n, _ := x.m.Waiting()
		return !x.m.Dead && x != o && ok && p.m.SRQ == peer.m.SRQ && n > 0
	})) == 0
}

// isAwaited reports whether the peer of a QP waits for it.
func (r *Run) isAwaited(name int) bool {
	o, ok := get[*qpObj](r, name)
	if !ok {
		return false
	}
	p, ok := get[*qpObj](r, o.peer)
	if !ok || p.m.Dead || p.m.State != ci.QPRTS {
		return false
	}
	n, _ := p.m.Waiting()
	return n > 0
}

// isBusy reports whether sends wait. Whether they use a region that is destroyed meanwhile is open.
func (r *Run) isBusy() bool {
	return len(names(r, func(o *qpObj) bool { n, _ := o.m.Waiting(); return !o.m.Dead && n > 0 })) > 0
}
