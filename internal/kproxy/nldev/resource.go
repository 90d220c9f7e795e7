package nldev

import (
	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// The attributes of resources.
const (
	attrSummary      = 15
	attrSummaryEntry = 16
	attrSummaryName  = 17
	attrSummaryCount = 18
	attrLocalQPN     = 21
	attrRemoteQPN    = 22
	attrRecvPSN      = 23
	attrSendPSN      = 24
	attrMigration    = 25
	attrQPType       = 26
	attrQPState      = 27
	attrPID          = 28
	attrCQE          = 37
	attrUseCount     = 38
	attrMRLength     = 45
	attrPDNumber     = 60
	attrCQNumber     = 61
	attrMRNumber     = 62
	attrContext      = 64
	attrSRQNumber    = 90
)

// table describes a list of resources: the attributes of the list and of an entry, and what an entry has besides the
// process.
type table struct {
	kind        schema.Kind
	name        string // in the summary
	list, entry uint16
	describe    func(a *attrs, r *kproxy.Resource)
}

var (
	pdTable = table{schema.KindPD, "pd", 46, 47, func(a *attrs, r *kproxy.Resource) {
		a.u64(attrUseCount, uint64(r.Users))
		a.u32(attrPDNumber, r.Index)
	}}
	cqTable = table{schema.KindCQ, "cq", 35, 36, func(a *attrs, r *kproxy.Resource) {
		a.u32(attrCQE, uint32(cqSize(r.CQ)))
		a.u64(attrUseCount, uint64(r.Users))
		a.u32(attrCQNumber, r.Index)
	}}
	qpTable = table{schema.KindQP, "qp", 19, 20, describeQP}
	mrTable = table{schema.KindMR, "mr", 40, 41, func(a *attrs, r *kproxy.Resource) {
		a.u64(attrMRLength, uint64(r.Bytes))
		a.u32(attrMRNumber, r.Index)
	}}
	contextTable = table{schema.KindCA, "ctx", 86, 87, func(a *attrs, r *kproxy.Resource) {
		a.u32(attrContext, r.Index)
	}}
	srqTable = table{schema.KindSRQ, "srq", 88, 89, func(a *attrs, r *kproxy.Resource) {
		a.u32(attrSRQNumber, r.Index)
	}}

	tables = []*table{&pdTable, &cqTable, &qpTable, &mrTable, &contextTable, &srqTable}
)

// The numbers of types and states (enum ib_qp_type, enum ib_qp_state).
var (
	qpTypes  = map[ci.QPType]uint8{ci.RC: 2, ci.UC: 3, ci.UD: 4}
	qpStates = map[ci.QPState]uint8{ci.QPReset: 0, ci.QPInit: 1, ci.QPRTR: 2, ci.QPRTS: 3, ci.QPSQD: 4,
		ci.QPSQDraining: 4, ci.QPSQError: 5, ci.QPError: 6}
	migrations = map[ci.APMState]uint8{ci.APMMigrated: 0, ci.APMRearm: 1, ci.APMArmed: 2}
)

// cqSize returns the number of completions that a CQ has room for, 0 if it is being destroyed.
func cqSize(cq *accesslayer.CQ) int {
	if cq == nil {
		return 0
	}
	a, err := cq.Query()
	if err != nil {
		return 0
	}
	return a.Size
}

func describeQP(a *attrs, r *kproxy.Resource) {
	q, err := r.QP.Query()
	if err != nil { // it is being destroyed
		q.State = ci.QPReset
	}
	a.u32(attrPortIndex, uint32(max(1, q.Port)))
	a.u32(attrLocalQPN, uint32(r.QP.Num()))
	if r.Type == ci.RC || r.Type == ci.UC {
		a.u32(attrRemoteQPN, uint32(q.DestNum))
		a.u32(attrRecvPSN, uint32(q.RQPSN))
		a.u8(attrMigration, migrations[q.APM])
	}
	a.u32(attrSendPSN, uint32(q.SQPSN))
	a.u8(attrQPType, qpTypes[r.Type])
	a.u8(attrQPState, qpStates[q.State])
}

// getSummary returns the numbers of resources.
func (n *FrontEnd) getSummary(q map[uint16][]byte, isDump bool) ([]attrs, error) {
	list, err := n.devices(q, isDump)
	if err != nil {
		return nil, err
	}
	var replies []attrs
	for i := range list {
		count := map[schema.Kind]uint64{}
		for _, r := range n.cfg.Core.Resources(list[i].GUID) {
			count[r.Kind]++
		}
		var summary attrs
		for _, t := range tables {
			var entry attrs
			entry.text(attrSummaryName, t.name)
			entry.u64(attrSummaryCount, count[t.kind])
			summary.nest(attrSummaryEntry, entry)
		}
		a := named(&list[i])
		a.nest(attrSummary, summary)
		replies = append(replies, a)
	}
	return replies, nil
}

// maxTable is the number of bytes of a list after which a reply is sent: command rdma receives into 4096 bytes.
const maxTable = 3000

// listOf returns the query for a table. A reply has as many entries as fit.
func listOf(t table) query {
	return func(n *FrontEnd, q map[uint16][]byte, _ bool) ([]attrs, error) {
		d, err := n.device(q)
		if err != nil {
			return nil, err
		}
		var replies []attrs
		var list attrs
		flush := func() {
			a := named(d)
			a.nest(t.list, list)
			replies, list = append(replies, a), nil
		}
		for _, r := range n.cfg.Core.Resources(d.GUID) {
			if r.Kind != t.kind || t.kind == schema.KindQP && r.QP == nil {
				continue
			}
			var entry attrs
			t.describe(&entry, &r)
			entry.u32(attrPID, uint32(r.PID))
			list.nest(t.entry, entry)
			if len(list) > maxTable {
				flush()
			}
		}
		if len(list) > 0 {
			flush()
		}
		return replies, nil
	}
}
