package explore

import (
	"math/rand/v2"
	"slices"

	"ciddk/ci"
)

// A row is one combination of the levels of all factors: a message or a local operation between two new QPs, with all
// that may make a difference to it. The first traces of an exploration are rows, chosen so that few of them visit every
// pair of levels (a covering array of strength 2). Random traces follow.
type row [len(factors)]uint8

// factors are what may vary in a row, with the names of their levels. The first level of each is the ordinary one.
var factors = [...]struct {
	name   string
	levels []string
}{
	fService:  {"service", []string{"RC", "UC", "UD"}},
	fOp:       {"operation", operationNames()},
	fFault:    {"fault", faultNames()},
	fPlace:    {"place", []string{"two adapters", "one adapter"}},
	fImm:      {"immediate", []string{"no", "yes"}},
	fSol:      {"solicited", []string{"no", "yes"}},
	fFence:    {"fence", []string{"no", "yes"}},
	fSignal:   {"signaled", []string{"request", "none", "QP and request", "QP"}},
	fSource:   {"segments", []string{"one", "two", "three, one empty", "as many as possible", "inline", "none"}},
	fLength:   {"length", []string{"64", "0", "1", "7", "MTU-1", "MTU", "MTU+1", "2 MTU", "3 MTU+5"}},
	fLocal:    {"local region", regionNames[:numLocal]},
	fRemote:   {"remote region", regionNames},
	fRecv:     {"receive", []string{"large", "exact", "two segments", "as many as possible", "late"}},
	fQueue:    {"receive queue", []string{"own", "shared", "shared with limit", "shared, resized with limit"}},
	fCQs:      {"CQs", []string{"one", "two", "exact"}},
	fArmSend:  {"send CQ", armNames},
	fArmRecv:  {"receive CQ", armNames},
	fPoll:     {"poll", []string{"all", "one by one", "more"}},
	fSender:   {"sender", []string{"RTS", "SQD", "drained", "again RTS", "reconnected", "SQD, then Error"}},
	fReceiver: {"receiver", []string{"RTS", "RTR", "SQD"}},
	fBurst:    {"position", []string{"alone", "first", "middle", "last", "posted alone after"}},
	fOther:    {"neighbours", []string{"WRITE", "SEND", "READ", "NOP"}},
	fPSN:      {"PSN", []string{"0", "0xffffff", "0xfffffe", "0x7fffff", "random"}},
	fMTU:      {"MTU", []string{"256", "512", "1024", "most"}},
	fReads:    {"reads", []string{"1", "most"}},
	fRNR:      {"RNR retries", []string{"7", "0", "1"}},
	fRetry:    {"retries", []string{"7", "0", "1"}},
	fPKey:     {"P_Key", []string{"0", "another"}},
	fPD:       {"PD", []string{"first", "own"}},
	fVector:   {"address", []string{"local", "SL", "GRH, modified", "GRH and SL"}},
	fRights: {"rights or Q_Key", []string{"with Init", "with RTR", "with RTS", "in RTS", "in SQD", "SQD to RTS",
		"least"}},
	fRoom:  {"depth", []string{"4", "2", "1"}},
	fCount: {"counters", []string{"as they are", "largest", "before the largest"}},
	fLoss:  {"link", []string{"whole", "lossy"}},
	fEnd:   {"QPs", []string{"live at the last poll", "destroyed before"}},
}

const (
	fService = iota
	fOp
	fFault
	fPlace
	fImm
	fSol
	fFence
	fSignal
	fSource
	fLength
	fLocal
	fRemote
	fRecv
	fQueue
	fCQs
	fArmSend
	fArmRecv
	fPoll
	fSender
	fReceiver
	fBurst
	fOther
	fPSN
	fMTU
	fReads
	fRNR
	fRetry
	fPKey
	fPD
	fVector
	fRights
	fRoom
	fCount
	fLoss
	fEnd
)

var (
	regionNames = []string{"all memory", "tight", "higher", "physical", "shared", "zero-based", "FMR", "fast",
		"around 4 GiB", "window 1", "window 2"}
	armNames = []string{"not armed", "next", "solicited", "after 1", "after 2", "solicited, next", "next, solicited",
		"after 2, next", "after 2, solicited"}
)

const numLocal = 9 // of the regions

// ops are the operations of rows. services are RC, UC and UD.
var ops = []struct {
	name     string
	op       ci.SendOp
	services [3]bool
	caps     ci.Caps
	right    ci.Access // at the peer
	recvs    bool      // uses a receive
	data     bool
}{
	{"SEND", ci.OpSend, [3]bool{true, true, true}, 0, 0, true, true},
	{"WRITE", ci.OpWrite, [3]bool{true, true, false}, 0, ci.RemoteWrite, false, true},
	{"READ", ci.OpRead, [3]bool{true, false, false}, 0, ci.RemoteRead, false, true},
	{"compare-and-swap", ci.OpCompareSwap, [3]bool{true, false, false}, 0, ci.RemoteAtomic, false, true},
	{"fetch-and-add", ci.OpFetchAdd, [3]bool{true, false, false}, 0, ci.RemoteAtomic, false, true},
	{"ATOMIC WRITE", ci.OpAtomicWrite, [3]bool{true, false, false}, ci.CapAtomicWrite, ci.RemoteWrite, false, true},
	{"SEND with invalidate", ci.OpSend, [3]bool{true, false, false}, ci.CapSendInvalidate | ci.CapMW2, 0, true, true},
	{"NOP", ci.OpNop, [3]bool{true, true, true}, 0, 0, false, false},
	{"local invalidate", ci.OpLocalInv, [3]bool{true, true, false}, ci.CapMW2, 0, false, false},
	{"bind 2", ci.OpBindMW, [3]bool{true, true, false}, ci.CapMW2, 0, false, false},
	{"bind 1", 255, [3]bool{true, true, false}, ci.CapMW1, 0, false, false},
}

const (
	opSend = iota
	opWrite
	opRead
	opCompareSwap
	opFetchAdd
	opAtomicWrite
	opSendInv
	opNop
	opLocalInv
	opBind2
	opBind1
)

func operationNames() (out []string) {
	for _, o := range ops {
		out = append(out, o.name)
	}
	return out
}

// A fault is something wrong with the request or with what it meets. on returns whether it can be in a row.
type fault struct {
	name string
	on   func(f *rowView) bool
}

// rowView is a row with what follows from its levels.
type rowView struct {
	*row
	isRC, isUD               bool
	local, remote, recv      bool // uses local segments with bytes, a remote address with bytes, a receive with bytes
	isAtomic, isRead, inline bool
	isWord                   bool // changes 8 aligned bytes at once
}

var faults = []fault{
	{"none", func(*rowView) bool { return true }},
	{"L_Key", func(f *rowView) bool { return f.local }},
	{"L_Key of another PD", func(f *rowView) bool { return f.local }},
	{"beyond the local region", func(f *rowView) bool { return f.local }},
	{"before the local region", func(f *rowView) bool { return f.local }},
	{"no local write", func(f *rowView) bool { return f.local && (f.isRead || f.isAtomic) }},
	{"local region destroyed", func(f *rowView) bool { return f.local }},
	{"R_Key", func(f *rowView) bool { return f.remote }},
	{"R_Key of another PD", func(f *rowView) bool { return f.remote }},
	{"beyond the remote region", func(f *rowView) bool { return f.remote }},
	{"before the remote region", func(f *rowView) bool { return f.remote }},
	{"remote region lacks the right", func(f *rowView) bool { return f.remote }},
	{"QP lacks the right", func(f *rowView) bool { return f.remote }},
	{"remote region destroyed", func(f *rowView) bool { return f.remote }},
	{"misaligned", func(f *rowView) bool { return f.isWord }},
	{"receive too short", func(f *rowView) bool { return f.recv && f.isRC && f.row[fOp] != opWrite }},
	{"L_Key of the receive", func(f *rowView) bool { return f.recv && f.row[fOp] != opWrite }},
	{"receive of another PD", func(f *rowView) bool { return f.recv && f.row[fOp] != opWrite }},
	{"receive not writable", func(f *rowView) bool { return f.recv && f.row[fOp] != opWrite }},
	{"no receive", func(f *rowView) bool { return f.recv }},
	{"peer in Reset", func(f *rowView) bool { return !f.isLocal() }},
	{"peer in Error", func(f *rowView) bool { return !f.isLocal() }},
	{"peer in Init", func(f *rowView) bool { return !f.isLocal() }},
	{"QP in Error", func(*rowView) bool { return true }},
	{"QP in Reset", func(*rowView) bool { return true }},
	{"QP in Init", func(*rowView) bool { return true }},
	{"QP in RTR", func(*rowView) bool { return true }},
	{"too many segments", func(f *rowView) bool { return f.local }},
	{"too much inline data", func(f *rowView) bool { return f.inline }},
	{"Q_Key", func(f *rowView) bool { return f.isUD }},
	{"Q_Key of the QP", func(f *rowView) bool { return f.isUD }},
	{"P_Key", func(f *rowView) bool { return !f.isLocal() }},
	{"AV of another PD", func(f *rowView) bool { return f.isUD && f.row[fOp] == opSend }},
	{"AV destroyed", func(f *rowView) bool { return f.isUD && f.row[fOp] == opSend }},
	{"longer than the MTU", func(f *rowView) bool { return f.isUD && f.local }},
	{"unknown operation", func(f *rowView) bool { return f.row[fOp] == opNop }},
}

const (
	noFault = iota
	badLKey
	localPD
	localBeyond
	localBefore
	notWritable
	localGone
	badRKey
	remotePD
	remoteBeyond
	remoteBefore
	regionRight
	qpRight
	remoteGone
	misaligned
	shortReceive
	recvLKey
	recvPD
	recvRight
	noReceive
	peerReset
	peerError
	peerInit
	inError
	inReset
	inInit
	inRTR
	manySegments
	longInline
	badQKey
	ownQKey
	badPKey
	avPD
	avGone
	longDatagram
	badOp
)

func faultNames() (out []string) {
	for _, f := range faults {
		out = append(out, f.name)
	}
	return out
}

func (r *row) isLocal() bool { return !ops[r[fOp]].data }

func (r *row) view() *rowView {
	v := &rowView{row: r, isRC: r[fService] == 0, isUD: r[fService] == 2}
	o := &ops[r[fOp]]
	v.isAtomic, v.isRead = o.right == ci.RemoteAtomic, r[fOp] == opRead
	v.isWord = v.isAtomic || r[fOp] == opAtomicWrite
	v.inline = r[fSource] == 4
	hasBytes := o.data && r[fLength] != 1 && r[fSource] != 5
	v.local = hasBytes && !v.inline
	v.remote = o.right != 0 && hasBytes
	v.recv = (o.recvs || r[fOp] == opWrite && r[fImm] == 1) && (hasBytes || r[fOp] == opWrite)
	return v
}

// limits is what the adapters of an exploration have.
type limits struct {
	caps       ci.Caps
	attr       *ci.CAAttr
	atomics    bool
	ib         bool
	partitions bool
	impair     bool
}

// settle changes levels until the row makes sense: impossible ones become ordinary.
func (r *row) settle(l *limits) {
	clear := func(cond bool, factors ...int) {
		for _, i := range factors {
			if cond {
				r[i] = 0
			}
		}
	}
	has := func(c ci.Caps) bool { return l.caps.Has(c) }
	clear(r[fService] == 1 && !has(ci.CapUC) || r[fService] == 2 && !has(ci.CapUD|ci.CapAV), fService)
	o := &ops[r[fOp]]
	isAtomic := o.right == ci.RemoteAtomic
	clear(!o.services[r[fService]] || !has(o.caps) || isAtomic && !l.atomics, fOp)
	o = &ops[r[fOp]]
	isAtomic = o.right == ci.RemoteAtomic
	isSend := r[fOp] == opSend || r[fOp] == opWrite
	clear(!isSend, fImm)
	clear(!l.impair, fLoss)
	clear(l.attr.MaxInline == 0 && r[fSource] == 4 || r[fSource] == 4 && !isSend && r[fOp] != opSendInv, fSource)
	clear(l.attr.MaxSGEs < 2 && (r[fSource] == 1 || r[fSource] == 2), fSource)
	clear(l.attr.MaxSGEs < 3 && r[fSource] == 2, fSource)
	clear(!o.data || isAtomic || r[fOp] == opAtomicWrite, fSource, fLength)
	if r[fSource] == 4 && r[fLength] > 3 { // inline data are short
		r[fLength] = 0
	}
	if r[fSource] == 5 {
		r[fLength] = 1
	}
	clear(r[fService] == 2 && r[fLength] > 5, fLength)
	clear(!o.data || r[fSource] > 3 || r[fLength] == 1, fLocal)
	clear(o.right == 0 || r[fLength] == 1, fRemote)
	for _, i := range []int{fLocal, fRemote} {
		c := [...]ci.Caps{3: ci.CapPhysicalMR, 4: ci.CapSharedMR, 5: ci.CapZeroBased, 6: ci.CapFMR, 7: ci.CapFastReg,
			9: ci.CapMW1, 10: ci.CapMW2}[r[i]]
		clear(!has(c), i)
	}
	clear(r[fService] == 2 && r[fLocal] == 7, fLocal)
	v := r.view()
	usesReceive := o.recvs || r[fOp] == opWrite && r[fImm] == 1
	clear(!usesReceive, fRecv, fArmRecv)
	clear(!has(ci.CapSRQ) || r[fQueue] == 3 && !has(ci.CapModifySRQDepth), fQueue)
	for _, i := range []int{fArmSend, fArmRecv} {
		clear(!has(ci.CapNotifyAfter) && slices.Contains([]uint8{3, 4, 7, 8}, r[i]), i)
	}
	clear(!faults[r[fFault]].on(v) || r[fFault] == badPKey && !l.partitions, fFault)
	// An early receive is late for those who wait: only RC waits.
	clear(r[fRecv] == 4 && (r[fService] != 0 || r[fFault] != noFault || r[fRNR] != 0 || r[fRoom] != 0), fRecv)
	clear(r[fReceiver] == 1 && (r[fRemote] == 7 || r[fRemote] > 8 || r[fOp] == opSendInv), fReceiver)
	clear(r[fReceiver] == 1 && r[fRights] > 1 && r[fRights] < 6, fRights)
	clear(!has(ci.CapPKeyCounter|ci.CapQKeyCounter), fCount)
	isWindow := r[fOp] >= opSendInv && r[fOp] != opNop || r[fRemote] > 8
	clear(isWindow || r[fLocal] == 7 || r[fRemote] == 7, fLoss)
	if r[fFault] == peerReset || r[fFault] == peerInit || r[fFault] >= inError && r[fFault] <= inRTR {
		clear(r[fLocal] == 7, fLocal) // what is mapped through a QP needs it in RTS
		clear(r[fRemote] == 7 || r[fRemote] > 8, fRemote)
		clear(r[fRights] > 1 && r[fRights] < 6, fRights)
		clear(r[fOp] == opSendInv || r[fOp] == opLocalInv, fOp, fFault)
	}
	clear(r[fOp] == opBind1, fBurst)
	if o := r[fOp]; (o == opLocalInv || o == opBind2 || o == opSendInv) && r[fBurst] > 1 {
		r[fBurst] = 0
	}
	clear(r[fBurst] == 0, fOther)
	clear(r[fService] != 0 && r[fOther] == 2, fOther)
	clear(r[fService] == 2 && r[fOther] != 3, fOther)
	if r[fService] == 2 && r[fBurst] != 0 && r[fOther] == 0 {
		r[fOther] = 1
	}
	clear(r[fService] == 2, fMTU, fReads, fRNR, fRetry)
	clear(r[fService] == 2 && r[fRights] == 6, fRights)
	clear(r[fService] == 1, fReads, fRNR, fRetry)
	clear(!l.ib, fVector)
	clear(!l.partitions, fPKey)
	clear(r[fLoss] != 0, fRetry, fRNR)
	if r[fLoss] != 0 { // with losses, only a reliable connection without faults is predicted
		clear(true, fFault, fPlace, fBurst, fOther)
		clear(r[fService] != 0, fLoss)
		if r[fSignal] == 1 {
			r[fSignal] = 0
		}
	}
	if r[fFault] >= inError && r[fFault] <= inRTR {
		clear(true, fSender)
	}
	clear(r[fRoom] != 0 && r[fLoss] != 0, fRoom)
}

// A session is what one trace of the array does: messages over one connection. All but the last have no fault, and
// each is a row of its own.
type session []row

// before is how many messages precede the last one of a session.
const before = 4

// ofMessage are the factors that differ between the messages of a session.
var ofMessage = []int{fOp, fImm, fSol, fFence, fSignal, fSource, fLength, fLocal, fRemote, fRecv, fArmSend, fArmRecv,
	fSender}

// schedule returns sessions that cover the pairs of levels that adapters permit, most of them with the first ones. The
// seed decides which of the possible rows they have.
func schedule(seed uint64, l *limits, count int) (out []session) {
	rnd := rand.New(rand.NewPCG(seed, 0x726f7773))
	seen := &coverage{}
	level := func(i int) uint8 { return randomLevel(rnd, i) }
	best := func(draw func() (row, bool)) (r row) {
		most := -1
		for range 30 {
			if x, ok := draw(); ok {
				if n := seen.news(&x); n > most {
					r, most = x, n
				}
			}
		}
		return r
	}
	for len(out) < count {
		last := best(func() (r row, ok bool) {
			r = randomRow(rnd)
			g := groups[rnd.IntN(len(groups))]
			for range 10 { // levels of a group that were not together yet
				if !seen.has(&r, g) {
					break
				}
				for _, i := range g {
					r[i] = uint8(rnd.IntN(len(factors[i].levels)))
				}
			}
			r.settle(l)
			return r, true
		})
		seen.add(&last)
		var s session
		for range before {
			x := best(func() (row, bool) { return last.another(level, l) })
			seen.add(&x)
			s = append(s, x)
		}
		out = append(out, append(s, last))
	}
	return out
}

// randomLevel draws a level. Some ordinary ones are drawn more often.
func randomLevel(rnd *rand.Rand, i int) uint8 {
	if i == fFault && rnd.IntN(3) == 0 || i == fLoss && rnd.IntN(8) > 0 || i == fSender && rnd.IntN(2) == 0 {
		return 0
	}
	return uint8(rnd.IntN(len(factors[i].levels)))
}

func randomRow(rnd *rand.Rand) (r row) {
	for i := range r {
		r[i] = randomLevel(rnd, i)
	}
	return r
}

// another returns another message over the connection of a row. ok is false if it needs another connection.
func (r row) another(level func(int) uint8, l *limits) (x row, ok bool) {
	x = r
	for _, i := range ofMessage {
		x[i] = level(i)
	}
	x[fSignal] = x[fSignal]&1 | r[fSignal]&2
	for _, i := range []int{fFault, fBurst, fOther, fLoss} {
		x[i] = 0
	}
	if x[fSender] > 3 {
		x[fSender] = 0
	}
	was := x
	x.settle(l)
	for _, i := range ofMessage {
		was[i] = x[i]
	}
	return x, was == x && x[fSignal]&2 == r[fSignal]&2
}

// groups are factors that a driver looks at together, so that the array shall have more than pairs of their levels.
var groups = [...][]int{
	{fService, fOp, fImm, fSol, fArmRecv},
	{fService, fOp, fSignal, fArmSend},
	{fService, fOp, fQueue, fFault},
	{fOp, fFault, fRemote},
	{fOp, fFault, fLocal},
	{fOp, fLength, fSource, fImm},
	{fOp, fFault, fBurst, fSignal},
	{fOp, fSignal, fSender},
	{fService, fOp, fSender, fReceiver},
	{fService, fRecv, fLength, fQueue},
	{fOp, fRemote, fRights},
	{fOp, fFault, fRights},
	{fService, fFault, fCount},
	{fRoom, fFault, fBurst},
	{fService, fArmRecv, fImm, fSol, fPoll},
	{fOp, fMTU, fLength, fPSN},
}

// coverage is a set of pairs of levels, and of levels of groups.
type coverage struct {
	pairs  [len(factors)][len(factors)][maxLevels][maxLevels]bool
	groups [len(groups)]map[uint64]bool
}

// has reports whether the levels of the factors of a group are in the set.
func (c *coverage) has(r *row, group []int) bool {
	i := slices.IndexFunc(groups[:], func(g []int) bool { return &g[0] == &group[0] })
	return c.groups[i][r.key(group)]
}

// key returns the levels of a group.
func (r *row) key(group []int) (k uint64) {
	for _, i := range group {
		k = k*maxLevels + uint64(r[i])
	}
	return k
}

// maxLevels is more than the levels of any factor.
const maxLevels = 48

// news returns what a row adds to the set.
func (c *coverage) news(r *row) (n int) {
	for i := range r {
		for j := i + 1; j < len(r); j++ {
			if !c.pairs[i][j][r[i]][r[j]] {
				n++
			}
		}
	}
	for i, g := range groups {
		if !c.groups[i][r.key(g)] {
			n++
		}
	}
	return n
}

// add adds what a row has.
func (c *coverage) add(r *row) {
	for i := range r {
		for j := i + 1; j < len(r); j++ {
			c.pairs[i][j][r[i]][r[j]] = true
		}
	}
	for i, g := range groups {
		if c.groups[i] == nil {
			c.groups[i] = map[uint64]bool{}
		}
		c.groups[i][r.key(g)] = true
	}
}

// count returns the number of pairs.
func (c *coverage) count() (n int) {
	for i := range c.pairs {
		for j := range c.pairs[i] {
			for a := range c.pairs[i][j] {
				for _, is := range c.pairs[i][j][a] {
					if is {
						n++
					}
				}
			}
		}
	}
	return n
}

// String describes the levels that are not the ordinary ones.
func (r row) String() string {
	s := ""
	for i, f := range factors {
		if r[i] != 0 || i == fOp {
			s += f.name + " " + f.levels[r[i]] + ", "
		}
	}
	return s
}

// limits returns what the adapters of a run permit.
func (r *Run) limits() *limits {
	a, b := r.sides[0], r.sides[1]
	l := &limits{caps: a.attr.Caps & b.attr.Caps, attr: a.attr, atomics: a.attr.Atomicity != ci.AtomicNone,
		ib: a.port.Link == ci.LinkInfiniBand, partitions: a.hasPartitions && b.hasPartitions, impair: r.impair != nil}
	if a.attr.PageSizes[0] != pageSize {
		l.caps &^= ci.CapPhysicalMR | ci.CapFMR | ci.CapFastReg
	}
	return l
}

// Pairs counts the pairs of levels that rows have visited: all steps of the row were executed, and nothing that the
// model cannot predict came in between.
type Pairs struct {
	Rows, Visited   int // rows
	seen, permitted coverage
}

// Count returns the number of pairs that were visited, and of those that 20,000 random rows have: those that the
// adapters permit.
func (p *Pairs) Count() (visited, permitted int) { return p.seen.count(), p.permitted.count() }

// permit determines what adapters permit.
func (p *Pairs) permit(l *limits) {
	if p == nil {
		return
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		x := randomRow(rnd)
		x.settle(l)
		p.permitted.add(&x)
	}
}

// visit adds a row that was executed as a trace.
func (p *Pairs) visit(r *Run, s session) {
	if p == nil {
		return
	}
	for i, x := range s {
		if p.Rows++; i < len(r.rows) && r.rows[i] {
			p.Visited++
			p.seen.add(&x)
		}
	}
}
