package model

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// diag counts error completions by their syndromes, CQs that overran, and requests of peers that were rejected.
type diag struct {
	recv, send [numSyndromes]atomic.Uint32
	overflows  atomic.Uint32
	accesses   atomic.Uint32 // rejected remote accesses
	invalid    atomic.Uint32 // rejected requests

	base [len(engineCounters)]uint64 // the transport's counters at the last clear; Model.mu guards it
}

const numSyndromes = int(prm.SynRemoteAborted) + 1

// diagCounters are the counters of DIAG_RPRT that the model has. The others are 0.
var diagCounters = []struct {
	field    *prm.Field
	isSend   bool
	syndrome prm.Syndrome
}{
	{&prm.DiagRQLocalLength, false, prm.SynLocalLength},
	{&prm.DiagRQLocalQPOp, false, prm.SynLocalQPOp},
	{&prm.DiagRQLocalProtection, false, prm.SynLocalProtection},
	{&prm.DiagRQFlushed, false, prm.SynFlushed},
	{&prm.DiagSQLocalLength, true, prm.SynLocalLength},
	{&prm.DiagSQLocalQPOp, true, prm.SynLocalQPOp},
	{&prm.DiagSQLocalProtection, true, prm.SynLocalProtection},
	{&prm.DiagSQFlushed, true, prm.SynFlushed},
	{&prm.DiagSQWindowBind, true, prm.SynWindowBind},
	{&prm.DiagSQBadResponse, true, prm.SynBadResponse},
	{&prm.DiagSQRemoteInvalid, true, prm.SynRemoteInvalid},
	{&prm.DiagSQRemoteAccess, true, prm.SynRemoteAccess},
	{&prm.DiagSQRemoteOp, true, prm.SynRemoteOp},
	{&prm.DiagSQRetryExceeded, true, prm.SynRetryExceeded},
	{&prm.DiagSQRNRExceeded, true, prm.SynRNRExceeded},
}

// engineCounters are the counters of DIAG_RPRT that the transport has. Its counters of sequence errors and of missing
// receives are those of all services.
var engineCounters = [...]struct {
	field   *prm.Field
	counter rvt.Counter
}{
	{&prm.DiagRQRNR, rvt.CountRNRNak},
	{&prm.DiagSQRNR, rvt.CountRNRRetry},
	{&prm.DiagRQOutOfSequence, rvt.DropSequence},
	{&prm.DiagSQOutOfSequence, rvt.CountSeqRetry},
	{&prm.DiagRQDatagramDrops, rvt.DropNoRecv},
	{&prm.DiagRQDuplicates, rvt.DropDuplicate},
	{&prm.DiagSQTimeouts, rvt.CountRetry},
}

// engineCounts returns the transport's counters.
func (m *Model) engineCounts() (list [len(engineCounters)]uint64) {
	all := m.engine.Counters()
	for i, x := range engineCounters {
		list[i] = all[x.counter.String()]
	}
	return list
}

// event counts an event of a QP, if it is that of a rejected request.
func (d *diag) event(t ci.EventType) {
	switch t {
	case ci.EventWQAccessError:
		d.accesses.Add(1)
	case ci.EventWQReqError:
		d.invalid.Add(1)
	}
}

// count counts the entry of a CQ, if it is one of an error.
func (d *diag) count(e []byte) {
	if entryOpcode(e) != prm.CQEOpcodeError {
		return
	}
	list := &d.recv
	if prm.CQESend.Has(e) {
		list = &d.send
	}
	if s := prm.CQESyndrome.Get(e); s < uint64(numSyndromes) {
		list[s].Add(1)
	}
}

// clearDiag sets all counters to 0. m.mu is held.
func (m *Model) clearDiag() {
	d := &m.diag
	for i := range numSyndromes {
		d.recv[i].Store(0)
		d.send[i].Store(0)
	}
	d.overflows.Store(0)
	d.accesses.Store(0)
	d.invalid.Store(0)
	d.base = m.engineCounts()
}

// diagReport returns the diagnostic counters, which are those of the adapter for all ports.
func (c *command) diagReport() prm.Status {
	if c.port(uint8(c.mod)) == nil && c.mod != 0 {
		return prm.BadParam
	}
	b := make([]byte, prm.MailboxSize)
	for _, x := range diagCounters {
		list := &c.diag.recv
		if x.isSend {
			list = &c.diag.send
		}
		x.field.Put(b, uint64(list[x.syndrome].Load()))
	}
	for i, v := range c.engineCounts() {
		engineCounters[i].field.Put(b, uint64(uint32(v-c.diag.base[i])))
	}
	prm.DiagRQRemoteAccess.Put(b, uint64(c.diag.accesses.Load()))
	prm.DiagRQRemoteInvalid.Put(b, uint64(c.diag.invalid.Load()))
	prm.DiagCQOverflows.Put(b, uint64(c.diag.overflows.Load()))
	return c.outbox(b)
}
